"""Speed of the compiled kernel on single convex programmes, against other solvers of quadratic programmes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from dconnet import Problem
from dconnet.convex.native import Native
from dconnet.convex.programme import Programme
from dconnet.model.whitening import Whitening
from dconnet.training.dc import SPLITS, NeuronProblem
from dconnet.training.initialization import xavier
from paper_data import make_regression
from peers import PEERS, TIME_LIMIT
from report import Report, format_seconds

N_HIDDEN, GAMMA = 10, 1e-2
SIZES = [(300, 6), (1000, 10), (5000, 10), (300, 105), (10_000, 100), (42_000, 100)]
MAX_SOLVE_SECONDS = 10.0  # a slower solver is left out of the following, larger sizes

Pair = tuple[Programme, Programme]
T = TypeVar("T")


def make_typical(n_rows: int, n_features: int, instances: int, seed: int = 0) -> Iterator[Pair]:
    """Yield programmes of neurons with a nonzero solution, each with the next programme of its DCA."""
    white = Problem(*make_regression(n_rows, n_features, seed), GAMMA).whitened
    start = xavier(n_features, N_HIDDEN, np.random.default_rng(seed + 1))
    V = white.whiten(start)
    Z = white.preactivations(V)
    solver = Native().prepare(white.Q)
    found = 0
    for unit in range(start.n_hidden):
        betas = SPLITS["net"](white.y, np.maximum(Z, 0.0), start.alpha, unit)
        neuron = NeuronProblem(white.Q, *betas, float(start.alpha[unit]) ** 2, white.gamma)
        first = neuron.majoriser(neuron.not_negative(V[unit], Z[:, unit]))
        v, z = neuron.without_noise(solver.solve(first).v)
        if np.any(z) and found < instances:
            found += 1
            yield first, neuron.majoriser(neuron.not_negative(v, z))


def make_dying(n_rows: int, n_features: int, instances: int, seed: int = 0) -> Iterator[Pair]:
    """Yield programmes with the solution zero, where all rows are at their kink, each with a similar programme."""
    X, _ = make_regression(n_rows, n_features, seed)
    design = Whitening.of(np.column_stack([X, np.ones(n_rows)])).Q
    for instance in range(instances):
        rng = np.random.default_rng((seed, instance))
        slope = rng.uniform(0.5, 2.0, size=n_rows)
        multipliers = slope * rng.uniform(0.2, 0.8, size=n_rows)
        later = multipliers * rng.uniform(0.95, 1.05, size=n_rows)
        first = Programme(design, design.T @ multipliers, slope, 1.0, GAMMA)
        yield first, replace(first, linear=design.T @ later)


KINDS = {"typical": make_typical, "dying": make_dying}


@dataclass(frozen=True)
class Solve:
    """CPU seconds of one solver for one pair of programmes, and the larger duality gap of both solutions."""

    cold: float
    warm: float
    gap: float
    is_solved: bool


def median_seconds(
    call: Callable[[], T], repetitions: int, *, between: Callable[[], object] = lambda: None, max_seconds: float = 5.0
) -> tuple[float, T]:
    """Return the median CPU seconds of several calls, and the last result; start no call after ``max_seconds``.

    ``between`` runs between two calls and is not timed.
    """
    seconds: list[float] = []
    while True:
        began = time.process_time()
        result = call()
        seconds.append(time.process_time() - began)
        if len(seconds) >= repetitions or sum(seconds) > max_seconds:
            return statistics.median(seconds), result
        between()


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
