"""Speed of the compiled kernel: single programmes against other solvers, epochs against the least possible work."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler, scale

from dconnet import Network, Problem
from dconnet.convex.programme import get_backend
from dconnet.training.dc import SPLITS
from dconnet.training.descent import Descent, Options, State
from dconnet.training.initialization import xavier
from dconnet.training.observer import Observer
from dconnet.training.result import Epoch
from neurons import KINDS, N_HIDDEN, Pair, make_problem
from peers import PEERS, TIME_LIMIT
from report import Report, format_seconds
from timing import median_seconds

SIZES = [(300, 6), (1000, 10), (5000, 10), (300, 105), (10_000, 100), (42_000, 100)]
MAX_SOLVE_SECONDS = 10.0  # a slower solver is left out of the following, larger sizes
REPETITIONS = 5  # of descents that take milliseconds, before and after the slow one
MAX_DESCENT_SECONDS = 180.0


@dataclass(frozen=True)
class Solve:
    """CPU seconds of one solver for one pair of programmes, and the larger duality gap of both solutions."""

    cold: float
    warm: float
    gap: float
    is_solved: bool


def measure_solver(name: str, pairs: list[Pair]) -> list[Solve]:
    """Solve the pairs in order, up to the first that takes too long."""
    solves = []
    for first, second in pairs:
        peer = PEERS[name]()
        cold, start = median_seconds(lambda: peer.cold(first), 5, max_seconds=1.0)  # noqa: B023
        warm, end = median_seconds(
            lambda: peer.warm(second),  # noqa: B023
            5,
            between=lambda: peer.cold(first),  # noqa: B023
            max_seconds=1.0,
        )
        gap = max(start.relative_gap(first), end.relative_gap(second))
        solves.append(Solve(cold, warm, gap, start.converged and end.converged))
        if max(cold, warm) > MAX_SOLVE_SECONDS:
            break
    return solves


def report_programmes(quick: bool) -> Report:
    """Measure single programmes, cold and warm, against general solvers of quadratic programmes."""
    report = Report(
        "One programme: times as multiples of native",
        ("rows x features", "solution", "solver", "cold", "warm", "gap", "native cold", "native warm"),
        notes=[
            "Medians of the ratios over the instances. Cold: from scratch, set-up included. Warm: the next programme "
            "of the same DCA, or a similar one where the solution is zero.",
            "osqp: the paper's form, accuracy 1e-5, no polish. clarabel, piqp: the reduced form, accuracy 1e-9. Gap: "
            f"the largest relative duality gap; osqp and clarabel are stopped after {TIME_LIMIT:g} s.",
        ],
    )
    slow: dict[str, float] = {}
    for n_rows, n_features in SIZES[:2] if quick else SIZES:
        n_instances = 1 if quick else min(5, max(2, 2_000_000 // (n_rows * n_features)))
        for kind, make_pairs in KINDS.items():
            for line in compare_solvers(list(make_pairs(n_rows, n_features, n_instances)), slow):
                report.add(f"{n_rows}x{n_features}", kind, *line)
    return report


def compare_solvers(pairs: list[Pair], slow: dict[str, float]) -> Iterator[tuple[str, ...]]:
    """Yield one line per solver; add solvers that take too long to ``slow`` and skip those in it."""
    native = measure_solver("native", pairs)
    for name in PEERS:
        if name in slow:
            yield name, "-", "-", f"left out: took {slow[name]:.0f} s before", "", ""
            continue
        solves = native if name == "native" else measure_solver(name, pairs)
        both = list(zip(solves, native, strict=False))
        cold = statistics.median(own.cold / unit.cold for own, unit in both)
        warm = statistics.median(own.warm / unit.warm for own, unit in both)
        gap = f"{max(0.0, *(own.gap for own in solves)):.0e}"
        gap += "" if all(own.is_solved for own in solves) else " unsolved"
        times = ("", "")
        if name == "native":
            medians = (statistics.median(getattr(one, kind) for one in native) for kind in ("cold", "warm"))
            times = tuple(map(format_seconds, medians))
        yield name, f"{cold:.3g}", f"{warm:.3g}", gap, *times
        longest = max(solves[-1].cold, solves[-1].warm)
        if longest > MAX_SOLVE_SECONDS:
            slow[name] = longest


class Timer(Observer):
    """Records the CPU time at the end of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = [time.process_time()]

    def end_epoch(self, state: State) -> bool:
        """Record the time, and let the descent continue."""
        self.ends.append(time.process_time())
        return False


def measure_epochs(
    problem: Problem, start: Network, split: str, n_epochs: int, *, solver: str = "native"
) -> Iterator[tuple[float, Epoch]]:
    """Yield CPU seconds and record of each whole epoch of Algorithm 1, without the factorisation of the inputs."""
    _ = problem.whitened.Q
    options = Options(split=split, max_epochs=n_epochs, max_seconds=MAX_DESCENT_SECONDS, tol=0.0)
    descent = Descent(problem, get_backend(solver), options, np.random.default_rng(0))
    timer = Timer()
    solution = descent.run(start, observer=timer)
    # The time limit may have cut the last epoch.
    return islice(zip(np.diff(timer.ends), solution.history.epochs[1:], strict=True), solution.n_epochs)


def report_epochs(quick: bool) -> Report:
    """Measure epochs of Algorithm 1 against the least possible work."""
    report = Report(
        f"An epoch of {N_HIDDEN} neurons as a multiple of its floor",
        ("rows x features", "split", "epoch", "time / floor", "programmes", "iterations", "passes / iteration", "time"),
        notes=[
            "Floor: one product with the design and one with its transpose for each neuron (BLAS, one thread). A pass "
            "is such a pair of products, in time.",
            f"The first six epochs, or those that end within {MAX_DESCENT_SECONDS:g} s.",
        ],
    )
    for n_rows, n_features in [(1000, 10)] if quick else [(1000, 10), (42_000, 100)]:
        problem, start = make_problem(n_rows, n_features)
        Q = problem.whitened.Q
        v, w = np.ones(Q.shape[1]), np.ones(len(Q))
        unit, _ = median_seconds(lambda: (Q @ v, Q.T @ w), 20, max_seconds=2.0)  # noqa: B023
        for split in SPLITS:
            epochs = list(measure_epochs(problem, start, split, 6))
            if not epochs:
                report.add(f"{n_rows}x{n_features}", split, 1, "-", "", "", "", f"over {MAX_DESCENT_SECONDS:g} s")
            for index, (seconds, record) in enumerate(epochs, start=1):
                passes = f"{seconds / unit / max(record.iterations, 1):.2g}"
                figures = (f"{seconds / unit / N_HIDDEN:.3g}", record.programmes, record.iterations, passes)
                report.add(f"{n_rows}x{n_features}", split, index, *figures, format_seconds(seconds))
    return report


def report_osqp_epochs(quick: bool) -> Report:
    """Measure the same epochs with the native backend and with OSQP."""
    report = Report(
        f"An epoch on the diabetes data, {N_HIDDEN} neurons: OSQP backend as a multiple of native",
        ("gamma", "split", "epoch", "time osqp / native", "programmes", "RegLoss osqp / native - 1", "native"),
        notes=[f"Native: median of {REPETITIONS} descents before and {REPETITIONS} after the descent with OSQP."],
    )
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X, y = StandardScaler().fit_transform(X), scale(y)
    n_epochs = 1 if quick else 3
    for gamma in [1e-2] if quick else [1e-3, 1e-2, 1e-1]:
        problem = Problem(X, y, gamma)
        start = xavier(X.shape[1], N_HIDDEN, np.random.default_rng(0))
        for split in ["net"] if quick else SPLITS:
            natives = [list(measure_epochs(problem, start, split, n_epochs)) for _ in range(REPETITIONS)]
            osqp = list(measure_epochs(problem, start, split, n_epochs, solver="osqp"))
            natives += [list(measure_epochs(problem, start, split, n_epochs)) for _ in range(REPETITIONS)]
            for index, ((seconds, theirs), *runs) in enumerate(zip(osqp, *natives, strict=False), start=1):
                unit, ours = statistics.median(seconds for seconds, _ in runs), runs[0][1]
                programmes = f"{theirs.programmes} / {ours.programmes}"
                difference = f"{theirs.objective / ours.objective - 1.0:.1e}"
                report.add(gamma, split, index, f"{seconds / unit:.3g}", programmes, difference, format_seconds(unit))
    return report
