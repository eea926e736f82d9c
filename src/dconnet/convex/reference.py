"""The readable specification: a primal-dual interior-point method in NumPy.

With s_j standing for max(z_j, 0), the programme is

    min  gamma |v|² - <t, v> + <beta, s> + a |s|²    subject to    s - Qv ≥ 0,  s ≥ 0 (multipliers λ and μ).

Its Newton systems reduce to the n + 1 unknowns of v. It is the oracle of the tests, never a silent fallback.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray
from dconnet.convex.backend import ConvexSolution, Enough
from dconnet.convex.polish import EXACT, factorised, polish
from dconnet.convex.programme import Programme
from dconnet.convex.scaling import Unit


@dataclass(frozen=True, slots=True)
class Reference:
    """Interior-point backend in NumPy.

    Parameters
    ----------
    tol : float
        Relative duality gap that counts as solved, and from which on every interior point is polished.
    max_iter : int
        Limit on interior-point iterations.
    """

    tol: float = 1e-10
    max_iter: int = 100

    def prepare(self, design: FloatArray) -> ReferenceSolver:
        """Nothing depends on the design alone."""
        return ReferenceSolver(self.tol, self.max_iter)


@dataclass(frozen=True, slots=True)
class ReferenceSolver:
    """The prepared backend."""

    tol: float
    max_iter: int

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve one programme; interior points make no use of a start."""
        return self._solve(programme, None)

    def solve_until(self, programme: Programme, start: ConvexSolution | None, enough: Enough) -> ConvexSolution:
        """Solve one programme until an interior point is accepted."""
        return self._solve(programme, enough)

    def _solve(self, programme: Programme, enough: Enough | None) -> ConvexSolution:
        unit = Unit.of(programme)
        if unit.length == 0.0:
            return ConvexSolution(np.zeros(programme.design.shape[1]), np.zeros(len(programme.slope)), 0, True)
        if enough is not None:
            enough = replace(enough, value=enough.value / (unit.length * unit.gradient))
        with np.errstate(all="ignore"):  # where gamma is below rounding, numbers overflow and the factor is refused
            v, multipliers, iterations, will_do = self._iterate(unit.scaled(programme), enough)
        v, multipliers = unit.length * v, unit.gradient * multipliers
        # Where the slopes dwarf the linear term, the gap alone would call answers solved that are far from optimal.
        optimal = programme.kkt_residual(v, multipliers) <= np.sqrt(self.tol)
        converged = will_do or bool(optimal and programme.relative_gap(v, multipliers) <= self.tol)
        return ConvexSolution(v, multipliers, iterations, converged)

    def _iterate(self, programme: Programme, enough: Enough | None) -> tuple[FloatArray, FloatArray, int, bool]:
        """Interior points until one is accepted, its polish is exact, or rounding prevents progress."""
        point = _Point.start(programme)
        best: tuple[FloatArray, FloatArray] = (point.v, point.lam)
        best_residual = float("inf")
        for iteration in range(self.max_iter):
            if enough is not None and point.will_do(programme, enough):
                return point.v, point.lam, iteration, True
            if programme.relative_gap(point.v, point.lam) <= self.tol:
                answer = polish(programme, point.v, point.lam)
                residual = programme.kkt_residual(*answer)
                if residual < best_residual:
                    best, best_residual = answer, residual
                if residual <= EXACT:
                    return *best, iteration, False
            try:
                point = point.advance(programme)
            except linalg.LinAlgError:  # all digits of the Newton system are used up
                return *best, iteration, False
        return *best, self.max_iter, False


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
        """One predictor-corrector step (Mehrotra)."""
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

    def will_do(self, programme: Programme, enough: Enough) -> bool:
        """Whether the point is good enough for an inexact answer."""
        return enough.is_reached(programme.value(self.v), programme.lower_bound(self.v, self.lam))

    def complementarity(self) -> float:
        """Mean of all products λw and μs, which vanish at a solution."""
        return float(self.lam @ self.w + self.mu @ self.s) / (2 * len(self.s))

    def longest_step(self, step: _Point) -> float:
        """How far to go, up to the whole step, before a variable reaches its border.

        A quadratic objective couples primal and dual variables: one common length keeps all residuals shrinking.
        """
        return min(
            _longest(self.s, step.s),
            _longest(self.w, step.w),
            _longest(self.lam, step.lam),
            _longest(self.mu, step.mu),
        )

    def moved(self, step: _Point, length: float) -> _Point:
        """The point after a step of this length."""
        return _Point(
            self.v + length * step.v,
            self.s + length * step.s,
            self.w + length * step.w,
            self.lam + length * step.lam,
            self.mu + length * step.mu,
        )


def _longest(values: FloatArray, change: FloatArray) -> float:
    shrinking = change < 0.0
    return float(min(1.0, np.min(-values[shrinking] / change[shrinking], initial=1.0)))


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
        self.factor = factorised(schur)
        self.weight = weight
        self.residual_v = 2.0 * programme.gamma * point.v - programme.linear + Q.T @ point.lam
        self.residual_s = programme.slope + 2.0 * a * point.s - point.lam - point.mu

    def direction(self, lam_w: FloatArray, mu_s: FloatArray) -> _Point:
        """Direction in which λw and μs change by these amounts, to first order, and the residuals vanish."""
        Q, point = self.programme.design, self.point
        # s - Qv - w is zero at the start and stays so: all steps are linear.
        change_s = -self.residual_s + lam_w / point.w + mu_s / point.s
        pull = lam_w / point.w - self.lam_over_w * change_s / self.diagonal
        dv = linalg.cho_solve(self.factor, -self.residual_v - Q.T @ pull)
        Qdv = Q @ dv
        ds = (change_s + self.lam_over_w * Qdv) / self.diagonal
        dw = ds - Qdv
        return _Point(dv, ds, dw, lam_w / point.w - self.lam_over_w * dw, mu_s / point.s - self.mu_over_s * ds)
