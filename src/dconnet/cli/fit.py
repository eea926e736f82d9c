"""``dconnet fit``: train on a table, and write the model."""

from __future__ import annotations

import argparse
import math
import signal
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from dconnet._text import count
from dconnet.cli.inspect import print_columns, print_members, summarize
from dconnet.cli.shared import (
    INTERRUPTED,
    TERMINATED,
    add_training_options,
    check_output,
    complain,
    has_numbers_only,
    join,
    numbers_table,
    print_scores,
    read_table,
    source_name,
    takes_numbers,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

# A text target with more different values than half of at least 20 rows is hardly a class.
MANY_ROWS = 20
# By how much R² or accuracy on test rows may be lower than on training rows without a remark.
MUCH_WORSE = 0.3


def add_parser(commands: Any) -> None:
    """Declare the command. Options that only one kind of model has are absent unless they are given."""
    parser = commands.add_parser(
        "fit",
        help="train on a table and write the model to a file",
        description="Train on a table and write the model to a file. The table may hold numbers, text, dates and "
        "missing values. The model is an ensemble of short fits; with --single, or with an option of a single network, "
        "it is one network, trained to convergence. Ctrl-C ends the training early and saves what was reached.",
    )
    add_training_options(parser)
    add = parser.add_argument
    add("-o", "--output", type=Path, default=Path("model.json"), help="model file [default: model.json]")
    add("--max-seconds", type=float, help="time limit in seconds [default: none]")
    add("--test-fraction", type=float, help="fraction of the rows to test on [default: 0; 0.2 with --single]")
    add("-q", "--quiet", action="store_true", help="print errors and warnings only")
    add("--force", action="store_true", help="replace the output file if it exists")
    ensemble = parser.add_argument_group("ensemble", argument_default=argparse.SUPPRESS)
    ensemble.add_argument(
        "--quality", choices=("default", "high"), help="high: a few per cent less error in three times the time"
    )
    network = parser.add_argument_group("single network", argument_default=argparse.SUPPRESS)
    add = network.add_argument
    add("--single", action="store_true", help="train one network instead of an ensemble")
    add("--n-hidden", type=_parse_width, metavar="N", help="hidden neurons, or auto [default: 20]")
    add("--gamma", type=float, help="strength of the regularisation [default: by cross-validation]")
    add("--shrinkage", type=float, help="penalty on the weights, for many nearly dependent columns")
    add("--algorithm", choices=("accelerated", "paper"), help="paper: Algorithm 1 of the paper alone")
    add("--max-epochs", type=int, help="maximum number of epochs [default: 1000]")
    add("--tol", type=float, help="stop when the progress of an epoch is below this [default: 1e-6]")
    add("--no-scale", dest="scale", action="store_false", help="do not standardise the columns")
    add("--early-stopping", action="store_true", help="stop when the validation error stops decreasing")
    add("--checkpoint", help="file for the state: after a kill, the same command resumes from there")
    parser.set_defaults(
        run=run,
        of_ensemble=[action.dest for action in ensemble._group_actions],
        of_network=[action.dest for action in network._group_actions],
    )


def _parse_width(text: str) -> int | str:
    if text != "auto" and not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a positive integer nor auto")
    return text if text == "auto" else int(text)


def run(options: argparse.Namespace) -> int:
    """Train, save and report."""
    from dconnet.inspection.split import split_rows
    from dconnet.io.model_file import save

    check_output(options.output, options.force)
    is_single = _wants_network(options)
    targets = options.target
    fraction = (0.2 if is_single else 0.0) if options.test_fraction is None else options.test_fraction
    if not 0.0 <= fraction < 1.0:
        raise ValueError(f"--test-fraction must be at least 0 and below 1, got {fraction:g}.")
    if not 0 <= options.seed < 2**32:
        raise ValueError(f"--seed must be at least 0 and below 2**32, got {options.seed}.")
    if len(set(targets)) < len(targets) or (len(targets) > 1 and not is_single):
        raise ValueError("An ensemble has one --target. Name each target once, and train one network with --single.")
    table = read_table(options)
    features, y, classify = choose_columns(table, options)
    n_test = math.ceil(fraction * len(y))
    if 0 < n_test >= len(y):
        raise ValueError(f"With {count(len(y), 'row')}, --test-fraction {fraction:g} leaves none to train on. Use 0.")
    train, test = split_rows(y, n_test, options.seed, classify)
    train.sort()
    estimator = _build_estimator(options, is_single, has_numbers_only(features), classify)
    model_name = "network" if is_single else "ensemble"
    if not options.quiet:
        hint = ""
        if options.task == "auto" and len(targets) == 1:
            other = "regression" if classify else "classification"
            hint = f"\nFor {other}, use --task {other}."
        held_out = f", {count(len(test), 'row')} held out" if len(test) else ""
        print(f"{describe_data(features, y, classify, options)}{held_out}{hint}", flush=True)
    begin = perf_counter()
    X = numbers_table(features) if takes_numbers(estimator) else features
    status = _fit_until_interrupted(estimator, X.iloc[train], y[train], getattr(options, "checkpoint", None))
    if status == TERMINATED:
        complain("Terminated", f"The same command resumes from {options.checkpoint}.")
        return TERMINATED
    seconds = perf_counter() - begin
    scores = _score(estimator, X, y, train, test, targets)
    save(estimator, options.output, feature_names=features.columns, target_names=targets, scores=scores)
    if not options.quiet:
        _report(estimator, scores)
        ended = "Interrupted after" if status == INTERRUPTED else "Trained in"
        print(f"{ended} {seconds:.1f} s on {count(len(train), 'row')}. The {model_name} is in {options.output}.")
    return status


def _wants_network(options: argparse.Namespace) -> bool:
    """Return whether a single network is wanted, by --single or by one of its options."""
    network, ensemble = (
        [name for name in names if name in options] for names in (options.of_network, options.of_ensemble)
    )
    if network and ensemble:
        first, second = (f"--{names[0].replace('_', '-')}" for names in (ensemble, network))
        raise ValueError(f"{first} is about an ensemble, but {second} about a single network. Leave out one of them.")
    return bool(network)


def choose_columns(table: pd.DataFrame, options: argparse.Namespace) -> tuple[pd.DataFrame, NDArray[Any], bool]:
    """Return the features, the targets, and whether these are classes."""
    import numpy as np

    from dconnet.encoding.columns import read_target
    from dconnet.io.table_files import require_columns

    targets, source = options.target, source_name(options.data)
    require_columns(table, [*targets, *options.drop], source)
    if set(targets) & set(options.drop):
        raise ValueError("A target cannot be dropped. Leave out --drop for it.")
    features = table.drop(columns=[*targets, *options.drop])
    if features.shape[1] == 0:
        raise ValueError(f"{source} has no column left to predict {targets[0]!r} from.")
    task = None if options.task == "auto" else options.task
    if len(targets) > 1:
        if task == "classification":
            raise ValueError("Several targets must be numbers. Fit a model for each class alone.")
        return features, np.column_stack([read_target(table[name], name, "regression") for name in targets]), False
    y = read_target(table[targets[0]], targets[0], task)
    classify = y.dtype.kind != "f"
    n_classes = len(set(y.tolist()))
    if classify and task is None and 2 * n_classes > len(y) >= MANY_ROWS:
        raise ValueError(
            f"The target {targets[0]!r} is text with {n_classes} different values in {len(y)} rows, like a name. "
            "Choose another --target, or use its values as classes with --task classification."
        )
    return features, y, classify


def describe_data(features: pd.DataFrame, y: NDArray[Any], classify: bool, options: argparse.Namespace) -> str:
    """Return the table, its size, the target and the task on one line."""
    kind = f"classification, {len(set(y.tolist()))} classes" if classify else "regression"
    sizes = f"{count(len(features), 'row')}, {count(features.shape[1], 'feature')}"
    return f"{source_name(options.data)}: {sizes}, target {join(options.target)}, {kind}"


def _build_estimator(options: argparse.Namespace, is_single: bool, is_numeric: bool, classify: bool) -> Any:
    from sklearn.pipeline import make_pipeline

    from dconnet import estimators

    chosen = options.of_network if is_single else options.of_ensemble
    parameters = {name: getattr(options, name) for name in chosen if name in options and name != "single"}
    parameters |= {"max_seconds": options.max_seconds, "n_jobs": options.jobs, "random_state": options.seed}
    parameters["verbose"] = int(not options.quiet and sys.stderr is not None and sys.stderr.isatty())
    kind = "Classifier" if classify else "Regressor"
    estimator = getattr(estimators, f"{'' if is_single else 'Auto'}DCON{kind}")(**parameters)
    if not is_single or is_numeric:  # numbers alone need no encoder: exports then take them in their own units
        return estimator
    target_type = "class" if classify else "number"
    return make_pipeline(estimators.TableEncoder(target_type=target_type, random_state=options.seed), estimator)


def _fit_until_interrupted(estimator: Any, X: Any, y: Any, checkpoint: str | None) -> int:
    """Fit an estimator; return an exit status: 0, INTERRUPTED with networks to keep, or TERMINATED.

    With a checkpoint, SIGTERM ends the fit like Ctrl-C, which writes the checkpoint.
    """
    from sklearn.exceptions import ConvergenceWarning

    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    is_terminated = False

    def terminate(*_: object) -> None:
        nonlocal is_terminated
        is_terminated = True
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, terminate) if checkpoint else None
    try:
        with warnings.catch_warnings():
            if not hasattr(last, "quality"):  # the report has the message of each single network
                warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit(X, y)
    except KeyboardInterrupt:
        if not is_terminated and not last.__sklearn_is_fitted__():
            raise
        return TERMINATED if is_terminated else INTERRUPTED
    finally:
        if checkpoint:
            signal.signal(signal.SIGTERM, previous)
    return 0


def _score(
    estimator: Any, X: pd.DataFrame, y: NDArray[Any], train: NDArray[Any], test: NDArray[Any], targets: list[str]
) -> dict[str, dict[str, float]]:
    """Score training rows, out of fold if the estimator is an ensemble, and test rows; also each of several targets."""
    import numpy as np

    from dconnet.inspection.examination import score_predictions

    classes = getattr(estimator, "classes_", None)
    scores = {}
    if hasattr(estimator, "oof_prediction_"):
        oof = estimator.oof_prediction_
        is_known = np.isfinite(oof.reshape(len(oof), -1)[:, 0])
        oof, known_y, train = oof[is_known], y[train][is_known], train[:0]
        predicted = oof if classes is None else classes[oof.argmax(axis=1)]
        scores["out of fold"] = score_predictions(known_y, predicted, None if classes is None else oof, classes)
    for part, rows in {"train": train, "test": test}.items():
        if len(rows) == 0:
            continue
        try:
            predicted = estimator.predict(X.iloc[rows])
        except OverflowError as error:  # the model is saved nevertheless
            warnings.warn(f"The {part} rows have no score. {error}", stacklevel=1)
            continue
        # Test rows of a class without training rows have no log loss.
        has_loss = classes is not None and set(y[rows].tolist()) <= set(classes.tolist())
        probabilities = estimator.predict_proba(X.iloc[rows]) if has_loss else None
        scores[part] = score_predictions(y[rows], predicted, probabilities, classes)
        for k, name in enumerate(targets if len(targets) > 1 else ()):
            scores[f"{part}, {name}"] = score_predictions(y[rows, k], predicted[:, k])
    return scores


def _report(estimator: Any, scores: dict[str, dict[str, float]]) -> None:
    """Print the result of the fit."""
    summary = summarize(estimator)
    for network in summary.get("networks", ()):
        label = "" if network["class"] is None else f"class {network['class']}: "
        print(f"{label}{network['message']} RegLoss {network['objective']:.6g}.")
    if "members" in summary:
        print_columns(summary["columns"])
        print_members(summary["members"])
        print()
    print_scores(scores)
    train, test = scores.get("train", {}), scores.get("test", {})
    if any(train.get(name, -math.inf) - test.get(name, math.inf) > MUCH_WORSE for name in ("r2", "accuracy")):
        print(
            "New rows are predicted much worse than the training rows. Try a larger --gamma, a smaller --n-hidden, or "
            "--early-stopping."
        )
