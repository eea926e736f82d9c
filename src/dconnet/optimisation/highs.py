"""The search by SciPy's HiGHS, as a mixed-integer linear programme."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from dconnet._arrays import FloatArray
from dconnet.optimisation.optimum import OptimumStatus, SearchResult
from dconnet.optimisation.programme import PiecewiseLinearProgramme


def solve_with_highs(programme: PiecewiseLinearProgramme, rel_gap: float, deadline: float) -> SearchResult:
    """Maximise by HiGHS: tighter bounds by linear programmes, the mixed-integer programme, and a last linear one."""
    z_low, z_high = _tighten_bounds(programme, deadline)
    problem = _MixedIntegerProgramme(programme, z_low, z_high)
    limit = {} if deadline == np.inf else {"time_limit": max(deadline - time.perf_counter(), 1e-3)}
    found = problem.solve(problem.low, problem.high, problem.integrality, {"mip_rel_gap": rel_gap} | limit)
    nodes = int(found.mip_node_count or 0)
    if found.status == 2:
        return SearchResult(None, np.nan, OptimumStatus.INFEASIBLE, nodes)
    relaxed = programme.offset + programme.slopes.clip(0.0).sum() + (programme.alpha * z_high).clip(0.0).sum()
    bound = relaxed if found.mip_dual_bound is None else min(relaxed, programme.offset - found.mip_dual_bound)
    # All other codes of HiGHS mean numerical trouble.
    ends = {0: OptimumStatus.OPTIMAL, 1: OptimumStatus.TIME_LIMIT}
    v = None if found.x is None else problem.improve_on_piece(found.x[: programme.n_variables])
    return SearchResult(v, float(bound), ends.get(found.status, OptimumStatus.INEXACT), nodes)


class _MixedIntegerProgramme:
    """Variables: v, the activations s_l, a binary for every neuron with alpha_l > 0, and integers of rows."""

    def __init__(self, programme: PiecewiseLinearProgramme, z_low: FloatArray, z_high: FloatArray) -> None:
        n, h = programme.n_variables, len(programme.b)
        convex = np.flatnonzero(programme.alpha > 0.0)
        concave = np.flatnonzero(programme.alpha < 0.0)
        grid = np.flatnonzero(programme.step[n:])
        p, q = len(convex), len(grid)
        W, b = programme.W, programme.b
        one, on_grid = np.eye(h), np.diag(programme.step[n:])[:, grid]
        m = len(programme.A)

        def block(of_v: FloatArray, of_s: FloatArray, of_d: FloatArray, of_k: FloatArray) -> FloatArray:
            return np.hstack([of_v, of_s, of_d, of_k])

        rows = np.vstack(
            [
                # s_l >= z_l: nothing more is needed for alpha_l < 0, since a smaller s_l is better
                block(-W[concave], one[concave], np.zeros((h - p, p)), np.zeros((h - p, q))),
                # s_l <= z_high d_l and s_l <= z_l - z_low (1 - d_l)
                block(np.zeros((p, n)), one[convex], -np.diag(z_high[convex]), np.zeros((p, q))),
                block(-W[convex], one[convex], -np.diag(z_low[convex]), np.zeros((p, q))),
                block(programme.A, np.zeros((m, h)), np.zeros((m, p)), np.zeros((m, q))),
                block(programme.A, np.zeros((m, h)), np.zeros((m, p)), -on_grid)[grid],
            ]
        )
        least = np.concatenate([b[concave], np.full(2 * p, -np.inf), programme.least, np.zeros(q)])
        most = np.concatenate([np.full(h - p, np.inf), np.zeros(p), (b - z_low)[convex], programme.most, np.zeros(q)])
        # An integer input counts steps itself, so that its unit is one.
        scale = np.ones(n + h + p + q)
        scale[:n] = np.where(programme.step[:n] > 0.0, programme.step[:n], 1.0)
        whole = np.concatenate([programme.step[:n] > 0.0, np.zeros(h), np.ones(p + q)])
        high = np.concatenate([np.ones(n), np.maximum(z_high, 0.0), np.ones(p), np.full(q, np.inf)]) / scale
        high[:n] = np.where(programme.step[:n] > 0.0, np.round(high[:n]), high[:n])
        cost = -np.concatenate([programme.slopes, programme.alpha, np.zeros(p + q)])
        self.low, self.high = np.concatenate([np.zeros(n + h + p), np.full(q, -np.inf)]), high
        self.integrality = whole.astype(np.int64)
        self.programme, self.cost, self.scale = programme, cost * scale, scale
        self.constraints = LinearConstraint(rows * scale, least, most) if len(rows) else ()

    def improve_on_piece(self, v: FloatArray) -> FloatArray:
        """Return the best point of the linear piece that contains v, free of the tolerance on the binaries."""
        programme = self.programme
        n, h = programme.n_variables, len(programme.b)
        if programme.step[n:].any():
            return v
        whole, convex = programme.step[:n] > 0.0, programme.alpha > 0.0
        low, high = self.low.copy(), self.high.copy()
        binaries = slice(n + h, n + h + int(convex.sum()))
        low[binaries] = high[binaries] = (programme.W @ v + programme.b > 0.0)[convex]
        low[:n][whole] = high[:n][whole] = np.round(v / self.scale[:n])[whole]
        found = self.solve(low, high, None, {})
        # v may have a larger value, because it may violate constraints by the tolerance.
        return np.asarray(v if found.x is None else found.x[:n], dtype=np.float64)

    def solve(
        self, low: FloatArray, high: FloatArray, integrality: NDArray[np.int64] | None, options: Any
    ) -> OptimizeResult:
        """Return the optimum between these bounds, in the variables of the programme."""
        # The tolerances of HiGHS are absolute: an objective in small units would be below them.
        unit = float(np.abs(self.cost).max(initial=0.0)) or 1.0
        found = milp(
            self.cost / unit,
            integrality=integrality,
            bounds=Bounds(low, high),
            constraints=self.constraints,
            options=options,
        )
        if found.x is not None:
            found.x = found.x * self.scale
        if found.mip_dual_bound is not None:
            found.mip_dual_bound *= unit
        return found


def _tighten_bounds(programme: PiecewiseLinearProgramme, deadline: float) -> tuple[FloatArray, FloatArray]:
    """Tighten the bounds of the preactivations by linear programmes; on a box alone, they are exact already."""
    z_low, z_high = programme.z_low.copy(), programme.z_high.copy()
    if not len(programme.A):
        return z_low, z_high
    constraints = LinearConstraint(programme.A, programme.least, programme.most)
    for neuron in np.flatnonzero(programme.alpha > 0.0):
        for ends, sign in ((z_low, 1.0), (z_high, -1.0)):
            if time.perf_counter() > deadline:
                return z_low, z_high
            found = milp(sign * programme.W[neuron], bounds=Bounds(0.0, 1.0), constraints=constraints)
            if found.status != 0:
                continue
            # A margin for the tolerance of HiGHS, in a range of one.
            end = sign * (found.fun - 1e-6) + programme.b[neuron]
            ends[neuron] = max(z_low[neuron], end) if sign > 0.0 else min(z_high[neuron], end)
    return np.minimum(z_low, 0.0), np.maximum(z_high, 0.0)
