"""The default estimators in any units, against the best gamma in hindsight and against linear models.

    python benchmarks/defaults.py [--datasets NAME ...] [--splits 3] [--jobs 1] [--report] [--pack FILE]

Every fit is kept in a file of its own, so that a run can be stopped at any time and goes on with the same command.
Time is that of the processor.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cells import Result, Store, add_pack_option, add_run_options, builds
from dconnet import DCONClassifier, DCONRegressor
from dconnet.estimators.gammas import GAMMAS
from paper_data import DATASETS, HOME, require_data
from report import Report, geometric_mean, make_console
from reproduction.datasets import Choices, load_dataset
from reproduction.datasets.uci import ALL_LAGS

Data = tuple[np.ndarray, np.ndarray]

REGRESSION: dict[str, Callable[[], Data]] = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True, scaled=False),
    "linnerud": lambda: (datasets.load_linnerud().data, datasets.load_linnerud().target[:, 0]),
    "friedman 1": lambda: datasets.make_friedman1(500, noise=1.0, random_state=0),
    "friedman 2": lambda: datasets.make_friedman2(500, noise=100.0, random_state=0),
    "friedman 3": lambda: datasets.make_friedman3(500, noise=0.1, random_state=0),
    "linear": lambda: datasets.make_regression(300, 10, noise=50.0, random_state=0),
    "sparse": lambda: datasets.make_sparse_uncorrelated(300, random_state=0),
}
CLASSIFICATION: dict[str, Callable[[], Data]] = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: tuple(part[:600] for part in datasets.load_digits(return_X_y=True)),
    "moons": lambda: datasets.make_moons(400, noise=0.3, random_state=0),
    "circles": lambda: datasets.make_circles(400, noise=0.2, factor=0.5, random_state=0),
    "hastie": lambda: datasets.make_hastie_10_2(800, random_state=0),
    "quantiles": lambda: datasets.make_gaussian_quantiles(n_samples=500, n_features=5, n_classes=3, random_state=0),
    "mixture": lambda: datasets.make_classification(500, 20, n_informative=6, n_classes=4, random_state=0),
}
NAMES = (*DATASETS, *REGRESSION, *CLASSIFICATION)

# Columns are multiplied by random numbers in this range of powers of ten, and this is added to the target.
POWERS, OFFSET = (-3.0, 6.0), 5e5


@dataclass(frozen=True)
class Cell:
    """One fit: a method on one split of one dataset, in the units of the data or in others."""

    dataset: str
    split: int
    method: str
    units: str


def is_classification(dataset: str) -> bool:
    """Whether the target is a class."""
    return dataset in CLASSIFICATION


def data_of(dataset: str) -> Data:
    """Inputs and target, in the units of their source."""
    if dataset in DATASETS:
        found = load_dataset(dataset, HOME, Choices(building_lags=ALL_LAGS))
        return np.asarray(found.X, dtype=np.float64), np.asarray(found.y, dtype=np.float64)
    return (REGRESSION | CLASSIFICATION)[dataset]()


def parts_of(cell: Cell) -> tuple[np.ndarray, ...]:
    """Training and test inputs, training and test targets."""
    X, y = data_of(cell.dataset)
    if cell.units == "changed":
        X = X * 10.0 ** np.random.default_rng(0).uniform(*POWERS, size=X.shape[1])
        y = y if is_classification(cell.dataset) else y + OFFSET
    labels = y if is_classification(cell.dataset) else None
    return tuple(train_test_split(X, y, test_size=0.25, random_state=cell.split, stratify=labels))


def estimator_of(cell: Cell) -> Any:
    """The default, the estimator with one gamma, with that of dconnet 0.2 on standardised data, or a linear model."""
    classify = is_classification(cell.dataset)
    network = DCONClassifier if classify else DCONRegressor
    if cell.method == "linear":
        linear = LogisticRegressionCV(max_iter=2000) if classify else RidgeCV(np.logspace(-3.0, 4.0, 15))
        return make_pipeline(StandardScaler(), linear)
    if cell.method == "0.2":
        return make_pipeline(StandardScaler(), network(gamma=1e-3, scale=False, random_state=cell.split))
    if cell.method == "default":
        return network(random_state=cell.split)
    return network(gamma=float(cell.method), random_state=cell.split)


def run(cell: Cell) -> Result:
    """Fit, and the error on the test rows: as a share of the variance, or the share of wrong classes."""
    X, X_test, y, y_test = parts_of(cell)
    center, unit = (y.mean(), y.std()) if cell.method == "0.2" and not is_classification(cell.dataset) else (0.0, 1.0)
    target = y if unit == 1.0 else (y - center) / unit
    model = estimator_of(cell)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        model.fit(X, target)
    seconds = time.process_time() - began
    predicted = model.predict(X_test)
    if is_classification(cell.dataset):
        error = float(np.mean(predicted != y_test))
    else:
        error = float(np.mean((center + unit * predicted - y_test) ** 2) / np.var(y_test))
    gamma = model.gamma_ / model.target_scale_ if cell.method == "default" else None
    return {"error": error, "seconds": seconds, "gamma": gamma}


METHODS = ("default", *(f"{gamma:g}" for gamma in GAMMAS), "0.2", "linear")


def cells_of(dataset: str, splits: int) -> list[Cell]:
    """All fits of a dataset; the linear model and the grid in the units of the data alone, which they do not see."""
    both = [("default", "changed"), *((method, "as they are") for method in METHODS)]
    return [Cell(dataset, split, method, units) for split, (method, units) in itertools.product(range(splits), both)]


@dataclass(frozen=True)
class Figures:
    """Mean errors over the splits, and processor times."""

    errors: dict[tuple[str, str], float]
    seconds: dict[tuple[str, str], float]

    @classmethod
    def of(cls, store: Store, dataset: str, splits: int) -> Figures | None:
        """Those of a dataset, if all its fits are there."""
        cells = cells_of(dataset, splits)
        results = {cell: store.read(cell) for cell in cells}
        if any(result is None for result in results.values()):
            return None
        keys = dict.fromkeys((cell.method, cell.units) for cell in cells)

        def mean(name: str) -> dict[tuple[str, str], float]:
            return {
                key: float(np.mean([results[c][name] for c in cells if (c.method, c.units) == key]))  # type: ignore[index]
                for key in keys
            }

        return cls(mean("error"), mean("seconds"))

    def error(self, method: str, units: str = "as they are") -> float:
        """Mean test error of a method."""
        return self.errors[method, units]

    @property
    def best(self) -> float:
        """The error of the best gamma in hindsight."""
        return min(self.error(f"{gamma:g}") for gamma in GAMMAS)

    @property
    def time_ratio(self) -> float:
        """Time of the default over that of the default of dconnet 0.2."""
        return self.seconds["default", "as they are"] / self.seconds["0.2", "as they are"]


def table_of(store: Store, chosen: argparse.Namespace, classify: bool) -> Report:
    """Errors of every dataset, and ratios of the default to the others."""
    measure = "share of wrong classes" if classify else "test MSE in units of the variance"
    report = Report(
        f"Defaults: {measure}, mean over {chosen.splits} splits",
        ("dataset", "default", "changed units", "best gamma", "0.2", "linear", "time / 0.2"),
        notes=[
            "Changed units: columns times 10^-3 to 10^6, and 5e5 added to the target. Best gamma: in hindsight, on the "
            "test rows. 0.2: gamma=1e-3, scale=False on standardised data. Linear: ridge or logistic regression, "
            "cross-validated, on standardised inputs. Time: of the processor."
        ],
    )
    found = {
        name: Figures.of(store, name, chosen.splits) for name in chosen.datasets if is_classification(name) == classify
    }
    complete = {name: figures for name, figures in found.items() if figures is not None}
    for name, f in complete.items():
        errors = (f.error("default"), f.error("default", "changed"), f.best, f.error("0.2"), f.error("linear"))
        report.lines.append((name, *(f"{error:.3g}" for error in errors), f"{f.time_ratio:.2f}"))
    report.notes += _summary(list(complete.values()), 0.01 if classify else 0.0) if complete else []
    return report


def _summary(figures: list[Figures], added: float) -> list[str]:
    """Geometric means and worst cases of ratios; a number is added to errors of which some are zero."""

    def ratios(units: str, other: Callable[[Figures], float]) -> list[float]:
        return [(f.error("default", units) + added) / (other(f) + added) for f in figures]

    sentences = [f"For the ratios, {added:g} is added to all errors, of which some are zero."] if added else []
    for units in ("as they are", "changed"):
        best, linear = ratios(units, lambda f: f.best), ratios(units, lambda f: f.error("linear"))
        sentences.append(
            f"Units {units}: {geometric_mean(best):.3f} times the best gamma in hindsight (worst {max(best):.2f}), "
            f"{geometric_mean(linear):.3f} times the linear model (worst {max(linear):.2f})."
        )
    times = [f.time_ratio for f in figures]
    return [*sentences, f"Time: {geometric_mean(times):.2f} times that of 0.2 (worst {max(times):.2f})."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=NAMES, metavar="NAME", default=NAMES)
    parser.add_argument("--splits", type=int, default=3, help="number of splits of each dataset")
    add_pack_option(parser)
    add_run_options(parser, "defaults")
    chosen = parser.parse_args()
    console, store = make_console(), Store(chosen.results)
    cells = [cell for name in chosen.datasets for cell in cells_of(name, chosen.splits)]
    if not chosen.report:
        require_data()
        store.compute(cells, run, chosen.jobs, console)
    if chosen.pack:
        store.pack(cells, chosen.pack)
    for name, classify in (("regression", False), ("classification", True)):
        report = table_of(store, chosen, classify)
        report.notes += builds(result for result in map(store.read, cells) if result is not None)
        report.publish(f"defaults-{name}", console, chosen.results)


if __name__ == "__main__":
    main()
