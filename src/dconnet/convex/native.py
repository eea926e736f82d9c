"""The compiled backend, in C++.

A walk downhill from face to face settles nearly all programmes, and a test of its own those whose solution is zero.
What they do not settle, because many rows meet at the solution, goes to an augmented Lagrangian method with semismooth
Newton steps. Every answer is checked by its duality gap and its optimality conditions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.convex.backend import ConvexSolution, Enough
from dconnet.convex.programme import Programme

# Only the solution is accepted.
EXACT = Enough(value=0.0, share=0.0)


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
        """Lay the design out for the kernel, and make its room for work."""
        return NativeSolver(_native.Solver(padded(design), design.shape[1]), self.tol, self.max_iter)

    def prepare_sweep(
        self, design: FloatArray, n_hidden: int, n_outputs: int = 1, team: _native.Team | None = None
    ) -> _native.Sweep:
        """The kernel that sweeps over all neurons of a network without a call back into Python."""
        return _native.Sweep(padded(design), design.shape[1], n_hidden, n_outputs, team)


def padded_width(n_columns: int) -> int:
    """Length of a padded row."""
    return -(-n_columns // 4) * 4


def padded(design: FloatArray) -> FloatArray:
    """The design with rows padded by zeros to a multiple of four; a whitened design is that already."""
    n_rows, n_columns = design.shape
    width = padded_width(n_columns)
    whole = design.base
    if isinstance(whole, np.ndarray) and whole.shape == (n_rows, width):
        same_rows = whole.flags.c_contiguous and design.strides == whole.strides
        if same_rows and not whole[:, n_columns:].any():
            return whole
    padded = np.zeros((n_rows, width))
    padded[:, :n_columns] = design
    return padded


def by_output(values: FloatArray) -> FloatArray:
    """Values of one output (n,) or of several (n, n_outputs) as the kernel takes them: a column for each output."""
    return np.ascontiguousarray(values if values.ndim == 2 else values[:, None])


@dataclass(frozen=True, slots=True)
class NativeSolver:
    """The prepared backend. It holds its room for work: use one in each thread."""

    kernel: _native.Solver
    tol: float
    max_iter: int

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve one programme, from the answer to a similar one if there is any."""
        return self.solve_until(programme, start, EXACT)

    def solve_until(self, programme: Programme, start: ConvexSolution | None, enough: Enough) -> ConvexSolution:
        """Solve one programme until the answer is accepted, as far as the walk can check at little cost."""
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
            enough.value,
            enough.share,
            v,
            multipliers,
        )
        return ConvexSolution(v, multipliers, iterations, converged, method)
