"""``dconnet inspect``: what a model file holds, and how good the model is on a table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dconnet._text import count, printable
from dconnet.cli.shared import (
    USER_ERROR,
    add_table_options,
    as_features,
    check_output,
    complain,
    join,
    print_scores,
    print_table,
    read_table,
    source_name,
)

if TYPE_CHECKING:
    from dconnet.inspection.examination import Examination

# Of more columns than this, those that need no remark are only counted.
MAX_COLUMNS = 30
PLAIN = "as it is"


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


def summarize(estimator: Any) -> dict[str, Any]:
    """Return plain values that describe a fitted estimator, for JSON."""
    from sklearn.base import is_classifier

    from dconnet.io.model_file import metadata_of

    metadata = metadata_of(estimator)
    model = estimator[-1] if hasattr(estimator, "steps") else estimator
    plain = (str, bool, int, float, type(None))
    settings = {name: value for name, value in model.get_params(deep=False).items() if isinstance(value, plain)}
    found: dict[str, Any] = {
        "kind": "classifier" if is_classifier(model) else "regressor" if hasattr(model, "predict") else "encoder",
        "estimator": type(model).__name__,
        "targets": list(metadata.target_names),
        "classes": model.classes_.tolist() if is_classifier(model) else None,
        "features": list(metadata.feature_names),
        "settings": settings,
        "scores": {part: dict(measures) for part, measures in metadata.scores.items()},
        "version": metadata.version,
        "created": metadata.created,
        "description": metadata.description,
    }
    if hasattr(model, "members_"):
        names, shares = metadata.feature_names, model.feature_importances_.tolist()
        columns = zip(names, model.columns_, shares, strict=True)
        found["columns"] = [{**column, "column": name, "importance": share} for name, column, share in columns]
        found["members"] = [dict(member) for member in model.members_]
    elif hasattr(model, "solutions_"):
        names = metadata.feature_names
        inputs = names if model is estimator else estimator[:-1].get_feature_names_out(names).tolist()
        found["networks"] = _summarize_networks(model, inputs)
    else:
        found["columns"] = [dict(column) for column in model.columns_]
    return found


def _summarize_networks(model: Any, input_names: Sequence[str]) -> list[dict[str, Any]]:
    import numpy as np

    from dconnet._arrays import safe_norm
    from dconnet.model.piecewise import active_neurons, output_strengths

    found = []
    coordinates = getattr(getattr(model, "_units", None), "coordinates", None)
    units = 1.0 if coordinates is None else coordinates.scale
    stationarities = np.atleast_1d(model.stationarity_).tolist()
    for name, solution, stationarity in zip(model.targets_.names, model.solutions_, stationarities, strict=True):
        network = solution.network
        # |alpha_l w_lk| of each neuron l and input k, in units of the spread of the input.
        slopes = output_strengths(network.alpha)[:, None] * np.abs(network.W) * units
        names = input_names if network.n_features == len(input_names) else range(network.n_features)
        found.append(
            {
                "class": name or None,
                "n_hidden": network.n_hidden,
                "n_outputs": network.n_outputs,
                "dead_neurons": network.n_hidden - int(active_neurons(network).sum()),
                "status": solution.status.name,
                "message": solution.message,
                "epochs": solution.n_epochs,
                "objective": solution.objective,
                "first_objective": solution.history.epochs[0].objective if len(solution.history) else None,
                "stationarity": stationarity if np.isfinite(stationarity) else None,
                "strongest_neurons": _rank("neuron", range(network.n_hidden), [safe_norm(row) for row in slopes]),
                "strongest_features": _rank("feature", names, slopes.sum(axis=0).tolist()),
            }
        )
    return found


def _rank(kind: str, names: Sequence[object], strengths: Sequence[float]) -> list[dict[str, Any]]:
    ranked = sorted(zip(names, strengths, strict=True), key=lambda pair: -pair[1])
    return [{kind: name, "strength": strength} for name, strength in ranked]


def print_summary(summary: dict[str, Any]) -> None:
    """Print what `summarize` returns."""
    print(f"{summary['kind']} of {join(summary['targets'])} with {len(summary['features'])} features")
    print(f"features: {join(summary['features'])}")
    if summary["classes"] is not None:
        print(f"classes: {join(summary['classes'])}")
    settings = [f"{name}={value}" for name, value in summary["settings"].items() if value is not None]
    print(f"settings: {join(settings, limit=50)}")
    print(f"saved {summary['created']} by dconnet {summary['version']}")
    if summary["description"]:
        print(printable(summary["description"]))
    print_scores(summary["scores"])
    for network in summary.get("networks", ()):
        label = "" if network["class"] is None else f" for class {network['class']}"
        first, stationarity = network["first_objective"], network["stationarity"]
        print(f"\nnetwork{label}: {network['n_hidden']} neurons, {network['dead_neurons']} of them dead")
        print(f"  {network['status'].lower()}: {printable(network['message'])}")
        print(f"  RegLoss {network['objective']:.6g}" + ("" if first is None else f" (from {first:.6g} at the start)"))
        print(f"  stationarity {'unknown' if stationarity is None else f'{stationarity:.2e}'}")
        for kind in ("neuron", "feature"):
            ranked = network[f"strongest_{kind}s"][:5]
            print(f"  strongest {kind}s: " + join([f"{each[kind]} ({each['strength']:.3g})" for each in ranked]))
    if "columns" in summary:
        print_columns(summary["columns"])
    if "members" in summary:
        print_members(summary["members"])


def print_columns(columns: Sequence[dict[str, Any]]) -> None:
    """Print what was done with each column of the table, and its importance."""
    shown = [column for column in columns if len(columns) <= MAX_COLUMNS or column["treatment"] != PLAIN]
    lines = [
        (
            printable(column["column"]),
            column["kind"],
            printable(column["treatment"]),
            f"{100.0 * column['importance']:.1f} %" if "importance" in column else "",
        )
        for column in shown
    ]
    print()
    if lines:
        print_table([("column", "kind", "what was done", "importance"), *lines], numbers=(3,))
    if len(shown) < len(columns):
        print(f"{len(columns) - len(shown)} other columns are numbers and used as they are.")


def print_members(members: Sequence[dict[str, Any]]) -> None:
    """Print the members of an ensemble that have a weight, largest first."""
    used = sorted((member for member in members if member["weight"] > 0.0), key=lambda member: -member["weight"])
    lines = [(m["family"], m["kind"], m["settings"], f"{m['oof_error']:.5g}", f"{m['weight']:.3f}") for m in used]
    print()
    if not used:
        print("No member got a weight, because none predicts better than the frequencies of the classes.")
        return
    print_table([("member", "learns", "settings", "error", "weight"), *lines], numbers=(3, 4))
    if len(used) < len(members):
        print(f"{count(len(members) - len(used), 'other member')} got no weight.")
