"""Backends for the convex programmes: their protocol, their answers, and their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Protocol, runtime_checkable

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.programme import Programme


@dataclass(frozen=True, slots=True, eq=False)
class ConvexSolution:
    """Answer of a backend.

    Attributes
    ----------
    v : array of shape (rank,)
        The minimiser.
    multipliers : array of shape (n_rows,)
        λ, an element of the subdifferential of each hinge at the solution.
    iterations : int
        Iterations of the backend's own method, zero if it does not report them.
    converged : bool
        False if the backend stopped before it reached its tolerance.
    method : str
        Method that solved the programme, where a backend has several.
    """

    v: FloatArray
    multipliers: FloatArray
    iterations: int
    converged: bool
    method: str = ""

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


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """Rule that accepts an inexact answer: its duality gap is at most a share of the decrease it achieves.

    An accepted answer achieves at least 1 / (1 + gap_share) of the decrease that the minimiser would achieve.

    Attributes
    ----------
    start_value : float
        P at the point to be improved.
    gap_share : float
        Largest duality gap as a fraction of the decrease from `start_value`.
    """

    start_value: float
    gap_share: float = 0.1

    def accepts(self, value: float, lower_bound: float) -> bool:
        """Return whether to accept a point with this value of P, given a lower bound on P."""
        return value - lower_bound <= self.gap_share * (self.start_value - value)


@runtime_checkable
class EarlyStoppingSolver(Solver, Protocol):
    """A solver that can return an inexact answer."""

    def solve_until(self, programme: Programme, start: ConvexSolution | None, stop: EarlyStop) -> ConvexSolution:
        """Solve a programme until `stop` accepts the answer, which then counts as converged."""
        ...


def solve_inexactly(
    solver: Solver, programme: Programme, start: ConvexSolution | None, v: FloatArray
) -> ConvexSolution:
    """Improve on v until `EarlyStop` accepts the answer, or solve exactly if the solver cannot stop early."""
    if isinstance(solver, EarlyStoppingSolver):
        return solver.solve_until(programme, start, EarlyStop(programme.value(v)))
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
    """Return the backend of that name, built in or from qpsolvers; backend objects are returned as they are.

    Raises
    ------
    ValueError
        If there is no backend of that name.
    ImportError
        If a package is missing; the message names the pip command.
    """
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
