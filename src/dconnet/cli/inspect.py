"""``dconnet inspect``: what a model file holds, and how good the model is on a table."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dconnet._text import printable
from dconnet.cli.shared import (
    USER_ERROR,
    add_table_options,
    as_features,
    check_output,
    complain,
    print_scores,
    read_table,
    source_name,
)
from dconnet.cli.summary import print_summary, summarize

if TYPE_CHECKING:
    from dconnet.inspection.examination import Examination


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "inspect",
        help="show what a model file holds, and report on a table",
        description="Show what a model file holds. With --data, print the certificate of a network or the scores of "
        "an ensemble on these rows, and write a report with plots to an HTML file. The strength of a neuron is "
        "|alpha| |w|; that of a feature is the sum of |alpha w| over the neurons.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="model file written by dconnet fit")
    add("--data", metavar="DATA", help="table to evaluate the model on; - for the standard input")
    add("-o", "--output", type=Path, help="HTML file of the report [default: report.html]")
    add("--replay", action="store_true", help="repeat the training on DATA to record the network of every epoch")
    add("--no-rows", dest="rows", action="store_false", help="leave rows of DATA out of the report")
    add("--json", action="store_true", help="print JSON, with all neurons and features")
    add("--force", action="store_true", help="replace the output file if it exists")
    add_table_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the model, evaluate it, and write the report."""
    from dconnet.io.model_file import load

    if options.data is None and (options.output is not None or options.replay):
        raise ValueError("--output and --replay are about a table. Name the table with --data.")
    path = Path("report.html") if options.output is None else options.output
    if options.data is not None:
        check_output(path, options.force)
    model = load(options.model)
    examination = None if options.data is None else _examine(model, options)
    obstacle = None
    if examination is not None:
        try:
            from dconnet.inspection.report import write_report

            write_report(examination, path, with_rows=options.rows)
        except ImportError as error:  # a missing package; the message names it
            obstacle = error
    summary = summarize(model)
    if options.json:
        if examination is not None:
            summary["examination"] = {**examination.to_dict(), "report": None if obstacle else str(path)}
        print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        print_summary(summary)
        if examination is not None:
            print(f"\n{printable(examination.summary)}")
            for network in examination.networks:
                print(f"\n{network.certificate.report()}")
            print()
            print_scores({examination.evaluated_rows: {**examination.score, "n_rows": 0}})
            if obstacle is None:
                print(f"The report is in {path}.")
    if obstacle is not None:
        complain("No report", obstacle)
    return USER_ERROR if obstacle is not None and options.output is not None else 0


def _examine(model: Any, options: argparse.Namespace) -> Examination:
    import numpy as np
    from sklearn.base import is_classifier

    from dconnet.encoding.columns import read_target
    from dconnet.inspection.examine import examine
    from dconnet.io.table_files import require_columns

    if not hasattr(model, "predict"):
        raise ValueError("The model file holds a TableEncoder, which predicts nothing. Leave --data out.")
    table, names = read_table(options), model.metadata_.target_names
    require_columns(table, names, source_name(options.data))
    columns = [
        read_target(table[name], name, "classification" if is_classifier(model) else "regression") for name in names
    ]
    y = columns[0] if len(columns) == 1 else np.column_stack(columns)
    return examine(model, as_features(model, table), y, source=source_name(options.data), replay=options.replay)
