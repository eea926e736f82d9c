"""Does depth help? Layer-wise networks against a shallow one with as many weights.

    python benchmarks/depth.py [--datasets radial ...] [--seeds 3] [--jobs 2] [--report] [--pack FILE]

All choices are made on a validation set: the test error serves for the tables alone. Every fit is kept in a file of its
own, so that a run can be stopped at any time and goes on with the same command. No limit is one of time.
"""

from __future__ import annotations

import argparse
import itertools
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from cells import Result, Store, add_pack_option, add_run_options, builds
from dconnet import LayerwiseDCONRegressor
from paper_data import DATASETS, require_data, table
from report import Report, geometric_mean, make_console

GAMMAS = (1e-3, 1e-2, 0.1, 1.0)
SHALLOW_WIDTH = 24
MAX_EPOCHS, TOL = 20, 1e-3

# Rows of the synthetic data for training, validation and test.
SIZES = (400, 200, 2000)
NOISE = 0.05

PARTS = ("training", "validation", "test")
Points = np.ndarray
Target = Callable[[Points], np.ndarray]


def waves(X: Points) -> np.ndarray:
    """Several periods along the sum of the absolute values."""
    return np.sin(4.0 * np.sum(np.abs(X), axis=1))


# Targets on the cube from -1 to 1, each with the number of its inputs.
SYNTHETIC: dict[str, tuple[int, Target]] = {
    "radial": (5, lambda X: np.cos(3.0 * np.linalg.norm(X, axis=1))),
    "link": (8, lambda X: np.tanh(8.0 * (np.mean(np.abs(X), axis=1) - 0.5))),
    "product": (4, lambda X: 9.0 * np.prod(X, axis=1)),
    "additive": (5, lambda X: np.sum(np.abs(X), axis=1) - 2.5),
    "waves": (4, waves),
}


@dataclass(frozen=True)
class Cell:
    """One fit: a kind of network with one strength of its penalty on one split of one dataset."""

    dataset: str
    method: str
    seed: int
    gamma: float


@dataclass(frozen=True)
class Method:
    """A kind of network."""

    n_layers: int
    skip: bool = False
    lower_epochs: int | None = 10

    def width(self, n_features: int) -> int:
        """The largest number of neurons in each layer for which there are no more weights than in the shallow one."""
        budget = SHALLOW_WIDTH * (n_features + 2)
        return max(w for w in range(1, SHALLOW_WIDTH + 1) if self.n_weights(n_features, w) <= budget)

    def n_weights(self, n_features: int, width: int) -> int:
        """Weights of all hidden layers, and the output weights of the top one."""
        upper = width + 1 + (n_features if self.skip else 0)
        return width * (n_features + 1) + (self.n_layers - 1) * width * upper + width


METHODS = {
    "shallow": Method(1),
    "2 layers": Method(2),
    "3 layers": Method(3),
    "2, skip": Method(2, skip=True),
    "2, 1 epoch below": Method(2, lower_epochs=1),
    "2, full below": Method(2, lower_epochs=None),
}

Part = tuple[np.ndarray, np.ndarray]


def parts_of(dataset: str, seed: int) -> tuple[Part, Part, Part]:
    """Training, validation and test data."""
    if dataset not in SYNTHETIC:
        X, y = table(dataset)
        X, X_rest, y, y_rest = train_test_split(X, y, test_size=0.4, random_state=seed)
        X_val, X_test, y_val, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=seed)
        return (X, y), (X_val, y_val), (X_test, y_test)
    n_features, target = SYNTHETIC[dataset]
    rng = np.random.default_rng([seed, n_features])
    X = rng.uniform(-1.0, 1.0, size=(sum(SIZES), n_features))
    y = target(X) + NOISE * rng.normal(size=len(X))
    edges = np.cumsum(SIZES)[:-1]
    training, validation, test = zip(np.split(X, edges), np.split(y, edges), strict=True)
    return training, validation, test


def run(cell: Cell) -> Result:
    """Fit, and the mean squared error on each part of the data."""
    method = METHODS[cell.method]
    parts = parts_of(cell.dataset, cell.seed)
    width = method.width(parts[0][0].shape[1])
    model = LayerwiseDCONRegressor(
        (width,) * method.n_layers,
        gamma=cell.gamma,
        skip=method.skip,
        lower_epochs=method.lower_epochs,
        max_epochs=MAX_EPOCHS,
        tol=TOL,
        random_state=cell.seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*parts[0])
    errors = [float(np.mean((y - model.predict(X)) ** 2)) for X, y in parts]
    spread = [float(np.var(y)) for _, y in parts]
    return {name: error / var for name, error, var in zip(PARTS, errors, spread, strict=True)} | {"width": width}


def chosen_fit(store: Store, dataset: str, method: str, seed: int, gammas: tuple[float, ...]) -> Result | None:
    """The fit with the least validation error; None unless all are there."""
    results = [store.read(Cell(dataset, method, seed, gamma)) for gamma in gammas]
    complete = [result for result in results if result is not None]
    return min(complete, key=lambda result: result["validation"]) if len(complete) == len(results) else None


def errors_table(store: Store, chosen: argparse.Namespace, part: str) -> Report:
    """Mean error of every kind of network on every dataset, and over all of them relative to the shallow one."""
    report = Report(
        f"Share of the variance left unexplained in the {part} data, in percent: mean over {chosen.seeds} splits",
        ("dataset", *chosen.methods),
        notes=[
            f"At most as many weights as a shallow network of {SHALLOW_WIDTH} neurons, all layers of one width. gamma "
            f"of {', '.join(f'{gamma:g}' for gamma in chosen.gammas)} with the least validation error. Synthetic: "
            f"{SIZES[0]} rows for training, noise of {NOISE:g}; others: 60 % of the rows.",
        ],
    )
    ratios: dict[str, list[float]] = {method: [] for method in chosen.methods}
    for dataset in chosen.datasets:
        line = []
        for method in chosen.methods:
            fits = [chosen_fit(store, dataset, method, seed, chosen.gammas) for seed in range(chosen.seeds)]
            shallow = [chosen_fit(store, dataset, "shallow", seed, chosen.gammas) for seed in range(chosen.seeds)]
            pairs = [(f[part], s[part]) for f, s in zip(fits, shallow, strict=True) if f is not None and s is not None]
            line.append(f"{100.0 * np.mean([f for f, _ in pairs]):.3g}" if pairs else "-")
            if pairs:
                ratios[method].append(geometric_mean([f / s for f, s in pairs]))
        report.lines.append((dataset, *line))
    means = [f"{geometric_mean(ratios[method]):.3g}" if ratios[method] else "-" for method in chosen.methods]
    report.lines.append(("ratio to shallow", *means))
    return report


def arguments() -> argparse.Namespace:
    names = (*SYNTHETIC, *DATASETS)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=names, metavar="NAME", default=names)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=tuple(METHODS), help="kinds of networks")
    parser.add_argument("--gammas", nargs="+", type=float, default=GAMMAS, metavar="GAMMA", help="what to choose from")
    parser.add_argument("--seeds", type=int, default=3, help="number of splits of each dataset")
    add_pack_option(parser)
    add_run_options(parser, "depth")
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    console = make_console()
    store = Store(chosen.results)
    grid = list(itertools.product(chosen.datasets, chosen.methods, range(chosen.seeds), chosen.gammas))
    cells = [Cell(*fields) for fields in grid]
    if not chosen.report:
        if any(cell.dataset in DATASETS for cell in cells):
            require_data()
        store.compute(cells, run, chosen.jobs, console)
    if chosen.pack:
        store.pack(cells, chosen.pack)
    warning = builds(result for result in map(store.read, cells) if result is not None)
    for part in PARTS:
        report = errors_table(store, chosen, part)
        report.notes += warning
        report.publish(f"depth-{part}", console, chosen.results)


if __name__ == "__main__":
    main()
