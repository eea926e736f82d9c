"""The search by branch and bound over the signs of the neurons, in the kernel."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dconnet._native import SignSearch
from dconnet.optimisation.highs import Answer
from dconnet.optimisation.optimum import OptimumStatus, Progress
from dconnet.optimisation.programme import Programme

# Seconds between two looks at the clock, at Ctrl-C and at the callback.
SLICE = 0.1
# Gaps below this share of the sizes of all parts of the sum are rounding errors.
ROUNDING = 1e-12


def solve_by_branching(
    programme: Programme, rel_gap: float, max_seconds: float | None, watch: Callable[[Progress], bool]
) -> Answer:
    """Maximise by branch and bound; ``watch`` is told of the progress and may end the search."""
    began = time.perf_counter()
    search = _search(programme)
    size = float(np.abs(programme.alpha).sum() + np.abs(programme.slopes).sum())
    while True:
        used = time.perf_counter() - began
        left = SLICE if max_seconds is None else min(SLICE, max_seconds - used)
        if search.run(max(left, 0.0), rel_gap, ROUNDING * size, programme.offset):
            status = OptimumStatus.OPTIMAL if search.has_point else OptimumStatus.INFEASIBLE
            break
        seconds = time.perf_counter() - began
        if max_seconds is not None and seconds >= max_seconds:
            status = OptimumStatus.TIME_LIMIT
            break
        if watch(_progress(search, programme, seconds)):
            status = OptimumStatus.STOPPED
            break
    v = np.array(search.point) if search.has_point else None
    bound = np.nan if status is OptimumStatus.INFEASIBLE else _bound(search, programme)
    return Answer(v, bound, status, search.nodes)


def _search(programme: Programme) -> SignSearch:
    m, n = len(programme.A), programme.n_variables
    return SignSearch(
        np.ascontiguousarray(np.vstack([programme.W, programme.A])),
        np.concatenate([programme.b, np.zeros(m)]),
        np.ascontiguousarray(programme.alpha),
        np.ascontiguousarray(programme.slopes),
        np.concatenate([np.zeros(n), programme.z_low, programme.least]),
        np.concatenate([np.ones(n), programme.z_high, programme.most]),
        np.concatenate([programme.step[:n], np.zeros(len(programme.b)), programme.step[n:]]),
    )


def _bound(search: SignSearch, programme: Programme) -> float:
    """The bound; before the first part is looked at, that of interval arithmetic."""
    widest = programme.slopes.clip(0.0).sum() + (programme.alpha * programme.z_high).clip(0.0).sum()
    return float(programme.offset + min(search.bound, widest))


def _progress(search: SignSearch, programme: Programme, seconds: float) -> Progress:
    value = programme.offset + search.best if search.has_point else np.nan
    return Progress(float(value), _bound(search, programme), search.nodes, search.waiting, seconds)
