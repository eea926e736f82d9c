"""Compare the auto estimators with other methods on generated tables of many rows or columns, whose noise is known.

    python benchmarks/generated.py [--shapes 100000x20 ...] [--problems curves ...] [--methods dconnet ...]
    python benchmarks/generated.py --report

Errors are those above the noise: the mean squared distance from the true function, or the log loss above that of the
true probabilities. Every cell is stored at once; a run can be stopped and continued. All methods have one thread.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, xlogy
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import AutoDCONClassifier, AutoDCONRegressor
from report import Report, add_run_options, build_warnings, compute_cells
from reproduction.store import Result, Store

OURS, NOISE, N_SHOPS = "dconnet", 0.5, 40
# Test rows of narrow and of wide tables.
N_TEST_ROWS, N_TEST_ROWS_OF_WIDE, WIDE = 50_000, 5_000, 100


@dataclass(frozen=True)
class Cell:
    """One method on one problem."""

    problem: str
    rows: int
    columns: int
    method: str
    seed: int = 0


def make_line(rng: np.random.Generator, n_rows: int, n_columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of numbers, and a multiple of the first of them."""
    X = rng.normal(size=(n_rows, n_columns))
    return pd.DataFrame(X).add_prefix("x"), 3.0 * X[:, 0]


def make_curves(rng: np.random.Generator, n_rows: int, n_columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of numbers, and a sum of curves, a product and a step."""
    X = rng.normal(size=(n_rows, n_columns))
    f = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) + X[:, 2] * X[:, 3] + (X[:, 4] > 0.5) + np.tanh(X[:, 5] + X[:, 6])
    return pd.DataFrame(X).add_prefix("x"), f


def make_thresholds(rng: np.random.Generator, n_rows: int, n_columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of numbers and texts, and a sum of rough effects that depend on categories and thresholds."""
    X = np.round(rng.gamma(2.0, size=(n_rows, n_columns - 4)), 2)
    colour, size, shop = rng.integers(5, size=n_rows), rng.integers(3, size=n_rows), rng.integers(N_SHOPS, size=n_rows)
    month = rng.integers(12, size=n_rows)
    of_shop = np.random.default_rng(1).normal(size=N_SHOPS)
    f = of_shop[shop] * (0.5 + (X[:, 0] > 2.0)) + np.where(colour < 2, np.log1p(X[:, 1]), (X[:, 1] > 1.5) * 1.0)
    f += (X[:, 2] > 1.0) * (X[:, 3] > 2.5) * (size == 1) + 0.3 * np.floor(X[:, 4]) + np.sin(np.pi * month / 6.0)
    texts = {"colour": colour, "size": size, "shop": shop, "month": month}
    table = pd.DataFrame(X).add_prefix("x")
    return table.assign(**{name: [f"{name} {code}" for code in codes] for name, codes in texts.items()}), f


def make_classes(rng: np.random.Generator, n_rows: int, n_columns: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of numbers, and the log-odds of the second of two classes."""
    table, f = make_curves(rng, n_rows, n_columns)
    return table, 1.5 * (f - 1.0) + (table["x7"] > 0.0) * (table["x8"] > 0.0)


PROBLEMS = {"line": make_line, "curves": make_curves, "thresholds": make_thresholds, "classes": make_classes}


def make_model(method: str, table: pd.DataFrame, is_class: bool, seed: int) -> Any:
    """Return an estimator with one thread, and the defaults of its package unless the name of the method differs."""
    kind, texts = "Classifier" if is_class else "Regressor", list(table.columns[table.dtypes == "category"])
    if method == OURS:
        return (AutoDCONClassifier if is_class else AutoDCONRegressor)(random_state=seed)
    if method == "catboost":
        own = getattr(import_module("catboost"), f"CatBoost{kind}")
        return own(thread_count=1, verbose=0, random_seed=seed, allow_writing_files=False, cat_features=texts)
    if method == "lasso":
        penalties = LogisticRegressionCV(penalty="l1", solver="saga", Cs=5, cv=5, scoring="neg_log_loss")
        return make_pipeline(StandardScaler(), penalties if is_class else LassoCV(random_state=seed))
    if method == "histogram":
        return getattr(import_module("sklearn.ensemble"), f"HistGradientBoosting{kind}")(random_state=seed)
    rates = {"lightgbm, 1,000 trees": 0.1, "lightgbm, 1,000 trees, rate .05": 0.05}
    own = getattr(import_module("lightgbm"), f"LGBM{kind}")
    return own(n_estimators=1000, learning_rate=rates[method], n_jobs=1, verbose=-1, random_state=seed)


METHODS = (OURS, "catboost", "lightgbm, 1,000 trees", "lightgbm, 1,000 trees, rate .05", "histogram", "lasso")


def run(cell: Cell) -> Result:
    """Return the error above the noise, and CPU seconds."""
    rng, make = np.random.default_rng(cell.seed), PROBLEMS[cell.problem]
    table, f = make(rng, cell.rows + (N_TEST_ROWS if cell.columns <= WIDE else N_TEST_ROWS_OF_WIDE), cell.columns)
    is_class = cell.problem == "classes"
    y = rng.random(len(f)) < expit(f) if is_class else f + NOISE * rng.normal(size=len(f))
    if cell.method != OURS:  # boosted trees of other packages take categories, not texts
        table = table.astype(dict.fromkeys(table.columns[~table.columns.str.startswith("x")], "category"))
    training, test, truth = table[: cell.rows], table[cell.rows :], f[cell.rows :]
    model = make_model(cell.method, table, is_class, cell.seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(training, y[: cell.rows].astype(float))
    fitted = time.process_time()
    if is_class:
        p, q = expit(truth), np.clip(model.predict_proba(test)[:, 1], 1e-9, 1.0 - 1e-9)
        error = np.mean(xlogy(p, p / q) + xlogy(1.0 - p, (1.0 - p) / (1.0 - q)))
    else:
        error = np.mean((model.predict(test) - truth) ** 2)
    return {"error": float(error), "cpu": fitted - began, "predict_cpu": time.process_time() - fitted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="+", default=["100000x20"], metavar="ROWSxCOLUMNS")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=tuple(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    add_run_options(parser)
    options = parser.parse_args()
    store = Store(options.results, "generated")
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes]
    cells = [
        Cell(problem, *shape, method)
        for shape in shapes
        for problem in options.problems
        for method in options.methods
        if (problem, method) != ("thresholds", "lasso")  # which takes no texts
    ]
    compute_cells(store, cells, run, options)
    report = Report(
        "Generated tables",
        ("problem", "rows", "columns", "method", "error above noise", "ours", "CPU, s", "ours", "predict, CPU, s"),
    )
    found = store.results(Cell)
    for cell in sorted(found, key=lambda own: (own.problem, own.rows, own.columns, METHODS.index(own.method))):
        own, ours = found[cell], found.get(replace(cell, method=OURS))
        ratios = [f"{ours[name] / own[name]:.2f}" if ours else "" for name in ("error", "cpu")]
        report.add(
            *(cell.problem, f"{cell.rows:,}", f"{cell.columns:,}", cell.method, f"{own['error']:.5f}", ratios[0]),
            *(f"{own['cpu']:.1f}", ratios[1], f"{own['predict_cpu']:.2f}"),
        )
    report.notes += ["ours: error or CPU time of dconnet, divided by that of the method.", *build_warnings(store)]
    report.publish("generated", options.results)


if __name__ == "__main__":
    main()
