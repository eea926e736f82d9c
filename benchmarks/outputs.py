"""One network with several outputs against a network for each of them: loss, test error and time, as ratios.

    python benchmarks/outputs.py [--quick] [part ...]

Every pair is compared within one run on one thread, by seconds of the processor, and the tables are written into
benchmark-output/. Separate networks have either as many neurons each as the shared one, or as many in total. Their
RegLoss is summed in the units of the shared one: targets are standardised once, before any fit.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from timing import ONE_THREAD, timed

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from sklearn.datasets import load_digits, load_linnerud
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from dconnet import DCONClassifier, DCONRegressor
from paper_data import HOME
from report import Report, geometric_mean, make_console
from reproduction.datasets import Choices, load_dataset
from reproduction.datasets.files import is_present
from reproduction.datasets.uci import ALL_LAGS

WIDTHS = (8, 24)
GAMMAS = (0.03, 0.3)
EVALUATIONS = 5_000  # of each network, so that no fit runs for ever
SPLITS = 5


@dataclass(frozen=True)
class Split:
    """Standardised training and test rows of a table with several targets."""

    name: str
    X: np.ndarray
    Y: np.ndarray
    X_test: np.ndarray
    Y_test: np.ndarray

    @classmethod
    def of(cls, name: str, X: np.ndarray, Y: np.ndarray, seed: int) -> Split:
        """A quarter of the rows for the test; the targets in units of the training part."""
        train, test = train_test_split(np.arange(len(X)), test_size=0.25, random_state=seed)
        mean, scale = Y[train].mean(axis=0), Y[train].std(axis=0)
        return cls(name, X[train], (Y[train] - mean) / scale, X[test], (Y[test] - mean) / scale)


def _building() -> tuple[np.ndarray, np.ndarray]:
    """DS6: sales price and construction costs of residential buildings."""
    both = [load_dataset("DS6", HOME, Choices(building_target=t, building_lags=ALL_LAGS)) for t in ("V-9", "V-10")]
    return both[0].X, np.column_stack([part.y for part in both])


def _related(n_rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Six targets, mixed of three functions of the same eight inputs, with noise of their own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 8))
    causes = np.column_stack([np.abs(X[:, 0]) + X[:, 1], np.maximum(X[:, 2], X[:, 3]), X[:, 4] * X[:, 5]])
    return X, causes @ rng.normal(size=(3, 6)) + 0.5 * rng.normal(size=(n_rows, 6))


def _unrelated(n_rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Four targets, each a function of two inputs of its own: there is nothing to share."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 8))
    targets = [np.abs(X[:, 2 * k]) + np.maximum(X[:, 2 * k + 1], 0.0) for k in range(4)]
    return X, np.column_stack(targets) + 0.3 * rng.normal(size=(n_rows, 4))


def _tables() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    if is_present("DS6", HOME):
        yield "DS6, 2 targets", *_building()
    yield "linnerud, 3 targets", *load_linnerud(return_X_y=True)
    yield "related, 6 targets", *_related()
    yield "unrelated, 4 targets", *_unrelated()


def _fitted(split: Split, n_hidden: int, gamma: float, shared: bool) -> tuple[float, float, float]:
    """RegLoss, mean squared test error and seconds, of one network or of one for each target."""
    model = DCONRegressor(n_hidden, gamma=gamma, max_evaluations=EVALUATIONS, random_state=0)
    targets = [split.Y] if shared else list(split.Y.T)

    def fit() -> list[DCONRegressor]:
        return [DCONRegressor(**model.get_params()).fit(split.X, y) for y in targets]

    seconds, models = timed(fit)
    said = models[0].predict(split.X_test) if shared else np.column_stack([m.predict(split.X_test) for m in models])
    return sum(m.objective_ for m in models), float(np.mean((said - split.Y_test) ** 2)), seconds


def regression(quick: bool) -> Report:
    """Shared over separate networks: RegLoss, test error and time."""
    report = Report(
        "One network with several outputs over separate networks (geometric means of ratios)",
        ("table", "neurons", "gamma", "separate: neurons each", "RegLoss", "test error", "time"),
    )
    for name, X, Y in _tables():
        rows = slice(0, 80 if quick else None)
        splits = [Split.of(name, X[rows], Y[rows], seed) for seed in range(1 if quick else SPLITS)]
        for width in WIDTHS[:1] if quick else WIDTHS:
            for gamma in GAMMAS:
                own = [_fitted(split, width, gamma, shared=True) for split in splits]
                for each in dict.fromkeys((width, max(1, width // Y.shape[1]))):
                    others = [_fitted(split, each, gamma, shared=False) for split in splits]
                    ratios = np.array(own) / np.array(others)
                    report.add(name, width, gamma, each, *(f"{geometric_mean(column):.3f}" for column in ratios.T))
    return report


def digits(quick: bool) -> Report:
    """Ten classes that share a network, over one against the rest."""
    report = Report(
        "Digits, ten classes: one network for all over one for each",
        ("rows", "neurons", "one-vs-rest: neurons each", "accuracy shared", "one-vs-rest", "time"),
    )
    X, y = load_digits(return_X_y=True)
    if quick:
        X, y = X[:300], y[:300]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
    options = {"gamma": 0.3, "max_evaluations": 200 if quick else 2_000, "random_state": 0}
    for width in (10,) if quick else (20, 40):
        own_seconds, own = timed(partial(DCONClassifier(width, multi_class="shared", **options).fit, X, y))
        for each in (width, max(1, width // 10)):
            seconds, other = timed(partial(DCONClassifier(each, **options).fit, X, y))
            accuracies = (f"{model.score(X_test, y_test):.3f}" for model in (own, other))
            report.add(len(X), width, each, *accuracies, f"{own_seconds / seconds:.2f}")
    return report


PARTS: dict[str, Callable[[bool], Report]] = {"regression": regression, "digits": digits}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"one or more of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="few rows and one split")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown part: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    warnings.simplefilter("ignore", ConvergenceWarning)  # the budget of evaluations ends the fits
    console = make_console()
    for name in arguments.parts or PARTS:
        PARTS[name](arguments.quick).publish(f"outputs-{name}{'-quick' if arguments.quick else ''}", console)


if __name__ == "__main__":
    main()
