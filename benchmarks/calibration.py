"""Probabilities of `DCONClassifier`: the log loss on held-out rows, against other ways to come by them.

    python benchmarks/calibration.py [--datasets NAME ...] [--splits 3] [--jobs 1] [--report]

The ways: the networks' own (one slope, calibrated out of fold), a logistic function or softmax of the raw outputs, a
slope with an offset for each class, scikit-learn's `CalibratedClassifierCV` around the same classifier, and a logistic
regression. Every fit is kept in a file of its own, so that a run can be stopped at any time and goes on with the same
command. Time is that of the processor.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from scipy import optimize
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cells import Result, Store, add_pack_option, add_run_options, builds
from dconnet import DCONClassifier, TableEncoder
from dconnet.estimators.data import Rows
from dconnet.estimators.gammas import HeldOut
from dconnet.estimators.units import Units
from dconnet.model.calibration import RIDGE, log_loss, probabilities_of
from dconnet.training.clock import Clock
from report import Report, geometric_mean, make_console
from tables.datasets import BY_NAME, CLASSIFICATION, loaded
from tables.scores import log_loss as held_out_loss

Data = tuple[np.ndarray, np.ndarray]

GENERATED: dict[str, Callable[[], Data]] = {
    "noisy, 2 classes": lambda: datasets.make_classification(600, 10, n_informative=5, flip_y=0.2, random_state=0),
    "rare, 2 classes": lambda: datasets.make_classification(
        1500, 10, n_informative=5, flip_y=0.02, weights=[0.95], random_state=0
    ),
    "uneven, 3 classes": lambda: datasets.make_classification(
        1500, 10, n_informative=6, n_classes=3, weights=[0.8, 0.15], flip_y=0.1, random_state=0
    ),
    "noisy, 5 classes": lambda: datasets.make_classification(
        1000, 10, n_informative=6, n_classes=5, flip_y=0.1, random_state=0
    ),
    "moons": lambda: datasets.make_moons(400, noise=0.3, random_state=0),
    "quantiles": lambda: datasets.make_gaussian_quantiles(n_samples=500, n_features=5, n_classes=3, random_state=0),
}
TABLES = tuple(d.name for d in BY_NAME.values() if d.task == CLASSIFICATION and d.rows <= 6000 and not d.missing)
NAMES = (*TABLES, *GENERATED)
NETWORK, WRAPPED, LOGISTIC = "network", "CalibratedClassifierCV", "logistic regression"
TEST_SHARE = 0.25


@dataclass(frozen=True)
class Cell:
    """One fit: a method on one split of one dataset."""

    dataset: str
    split: int
    method: str


def parts_of(cell: Cell) -> tuple[np.ndarray, ...]:
    """Training and test inputs, training and test classes; tables are encoded by what their training rows hold."""
    if cell.dataset in GENERATED:
        table, y = GENERATED[cell.dataset]()
        return tuple(train_test_split(table, y, test_size=TEST_SHARE, random_state=cell.split, stratify=y))
    table, y = loaded(cell.dataset)
    train, test, y_train, y_test = train_test_split(
        table, y.to_numpy(), test_size=TEST_SHARE, random_state=cell.split, stratify=y
    )
    encoder = TableEncoder().set_output(transform="default").fit(train, y_train)
    return np.asarray(encoder.transform(train)), np.asarray(encoder.transform(test)), y_train, y_test


def run(cell: Cell) -> Result:
    """Fit, and the log loss on the test rows."""
    X, X_test, y, y_test = parts_of(cell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)  # a class with fewer rows than folds
        if cell.method == NETWORK:
            return run_network(cell, X, X_test, y, y_test)
        network = DCONClassifier(random_state=cell.split)
        linear = make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=2000))
        model = CalibratedClassifierCV(network, cv=3) if cell.method == WRAPPED else linear
        began = time.process_time()
        model.fit(X, y)
    return {"loss": held_out_loss(y_test, model.predict_proba(X_test)), "seconds": time.process_time() - began}


def run_network(cell: Cell, X: np.ndarray, X_test: np.ndarray, y: np.ndarray, y_test: np.ndarray) -> Result:
    """Our probabilities, and what else can be made of the same outputs."""
    began = time.process_time()
    model = DCONClassifier(random_state=cell.split).fit(X, y)
    seconds = time.process_time() - began
    outputs = model._outputs(X_test)
    rows = Rows(X, model.targets_.columns(y), np.ones(len(X)))
    units = Units.standard(rows)
    began = time.process_time()
    # The fits that a given gamma asks for; those of a chosen one are there anyway.
    gamma = np.array([model.gamma_ / units.size])
    choice = model._short_fits(rows, units, gamma, cell.split, Clock(None), keep_outputs=True)
    slope_seconds = time.process_time() - began
    assert choice.held_out is not None
    slope, offsets = with_offsets(choice.held_out)
    return {
        "loss": held_out_loss(y_test, model.predict_proba(X_test)),
        "raw": held_out_loss(y_test, probabilities_of(outputs)),
        "offsets": held_out_loss(y_test, probabilities_of(slope * outputs + offsets)),
        "slope": model.calibration_.slope,
        "seconds": seconds,
        "slope_seconds": slope_seconds,
    }


def with_offsets(held_out: HeldOut) -> tuple[float, np.ndarray]:
    """The slope and the offsets of the classes of least log loss, with the same ridge."""
    outputs = held_out.outputs[:, :, 0].astype(np.float64)
    share, hot = held_out.weight / held_out.weight.sum(), 0.5 * (1.0 + held_out.columns)
    ridge = RIDGE * float(share @ share)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, by_logits = log_loss(theta[0] * outputs + theta[1:], hot, share)
        gradient = np.append(np.vdot(by_logits, outputs), by_logits.sum(axis=0))
        return value + ridge * float(theta @ theta), gradient + 2.0 * ridge * theta

    start = np.append(2.0, np.zeros(outputs.shape[1]))
    theta = optimize.minimize(loss, start, jac=True, method="L-BFGS-B").x
    return float(theta[0]), theta[1:]


def cells_of(dataset: str, splits: int) -> list[Cell]:
    """All fits of a dataset."""
    return [Cell(dataset, split, method) for split in range(splits) for method in (NETWORK, WRAPPED, LOGISTIC)]


def mean_of(store: Store, dataset: str, splits: int, method: str, name: str) -> float | None:
    """Mean of a figure over the splits, if all of them are there."""
    results = [store.read(Cell(dataset, split, method)) for split in range(splits)]
    return None if None in results else float(np.mean([result[name] for result in results if result]))


FIGURES = {
    "ours": (NETWORK, "loss"),
    "raw outputs": (NETWORK, "raw"),
    "with offsets": (NETWORK, "offsets"),
    WRAPPED: (WRAPPED, "loss"),
    LOGISTIC: (LOGISTIC, "loss"),
}


def table_of(store: Store, names: list[str], splits: int) -> Report:
    """The log loss of every dataset, and ratios of ours to the others."""
    report = Report(
        f"Log loss on held-out rows, mean over {splits} splits",
        ("dataset", *FIGURES, "time of the slope / fit"),
        notes=[],
    )
    lines = {}
    for name in names:
        found = {title: mean_of(store, name, splits, *figure) for title, figure in FIGURES.items()}
        if None not in found.values():
            lines[name] = found
            parts = [mean_of(store, name, splits, NETWORK, part) or 0.0 for part in ("slope_seconds", "seconds")]
            report.lines.append((name, *(f"{loss:.4f}" for loss in found.values()), f"{parts[0] / parts[1]:.3f}"))
    for title in list(FIGURES)[1:] if lines else []:
        ratios = [found["ours"] / found[title] for found in lines.values()]
        report.notes.append(
            f"Ours / {title}: geometric mean {geometric_mean(ratios):.3f}, median {statistics.median(ratios):.3f}, "
            f"worst {max(ratios):.3f}, lower on {sum(ratio < 1.0 for ratio in ratios)} of {len(ratios)}."
        )
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=NAMES, metavar="NAME", default=NAMES)
    parser.add_argument("--splits", type=int, default=3, help="number of splits of each dataset")
    add_pack_option(parser)
    add_run_options(parser, "calibration")
    chosen = parser.parse_args()
    console, store = make_console(), Store(chosen.results)
    cells = [cell for name in chosen.datasets for cell in cells_of(name, chosen.splits)]
    if not chosen.report:
        store.compute(cells, run, chosen.jobs, console)
    report = table_of(store, chosen.datasets, chosen.splits)
    report.notes += builds([result for cell in cells if (result := store.read(cell))])
    report.publish("calibration", console, chosen.results)
    if chosen.pack:
        store.pack(cells, chosen.pack)


if __name__ == "__main__":
    main()
