"""The readable specification: a primal-dual interior-point method in NumPy.

With s_j for max(z_j, 0), the programme is

    min  gamma |v|² - <t, v> + <beta, s> + a |s|²    subject to    s - Qv ≥ 0,  s ≥ 0 (multipliers λ and μ).

Its Newton systems reduce to the unknowns of v. The tests compare all other backends with this one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray
from dconnet.convex.backend import ConvexSolution, EarlyStop, solve_scaled
from dconnet.convex.polish import EXACT, cholesky, polish
from dconnet.convex.programme import Programme


@dataclass(frozen=True, slots=True)
class Reference:
    """Interior-point backend in NumPy.

    Parameters
    ----------
    tol : float
        Relative duality gap that counts as solved; interior points that reach it are polished.
    max_iter : int
        Limit on interior-point iterations.
    """

    tol: float = 1e-10
    max_iter: int = 100

    def prepare(self, design: FloatArray) -> ReferenceSolver:
        """Return the solver; no work depends on the design alone."""
        return ReferenceSolver(self.tol, self.max_iter)


@dataclass(frozen=True, slots=True)
class ReferenceSolver:
    """The prepared backend. Interior-point methods cannot use a start, so that it is ignored."""

    tol: float
    max_iter: int

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve a programme."""
        return solve_scaled(programme, None, lambda scaled, _: self._iterate(scaled, None))

    def solve_until(self, programme: Programme, start: ConvexSolution | None, stop: EarlyStop) -> ConvexSolution:
        """Solve a programme until `stop` accepts an interior point."""
        length, gradient = programme.units
        value = stop.start_value / (length * gradient) if length > 0.0 else 0.0
        stop = replace(stop, start_value=value)
        return solve_scaled(programme, None, lambda scaled, _: self._iterate(scaled, stop))

    def _iterate(self, programme: Programme, stop: EarlyStop | None) -> ConvexSolution:
        """Take steps until a point is accepted, its polish is exact, or rounding prevents progress."""
        point = _Point.start(programme)
        best, best_residual = (point.v, point.lam), float("inf")
        iterations = self.max_iter
        with np.errstate(all="ignore"):  # where gamma is below rounding, numbers overflow and the factor is refused
            for iteration in range(self.max_iter):
                v, lam = point.v, point.lam
                if stop is not None and stop.accepts(programme.value(v), programme.lower_bound(v, lam)):
                    return ConvexSolution(v, lam, iteration, True)
                if programme.relative_gap(v, lam) <= self.tol:
                    answer = polish(programme, v, lam)
                    residual = programme.kkt_residual(*answer)
                    if residual < best_residual:
                        best, best_residual = answer, residual
                    if residual <= EXACT:
                        iterations = iteration
                        break
                try:
                    point = point.advance(programme)
                except linalg.LinAlgError:  # all digits of the Newton system are used up
                    iterations = iteration
                    break
        return ConvexSolution(*best, iterations, programme.is_solved(*best, self.tol))


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """A point strictly inside all constraints: v, s, the slack w = s - Qv, and the multipliers λ, μ."""

    v: FloatArray
    s: FloatArray
    w: FloatArray
    lam: FloatArray
    mu: FloatArray

    @classmethod
    def start(cls, programme: Programme) -> _Point:
        ones = np.ones(len(programme.slope))
        # λ + μ = beta + 2 a s at a solution; half each is far from both borders.
        multiplier = 0.5 * (programme.slope + 2.0 * programme.curvature) + 1e-2
        return cls(np.zeros(programme.design.shape[1]), ones, ones, multiplier, multiplier)

    def advance(self, programme: Programme) -> _Point:
        """Take one predictor-corrector step (Mehrotra)."""
        newton = _Newton(programme, self)
        complementarity = self.complementarity()
        predictor = newton.direction(-self.lam * self.w, -self.mu * self.s)
        after = self.moved(predictor, self.longest_step(predictor))
        centring = (after.complementarity() / complementarity) ** 3
        target = min(centring, 1.0) * complementarity
        corrector = newton.direction(
            target - self.lam * self.w - predictor.lam * predictor.w,
            target - self.mu * self.s - predictor.mu * predictor.s,
        )
        return self.moved(corrector, 0.995 * self.longest_step(corrector))

    def complementarity(self) -> float:
        """Return the mean of all products λw and μs, which vanish at a solution."""
        return float(self.lam @ self.w + self.mu @ self.s) / (2 * len(self.s))

    def longest_step(self, step: _Point) -> float:
        """Return the largest fraction of the step that keeps all variables positive.

        A quadratic objective couples primal and dual variables: one common length keeps all residuals shrinking.
        """
        pairs = ((self.s, step.s), (self.w, step.w), (self.lam, step.lam), (self.mu, step.mu))
        return min(float(np.min(-values[change < 0.0] / change[change < 0.0], initial=1.0)) for values, change in pairs)

    def moved(self, step: _Point, length: float) -> _Point:
        """Return the point after this fraction of the step."""
        return _Point(
            self.v + length * step.v,
            self.s + length * step.s,
            self.w + length * step.w,
            self.lam + length * step.lam,
            self.mu + length * step.mu,
        )


class _Newton:
    """The Newton system at one point, factorised once for predictor and corrector."""

    def __init__(self, programme: Programme, point: _Point) -> None:
        self.programme, self.point = programme, point
        a, Q = programme.curvature, programme.design
        self.lam_over_w = point.lam / point.w
        self.mu_over_s = point.mu / point.s
        self.diagonal = 2.0 * a + self.lam_over_w + self.mu_over_s
        weight = self.lam_over_w * (2.0 * a + self.mu_over_s) / self.diagonal
        schur = 2.0 * programme.gamma * np.eye(Q.shape[1]) + Q.T @ (weight[:, None] * Q)
        self.factor = cholesky(schur)
        self.weight = weight
        self.residual_v = 2.0 * programme.gamma * point.v - programme.linear + Q.T @ point.lam
        self.residual_s = programme.slope + 2.0 * a * point.s - point.lam - point.mu

    def direction(self, lam_w: FloatArray, mu_s: FloatArray) -> _Point:
        """Return the direction in which λw and μs change by these amounts and the residuals vanish, to first order."""
        Q, point = self.programme.design, self.point
        # s - Qv - w is zero at the start and stays so: all steps are linear.
        change_s = -self.residual_s + lam_w / point.w + mu_s / point.s
        pull = lam_w / point.w - self.lam_over_w * change_s / self.diagonal
        dv = linalg.cho_solve(self.factor, -self.residual_v - Q.T @ pull)
        Qdv = Q @ dv
        ds = (change_s + self.lam_over_w * Qdv) / self.diagonal
        dw = ds - Qdv
        return _Point(dv, ds, dw, lam_w / point.w - self.lam_over_w * dw, mu_s / point.s - self.mu_over_s * ds)
