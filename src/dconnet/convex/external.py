"""Solvers of quadratic programmes from other packages, through qpsolvers.

With s_j for max(z_j, 0), the programme is a strictly convex quadratic one in x = (v, s), with n_rows + rank unknowns:

    min  gamma |v|² - <t, v> + <beta, s> + a |s|²    subject to    Qv - s ≤ 0  and  s ≥ 0.

The multipliers of the first constraints are λ. For any number of rows the numbers are of order one: s is multiplied by
√n_rows, and the objective by n_rows.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from dconnet._arrays import FloatArray
from dconnet.convex.programme import ConvexSolution, Programme, backend_names, solve_scaled
from dconnet.convex.reference import polish

# Settings that make each solver accurate enough for the polish to find the solution to rounding, on one thread.
# Solvers that are not listed run with their own defaults.
ACCURATE: dict[str, dict[str, Any]] = {
    "osqp": {
        **dict.fromkeys(("eps_abs", "eps_rel"), 1e-9),
        # Every programme is feasible and bounded: a certificate of the contrary could only be rounding.
        **dict.fromkeys(("eps_prim_inf", "eps_dual_inf"), 1e-15),
        "rho": 3.0,  # the numbers are of order one, for which OSQP's own 0.1 is too small a step
        "max_iter": 20_000,
    },
    "clarabel": {**dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10), "max_threads": 1},
    "piqp": dict.fromkeys(("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"), 1e-10),
    "gurobi": {"FeasibilityTol": 1e-9, "OptimalityTol": 1e-9, "BarConvTol": 1e-10, "Threads": 1},
    "proxqp": {"eps_abs": 1e-10},
    "scs": {"eps_abs": 1e-9, "eps_rel": 1e-9},
}

# Filters of warnings belong to the whole process: threads change them in turn.
_FILTERS = threading.Lock()


@dataclass(frozen=True, slots=True)
class External:
    """Backend for the solvers of qpsolvers, https://qpsolvers.github.io/qpsolvers.

    Parameters
    ----------
    name : str
        Name of the solver in qpsolvers, such as "osqp", "clarabel", "piqp", "gurobi", "highs" or "quadprog".
    tol : float
        Relative duality gap at which the polished answer counts as converged.
    options : mapping
        Settings of the solver, as qpsolvers takes them; they override those of `ACCURATE`. For example, "max_iter"
        limits the iterations of OSQP, Clarabel and PIQP.
    """

    name: str
    tol: float = 1e-10
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            import qpsolvers
        except ModuleNotFoundError as error:
            raise ImportError(
                f"Solver {self.name!r} is none of the built-in solvers {backend_names()} and needs the package "
                f"qpsolvers: pip install 'qpsolvers[{self.name}]'"
            ) from error
        if self.name in qpsolvers.available_solvers:
            return
        if hasattr(qpsolvers.solvers, f"{self.name}_solve_problem"):
            raise ImportError(f"Solver {self.name!r} is not installed: pip install 'qpsolvers[{self.name}]'")
        choices = [*backend_names(), *qpsolvers.available_solvers]
        raise ValueError(f"Unknown solver {self.name!r}: choose one of {choices}.")

    def prepare(self, design: FloatArray) -> ExternalSolver:
        """Build the constraints of this design."""
        n_rows, rank = design.shape
        rows = sparse.csc_matrix(np.sqrt(n_rows) * design)
        minus, nothing = -sparse.identity(n_rows), sparse.csc_matrix((n_rows, rank))
        return ExternalSolver(self, sparse.csc_matrix(sparse.bmat([[rows, minus], [nothing, minus]])))


@dataclass(frozen=True, slots=True, eq=False)
class ExternalSolver:
    """The prepared backend. qpsolvers sets its solver up again for every programme."""

    backend: External
    constraints: sparse.csc_matrix

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve a programme; solvers that qpsolvers can warm-start, such as OSQP, begin at the start's v."""
        return solve_scaled(programme, start, self._solve)

    def _solve(self, programme: Programme, start: ConvexSolution | None) -> ConvexSolution:
        import qpsolvers

        n_rows, rank = programme.design.shape
        root = np.sqrt(n_rows)
        curvatures = [np.full(rank, 2.0 * n_rows * programme.gamma), np.full(n_rows, 2.0 * programme.curvature)]
        matrices: list[Any] = [sparse.diags(np.concatenate(curvatures), format="csc"), self.constraints]
        if self.backend.name not in qpsolvers.sparse_solvers:
            matrices = [matrix.toarray() for matrix in matrices]
        q = np.concatenate([-n_rows * programme.linear, root * programme.slope])
        problem = qpsolvers.Problem(matrices[0], q, matrices[1], np.zeros(2 * n_rows))
        x = None
        if start is not None:
            x = np.concatenate([start.v, root * np.maximum(programme.design @ start.v, 0.0)])
        options = ACCURATE.get(self.backend.name, {}) | dict(self.backend.options)
        v, multipliers, iterations = np.full(rank, np.nan), np.full(n_rows, np.nan), 0
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an answer short of the tolerance is reported by `converged`
            with suppress(qpsolvers.ProblemError, qpsolvers.SolverError):
                answer = qpsolvers.solve_problem(problem, self.backend.name, x, **options)
                if answer.x is not None and answer.z is not None and len(answer.z) == 2 * n_rows:
                    v, multipliers = np.array(answer.x)[:rank], np.array(answer.z)[:n_rows] / root
                    iterations = int(getattr(answer.extras.get("info"), "iter", 0))
        if not (np.isfinite(v).all() and np.isfinite(multipliers).all()):
            v = np.zeros_like(v)
            multipliers = programme.multipliers(v)
        v, multipliers = polish(programme, v, multipliers)
        return ConvexSolution(v, multipliers, iterations, programme.is_solved(v, multipliers, self.backend.tol))
