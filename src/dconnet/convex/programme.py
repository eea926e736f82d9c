"""The convex programme of one DCA step, and the interface of its solvers.

    min_v  P(v) = gamma |v|² - <t, v> + Σ_j phi_j(z_j),    phi_j(z) = beta_j σ(z) + a σ(z)²,    z = Q v,

with a design Q that makes no v longer (orthonormal, but for shrinkage), slopes beta ≥ 0 and the curvature
a = alpha_l² > 0. A pair (v, λ) is optimal if and only if

    2 gamma v - t + Qᵀλ = 0    and    λ_j ∈ ∂phi_j(z_j) for all j.

The dual is ``max_{λ ≥ 0}  -|t - Qᵀλ|² / (4 gamma) - Σ_j max(λ_j - beta_j, 0)² / (4 a)``: any λ ≥ 0 bounds P from
below, so that every answer can be certified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Protocol, runtime_checkable

import numpy as np

from dconnet._arrays import FloatArray

# Largest duality gap of an inexact answer, as a fraction of the decrease it achieves.
GAP_SHARE = 0.1
_BUILT_IN = {
    "native": "dconnet.convex.native.Native",
    "reference": "dconnet.convex.reference.Reference",
    "admm": "dconnet.convex.admm.ADMM",
    "parallel": "dconnet.convex.parallel.Parallel",
}


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """Data of one programme."""

    design: FloatArray  # Q (n_rows, rank), with orthonormal columns, or some rows of such a matrix
    linear: FloatArray  # t (rank,), the linearised concave part
    slope: FloatArray  # beta (n_rows,), the weights of the hinges, not negative
    curvature: float  # a, the square of the neuron's output weight, positive
    gamma: float  # strength of the regularisation, positive

    def value(self, v: FloatArray) -> float:
        """Return P(v)."""
        active = np.maximum(self.design @ v, 0.0)
        hinges = float(self.slope @ active) + self.curvature * float(active @ active)
        return self.gamma * float(v @ v) - float(self.linear @ v) + hinges

    def dual_value(self, multipliers: FloatArray) -> float:
        """Return the lower bound on P of these multipliers; negative ones count as zero."""
        lam = np.maximum(multipliers, 0.0)
        defect = self.linear - self.design.T @ lam
        excess = np.maximum(lam - self.slope, 0.0)
        return -float(defect @ defect) / (4.0 * self.gamma) - float(excess @ excess) / (4.0 * self.curvature)

    @property
    def magnitude(self) -> float:
        """Size of P where its linear terms act against the full curvature: the unit of its errors."""
        pull = float(self.linear @ self.linear) + float(np.max(self.slope)) ** 2
        return pull / (4.0 * (self.gamma + self.curvature))

    def relative_gap(self, v: FloatArray, multipliers: FloatArray) -> float:
        """Return the duality gap relative to ``|P(v)|`` plus `magnitude`; it bounds the relative error of P(v)."""
        value = self.value(v)
        unit = abs(value) + self.magnitude
        return 0.0 if unit == 0.0 else (value - self.lower_bound(v, multipliers)) / unit

    def lower_bound(self, v: FloatArray, multipliers: FloatArray) -> float:
        """Return the better of two dual values: at the multipliers, and at the multipliers clipped to what v allows."""
        # For a tiny curvature, rounding in λ_j - beta_j makes the bound inaccurate; clipping avoids that.
        allowed = self.slope + 2.0 * self.curvature * np.maximum(self.design @ v, 0.0)
        return max(self.dual_value(multipliers), self.dual_value(np.minimum(multipliers, allowed)))

    def multipliers(self, v: FloatArray) -> FloatArray:
        """Return λ for v: exact for rows off the kink, the middle of the interval for rows at it."""
        z = self.design @ v
        off_kink = np.where(z > 0.0, self.slope + 2.0 * self.curvature * z, 0.0)
        return np.where(z == 0.0, 0.5 * self.slope, off_kink)

    def prox(self, points: FloatArray, step: float) -> FloatArray:
        """Return the proximal map of ``step · phi_j`` for every row."""
        shifted = points - step * self.slope
        active = np.maximum(shifted, 0.0) / (1.0 + 2.0 * step * self.curvature)
        return np.minimum(points, 0.0) + active

    def kkt_residual(self, v: FloatArray, multipliers: FloatArray) -> float:
        """Return the largest violation of the optimality conditions, relative to the size of the gradients.

        λ_j ∈ ∂phi_j(z_j) holds if and only if z_j is a fixed point of the proximal map at z_j + step λ_j. This
        violation can be measured without deciding which rows are at the kink.
        """
        z = self.design @ v
        stationarity = 2.0 * self.gamma * v - self.linear + self.design.T @ multipliers
        hessian = 2.0 * (self.gamma + self.curvature)
        complementarity = hessian * (z - self.prox(z + multipliers / hessian, 1.0 / hessian))
        violation = max(np.max(np.abs(stationarity)), np.max(np.abs(complementarity)))
        unit = max(np.max(np.abs(self.linear)), np.max(np.abs(multipliers)))
        return 0.0 if unit == 0.0 else float(violation / unit)

    def is_solved(self, v: FloatArray, multipliers: FloatArray, tol: float) -> bool:
        """Return whether the relative gap is at most `tol`, and the KKT residual at most its square root.

        Where the slopes dwarf the linear term, the gap alone would accept answers that are far from optimal.
        """
        return bool(self.kkt_residual(v, multipliers) <= np.sqrt(tol) and self.relative_gap(v, multipliers) <= tol)

    @property
    def units(self) -> tuple[float, float]:
        """Units of v and of λ in which the numbers of the programme are of order one; zero if zero is the solution."""
        gradient = float(np.max(np.abs(self.linear)))
        return gradient / (self.gamma + self.curvature), gradient

    def scaled(self) -> Programme:
        """Return the programme in its `units`."""
        hessian, (_, gradient) = self.gamma + self.curvature, self.units
        return replace(
            self,
            linear=self.linear / gradient,
            slope=self.slope / gradient,
            curvature=self.curvature / hessian,
            gamma=self.gamma / hessian,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ConvexSolution:
    """Answer of a backend."""

    v: FloatArray  # the minimiser, of shape (rank,)
    multipliers: FloatArray  # λ (n_rows,), an element of the subdifferential of each hinge at the solution
    iterations: int  # zero if the backend does not report them
    converged: bool  # False if the backend stopped before it reached its tolerance
    method: str = ""  # that solved the programme, where a backend has several

    def relative_gap(self, programme: Programme) -> float:
        """Return the duality gap relative to the size of the programme."""
        return programme.relative_gap(self.v, self.multipliers)

    def kkt_residual(self, programme: Programme) -> float:
        """Return the relative violation of the optimality conditions."""
        return programme.kkt_residual(self.v, self.multipliers)


class Solver(Protocol):
    """A backend that has been prepared for one design."""

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve a programme over the prepared design, optionally from the answer to a similar programme."""
        ...


@runtime_checkable
class Backend(Protocol):
    """A method for convex programmes: it is prepared once for a design, and then solves many programmes."""

    def prepare(self, design: FloatArray) -> Solver:
        """Do the work that depends on the design alone."""
        ...


def solve_inexactly(
    solver: Solver, programme: Programme, start: ConvexSolution | None, v: FloatArray
) -> ConvexSolution:
    """Improve on v by `solve_until`, or solve exactly if the solver has no such method.

    ``solve_until(programme, start, start_value, gap_share)`` stops when the duality gap is at most `gap_share` times
    the decrease of P from `start_value`. That decrease is then at least 1 / (1 + gap_share) of the largest one.
    """
    if hasattr(solver, "solve_until"):
        return solver.solve_until(programme, start, programme.value(v), GAP_SHARE)
    return solver.solve(programme, start)


def solve_scaled(
    programme: Programme,
    start: ConvexSolution | None,
    solve: Callable[[Programme, ConvexSolution | None], ConvexSolution],
) -> ConvexSolution:
    """Solve a programme in units in which its numbers are of order one; `solve` receives the scaled programme."""
    length, gradient = programme.units
    if length == 0.0:
        return ConvexSolution(np.zeros_like(programme.linear), np.zeros_like(programme.slope), 0, True)
    if start is not None:
        start = replace(start, v=start.v / length, multipliers=start.multipliers / gradient)
    answer = solve(programme.scaled(), start)
    return replace(answer, v=length * answer.v, multipliers=gradient * answer.multipliers)


def require_orthonormal(design: FloatArray) -> None:
    """Raise a ValueError for designs with shrinkage, on behalf of methods that assume ``|Q v| = |v|``."""
    rank = design.shape[1]
    if float(np.vdot(design, design)) < rank * (1.0 - 1e-9):  # no column is longer than one: all of them must be one
        raise ValueError(
            "The solvers 'admm' and 'parallel' do not support shrinkage: they need a design with orthonormal columns. "
            "Use another solver, such as 'native', or shrinkage=0."
        )


def backend_names() -> list[str]:
    """Return the names of the built-in backends; all other names are those of qpsolvers."""
    return list(_BUILT_IN)


def get_backend(solver: str | Backend) -> Backend:
    """Return the backend of that name, built in or from qpsolvers; backend objects are returned as they are."""
    if not isinstance(solver, str):
        if isinstance(solver, Backend):
            return solver
        raise ValueError(
            f"solver must be one of {backend_names()}, a solver of qpsolvers, or a backend object, got {solver!r}."
        )
    if solver in _BUILT_IN:
        module, _, class_name = _BUILT_IN[solver].rpartition(".")
        return getattr(import_module(module), class_name)()
    from dconnet.convex.external import External

    return External(solver)
