"""The command line: ``dconnet fit | predict | inspect | reproduce | datasets``.

Everything heavy is imported inside the commands, so that ``dconnet --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dconnet import __version__
from dconnet._text import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dconnet._arrays import FloatArray
    from dconnet.inspection.examination import Examination
    from dconnet.model.network import Network
    from dconnet.persistence.model_file import SavedModel, Score
    from dconnet.persistence.tables import Table

USER_ERROR = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="One-hidden-layer ReLU networks, trained to the end without a learning rate.",
)


class Task(StrEnum):
    """What is to be predicted."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


# readable=False leaves the check to the opening of the file, whose error is one line.
DataArgument = Annotated[Path, typer.Argument(metavar="DATA", help="CSV (first line: column names) or Parquet file.")]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", readable=False, help="Model file written by dconnet fit.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]


def main() -> None:
    """Entry point of the command ``dconnet``."""
    app(prog_name="dconnet")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dconnet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


# --- fit ---


@app.command()
def fit(
    data: DataArgument,
    target: Annotated[str, typer.Option(metavar="COL", help="Column to predict.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.json"),
    task: Annotated[
        Task, typer.Option(help="auto: a numeric target is regression, any other classification.")
    ] = Task.auto,
    drop: Annotated[list[str] | None, typer.Option(metavar="COL", help="Column to leave out; may be repeated.")] = None,
    n_hidden: Annotated[int, typer.Option(min=1, help="Hidden neurons.")] = 20,
    gamma: Annotated[float, typer.Option(help="Strength of the regularisation.")] = 1e-3,
    shrinkage: Annotated[
        float, typer.Option(help="Penalty on the weights themselves, for many nearly dependent columns.")
    ] = 0.0,
    algorithm: Annotated[str, typer.Option(help="accelerated, or paper for Algorithm 1 alone.")] = "accelerated",
    split: Annotated[str | None, typer.Option(help="DC split: paper or net. [default: the algorithm's own]")] = None,
    solver: Annotated[
        str, typer.Option(help="Convex solver: native, reference, osqp, clarabel, piqp, gurobi, admm or parallel.")
    ] = "native",
    max_epochs: Annotated[int, typer.Option(min=1, help="Limit on epochs.")] = 1000,
    max_seconds: Annotated[
        float | None, typer.Option(help="Limit on seconds for each network. [default: none]")
    ] = None,
    tol: Annotated[
        float, typer.Option(help="Stop when an epoch gains (paper: moves the weights by) no more than this.")
    ] = 1e-6,
    restart: Annotated[
        bool, typer.Option("--restart/--no-restart", help="Go on from a better subgradient where a neuron is stuck.")
    ] = False,
    inexact: Annotated[
        bool, typer.Option("--inexact/--no-inexact", help="Solve the convex programmes no better than a step needs.")
    ] = False,
    test_fraction: Annotated[
        float, typer.Option(min=0.0, help="Part of the rows held out for the test; 0 trains on everything.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the start and of the split.")] = 0,
    scale: Annotated[
        bool, typer.Option("--scale/--no-scale", help="Standardise features, and the target of a regression.")
    ] = True,
    early_stopping: Annotated[
        bool, typer.Option("--early-stopping", help="Stop when the error on validation rows stops falling.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    force: ForceOption = False,
) -> None:
    """Train a network on a table and write it to a model file.

    Ctrl-C ends the training early and keeps the network reached so far.
    """
    with _user_errors():
        _check_output(output, force)
        if test_fraction >= 1.0:
            raise ValueError(f"--test-fraction must be below 1, got {test_fraction:g}.")
        from dconnet.persistence.tables import read_table

        table = read_table(data)
        names = _feature_names(table, target, drop or [])
        classify = _is_classification(table, target, task)
        X = table.numeric(names)
        y = table.labels(target) if classify else table.numeric([target], needed=True)[:, 0]
        train, test = _split(y, test_fraction, seed, classify)
        parameters = {
            "n_hidden": n_hidden,
            "gamma": gamma,
            "shrinkage": shrinkage,
            "algorithm": algorithm,
            "split": split,
            "solver": solver,
            "max_epochs": max_epochs,
            "max_seconds": max_seconds,
            "tol": tol,
            "restart": restart,
            "inexact": inexact,
            "early_stopping": early_stopping,
            "random_state": seed,
            "verbose": int(not quiet and sys.stderr.isatty()),
        }
        model = _trained(X[train], y[train], names, target, classify, scale, parameters)
        model = _scored(model, {"train": (X[train], y[train]), "test": (X[test], y[test])})
        model.save(output)
        if not quiet:
            _report_fit(model, table, task, output)
        if _was_interrupted(model):
            raise typer.Exit(INTERRUPTED)


def _check_output(output: Path, force: bool) -> None:
    """Find out before the work, and not after it, that its result cannot be written."""
    import os

    if output.is_dir():
        raise ValueError(f"{output} is a folder. Name a file.")
    if output.is_file() and not force:
        raise ValueError(f"{output} exists already. Name another --output, or replace it with --force.")
    folder = output.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"The folder of {output} does not exist.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"The folder of {output} cannot be written to.")


def _feature_names(table: Table, target: str, drop: list[str]) -> list[str]:
    table.require([target, *drop])
    if target in drop:
        raise ValueError(f"The target {target!r} cannot be dropped.")
    names = [name for name in table.names if name != target and name not in drop]
    if not names:
        raise ValueError(f"{table.source} has no column left to predict {target!r} from.")
    return names


def _is_classification(table: Table, target: str, task: Task) -> bool:
    if task is not Task.auto:
        return task is Task.classification
    if table.is_numeric(target):
        return False
    if table.share_of_numbers(target) > 0.5:
        # Numbers with a few slips among them: a class for each number is not what anyone wants.
        try:
            table.numeric([target], needed=True)
        except ValueError as error:
            raise ValueError(f"{error} Or take its values as classes with --task classification.") from error
    return True


def _split(y: NDArray[Any], test_fraction: float, seed: int, classify: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows of the training and of the test part."""
    import math

    from dconnet.inspection.split import split_rows

    n_test = math.ceil(test_fraction * len(y))
    if 0 < n_test >= len(y):
        raise ValueError(f"With {len(y)} row(s), --test-fraction {test_fraction:g} leaves none to train on. Use 0.")
    return split_rows(y, n_test, seed, classify)


def _trained(
    X: FloatArray,
    y: NDArray[Any],
    names: Sequence[str],
    target: str,
    classify: bool,
    scale: bool,
    parameters: dict[str, Any],
) -> SavedModel:
    """Scale, train, and take over what was reached."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from dconnet.estimators import DCONClassifier, DCONRegressor
    from dconnet.persistence.model_file import SavedModel, Scaling

    features = Scaling.of(X) if scale else Scaling.identity(X.shape[1])
    outcome = Scaling.of(y[:, None]) if scale and not classify else Scaling.identity(1)
    estimator = (DCONClassifier if classify else DCONRegressor)(**parameters)
    with warnings.catch_warnings():
        # The report says in one line how the training ended.
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            estimator.fit(features.apply(X), y if classify else outcome.apply(y))
        except KeyboardInterrupt:
            if not hasattr(estimator, "networks_"):
                raise  # nothing was reached that could be kept
    return SavedModel.from_estimator(
        estimator,
        feature_names=names,
        target_name=target,
        feature_scaling=features,
        target_scaling=outcome,
    )


def _scored(model: SavedModel, parts: dict[str, tuple[FloatArray, NDArray[Any]]]) -> SavedModel:
    from dconnet.persistence.model_file import Score

    return model.with_scores({part: Score.of(model, X, y) for part, (X, y) in parts.items() if len(y) > 0})


def _was_interrupted(model: SavedModel) -> bool:
    from dconnet.training.result import Status

    return any(training.status is Status.INTERRUPTED for training in model.trainings)


def _report_fit(model: SavedModel, table: Table, task: Task, output: Path) -> None:
    kind = "regression" if model.classes is None else f"classification, {len(model.classes)} classes"
    hint = ""
    if task is Task.auto and model.classes is None:
        hint = "; --task classification takes its values as classes"
    typer.echo(f"{table.source}: {table.n_rows} rows, {len(model.feature_names)} features, {kind}{hint}")
    for label, training in zip(_network_labels(model), model.trainings, strict=True):
        typer.echo(f"{label}{training.message} RegLoss {training.objective:.6g}.")
    for name, score in model.scores.items():
        typer.echo(_score_line(name, score))
    part = "the training part of the data" if "test" in model.scores else "all the data"
    typer.echo(f"The model, trained on {part}, is in {output}.")


def _network_labels(model: SavedModel) -> list[str]:
    """What to put before a line about each network: nothing if there is only one."""
    if model.classes is None or len(model.networks) == 1:
        return [""]
    return [f"{printable(label)}: " for label in model.classes]


def _score_line(part: str, score: Score) -> str:
    titles = {"mse": "MSE", "r2": "R2", "accuracy": "accuracy"}
    listed = ", ".join(f"{titles[name]} {value:.6g}" for name, value in score.measures.items())
    return f"{printable(part)}: {listed or 'no score'} on {score.rows} rows"


# --- predict ---


@app.command()
def predict(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write. [default: standard output]")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Predict the rows of a table.

    Columns are matched by name, others are ignored. The result is one CSV column in the order of the rows.
    """
    with _user_errors():
        from dconnet.persistence.model_file import load_model
        from dconnet.persistence.tables import read_table, write_csv, write_rows

        if output is not None:
            _check_output(output, force)
        loaded = load_model(model)
        X = read_table(data).numeric(loaded.feature_names, needed=True)
        names, columns = [f"predicted_{loaded.target_name}"], [loaded.predict(X).tolist()]
        if output is None:
            write_rows(sys.stdout, names, columns)
        else:
            write_csv(output, names, columns)


# --- inspect ---


@app.command()
def inspect(
    model: ModelArgument,
    data: Annotated[
        Path | None, typer.Option(metavar="DATA", help="Table on which to examine the model; writes a report.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file of the report. [default: report.html]")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Train once more on DATA, for steps and subgradients of every epoch.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all neurons and features.")] = False,
    force: ForceOption = False,
) -> None:
    """Show what a model file holds, and with --data what its networks reach on a table.

    The strength of a neuron is |alpha| |w|; that of a feature is the sum of |alpha w| over the neurons.

    With --data, the certificate on these data is printed, and a report with pictures is written as one HTML file.
    """
    with _user_errors():
        from dconnet.persistence.model_file import load_model

        if data is None and (output is not None or replay):
            raise ValueError("--output and --replay belong to the report on a table. Name the table with --data.")
        report = Path("report.html") if output is None else output
        if data is not None:
            _check_output(report, force)
        loaded = load_model(model)
        found = None if data is None else _examined(loaded, data, replay)
        if found is not None:
            from dconnet.inspection.report import write_report

            write_report(found, report)
        if as_json:
            import json

            examination = {} if found is None else {"examination": {**found.to_dict(), "report": str(report)}}
            typer.echo(json.dumps({**_summary(loaded), **examination}, indent=2, allow_nan=False))
        else:
            _print_model(loaded)
            if found is not None:
                _print_examination(found, report)


def _examined(model: SavedModel, data: Path, replay: bool) -> Examination:
    from dconnet.inspection.examination import examine
    from dconnet.inspection.plotting.canvas import import_matplotlib
    from dconnet.persistence.tables import read_table

    import_matplotlib()  # that it is missing is better known before the work
    return examine(model, read_table(data), repeat=replay)


def _print_examination(found: Examination, report: Path) -> None:
    typer.echo(f"\n{printable(found.sentence)}")
    for finding in found.findings:
        typer.echo(f"\n{finding.certificate.report()}")
    typer.echo(f"\n{_score_line('all rows', found.score)}")
    typer.echo(f"The report is in {report}.")


def _summary(model: SavedModel) -> dict[str, Any]:
    """What `inspect --json` tells."""
    return {
        "kind": model.kind,
        "target": model.target_name,
        "classes": None if model.classes is None else list(model.classes),
        "features": list(model.feature_names),
        "settings": dict(model.settings),
        "scores": {part: {"rows": score.rows, **score.measures} for part, score in model.scores.items()},
        "networks": [_network_summary(model, index) for index in range(len(model.networks))],
    }


def _network_summary(model: SavedModel, index: int) -> dict[str, Any]:
    network, training = model.networks[index], model.trainings[index]
    neurons, features = _strengths(network)
    positive = None if model.classes is None else model.classes[1 if len(model.classes) == 2 else index]
    return {
        "class": positive,
        "n_hidden": network.n_hidden,
        "dead_neurons": _count_dead(network),
        "status": training.status.name,
        "message": training.message,
        "recorded_epochs": training.recorded_epochs,
        "objective": training.objective,
        "first_objective": training.objectives[0] if training.objectives else None,
        "stationarity": training.stationarity,
        "strongest_neurons": _ranked("neuron", range(network.n_hidden), neurons),
        "strongest_features": _ranked("feature", model.feature_names, features),
    }


def _strengths(network: Network) -> tuple[FloatArray, FloatArray]:
    """Strength |alpha_l| |w_l| of each neuron, and Σ_l |alpha_l w_lk| of each feature."""
    import numpy as np

    slopes = np.abs(network.alpha[:, None] * network.W)  # (n_hidden, n_features)
    return np.linalg.norm(slopes, axis=1), slopes.sum(axis=0)


def _count_dead(network: Network) -> int:
    """Number of neurons that add nothing, whatever the input."""
    from dconnet.model.piecewise import active_neurons

    return network.n_hidden - int(active_neurons(network).sum())


def _ranked(kind: str, names: Sequence[object], strengths: FloatArray) -> list[dict[str, Any]]:
    order = sorted(range(len(names)), key=lambda i: -strengths[i])
    return [{kind: names[i], "strength": float(strengths[i])} for i in order]


def _print_model(model: SavedModel) -> None:
    typer.echo(f"{model.kind} of {printable(model.target_name)} with {len(model.feature_names)} features")
    typer.echo(f"features: {_shortened(model.feature_names)}")
    if model.classes is not None:
        typer.echo(f"classes: {_shortened(model.classes)}")
    settings = [f"{name}={value}" for name, value in model.settings.items() if value is not None]
    typer.echo(f"settings: {_shortened(settings, limit=50)}")
    for part, score in model.scores.items():
        typer.echo(_score_line(part, score))
    for index in range(len(model.networks)):
        _print_network(_network_summary(model, index))


def _print_network(network: dict[str, Any]) -> None:
    of = "" if network["class"] is None else f" for class {printable(network['class'])}"
    first, stationarity = network["first_objective"], network["stationarity"]
    typer.echo(f"\nnetwork{of}: {network['n_hidden']} neurons, {network['dead_neurons']} of them dead")
    typer.echo(f"  {network['status'].lower()}: {printable(network['message'])}")
    start = "" if first is None else f" (from {first:.6g} at the start)"
    typer.echo(f"  RegLoss {network['objective']:.6g}{start}")
    typer.echo(f"  stationarity {'unknown' if stationarity is None else f'{stationarity:.2e}'}")
    for kind in ("neuron", "feature"):
        ranked = network[f"strongest_{kind}s"]
        listed = [f"{entry[kind]} ({entry['strength']:.3g})" for entry in ranked[:5]]
        typer.echo(f"  strongest {kind}s: {_shortened(listed)}")


def _shortened(values: Sequence[object], limit: int = 12) -> str:
    listed = ", ".join(printable(value) for value in values[:limit])
    return listed if len(values) <= limit else f"{listed} and {len(values) - limit} more"


# --- the paper ---


DataHomeOption = Annotated[
    Path | None,
    typer.Option(
        "--data-home", help="Folder of the raw data files. [default: that of DCONNET_DATA, or the user's cache]"
    ),
]


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment; all; or render, which computes nothing.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version, in the folder quick of the results.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes, each with one thread.")] = 1,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("reproduction"),
    data_home: DataHomeOption = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help='Change a setting: splits=10, datasets=["DS1"]. Repeatable.'),
    ] = None,
    pack: Annotated[
        bool, typer.Option("--pack", help="Move the results into one file an experiment at the end.")
    ] = False,
    page: Annotated[Path | None, typer.Option(help="Page to write. [default: reproduction.md in the folder]")] = None,
) -> None:
    """Repeat an experiment of the paper.

    The experiments are table1, baselines, convergence, mnist, runtime, overparameterised and overregularised.
    Every result is kept as soon as it is there. A run that was stopped goes on where it stopped.
    """
    with _user_errors():
        from rich.console import Console

        from dconnet.paper.commands import Order, grouped
        from dconnet.paper.commands import reproduce as run

        order = Order(name, quick, jobs, results, data_home, change or (), pack, page)
        failures = run(order, Console(stderr=True))
        for failure in grouped(failures):
            typer.echo(f"Failed: {failure}", err=True)
        if failures:
            raise typer.Exit(USER_ERROR)


@app.command()
def datasets(data_home: DataHomeOption = None) -> None:
    """List the datasets of the paper, and where their files are."""
    with _user_errors():
        from dconnet.paper.commands import list_datasets

        lines = [("name", "data", "rows", "features", "in paper", "target", "files"), *list_datasets(data_home)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            typer.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


# --- errors ---


@contextmanager
def _user_errors() -> Iterator[None]:
    """End with one line on standard error for what the user can mend."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output has had enough: no fault of the user
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), error)
    except (ValueError, ImportError) as error:
        _fail(str(error), error)
    except KeyboardInterrupt:
        # The training keeps what it has; this one came before or after it.
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _fail(message: str, error: Exception) -> NoReturn:
    typer.echo(f"Error: {' '.join(message.split())}", err=True)
    raise typer.Exit(USER_ERROR) from error
