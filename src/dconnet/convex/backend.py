"""Backends for the convex programmes: their protocol, and a registry by name that imports them when needed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.programme import Programme


@dataclass(frozen=True, slots=True, eq=False)
class ConvexSolution:
    """Answer of a backend, which can check itself against its programme.

    Attributes
    ----------
    v : array of shape (rank,)
        The minimiser.
    multipliers : array of shape (n_rows,)
        λ, an element of the subdifferential of each hinge at the solution.
    iterations : int
        Iterations of the backend's own method.
    converged : bool
        False if the backend stopped at its iteration limit.
    method : str
        What settled the programme, where a backend has several methods.
    """

    v: FloatArray
    multipliers: FloatArray
    iterations: int
    converged: bool
    method: str = ""

    def relative_gap(self, programme: Programme) -> float:
        """Duality gap, relative to the size of the programme."""
        return programme.relative_gap(self.v, self.multipliers)

    def kkt_residual(self, programme: Programme) -> float:
        """Violation of the optimality conditions, relative."""
        return programme.kkt_residual(self.v, self.multipliers)


class Solver(Protocol):
    """A backend that has been prepared for one design."""

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve one programme over the prepared design, from the answer to a similar one if there is any."""
        ...


# Duality gap at which an inexact answer is accepted, as a share of the decrease reached.
GAP_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Enough:
    """When an inexact answer is accepted: its duality gap is at most a share of the decrease that it has reached.

    Such an answer has at least the part 1 / (1 + share) of the decrease that the minimiser would have.

    Attributes
    ----------
    value : float
        P at the point to be improved.
    share : float
        Largest gap, as a fraction of the decrease from there.

    Examples
    --------
    >>> from dconnet.convex.backend import Enough
    >>> enough = Enough(value=3.0, share=0.1)
    >>> enough.is_reached(value=2.0, bound=1.95), enough.is_reached(value=2.0, bound=1.8)
    (True, False)
    """

    value: float
    share: float = GAP_SHARE

    def is_reached(self, value: float, bound: float) -> bool:
        """Whether a point with this value of P is accepted, given a lower bound on P."""
        return value - bound <= self.share * (self.value - value)


@runtime_checkable
class InexactSolver(Solver, Protocol):
    """A solver that can stop early. Solvers without `solve_until` are taken as they are, and solve exactly."""

    def solve_until(self, programme: Programme, start: ConvexSolution | None, enough: Enough) -> ConvexSolution:
        """Solve one programme until the answer is accepted; it then counts as converged."""
        ...


def solve_inexactly(
    solver: Solver, programme: Programme, start: ConvexSolution | None, v: FloatArray
) -> ConvexSolution:
    """Improve on v by a fair part of what the minimiser would gain; exactly where the solver cannot stop early."""
    if isinstance(solver, InexactSolver):
        return solver.solve_until(programme, start, Enough(programme.value(v)))
    return solver.solve(programme, start)


@runtime_checkable
class Backend(Protocol):
    """A method for the convex programme: prepared once for a design, it then solves often."""

    def prepare(self, design: FloatArray) -> Solver:
        """Do the work that depends on the design alone."""
        ...


def require_orthonormal(design: FloatArray) -> None:
    """Refuse designs with shrinkage, for methods that take ``|Q v|`` for ``|v|``.

    Raises
    ------
    ValueError
        If the columns are shorter than one.
    """
    rank = design.shape[1]
    if float(np.vdot(design, design)) < rank * (1.0 - 1e-9):  # no column is longer than one: all of them must be one
        raise ValueError(
            "This solver does not support shrinkage: it needs a design with orthonormal columns. "
            "Use solver='native' or 'reference', or shrinkage=0."
        )


class _Entry(NamedTuple):
    module: str
    class_name: str
    package: str | None  # what has to be installed besides dconnet itself


_REGISTRY = {
    "native": _Entry("dconnet.convex.native", "Native", None),
    "reference": _Entry("dconnet.convex.reference", "Reference", None),
    "osqp": _Entry("dconnet.convex.external.osqp", "OSQP", "osqp"),
    "clarabel": _Entry("dconnet.convex.external.clarabel", "Clarabel", "clarabel"),
    "piqp": _Entry("dconnet.convex.external.piqp", "PIQP", "piqp"),
    "gurobi": _Entry("dconnet.convex.external.gurobi", "Gurobi", "gurobipy"),
    "admm": _Entry("dconnet.convex.admm", "ADMM", None),
    "parallel": _Entry("dconnet.convex.parallel", "Parallel", None),
}


def backend_names() -> list[str]:
    """Names of all known backends, installed or not."""
    return list(_REGISTRY)


def get_backend(backend: str | Backend) -> Backend:
    """The backend of that name, or the configured backend itself.

    Raises
    ------
    ValueError
        If there is no backend of that name.
    ImportError
        If the package that it needs is not installed; the message names the pip command.
    """
    if not isinstance(backend, str):
        if isinstance(backend, Backend):
            return backend
        raise ValueError(f"solver must be one of {backend_names()} or a backend object, got {backend!r}.")
    if backend not in _REGISTRY:
        raise ValueError(f"Unknown solver {backend!r}: choose one of {backend_names()}.")
    entry = _REGISTRY[backend]
    try:
        module = import_module(entry.module)
    except ModuleNotFoundError as error:
        if entry.package is None or error.name != entry.package:
            raise
        raise ImportError(
            f"Solver {backend!r} needs the package {entry.package}: pip install 'dconnet[{backend}]'"
        ) from error
    made: Backend = getattr(module, entry.class_name)()
    return made
