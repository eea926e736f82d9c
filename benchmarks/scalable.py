"""The paper's solvers for many rows: ADMM with the thin decomposition, and batches that agree in rounds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec

from dconnet.convex.admm import ADMM
from dconnet.convex.native import Native
from dconnet.convex.parallel import AUGMENTED_LAGRANGIAN, PENALTY, Parallel
from dconnet.convex.programme import Programme
from neurons import typical
from report import Report, accuracy, duration, ratio
from timing import median_seconds

ADMM_SIZES = [(1000, 100), (5000, 100), (10_000, 100), (42_000, 100)]
PARALLEL_SIZES = [(1000, 10), (5000, 10), (1000, 50)]
TOLERANCES = [1e-2, 1e-3, 1e-4, 1e-9]

# Rounds after which a method sits out the finer tolerances.
MOST_ROUNDS = 3000


def _megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:,.3g} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:,.3g} GB"


def peak_bytes(backend: ADMM, programme: Programme) -> int:
    """What the backend holds at most while it solves: the design, and all that it makes itself."""
    backend = replace(backend, max_iter=10)  # every iteration needs the same
    tracemalloc.start()
    try:
        backend.prepare(programme.design).solve(programme)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return programme.design.nbytes + peak


def admm(quick: bool) -> Report:
    """Memory, time for an iteration and time to tolerance, beside the native solver."""
    report = Report(
        "ADMM on one programme, cold; times as multiples of the native solver's",
        ("rows x features", "settings", "peak memory", "m x m form", "iterations", "time / native", "iteration", "gap"),
        notes=[
            "Peak memory: the design and all that the backend makes. m x m form: V alone, 8 m² bytes, computed. "
            "Native closes the gap to rounding."
        ],
    )
    settings = {"default": ADMM(), "tol=1e-5": ADMM(tol=1e-5, max_iter=10_000)}
    if find_spec("torch"):
        settings["default, torch on the CPU"] = ADMM(device="cpu")
    for n_rows, n_features in ADMM_SIZES[:2] if quick else ADMM_SIZES:
        programme, _ = next(typical(n_rows, n_features, 1))
        native, _ = median_seconds(lambda p=programme: Native().prepare(p.design).solve(p), 5)
        for name, backend in settings.items():
            solver = backend.prepare(programme.design)
            seconds, answer = median_seconds(lambda s=solver, p=programme: s.solve(p), 3)
            on_numpy = backend.device is None  # torch's memory is not Python's
            report.add(
                f"{n_rows}x{n_features}",
                name,
                _megabytes(peak_bytes(backend, programme)) if on_numpy else "-",
                _megabytes(8.0 * n_rows**2) if on_numpy else "-",
                f"{answer.iterations}{'' if answer.converged else ' (limit)'}",
                ratio(seconds, native),
                duration(seconds / answer.iterations),
                accuracy(answer.relative_gap(programme)),
            )
    return report


def rounds(programme: Programme, n_batches: int, method: str) -> Iterator[str]:
    """How many rounds a method needs for one tolerance after the other."""
    given_up = False
    for tol in TOLERANCES:
        if given_up:
            yield f"> {MOST_ROUNDS}"
            continue
        backend = Parallel(n_batches, method, tol=tol, max_iter=MOST_ROUNDS)
        answer = backend.prepare(programme.design).solve(programme)
        given_up = not answer.converged
        yield f"> {MOST_ROUNDS}" if given_up else str(answer.iterations)


def parallel(quick: bool) -> Report:
    """Rounds of the penalty method and of the augmented Lagrangian to the same residuals."""
    report = Report(
        "Rounds of the parallel solver to the same residuals",
        ("rows x features", "batches", "method", *(f"{tol:g}" for tol in TOLERANCES)),
        notes=["In a round every batch solves its programme once. The residuals bound the optimality conditions."],
    )
    for n_rows, n_features in PARALLEL_SIZES[:1] if quick else PARALLEL_SIZES:
        programme, _ = next(typical(n_rows, n_features, 1))
        for n_batches in (2, 8):
            for method in (PENALTY, AUGMENTED_LAGRANGIAN):
                report.add(f"{n_rows}x{n_features}", n_batches, method, *rounds(programme, n_batches, method))
    return report
