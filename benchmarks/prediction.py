"""Test error on the paper's datasets, with the regularisation chosen on a validation set.

    python benchmarks/prediction.py [--datasets DS1 ...] [--hidden 10] [--splits 10] [--jobs 2] [--report]
                                    [--pack FILE]

Every fit is kept in a file of its own, so that a run can be stopped at any time and goes on with the same command.
Time is that of the clock on the wall: --jobs must not exceed the number of free cores.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from cells import Result, Store, add_pack_option, add_run_options, builds
from contests import Contest, Scoreboard, TimeUp
from dconnet import DCONRegressor, Problem
from paper_data import DATASETS, require_data, table
from report import Report, geometric_mean, make_console
from reproduction.datasets import Parts, split_rows
from rivals import Objective, joined, lbfgs

GAMMAS = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
RIDGE_STRENGTHS = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)


@dataclass(frozen=True)
class Cell:
    """One fit: a method with one strength of its penalty on one split of one dataset."""

    dataset: str
    split: int
    method: str
    n_hidden: int
    strength: float
    max_seconds: float


def parts_of(dataset: str, split: int) -> Parts:
    """The split of this number."""
    X, y = table(dataset)
    training, validation, test = ((X[rows], y[rows]) for rows in split_rows(len(y), split))
    return Parts(training, validation, test)


Predictor = Callable[[np.ndarray], np.ndarray]


def contest_of(cell: Cell, parts: Parts) -> Contest:
    """The training problem with the scaled start that all networks of a split share."""
    return Contest.on(Problem(*parts.training, cell.strength), cell.n_hidden, cell.split, (cell.max_seconds,))


def by_dcon(algorithm: str, shrinkage: float = 0.0) -> Callable[[Cell, Parts], Predictor]:
    """The estimator with its defaults but for the start, the limit of time and the shrinkage."""

    def fit(cell: Cell, parts: Parts) -> Predictor:
        model = DCONRegressor(
            cell.n_hidden,
            gamma=cell.strength,
            scale=False,
            shrinkage=shrinkage,
            algorithm=algorithm,
            max_seconds=cell.max_seconds,
            init=contest_of(cell, parts).start,
            random_state=cell.split,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(*parts.training).predict

    return fit


def by_lbfgs(cell: Cell, parts: Parts) -> Predictor:
    """SciPy's L-BFGS-B, one run from the start."""
    contest = contest_of(cell, parts)
    objective = Objective(contest.white, cell.n_hidden)
    theta = joined(contest.V, contest.alpha)
    board = Scoreboard(contest.marks, np.inf)
    best = theta.copy()

    def observed(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(theta)
        if value < board.best:
            best[:] = theta
        board.see(value)
        return value, gradient

    with suppress(TimeUp):
        lbfgs(observed, theta)
    return contest.white.network(*objective.split(best)).predict


def by_ridge(cell: Cell, parts: Parts) -> Predictor:
    """A linear model with an intercept."""
    return Ridge(alpha=cell.strength).fit(*parts.training).predict


METHODS: dict[str, Callable[[Cell, Parts], Predictor]] = {
    "accelerated": by_dcon("accelerated"),
    "shrinkage-0.1": by_dcon("accelerated", shrinkage=0.1),
    "shrinkage-1": by_dcon("accelerated", shrinkage=1.0),
    "paper": by_dcon("paper"),
    "lbfgs": by_lbfgs,
    "ridge": by_ridge,
}


def run(cell: Cell) -> Result:
    """Fit, and the mean squared error on the data that were set aside."""
    parts = parts_of(cell.dataset, cell.split)
    began = time.perf_counter()
    predict = METHODS[cell.method](cell, parts)
    seconds = time.perf_counter() - began
    errors = {
        name: float(np.mean((y - predict(X)) ** 2))
        for name, (X, y) in (("validation", parts.validation), ("test", parts.test))
    }
    return errors | {"seconds": seconds}


def strengths(method: str, chosen: argparse.Namespace) -> tuple[float, ...]:
    """The penalties that a method chooses from."""
    return RIDGE_STRENGTHS if method == "ridge" else tuple(chosen.gammas)


def candidates(chosen: argparse.Namespace, n_hidden: int, dataset: str, split: int, method: str) -> list[Cell]:
    """The fits of which the validation set chooses one."""
    neurons = 0 if method == "ridge" else n_hidden
    return [Cell(dataset, split, method, neurons, s, chosen.max_seconds) for s in strengths(method, chosen)]


@dataclass(frozen=True)
class Scores:
    """Test errors of the chosen fits: for every method and dataset those of the splits that are complete."""

    errors: dict[tuple[str, str], dict[int, float]]
    builds: list[str]

    @classmethod
    def of(cls, store: Store, chosen: argparse.Namespace, n_hidden: int) -> Scores:
        """Choose by the validation error."""
        errors: dict[tuple[str, str], dict[int, float]] = {}
        seen = []
        for method, dataset, split in itertools.product(chosen.methods, chosen.datasets, range(chosen.splits)):
            found = [store.read(cell) for cell in candidates(chosen, n_hidden, dataset, split, method)]
            results = [result for result in found if result is not None]
            if len(results) == len(found):
                best = min(results, key=lambda result: result["validation"])
                errors.setdefault((method, dataset), {})[split] = best["test"]
                seen += results
        return cls(errors, builds(seen))

    def mean_and_spread(self, method: str, dataset: str) -> str:
        """Mean and standard deviation over the splits, in thousandths."""
        found = 1e3 * np.array(list(self.errors.get((method, dataset), {}).values()))
        if not len(found):
            return "-"
        return f"{found.mean():.3g} ({found.std(ddof=1):.2g})" if len(found) > 1 else f"{found.mean():.3g}"

    def log_ratios(self, other: str, datasets: tuple[str, ...]) -> Iterator[np.ndarray]:
        """For each dataset the logarithms of our test error over that of the other, on the splits that both have."""
        for dataset in datasets:
            ours, theirs = (self.errors.get((method, dataset), {}) for method in ("accelerated", other))
            common = sorted(ours.keys() & theirs.keys())
            if common:
                yield np.log([ours[split] / theirs[split] for split in common])


def table_of_errors(scores: Scores, chosen: argparse.Namespace, n_hidden: int) -> Report:
    """Mean and standard deviation for every dataset and method."""
    report = Report(
        f"Test MSE in thousandths, {n_hidden} neurons: mean (standard deviation) over {chosen.splits} splits",
        ("dataset", *chosen.methods),
        notes=[
            "Features and targets scaled as in the paper; 80 % training, 10 % validation, 10 % test. The strength of "
            f"the penalty with the least validation error: {_listed(chosen.gammas)} for the networks, "
            f"{_listed(RIDGE_STRENGTHS)} for ridge regression. No fit is repeated on more data after the choice.",
            f"All networks from the same scaled Xavier start, at most {chosen.max_seconds:g} s a fit. lbfgs: SciPy's "
            "L-BFGS-B, one run.",
            *scores.builds,
        ],
    )
    for dataset in chosen.datasets:
        report.lines.append((dataset, *(scores.mean_and_spread(method, dataset) for method in chosen.methods)))
    return report


def _listed(numbers: tuple[float, ...]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def comparisons(scores: Scores, chosen: argparse.Namespace, n_hidden: int) -> Report:
    """The accelerated algorithm against each other method."""
    report = Report(
        f"Test MSE of the accelerated algorithm over that of others, {n_hidden} neurons",
        ("against", "pairs", "lower / higher", "ratio", "95 % interval", "datasets", "t", "p"),
        notes=[
            "Pairs: datasets times splits, of which the test error is lower or higher. Ratio: exp of the mean log "
            "ratio, averaged over the splits of each dataset first. Interval and p: a paired t-test, two-sided, whose "
            "observations are these averages, one a dataset; splits of one dataset share rows and are not independent."
        ],
    )
    for method in chosen.methods:
        groups = [] if method == "accelerated" else list(scores.log_ratios(method, chosen.datasets))
        if groups:
            report.lines.append((method, *_paired(groups)))
    return report


def _paired(groups: list[np.ndarray]) -> tuple[str, ...]:
    pairs = np.concatenate(groups)
    means = [float(np.mean(group)) for group in groups]
    head = (str(len(pairs)), f"{np.sum(pairs < 0)} / {np.sum(pairs > 0)}", f"{geometric_mean(np.exp(means)):.3f}")
    if len(means) < 2:
        return *head, "-", str(len(means)), "-", "-"
    test = stats.ttest_1samp(means, 0.0)
    low, high = np.exp(test.confidence_interval(0.95))
    return *head, f"{low:.3f} to {high:.3f}", str(len(means)), f"{test.statistic:.2f}", f"{test.pvalue:.2g}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, metavar="NAME", default=DATASETS)
    parser.add_argument("--hidden", nargs="+", type=int, default=(10,), metavar="N", help="numbers of neurons")
    parser.add_argument("--gammas", nargs="+", type=float, default=GAMMAS, metavar="GAMMA", help="what to choose from")
    parser.add_argument("--splits", type=int, default=10, help="number of splits of each dataset")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=tuple(METHODS), help="who predicts")
    parser.add_argument("--max-seconds", type=float, default=5.0, help="limit for one fit")
    add_pack_option(parser)
    add_run_options(parser, "prediction")
    return parser.parse_args()


def main() -> None:
    chosen = arguments()
    console = make_console()
    store = Store(chosen.results)
    fits = itertools.product(chosen.hidden, chosen.datasets, range(chosen.splits), chosen.methods)
    cells = dict.fromkeys(cell for fit in fits for cell in candidates(chosen, *fit))
    if not chosen.report:
        require_data()
        store.compute(cells, run, chosen.jobs, console)
    if chosen.pack:
        store.pack(cells, chosen.pack)
    for n_hidden in chosen.hidden:
        scores = Scores.of(store, chosen, n_hidden)
        table_of_errors(scores, chosen, n_hidden).publish(f"prediction-{n_hidden}", console, chosen.results)
        comparisons(scores, chosen, n_hidden).publish(f"comparisons-{n_hidden}", console, chosen.results)


if __name__ == "__main__":
    main()
