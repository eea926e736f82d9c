"""The auto estimators by themselves: many rows, many classes, quality, distillation, and what each family is good for.

    python benchmarks/ensembles.py [--quick] [part ...]

Each part compares within one run on one thread, by seconds of the processor, and writes a table into benchmark-output/.
The comparison with others on 68 tables is `tabular.py`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

from dconnet import AutoDCONClassifier, AutoDCONRegressor
from report import Report, geometric_mean, make_console
from tables.datasets import CHOOSING, CLASSIFICATION, DATASETS, REGRESSION, Dataset
from tables.methods import METHODS, Training, fitted
from tables.runs import split_of
from tables.scores import scores

MOST_ROWS = 1_100  # of the tables that `quality` and `families` use
SPLITS = 2


def _kinked(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Twenty columns, of which eight matter; the target with noise of variance one, and without."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n_rows, 20))
    smooth = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4]
    truth = smooth + 5.0 * np.abs(np.sin(6.0 * X[:, 5])) + 4.0 * (X[:, 6] > 0.5) * X[:, 7]
    return X, truth + rng.normal(size=n_rows), truth


def _fit_seconds(method: str, training: Training) -> tuple[float, Callable]:
    METHODS[method].load()
    begin = time.process_time()
    predict = fitted(METHODS[method], training)
    return time.process_time() - begin, predict


def sizes(quick: bool) -> Report:
    """Error beyond the noise, and time, where rows are many."""
    report = Report("Many rows, 20 columns", ("rows", "method", "error beyond the noise", "CPU seconds"))
    for n_rows in (10_000,) if quick else (100_000, 1_000_000):
        X, y, truth = _kinked(n_rows + 50_000)
        table = pd.DataFrame(X).add_prefix("x")
        training = Training(table[:n_rows], y[:n_rows], 0, 0)
        for method in ("dconnet", "lightgbm", "xgboost", "catboost"):
            seconds, predict = _fit_seconds(method, training)
            error = np.mean((predict(table[n_rows:]) - truth[n_rows:]) ** 2)
            report.add(n_rows, method, f"{error:.3f}", f"{seconds:.1f}")
    return report


def classes(quick: bool) -> Report:
    """Log loss and time of ten classes, against CatBoost."""
    report = Report("Ten classes", ("rows", "columns", "method", "log loss", "CPU seconds"))
    n_rows = 500 if quick else 5_000
    for n_columns in (20, 64):
        X, y = make_classification(
            n_rows + 2_000, n_columns, n_informative=12, n_classes=10, n_clusters_per_class=2, random_state=0
        )
        table = pd.DataFrame(X).add_prefix("x")
        for method in ("dconnet", "catboost"):
            seconds, predict = _fit_seconds(method, Training(table[:n_rows], y[:n_rows], 10, 0))
            loss = scores(y[n_rows:], predict(table[n_rows:]))["loss"]
            report.add(n_rows, n_columns, method, f"{loss:.3f}", f"{seconds:.1f}")
    return report


def _small(task: str, quick: bool) -> Iterator[tuple[Dataset, Training, pd.DataFrame, np.ndarray]]:
    found = [d for d in DATASETS if d.task == task and d.rows <= MOST_ROWS and not d.missing]
    for dataset in found[:2] if quick else found:
        for split in range(SPLITS):
            yield dataset, *split_of(dataset, split)


def _loss(model: AutoDCONRegressor | AutoDCONClassifier, table: pd.DataFrame, y: np.ndarray) -> float:
    said = model.predict(table) if isinstance(model, AutoDCONRegressor) else model.predict_proba(table)
    return float(scores(y, said)["loss"])


def quality(quick: bool) -> Report:
    """What ``quality="high"`` gains; how well a distilled network follows, and how many targets the intervals hold."""
    report = Report(
        f"Quality and distillation, tables of up to {MOST_ROWS} rows, {SPLITS} splits",
        (
            "task",
            "high / default, error",
            "its time",
            "distilled / ensemble: mean, median, worst",
            "held by 90 %: mean, least",
        ),
    )
    for task, kind in ((REGRESSION, AutoDCONRegressor), (CLASSIFICATION, AutoDCONClassifier)):
        gains, times, distilled, held = [], [], [], []
        for _, training, table, y in _small(task, quick):
            models, seconds = [], []
            for name in ("default", "high"):
                begin = time.process_time()
                models.append(kind(quality=name, random_state=training.seed).fit(training.table, training.y))
                seconds.append(time.process_time() - begin)
            losses = [_loss(model, table, y) for model in models]
            gains.append(losses[1] / losses[0])
            times.append(seconds[1] / seconds[0])
            if task == REGRESSION:
                small = scores(y, models[0].distil(50).predict(table))["loss"]
                distilled.append(small / losses[0])
                low, high = models[0].predict_interval(table)
                held.append(np.mean((low <= y) & (y <= high)))
        report.add(
            task,
            f"{geometric_mean(gains):.3f}",
            f"{geometric_mean(times):.1f}",
            f"{geometric_mean(distilled):.3f}, {np.median(distilled):.3f}, {max(distilled):.2f}" if distilled else "",
            f"{np.mean(held):.3f}, {min(held):.3f}" if held else "",
        )
    return report


def families(quick: bool) -> Report:
    """What is lost without a family, on the tables that may choose the recipe."""
    report = Report(
        f"Error and time without a family over those with all: choosing tables of up to {MOST_ROWS} rows",
        ("task", "without", "tables", "error: mean", "median", "worst", "time"),
    )
    for task, kind in ((REGRESSION, AutoDCONRegressor), (CLASSIFICATION, AutoDCONClassifier)):
        ratios: dict[str, list[tuple[str, float, float]]] = {}
        for dataset, training, table, y in _small(task, quick):
            if dataset.half == CHOOSING:
                for name, error, seconds in _without_each(kind, training, table, y):
                    ratios.setdefault(name, []).append((dataset.name, error, seconds))
        for name, found in ratios.items():
            errors = [error for _, error, _ in found]
            report.add(
                task,
                name,
                len({dataset for dataset, _, _ in found}),
                f"{geometric_mean(errors):.3f}",
                f"{np.median(errors):.3f}",
                f"{max(errors):.2f}",
                f"{geometric_mean([seconds for _, _, seconds in found]):.2f}",
            )
    return report


def _without_each(
    kind: type, training: Training, table: pd.DataFrame, y: np.ndarray
) -> Iterator[tuple[str, float, float]]:
    """The name of each family, and error and time without it over those with all."""

    class Without(kind):  # type: ignore[misc, valid-type]
        left_out = ""

        def _families(self, rows: object) -> list:
            every = super()._families(rows)
            self.names = [family.name for family in every]
            return [family for family in every if family.name != self.left_out]

    def run(left_out: str) -> tuple[Without, float, float]:
        model = Without(random_state=training.seed)
        model.left_out = left_out
        begin = time.process_time()
        model.fit(training.table, training.y)
        return model, _loss(model, table, y), time.process_time() - begin

    model, error, seconds = run("")
    for name in model.names:
        _, own_error, own_seconds = run(name)
        yield name, own_error / error, own_seconds / seconds


PARTS: dict[str, Callable[[bool], Report]] = {
    "sizes": sizes,
    "classes": classes,
    "quality": quality,
    "families": families,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"one or more of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes and few tables")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown part: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    console = make_console()
    for name in arguments.parts or PARTS:
        PARTS[name](arguments.quick).publish(f"ensembles-{name}{'-quick' if arguments.quick else ''}", console)


if __name__ == "__main__":
    main()
