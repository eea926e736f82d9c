"""The readable specification: a primal-dual interior-point method in NumPy, and a polish to the last digits.

With s_j for max(z_j, 0), the programme is

    min  gamma |v|² - <t, v> + <beta, s> + a |s|²    subject to    s - Qv ≥ 0,  s ≥ 0 (multipliers λ and μ).

Its Newton systems reduce to the unknowns of v. The tests compare all other backends with this one.

The polish is the method of multipliers, which adds a penalty on the violation of z = Qv to the Lagrangian. Near a
solution each of its steps is a handful of linear systems, and shrinks the error by the ratio of curvature to penalty,
also where the active rows are degenerate: many more rows at their kink than unknowns, which is common when a neuron
dies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray
from dconnet.convex.programme import ConvexSolution, Programme, solve_scaled

# KKT residual of an answer that is as good as double precision allows.
EXACT = 1e-13
# Penalties in units of the full curvature: the stiffer, the fewer rounds, but the more digits are lost to rounding.
PENALTIES = (1e2, 1e2, 1e3, 1e3, 1e3, 1e4, 1e4, 1e4, 1e5, 1e5, 1e5, 1e5, 1e6, 1e6)
MAX_NEWTON_STEPS = 10


@dataclass(frozen=True, slots=True)
class Reference:
    """Interior-point backend in NumPy. Interior-point methods cannot use a start: it is ignored.

    Parameters
    ----------
    tol : float
        Relative duality gap that counts as solved; interior points that reach it are polished.
    max_iter : int
        Limit on interior-point iterations.
    """

    tol: float = 1e-10
    max_iter: int = 100

    def prepare(self, design: FloatArray) -> Reference:
        """Return the backend itself: no work depends on the design alone."""
        return self

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve a programme."""
        return self.solve_until(programme, start, -np.inf, 0.0)

    def solve_until(
        self, programme: Programme, start: ConvexSolution | None, start_value: float, gap_share: float
    ) -> ConvexSolution:
        """Return an interior point with a small duality gap; see `solve_inexactly`."""
        length, gradient = programme.units
        value = start_value / (length * gradient) if length > 0.0 else 0.0
        return solve_scaled(programme, None, lambda scaled, _: self._iterate(scaled, value, gap_share))

    def _iterate(self, programme: Programme, start_value: float, gap_share: float) -> ConvexSolution:
        """Take steps until a point is accepted, its polish is exact, or rounding prevents progress."""
        # λ + μ = beta + 2 a s at a solution; half each is far from both borders.
        ones, multiplier = np.ones(len(programme.slope)), 0.5 * (programme.slope + 2.0 * programme.curvature) + 1e-2
        point = _Point(np.zeros(programme.design.shape[1]), ones, ones, multiplier, multiplier)
        best, best_residual = (point.v, point.lam), float("inf")
        iterations = self.max_iter
        with np.errstate(all="ignore"):  # where gamma is below rounding, numbers overflow and the factor is refused
            for iteration in range(self.max_iter):
                v, lam = point.v, point.lam
                value = programme.value(v)
                if gap_share > 0.0 and value - programme.lower_bound(v, lam) <= gap_share * (start_value - value):
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


class _Point(NamedTuple):
    """A point strictly inside all constraints: v, s, the slack w = s - Qv, and the multipliers λ, μ."""

    v: FloatArray
    s: FloatArray
    w: FloatArray
    lam: FloatArray
    mu: FloatArray

    def advance(self, programme: Programme) -> _Point:
        """Take one predictor-corrector step (Mehrotra)."""
        a, Q = programme.curvature, programme.design
        lam_over_w, mu_over_s = self.lam / self.w, self.mu / self.s
        diagonal = 2.0 * a + lam_over_w + mu_over_s
        weight = lam_over_w * (2.0 * a + mu_over_s) / diagonal
        factor = cholesky(2.0 * programme.gamma * np.eye(Q.shape[1]) + Q.T @ (weight[:, None] * Q))
        residual_v = 2.0 * programme.gamma * self.v - programme.linear + Q.T @ self.lam
        residual_s = programme.slope + 2.0 * a * self.s - self.lam - self.mu

        def solve_newton(lam_w: FloatArray, mu_s: FloatArray) -> _Point:
            """Return the step in which λw and μs change by these amounts and the residuals vanish, to first order."""
            # s - Qv - w is zero at the start and stays so: all steps are linear.
            change_s = -residual_s + lam_w / self.w + mu_s / self.s
            pull = lam_w / self.w - lam_over_w * change_s / diagonal
            dv = linalg.cho_solve(factor, -residual_v - Q.T @ pull)
            Qdv = Q @ dv
            ds = (change_s + lam_over_w * Qdv) / diagonal
            dw = ds - Qdv
            return _Point(dv, ds, dw, lam_w / self.w - lam_over_w * dw, mu_s / self.s - mu_over_s * ds)

        complementarity = self.complementarity()
        predictor = solve_newton(-self.lam * self.w, -self.mu * self.s)
        after = self.move(predictor, self.longest_step(predictor))
        target = min((after.complementarity() / complementarity) ** 3, 1.0) * complementarity
        corrector = solve_newton(
            target - self.lam * self.w - predictor.lam * predictor.w,
            target - self.mu * self.s - predictor.mu * predictor.s,
        )
        return self.move(corrector, 0.995 * self.longest_step(corrector))

    def complementarity(self) -> float:
        """Return the mean of all products λw and μs, which vanish at a solution."""
        return float(self.lam @ self.w + self.mu @ self.s) / (2 * len(self.s))

    def longest_step(self, step: _Point) -> float:
        """Return the largest fraction of the step that keeps all variables positive.

        A quadratic objective couples primal and dual variables: one common length keeps all residuals shrinking.
        """
        pairs = zip(self[1:], step[1:], strict=True)
        return min(float(np.min(-values[change < 0.0] / change[change < 0.0], initial=1.0)) for values, change in pairs)

    def move(self, step: _Point, length: float) -> _Point:
        """Return the point after this fraction of the step."""
        return _Point(*(values + length * change for values, change in zip(self, step, strict=True)))


def polish(programme: Programme, v: FloatArray, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Improve the pair (v, λ) by rounds of the method of multipliers.

    The pair with the smallest KKT residual is returned, possibly the given one.
    """
    best, best_residual = (v, multipliers), programme.kkt_residual(v, multipliers)
    for penalty in PENALTIES:
        if best_residual <= EXACT:
            break
        try:
            v, multipliers = _round(programme, v, multipliers, penalty * (programme.gamma + programme.curvature))
        except linalg.LinAlgError:  # gamma is below the rounding of the curvature
            break
        residual = programme.kkt_residual(v, multipliers)
        if residual < best_residual:
            best, best_residual = (v, multipliers), residual
    return best


def _round(
    programme: Programme, v: FloatArray, multipliers: FloatArray, penalty: float
) -> tuple[FloatArray, FloatArray]:
    """Minimise the augmented Lagrangian over v by Newton's method; its slopes are the next multipliers."""
    Q = programme.design
    smallest = float("inf")
    for _ in range(MAX_NEWTON_STEPS):
        slopes, weights = _envelope(programme, penalty * (Q @ v) + multipliers, penalty)
        gradient = 2.0 * programme.gamma * v - programme.linear + Q.T @ slopes
        size = float(np.max(np.abs(gradient)))
        if not size < 0.5 * smallest:
            break  # only rounding is left
        smallest = size
        hessian = Q.T @ (weights[:, None] * Q)
        hessian[np.diag_indices_from(hessian)] += 2.0 * programme.gamma
        v = v - linalg.cho_solve(cholesky(hessian), gradient)
    slopes, _ = _envelope(programme, penalty * (Q @ v) + multipliers, penalty)
    return v, slopes


def cholesky(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Return the Cholesky factor for `scipy.linalg.cho_solve`; raise LinAlgError if it has no finite one."""
    factor, lower = linalg.cho_factor(matrix, check_finite=False)
    if not np.isfinite(factor).all():
        raise linalg.LinAlgError("The matrix is not finite.")
    return factor, lower


def _envelope(programme: Programme, pull: FloatArray, penalty: float) -> tuple[FloatArray, FloatArray]:
    """Return slope and curvature of each hinge's Moreau envelope at ``penalty · z + λ``."""
    softened = 2.0 * programme.curvature / (penalty + 2.0 * programme.curvature)
    excess = np.maximum(pull - programme.slope, 0.0)
    slopes = np.clip(pull, 0.0, programme.slope) + softened * excess
    weights = np.where(excess > 0.0, softened * penalty, np.where(pull > 0.0, penalty, 0.0))
    return slopes, weights
