"""``dconnet compare``: a leader board of models on a table, by out-of-fold predictions on the same folds."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from time import process_time
from typing import TYPE_CHECKING, Any

from dconnet._text import count
from dconnet.cli.fit import choose_columns, describe_data
from dconnet.cli.shared import MEASURES, add_training_options, print_table, read_table

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

# Boosted trees of scikit-learn take at most this many categories.
MAX_CATEGORIES = 255


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "compare",
        help="compare models on a table by cross-validation",
        description="Compare the ensemble, a single network, boosted trees and a linear model of scikit-learn, and a "
        "constant prediction. Each row is predicted by models that were trained on the other folds, the same for all.",
    )
    add_training_options(parser)
    add = parser.add_argument
    add("--folds", type=int, default=5, help="number of folds [default: 5]")
    add("--json", action="store_true", help="print JSON")
    add("-q", "--quiet", action="store_true", help="do not show the progress")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Cross-validate the models and print their scores, best first."""
    from dconnet.encoding.coder import deal

    if len(options.target) > 1:
        raise ValueError("dconnet compare takes one --target. Compare the models for each target alone.")
    table = read_table(options)
    X, y, classify = choose_columns(table, options)
    if not 2 <= options.folds <= len(y) // 2:
        raise ValueError(f"--folds must be at least 2 and leave two rows in each fold of {count(len(y), 'row')}.")
    folds = deal(len(y), options.folds, options.seed, y if classify else None)
    shows_progress = not options.quiet and sys.stderr is not None
    if shows_progress:
        print(f"{describe_data(X, y, classify, options)}, {options.folds} folds", file=sys.stderr)
    results: list[dict[str, Any]] = []
    for name, model in _make_models(options, classify).items():
        begin = process_time()
        with warnings.catch_warnings():
            if results:  # the first model has warned of columns
                warnings.simplefilter("ignore")
            scores = _cross_validate(model, X, y, folds, classify)
        results.append({"model": name, **scores, "cpu_seconds": process_time() - begin})
        if shows_progress:
            print(f"{name}: {results[-1]['cpu_seconds']:.1f} s of CPU time", file=sys.stderr, flush=True)
    results.sort(key=lambda result: result["log_loss" if classify else "mse"])
    if options.json:
        print(json.dumps({"target": options.target[0], "folds": options.folds, "models": results}, indent=2))
        return
    measures = [each for each in MEASURES if each in results[0]]
    lines = [(r["model"], *(f"{r[each]:.5g}" for each in measures), f"{r['cpu_seconds']:.1f}") for r in results]
    print_table([("model", *(MEASURES[each] for each in measures), "CPU seconds"), *lines], numbers=range(1, 9))


def _make_models(options: argparse.Namespace, classify: bool) -> dict[str, Any]:
    import numpy as np
    from sklearn import dummy, ensemble, linear_model
    from sklearn.pipeline import make_pipeline

    from dconnet import estimators

    kind, seeded = "Classifier" if classify else "Regressor", {"random_state": options.seed}
    auto, single = getattr(estimators, f"AutoDCON{kind}"), getattr(estimators, f"DCON{kind}")
    linear = (
        linear_model.LogisticRegression(max_iter=1000) if classify else linear_model.RidgeCV(np.logspace(-2, 4, 13))
    )
    encoder = estimators.TableEncoder(target_type="class" if classify else "number", **seeded)
    return {
        "ensemble": auto(n_jobs=options.jobs, **seeded),
        "single network": make_pipeline(encoder, single(n_jobs=options.jobs, **seeded)),
        "boosted trees": getattr(ensemble, f"HistGradientBoosting{kind}")(**seeded),
        "logistic regression" if classify else "ridge regression": make_pipeline(encoder, linear),
        "constant": dummy.DummyClassifier() if classify else dummy.DummyRegressor(),
    }


def _cross_validate(
    model: Any, X: pd.DataFrame, y: NDArray[Any], folds: list[NDArray[Any]], classify: bool
) -> dict[str, float]:
    """Return the scores of out-of-fold predictions."""
    import numpy as np

    from dconnet.inspection.examination import score_predictions

    classes = np.unique(y) if classify else None
    outputs = np.zeros((len(y), 1 if classes is None else len(classes)))
    for fold in folds:
        train = np.setdiff1d(np.arange(len(y)), fold)
        rows, new_rows = X.iloc[train], X.iloc[fold]
        if hasattr(model, "categorical_features"):
            rows, new_rows = _encode_for_trees(model, rows, new_rows)
        model.fit(rows, y[train])
        if classes is None:
            outputs[fold, 0] = model.predict(new_rows)
        else:  # a class without training rows has probability zero
            outputs[np.ix_(fold, np.searchsorted(classes, model.classes_))] = model.predict_proba(new_rows)
    if classes is None:
        return score_predictions(y, outputs[:, 0])
    return score_predictions(y, classes[outputs.argmax(axis=1)], outputs, classes.tolist())


def _encode_for_trees(model: Any, *tables: pd.DataFrame) -> list[NDArray[Any]]:
    """Return tables as numbers with NaN and codes of categories, as the trees take them; fit to the first table."""
    import numpy as np

    from dconnet.encoding.columns import read_columns
    from dconnet.encoding.schema import Schema

    schema = Schema.fit(read_columns(tables[0]))
    is_category = np.array([field.is_category for field in schema.fields], dtype=np.bool_)
    model.set_params(categorical_features=is_category)
    matrices = [np.column_stack(schema.read(read_columns(table)).values) for table in tables]
    return [np.where(is_category, np.minimum(matrix, MAX_CATEGORIES - 1), matrix) for matrix in matrices]
