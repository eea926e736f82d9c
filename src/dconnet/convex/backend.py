"""Backends for the convex programmes: their protocol, their answers, and their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Protocol, runtime_checkable

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.programme import Programme

# Largest duality gap of an inexact answer, as a fraction of the decrease it achieves.
GAP_SHARE = 0.1


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
        answer: ConvexSolution = solver.solve_until(programme, start, programme.value(v), GAP_SHARE)
        return answer
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


_BUILT_IN = {
    "native": "dconnet.convex.native.Native",
    "reference": "dconnet.convex.reference.Reference",
    "admm": "dconnet.convex.admm.ADMM",
    "parallel": "dconnet.convex.parallel.Parallel",
}


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
        backend: Backend = getattr(import_module(module), class_name)()
        return backend
    from dconnet.convex.external import External

    return External(solver)
