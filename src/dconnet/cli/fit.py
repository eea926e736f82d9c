"""``dconnet fit``: train on a table, and write the model."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dconnet.cli.shared import (
    INTERRUPTED,
    DataArgument,
    ForceOption,
    check_output,
    complain,
    counted,
    fit_until_interrupted,
    print_score,
    user_errors,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dconnet import PaperAlgorithm
    from dconnet._arrays import FloatArray
    from dconnet.encoding.matrix import TableEncoding
    from dconnet.io.ensemble import SavedEnsemble
    from dconnet.io.model_file import SavedModel
    from dconnet.io.tables import Frame, Table


class Task(StrEnum):
    """Kind of the prediction."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


class Quality(StrEnum):
    """Effort of an ensemble."""

    default = "default"
    high = "high"


# Options that only one of the two kinds of model has.
OF_A_NETWORK = (
    *("n_hidden", "gamma", "shrinkage", "algorithm", "split", "solver", "max_epochs", "tol", "restart", "inexact"),
    *("scale", "early_stopping", "checkpoint"),
)
OF_AN_ENSEMBLE = ("quality", "jobs")


def _width(text: object) -> int | str:
    """The number of neurons, or "auto"."""
    width = str(text)
    if width == "auto":
        return width
    if not (width.isascii() and width.isdigit() and int(width) >= 1):
        raise typer.BadParameter(f"{width!r} is neither a positive integer nor auto.")
    return int(width)


def fit(
    context: typer.Context,
    data: DataArgument,
    targets: Annotated[
        list[str],
        typer.Option("--target", metavar="COL", help="Column to predict. Repeatable for one network, --single."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")] = Path("model.json"),
    task: Annotated[
        Task, typer.Option(help="auto: regression if the target is numeric, otherwise classification.")
    ] = Task.auto,
    drop: Annotated[list[str] | None, typer.Option(metavar="COL", help="Column to leave out. Repeatable.")] = None,
    quality: Annotated[
        Quality, typer.Option(help="high: a few per cent less error, for about three times the time.")
    ] = Quality.default,
    jobs: Annotated[int, typer.Option(help="Number of threads; -1 for all cores. The result is the same.")] = 1,
    max_seconds: Annotated[float | None, typer.Option(help="Time limit in seconds. [default: none]")] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Fraction of the rows held out as test data. [default: 0, all rows train; 0.2 if --single]"
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Random seed of the initialization and of the split.")
    ] = 0,
    single: Annotated[
        bool, typer.Option("--single", help="One network, by the options from --n-hidden to --early-stopping.")
    ] = False,
    n_hidden: Annotated[
        Any,
        typer.Option(parser=_width, metavar="N", help="Number of hidden neurons; auto: as many as lower RegLoss."),
    ] = 20,
    gamma: Annotated[
        float | None, typer.Option(help="Strength of the regularisation. [default: chosen by cross-validation]")
    ] = None,
    shrinkage: Annotated[
        float, typer.Option(help="Penalty on the weights themselves; helps with many, nearly dependent columns.")
    ] = 0.0,
    algorithm: Annotated[str, typer.Option(help="accelerated, or paper for Algorithm 1 alone.")] = "accelerated",
    split: Annotated[str | None, typer.Option(help="DC split: paper or net. [default: the algorithm's own]")] = None,
    solver: Annotated[
        str, typer.Option(help="Convex solver: native, reference, osqp, clarabel, piqp, gurobi, admm or parallel.")
    ] = "native",
    max_epochs: Annotated[int, typer.Option(min=1, help="Maximum number of epochs.")] = 1000,
    tol: Annotated[float, typer.Option(help="Stop when the progress of an epoch is no larger than this.")] = 1e-6,
    restart: Annotated[
        bool, typer.Option("--restart/--no-restart", help="Try other subgradients where a neuron is stuck.")
    ] = False,
    inexact: Annotated[
        bool, typer.Option("--inexact/--no-inexact", help="Solve the convex subproblems only as precisely as needed.")
    ] = False,
    scale: Annotated[
        bool, typer.Option("--scale/--no-scale", help="Standardise the features, and the target of a regression.")
    ] = True,
    early_stopping: Annotated[
        bool, typer.Option("--early-stopping", help="Stop when the validation error stops decreasing.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File to keep the state in: after a kill, the same command goes on from there."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and warnings only.")] = False,
    force: ForceOption = False,
) -> None:
    """Train on a table and write the model to a file.

    The model takes any table: numbers, text, dates, missing values. It is an ensemble of short fits; with --single, or
    with an option that only a single network has, it is one network, trained to the end.

    Ctrl-C ends the training early, and what was reached so far is saved.
    """
    with user_errors():
        check_output(output, force)
        single = _wants_one_network(context, single)
        _check_targets(targets, single)
        fraction = (0.2 if single else 0.0) if test_fraction is None else test_fraction
        if fraction >= 1.0:
            raise ValueError(f"--test-fraction must be below 1, got {fraction:g}.")
        from dconnet.io.tables import read_table

        table = read_table(data)
        names = _feature_names(table, targets, drop or [])
        classify = _is_classification(table, targets, task)
        y = table.labels(targets[0]) if classify else table.numeric(targets, needed=True)
        y = y[:, 0] if y.ndim == 2 and len(targets) == 1 else y
        train, test = _split(y, fraction, seed, classify)
        verbose = int(not quiet and sys.stderr.isatty())
        if not single:
            from dconnet.cli import ensemble

            _warn_of_slips(table, names)
            limits: dict[str, Any] = {"quality": quality.value, "max_seconds": max_seconds, "n_jobs": jobs}
            parameters = {**limits, "random_state": seed, "verbose": verbose}
            found = ensemble.trained(table.frame(names), y, train, test, targets[0], classify, parameters)
            found.model.save(output)
            if not quiet:
                _report_data(table, found.model, task)
                ensemble.report(found, output)
            if found.interrupted:
                raise typer.Exit(INTERRUPTED)
            return
        is_plain = all(map(table.is_plain, names))
        if not is_plain:
            _warn_of_slips(table, names)
            train.sort()  # the folds of the encoder number the rows, and inspect poses the training anew in this order
        X: Any = table.numeric(names) if is_plain else table.frame(names)
        parameters = {
            "checkpoint": None if checkpoint is None else str(checkpoint),
            "n_hidden": n_hidden,
            "gamma": "auto" if gamma is None else gamma,
            "scale": False,  # the table is scaled before
            "shrinkage": shrinkage,
            "algorithm": _algorithm(algorithm, split=split, solver=solver, restart=restart, inexact=inexact),
            "max_epochs": max_epochs,
            "max_seconds": max_seconds,
            "tol": tol,
            "early_stopping": early_stopping,
            "random_state": seed,
            "verbose": verbose,
        }
        fit_rows, test_rows = (X[train], X[test]) if is_plain else (X.rows(train), X.rows(test))
        model, interrupted = _trained(fit_rows, y[train], names, targets, classify, scale, parameters)
        model = _scored(model, {"train": (fit_rows, y[train]), "test": (test_rows, y[test])})
        model.save(output)
        if not quiet:
            _report_data(table, model, task)
            _report_fit(model, output)
        if interrupted:
            raise typer.Exit(INTERRUPTED)


# By how much R² or accuracy on test rows may be lower than on training rows without a remark.
MUCH_WORSE = 0.3


# In fewer rows, classes may well have one row each.
MANY_ROWS = 20


def _algorithm(algorithm: str, **settings: Any) -> str | PaperAlgorithm:
    """Return the parameter ``algorithm`` of the estimators for the options of the command."""
    from dconnet import PaperAlgorithm

    given = {name: value for name, value in settings.items() if value not in (None, False)}
    if algorithm == "accelerated" and given != {"solver": "native"}:
        raise ValueError("--split, --solver, --restart and --inexact need --algorithm paper.")
    return PaperAlgorithm(**given) if algorithm == "paper" else algorithm


def _wants_one_network(context: typer.Context, single: bool) -> bool:
    """Whether a single network is wanted, by --single or by one of its options."""
    own, other = (_given(context, names) for names in (OF_A_NETWORK, OF_AN_ENSEMBLE))
    if other and (single or own):
        raise ValueError(
            f"{other[0]} is about an ensemble, but {'--single' if single else own[0]} asks for a single network. "
            "Leave out one of them."
        )
    return single or bool(own)


def _given(context: typer.Context, names: Sequence[str]) -> list[str]:
    """The options among these that the command line has, as they are written there."""
    given = [name for name in names if _is_given(context, name)]
    return [f"--{name.replace('_', '-')}" for name in given]


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _warn_of_slips(table: Table, names: Sequence[str]) -> None:
    """Name the first cell that makes text of a column that is numbers or dates otherwise."""
    for name in names:
        try:
            table.refuse_slips(name)
        except ValueError as error:
            complain("warning", f"A column of numbers or dates is taken as text. {error}")


def _check_targets(targets: list[str], single: bool) -> None:
    """Refuse a target that is named twice, and several for an ensemble."""
    twice = [name for name in targets if targets.count(name) > 1]
    if twice:
        raise ValueError(f"The target {twice[0]!r} is named twice.")
    if len(targets) > 1 and not single:
        raise ValueError(
            f"An ensemble has one --target, got {_listed(targets)}. With --single, one network learns all of them; for "
            "ensembles, fit one for each target, and leave out the other targets with --drop."
        )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))


def _feature_names(table: Table, targets: list[str], drop: list[str]) -> list[str]:
    table.require([*targets, *drop])
    for target in targets:
        if target in drop:
            raise ValueError(f"The target {target!r} cannot be dropped.")
    names = [name for name in table.names if name not in targets and name not in drop]
    if not names:
        raise ValueError(f"{table.source} has no column left to predict {_listed(targets)} from.")
    return names


def _is_classification(table: Table, targets: list[str], task: Task) -> bool:
    if len(targets) > 1:
        _refuse_classes(table, targets, task)
        return False
    target = targets[0]
    if task is not Task.auto:
        return task is Task.classification
    if table.is_numeric(target):
        return False
    # Numbers with a few typos among them: classification into one class per number is hardly intended.
    try:
        table.refuse_slips(target, needed=True)
        if table.share_of_numbers(target) > 0.5:
            table.numeric([target], needed=True)
    except ValueError as error:
        raise ValueError(f"{error} Or use its values as classes with --task classification.") from error
    n_classes = len(set(table.column(target).tolist()))
    if 2 * n_classes > table.n_rows >= MANY_ROWS:
        raise ValueError(
            f"The target {target!r} is text with {n_classes} different values in {table.n_rows} rows, like a name or a "
            "number of each row. Choose another --target, or use its values as classes with --task classification."
        )
    return True


def _refuse_classes(table: Table, targets: list[str], task: Task) -> None:
    """Refuse classes among several targets, which must be numbers."""
    advice = (
        "Several targets must be numbers. Fit a model for classes alone, and leave out the other targets by --drop."
    )
    if task is Task.classification:
        raise ValueError(advice)
    try:
        table.numeric(targets, needed=True)
    except ValueError as error:
        raise ValueError(f"{error} {advice}") from error


def _split(y: NDArray[Any], test_fraction: float, seed: int, classify: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows of the training and of the test part."""
    from dconnet.inspection.split import split_rows

    n_test = math.ceil(test_fraction * len(y))
    if 0 < n_test >= len(y):
        raise ValueError(f"With {len(y)} row(s), --test-fraction {test_fraction:g} leaves none to train on. Use 0.")
    return split_rows(y, n_test, seed, classify)


def _trained(
    X: FloatArray | Frame,
    y: NDArray[Any],
    names: Sequence[str],
    targets: Sequence[str],
    classify: bool,
    scale: bool,
    parameters: dict[str, Any],
) -> tuple[SavedModel, bool]:
    """Prepare the data and train; return the model, and whether an interrupt has cut the training short."""
    import numpy as np

    from dconnet.estimators import DCONClassifier, DCONRegressor
    from dconnet.io.model_file import SavedModel, Scaling

    preparation: dict[str, Any]
    if isinstance(X, np.ndarray):
        features = Scaling.of(X, names) if scale else Scaling.identity(X.shape[1])
        inputs, preparation = features.apply(X), {"feature_scaling": features}
    elif scale:
        inputs, encoding = _encoded(X, y, targets, classify, parameters["random_state"])
        preparation = {"encoding": encoding}
    else:
        raise ValueError("--no-scale is about columns of numbers, but some hold text, dates or gaps. Leave it out.")
    outcome = Scaling.identity(len(targets))
    if scale and not classify:
        outcome = Scaling.of(y.reshape(len(y), -1), targets)
    estimator = (DCONClassifier if classify else DCONRegressor)(**parameters)
    interrupted = fit_until_interrupted(estimator, inputs, y if classify else outcome.apply(y))
    model = SavedModel.from_estimator(
        estimator,
        feature_names=names,
        target_name=targets[0] if len(targets) == 1 else targets,
        target_scaling=outcome,
        **preparation,
    )
    return model, interrupted


def _encoded(
    X: Frame, y: NDArray[Any], targets: Sequence[str], classify: bool, seed: int
) -> tuple[FloatArray, TableEncoding]:
    """The columns that a network sees of a table, and how they are made."""
    from dconnet.estimators import TableEncoder

    encoder = TableEncoder(target_type="class" if classify else "number", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # slips were told with their lines
        inputs = encoder.fit_transform(X, y)
    if inputs.shape[1] == 0:
        raise ValueError(f"There is nothing to predict {_listed(targets)} from: no column varies.")
    return inputs, encoder.encoding_


def _scored(model: SavedModel, parts: dict[str, tuple[Any, NDArray[Any]]]) -> SavedModel:
    from dconnet.io.model_file import Score

    return model.with_scores({part: Score.of(model, X, y) for part, (X, y) in parts.items() if len(y) > 0})


def _report_data(table: Table, model: SavedModel | SavedEnsemble, task: Task) -> None:
    kind = "regression" if model.classes is None else f"classification, {len(model.classes)} classes"
    hint, n_targets = "", len(getattr(model, "target_names", ())) or 1
    if n_targets > 1:
        kind += f" of {n_targets} targets"
    elif task is Task.auto and model.classes is None:
        hint = " (for classification, use --task classification)"
    elif task is Task.auto and table.share_of_numbers(model.target_name) == 1.0:
        hint = " (for regression, use --task regression)"
    sizes = f"{counted(table.n_rows, 'row')}, {counted(len(model.feature_names), 'feature')}"
    typer.echo(f"{table.source}: {sizes}, {kind}{hint}")


def _report_fit(model: SavedModel, output: Path) -> None:
    labels = [f"{label}: " for label in model.targets.labels] if len(model.networks) > 1 else [""]
    for label, training in zip(labels, model.trainings, strict=True):
        typer.echo(f"{label}{training.message} RegLoss {training.objective:.6g}.")
    for name, score in model.scores.items():
        print_score(name, score, model.names_of_targets)
    if _predicts_new_rows_worse(model):
        typer.echo(
            "New rows are predicted much worse than the training rows: try a larger --gamma, fewer neurons with "
            "--n-hidden, or --early-stopping."
        )
    part = "the training part of the data" if "test" in model.scores else "all the data"
    typer.echo(f"The model, trained on {part}, is in {output}.")


def _predicts_new_rows_worse(model: SavedModel) -> bool:
    """Whether the score on test rows, R² or accuracy, is far below that on training rows."""
    train, test = (model.scores.get(part) for part in ("train", "test"))
    if train is None or test is None:
        return False
    pairs = ((train.r2, test.r2), (train.accuracy, test.accuracy))
    return any(a is not None and b is not None and a - b > MUCH_WORSE for a, b in pairs)
