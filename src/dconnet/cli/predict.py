"""``dconnet predict``: predictions for the rows of a table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dconnet.cli.shared import add_table_options, as_features, check_output, read_table


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "predict",
        help="predict the rows of a table",
        description="Predict the rows of a table. Columns are matched by name; other columns are ignored. The output "
        "is CSV with a line for each row.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="model file written by dconnet fit")
    add("data", metavar="DATA", help="CSV, Parquet or Excel file; - for the standard input")
    add("-o", "--output", type=Path, help="CSV file to write [default: standard output]")
    add("--coverage", type=float, help="add the ends of intervals that hold this share of the targets, for example 0.9")
    add("--probabilities", action="store_true", help="add the probability of each class")
    add("--force", action="store_true", help="replace the output file if it exists")
    add_table_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write predictions."""
    from sklearn.base import is_classifier

    from dconnet.io.model_file import load
    from dconnet.io.table_files import write_table

    if options.output is not None:
        check_output(options.output, options.force)
    elif sys.stdout is None:
        raise ValueError("The standard output is closed. Name a file with --output.")
    model = load(options.model)
    names, coverage = model.metadata_.target_names, options.coverage
    if not hasattr(model, "predict"):
        raise ValueError("The model file holds a TableEncoder, which predicts nothing. Name a file of dconnet fit.")
    if coverage is not None and not hasattr(model, "predict_interval"):
        remedy = "Use --probabilities instead." if is_classifier(model) else "Fit an ensemble, without --single."
        raise ValueError(f"This model has no intervals for --coverage. {remedy}")
    if options.probabilities and not hasattr(model, "predict_proba"):
        raise ValueError(f"The model has no probabilities for {names[0]!r}. Leave --probabilities out.")
    table = read_table(options)
    X = as_features(model, table)
    predicted = model.predict(X)
    by_target = [predicted] if predicted.ndim == 1 else predicted.T
    columns = {f"predicted_{name}": values for name, values in zip(names, by_target, strict=True)}
    if coverage is not None:
        columns[f"low_{names[0]}"], columns[f"high_{names[0]}"] = model.predict_interval(X, coverage)
    if options.probabilities:
        shares = model.predict_proba(X).T
        columns |= {f"probability_{label}": own for label, own in zip(model.classes_, shares, strict=True)}
    write_table(sys.stdout if options.output is None else options.output, type(table)(columns))
