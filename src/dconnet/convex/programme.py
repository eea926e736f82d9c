"""The convex programme of one DCA step: its data, its value, its dual and its optimality conditions.

    min_v  P(v) = gamma |v|² - <t, v> + Σ_j phi_j(z_j),    phi_j(z) = beta_j σ(z) + a σ(z)²,    z = Q v,

with a design Q that makes no v longer (orthonormal, but for shrinkage), slopes beta ≥ 0 and the curvature
a = alpha_l² > 0. A pair (v, λ) is optimal exactly when

    2 gamma v - t + Qᵀλ = 0    and    λ_j ∈ ∂phi_j(z_j) for all j.

The dual is ``max_{λ ≥ 0}  -|t - Qᵀλ|² / (4 gamma) - Σ_j max(λ_j - beta_j, 0)² / (4 a)``: any λ ≥ 0 bounds P from
below, so every answer carries its own certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._arrays import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """Data of one programme.

    Attributes
    ----------
    design : array of shape (n_rows, rank)
        Q, with orthonormal columns, or some rows of such a matrix.
    linear : array of shape (rank,)
        t, the linearised concave part.
    slope : array of shape (n_rows,)
        beta, the weights of the hinges, not negative.
    curvature : float
        a, the square of the neuron's output weight, positive.
    gamma : float
        Strength of the regularisation, positive.
    """

    design: FloatArray
    linear: FloatArray
    slope: FloatArray
    curvature: float
    gamma: float

    def value(self, v: FloatArray) -> float:
        """P(v)."""
        active = np.maximum(self.design @ v, 0.0)
        hinges = float(self.slope @ active) + self.curvature * float(active @ active)
        return self.gamma * float(v @ v) - float(self.linear @ v) + hinges

    def dual_value(self, multipliers: FloatArray) -> float:
        """Lower bound on P from the multipliers, of which negative ones count as zero."""
        lam = np.maximum(multipliers, 0.0)
        defect = self.linear - self.design.T @ lam
        excess = np.maximum(lam - self.slope, 0.0)
        return -float(defect @ defect) / (4.0 * self.gamma) - float(excess @ excess) / (4.0 * self.curvature)

    @property
    def magnitude(self) -> float:
        """Size of P where its linear terms act against the full curvature: the unit in which its errors are told."""
        pull = float(self.linear @ self.linear) + float(np.max(self.slope)) ** 2
        return pull / (4.0 * (self.gamma + self.curvature))

    def relative_gap(self, v: FloatArray, multipliers: FloatArray) -> float:
        """Duality gap relative to ``|P(v)|`` plus `magnitude`; it bounds the relative error of P(v)."""
        value = self.value(v)
        unit = abs(value) + self.magnitude
        return 0.0 if unit == 0.0 else (value - self.lower_bound(v, multipliers)) / unit

    def lower_bound(self, v: FloatArray, multipliers: FloatArray) -> float:
        """The better one of two dual values, at the multipliers and at what v allows of them."""
        # For a tiny curvature, rounding in λ_j - beta_j costs the bound dearly; what v allows for λ_j avoids that.
        allowed = self.slope + 2.0 * self.curvature * np.maximum(self.design @ v, 0.0)
        return max(self.dual_value(multipliers), self.dual_value(np.minimum(multipliers, allowed)))

    def multipliers(self, v: FloatArray) -> FloatArray:
        """λ of the rows off the kink as v dictates them; rows at the kink get the middle of their interval.

        A guess to start from, exact only where no row is at its kink.
        """
        z = self.design @ v
        off_kink = np.where(z > 0.0, self.slope + 2.0 * self.curvature * z, 0.0)
        return np.where(z == 0.0, 0.5 * self.slope, off_kink)

    def prox(self, points: FloatArray, step: float) -> FloatArray:
        """Proximal map of ``step · phi_j`` for every row."""
        shifted = points - step * self.slope
        active = np.maximum(shifted, 0.0) / (1.0 + 2.0 * step * self.curvature)
        return np.minimum(points, 0.0) + active

    def kkt_residual(self, v: FloatArray, multipliers: FloatArray) -> float:
        """Largest violation of the optimality conditions, relative to the size of the gradients.

        λ_j ∈ ∂phi_j(z_j) holds exactly when z_j is a fixed point of the proximal map at z_j + step λ_j; its
        violation needs no decision about which rows count as being at the kink.
        """
        z = self.design @ v
        stationarity = 2.0 * self.gamma * v - self.linear + self.design.T @ multipliers
        hessian = 2.0 * (self.gamma + self.curvature)
        complementarity = hessian * (z - self.prox(z + multipliers / hessian, 1.0 / hessian))
        violation = max(np.max(np.abs(stationarity)), np.max(np.abs(complementarity)))
        unit = max(np.max(np.abs(self.linear)), np.max(np.abs(multipliers)))
        return 0.0 if unit == 0.0 else float(violation / unit)
