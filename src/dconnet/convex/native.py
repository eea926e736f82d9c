"""The compiled backend, in C++.

An active-set method (the walk) solves nearly all programmes; a separate test recognises those whose solution is zero.
Programmes with many rows at their kink at the solution go to an augmented Lagrangian method with semismooth Newton
steps. Every answer is checked by its duality gap and its optimality conditions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet import _native
from dconnet._arrays import FloatArray, padded_width
from dconnet.convex.programme import ConvexSolution, Programme


@dataclass(frozen=True, slots=True)
class Native:
    """The compiled backend.

    Parameters
    ----------
    tol : float
        Relative duality gap that counts as solved; the answers are usually exact to rounding.
    max_iter : int
        Limit on the steps of all methods together.
    """

    tol: float = 1e-10
    max_iter: int = 3000

    def prepare(self, design: FloatArray) -> NativeSolver:
        """Copy the design into the layout of the kernel."""
        return NativeSolver(_native.Solver(pad_rows(design), design.shape[1]), self.tol, self.max_iter)


def pad_rows(design: FloatArray) -> FloatArray:
    """Return the design with rows padded by zeros to a multiple of four, without a copy if they already are."""
    n_rows, n_columns = design.shape
    whole = design.base
    if isinstance(whole, np.ndarray) and whole.shape == (n_rows, padded_width(n_columns)):
        same_rows = whole.flags.c_contiguous and design.strides == whole.strides
        if same_rows and not whole[:, n_columns:].any():
            return whole
    padded = np.zeros((n_rows, padded_width(n_columns)))  # np.pad would keep the order of a Fortran array
    padded[:, :n_columns] = design
    return padded


def as_columns(values: FloatArray) -> FloatArray:
    """Return values of shape (n,) or (n, n_outputs) as a contiguous array with one column for each output."""
    return np.ascontiguousarray(values if values.ndim == 2 else values[:, None])


@dataclass(frozen=True, slots=True)
class NativeSolver:
    """The prepared backend. It owns a workspace: use one solver in each thread."""

    kernel: _native.Solver
    tol: float
    max_iter: int

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve a programme, optionally from the answer to a similar one."""
        return self.solve_until(programme, start, 0.0, 0.0)

    def solve_until(
        self, programme: Programme, start: ConvexSolution | None, start_value: float, gap_share: float
    ) -> ConvexSolution:
        """Return an inexact answer, see `solve_inexactly`; the walk checks its gap only where that is cheap."""
        if start is None:
            v, multipliers = np.zeros(programme.design.shape[1]), np.zeros(len(programme.slope))
        else:
            v, multipliers = start.v.copy(), start.multipliers.copy()
        iterations, converged, method = self.kernel.solve(
            programme.linear,
            programme.slope,
            programme.curvature,
            programme.gamma,
            self.tol,
            self.max_iter,
            start_value,
            gap_share,
            v,
            multipliers,
        )
        return ConvexSolution(v, multipliers, iterations, converged, method)
