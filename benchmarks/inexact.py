"""Inexact against exact DCA: on the same programmes, and from the same start to the same RegLoss.

Two fits that differ in one step soon differ in all, and may end in different minima. What a fit takes to a RegLoss that
both reach is therefore told as a mean over many starts, beside what the very same programmes take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from dconnet import Network, Problem
from dconnet.convex.backend import Backend, ConvexSolution, Enough, InexactSolver, get_backend
from dconnet.convex.programme import Programme
from dconnet.training.dc import SPLITS
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.result import History
from neurons import N_HIDDEN, regression
from report import Report, geometric_mean
from timing import timed

DATA = {"native": ["diabetes", (300, 6), (1000, 10), (5000, 10)], "reference": ["diabetes"]}
GAMMAS = (1e-1, 1e-2, 1e-3)
EPOCHS = 20


@dataclass
class Twice:
    """A backend that solves every programme exactly, and counts what an inexact answer from the same start takes."""

    inner: Backend
    exact: int = 0
    inexact: int = 0

    def prepare(self, design: np.ndarray) -> Twice:
        """Prepare the backend behind it."""
        solver = self.inner.prepare(design)
        assert isinstance(solver, InexactSolver)
        self.solver = solver
        return self

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """The exact answer."""
        answer = self.solver.solve(programme, start)
        # Without a start, the one that the DCA improves on is not known here: the first programme is left out.
        if start is not None:
            self.exact += answer.iterations
            self.inexact += self.solver.solve_until(programme, start, Enough(programme.value(start.v))).iterations
        return answer


def examples(data: str | tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's diabetes data, standardised, or random data of this size."""
    if data == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        return scale(X), scale(y)
    return regression(*data)


def starts(X: np.ndarray, y: np.ndarray, seeds: int) -> Iterator[tuple[Problem, Network, int]]:
    """Problems of every gamma, and a Xavier start of every seed."""
    for gamma in GAMMAS:
        problem = Problem(X, y, gamma)
        for seed in range(seeds):
            yield problem, xavier(X.shape[1], N_HIDDEN, np.random.default_rng(seed)), seed


def fitted(problem: Problem, start: Network, seed: int, backend: Backend, options: Options) -> tuple[float, History]:
    """Seconds of a descent, and its history."""
    descent = Descent(problem, backend, options, np.random.default_rng(seed))
    seconds, solution = timed(lambda: descent.run(start))
    return seconds, solution.history


def until(history: History, level: float, name: str) -> float:
    """What was counted up to the first epoch at this RegLoss."""
    epoch = int(np.argmax(history.objective <= level))
    return float(history.column(name)[: epoch + 1].sum())


def compared(data: str | tuple[int, int], backend: Backend, split: str, seeds: int) -> list[float]:
    """Geometric means of inexact over exact, in the order of the columns of the report."""
    options = Options(split=split, max_epochs=EPOCHS, tol=0.0)
    ratios: list[tuple[float, ...]] = []
    for problem, start, seed in starts(*examples(data), seeds):
        twice = Twice(backend)
        fitted(problem, start, seed, twice, replace(options, max_epochs=5))
        exact_seconds, exact = fitted(problem, start, seed, backend, options)
        seconds, inexact = fitted(problem, start, seed, backend, replace(options, inexact=True))
        level = max(exact.objective[-1], inexact.objective[-1])
        counts = [until(inexact, level, name) / until(exact, level, name) for name in ("programmes", "iterations")]
        last = inexact.objective[-1] / exact.objective[-1]
        ratios.append((twice.inexact / max(twice.exact, 1), *counts, seconds / exact_seconds, last))
    return [geometric_mean(column) for column in zip(*ratios, strict=True)]


def inexact(quick: bool) -> Report:
    """Inexact over exact DCA, Algorithm 1."""
    seeds = 1 if quick else 3
    report = Report(
        "Inexact DCA over exact DCA: geometric means of ratios, below one the inexact needs less",
        (
            *("data", "solver", "split", "iterations on the same programmes"),
            *("programmes to the same RegLoss", "iterations to it", "time of all epochs", "RegLoss then"),
        ),
    )
    for solver, sets in DATA.items():
        for data in sets[:1] if quick else sets:
            for split in SPLITS:
                means = compared(data, get_backend(solver), split, seeds)
                name = data if isinstance(data, str) else f"{data[0]}x{data[1]}"
                report.add(name, solver, split, *(f"{mean:.2f}" for mean in means))
    report.notes.append(
        f"{len(GAMMAS)} gammas, {seeds} starts each, {EPOCHS} epochs; the same RegLoss is the higher one of both ends."
    )
    return report
