"""The search by branch and bound over the signs of the neurons, in the kernel."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dconnet._native import SignSearch
from dconnet.optimisation.optimum import OptimumStatus, SearchResult
from dconnet.optimisation.programme import PiecewiseLinearProgramme

# Seconds between two checks of the clock, of Ctrl-C and of the callback.
SLICE = 0.1
# Gaps below this share of the sum of all sizes are rounding errors.
ROUNDING = 1e-12


def solve_by_branching(
    programme: PiecewiseLinearProgramme,
    rel_gap: float,
    deadline: float,
    report: Callable[[float, float, int, int], bool],
) -> SearchResult:
    """Maximise by branch and bound.

    ``report`` receives value, bound, and the numbers of searched and waiting parts; it returns True to stop.
    """
    search = _build_search(programme)
    size = float(np.abs(programme.alpha).sum() + np.abs(programme.slopes).sum())
    # Bound by interval arithmetic, for the time before the first part has been searched.
    interval_bound = programme.slopes.clip(0.0).sum() + (programme.alpha * programme.z_high).clip(0.0).sum()
    while True:
        seconds = max(min(SLICE, deadline - time.perf_counter()), 0.0)
        is_closed = search.run(seconds, rel_gap, ROUNDING * size, programme.offset)
        bound = float(programme.offset + min(search.bound, interval_bound))
        if is_closed:
            status = OptimumStatus.OPTIMAL if search.has_point else OptimumStatus.INFEASIBLE
            break
        if time.perf_counter() >= deadline:
            status = OptimumStatus.TIME_LIMIT
            break
        value = float(programme.offset + search.best) if search.has_point else np.nan
        if report(value, bound, search.nodes, search.waiting):
            status = OptimumStatus.STOPPED
            break
    v = np.array(search.point) if search.has_point else None
    return SearchResult(v, np.nan if status is OptimumStatus.INFEASIBLE else bound, status, search.nodes)


def _build_search(programme: PiecewiseLinearProgramme) -> SignSearch:
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
