"""Speed of the compiled engine: single programmes against other solvers, epochs against the least they could be."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler, scale

from dconnet import Network, Problem
from dconnet.convex.backend import get_backend
from dconnet.training.dc import SPLITS
from dconnet.training.descent import Descent, Options, State
from dconnet.training.initialization import xavier
from dconnet.training.observer import Observer
from dconnet.training.result import Epoch
from neurons import KINDS, N_HIDDEN, Pair, training
from peers import PEERS, TIME_LIMIT
from report import Report, accuracy, duration, ratio
from timing import clock, median_seconds

SIZES = [(300, 6), (1000, 10), (5000, 10), (300, 105), (10_000, 100), (42_000, 100)]

# A peer that needs more seconds than this for one solve sits out what follows.
PATIENCE = 10.0

# Descents that take only milliseconds are measured so often, twice.
REPETITIONS = 5

# A descent that takes more seconds than this is cut, and its whole epochs are told.
BUDGET = 180.0


@dataclass(frozen=True)
class Solve:
    """What one solver needed for one pair of programmes."""

    cold: float  # seconds
    warm: float
    gap: float  # the larger one of both answers
    finished: bool  # whether the solver called both of them solved

    @property
    def longest(self) -> float:
        """Seconds of the slower one."""
        return max(self.cold, self.warm)


def race(peer_name: str, pair: Pair, repetitions: int) -> Solve:
    """Cold and warm solve of one pair."""
    first, second = pair
    peer = PEERS[peer_name]()
    cold_seconds, cold = median_seconds(lambda: peer.cold(first), repetitions, patience=1.0)
    warm_seconds, warm = median_seconds(
        lambda: peer.warm(second), repetitions, between=lambda: peer.cold(first), patience=1.0
    )
    gap = max(cold.relative_gap(first), warm.relative_gap(second))
    return Solve(cold_seconds, warm_seconds, gap, cold.converged and warm.converged)


def programmes(quick: bool) -> Report:
    """Single programmes, cold and warm, against general solvers of quadratic programmes."""
    report = Report(
        "One programme: times as multiples of native",
        ("rows x features", "solution", "solver", "cold", "warm", "gap", "native cold", "native warm"),
        notes=[
            "Medians of the ratios over the instances. Cold: from the numbers to the answer, set-up included. Warm: "
            "the next programme of the same DCA, or a similar one where the solution is zero.",
            "osqp: the paper's form, accuracy 1e-5, no polish. clarabel, piqp: the reduced form, accuracy 1e-9. Gap: "
            f"the largest relative duality gap of all answers; osqp and clarabel are stopped after {TIME_LIMIT:g} s.",
        ],
    )
    slow: dict[str, float] = {}
    for n_rows, n_features in SIZES[:2] if quick else SIZES:
        instances = 1 if quick else min(5, max(2, 2_000_000 // (n_rows * n_features)))
        for kind, make in KINDS.items():
            pairs = list(make(n_rows, n_features, instances))
            for line in lines_of(pairs, slow):
                report.add(f"{n_rows}x{n_features}", kind, *line)
    return report


def lines_of(pairs: list[Pair], slow: dict[str, float]) -> Iterator[tuple[str, ...]]:
    """One line a solver; those that lose patience are noted in ``slow`` and do not start again."""
    native = races("native", pairs)
    for name in PEERS:
        if name in slow:
            yield name, "-", "-", f"left out: took {slow[name]:.0f} s before", "", ""
            continue
        solves = native if name == "native" else races(name, pairs)
        cold, warm = (
            statistics.median(
                getattr(own, kind) / getattr(unit, kind) for own, unit in zip(solves, native, strict=False)
            )
            for kind in ("cold", "warm")
        )
        gap = accuracy(max(own.gap for own in solves)) + ("" if all(own.finished for own in solves) else " unsolved")
        yield name, f"{cold:.3g}", f"{warm:.3g}", gap, *_times(native if name == "native" else [])
        if solves[-1].longest > PATIENCE:
            slow[name] = solves[-1].longest


def races(peer_name: str, pairs: list[Pair]) -> list[Solve]:
    """One solver on all pairs, or on those up to the first that takes too long."""
    solves = []
    for pair in pairs:
        solves.append(race(peer_name, pair, repetitions=5))
        if solves[-1].longest > PATIENCE:
            break
    return solves


def _times(solves: list[Solve]) -> tuple[str, str]:
    if not solves:
        return "", ""
    cold, warm = (statistics.median(getattr(solve, kind) for solve in solves) for kind in ("cold", "warm"))
    return duration(cold), duration(warm)


class Timer(Observer):
    """Notes the end of each epoch."""

    def __init__(self, ends: list[float]) -> None:
        super().__init__()
        self.ends = ends

    def end_epoch(self, state: State) -> bool:
        """Note the time."""
        self.ends.append(clock())
        return False


def descend(
    problem: Problem, start: Network, split: str, epochs: int, *, solver: str = "native"
) -> Iterator[tuple[float, Epoch]]:
    """Seconds and record of each whole epoch of Algorithm 1, the factorisation of the inputs not counted."""
    _ = problem.whitened.Q
    options = Options(split=split, max_epochs=epochs, max_seconds=BUDGET, tol=0.0)
    descent = Descent(problem, get_backend(solver), options, np.random.default_rng(0))
    ends = [clock()]
    solution = descent.run(start, observer=Timer(ends))
    # The time limit may have cut the last one.
    return islice(zip(np.diff(ends), solution.history.epochs[1:], strict=True), solution.n_epochs)


def floor_seconds(problem: Problem) -> float:
    """The least that an epoch can do: for each neuron one product with the design and one with its transpose."""
    Q = problem.whitened.Q
    v, w = np.ones(Q.shape[1]), np.ones(len(Q))
    seconds, _ = median_seconds(lambda: (Q @ v, Q.T @ w), 20, patience=2.0)
    return N_HIDDEN * seconds


def epoch(quick: bool) -> Report:
    """Epochs of Algorithm 1 against the least work that they could be."""
    report = Report(
        f"An epoch of {N_HIDDEN} neurons as a multiple of its floor",
        ("rows x features", "split", "epoch", "time / floor", "programmes", "iterations", "passes / iteration", "time"),
        notes=[
            "Floor: one product with the design and one with its transpose for each neuron (BLAS, one thread). A pass "
            "is such a pair of products, in time.",
            f"The first six epochs, or as many of them as fit into {BUDGET:g} s.",
        ],
    )
    for n_rows, n_features in [(1000, 10)] if quick else [(1000, 10), (42_000, 100)]:
        problem, start = training(n_rows, n_features)
        floor = floor_seconds(problem)
        for split in SPLITS:
            epochs = list(descend(problem, start, split, 6))
            if not epochs:
                report.add(f"{n_rows}x{n_features}", split, 1, "-", "", "", "", f"over {BUDGET:g} s")
            for index, (seconds, record) in enumerate(epochs, start=1):
                passes = seconds / floor * N_HIDDEN
                report.add(
                    f"{n_rows}x{n_features}",
                    split,
                    index,
                    ratio(seconds, floor),
                    record.programmes,
                    record.iterations,
                    f"{passes / max(record.iterations, 1):.2g}",
                    duration(seconds),
                )
    return report


def osqp_epoch(quick: bool) -> Report:
    """The same epochs with the native backend and with OSQP."""
    report = Report(
        f"An epoch on the diabetes data, {N_HIDDEN} neurons: OSQP backend as a multiple of native",
        ("gamma", "split", "epoch", "time osqp / native", "programmes", "RegLoss osqp / native - 1", "native"),
        notes=[
            f"Native: median of {REPETITIONS} descents before and as many after the one with OSQP, which takes seconds "
            "and averages the noise of the machine by itself."
        ],
    )
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X, y = StandardScaler().fit_transform(X), scale(y)
    for gamma in [1e-2] if quick else [1e-3, 1e-2, 1e-1]:
        problem = Problem(X, y, gamma)
        start = xavier(X.shape[1], N_HIDDEN, np.random.default_rng(0))
        for split in ["net"] if quick else SPLITS:
            epochs = 1 if quick else 3
            natives = [list(descend(problem, start, split, epochs)) for _ in range(REPETITIONS)]
            osqp = list(descend(problem, start, split, epochs, solver="osqp"))
            natives += [list(descend(problem, start, split, epochs)) for _ in range(REPETITIONS)]
            for index, ((seconds, theirs), *runs) in enumerate(zip(osqp, *natives, strict=False), start=1):
                unit, ours = statistics.median(seconds for seconds, _ in runs), runs[0][1]
                report.add(
                    gamma,
                    split,
                    index,
                    ratio(seconds, unit),
                    f"{theirs.programmes} / {ours.programmes}",
                    f"{theirs.objective / ours.objective - 1.0:.1e}",
                    duration(unit),
                )
    return report
