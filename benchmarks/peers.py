"""General solvers of quadratic programmes, called directly.

Each solves a programme from scratch (`cold`: set-up included), and then a similar programme over the same design
(`warm`: new numbers in the old workspace, from the last iterate where the package supports it).
"""

from __future__ import annotations

from typing import Any

import clarabel
import numpy as np
import osqp
import piqp
from scipy import sparse

from dconnet.convex.native import Native
from dconnet.convex.programme import ConvexSolution, Programme

TIME_LIMIT = 30.0  # seconds for one solve
ACCURACY = 1e-9
OSQP_ACCURACY = 1e-5


class NativePeer:
    """The compiled backend of this package."""

    def cold(self, programme: Programme) -> ConvexSolution:
        self.solver = Native().prepare(programme.design)
        self.last = self.solver.solve(programme)
        return self.last

    def warm(self, programme: Programme) -> ConvexSolution:
        return self.solver.solve(programme, self.last)


class OSQPPeer:
    """OSQP on the paper's form with default settings, a usual accuracy, and no polish."""

    def cold(self, programme: Programme) -> ConvexSolution:
        n_rows, rank = programme.design.shape
        matrix = sparse.csc_matrix(np.sqrt(n_rows) * programme.design)
        identity = sparse.identity(n_rows)
        n_variables = 2 * (n_rows + rank)
        equations = sparse.hstack([-identity, identity, matrix, -matrix])
        rows = sparse.vstack([equations, sparse.identity(n_variables)], format="csc")
        hessian, linear = self._numbers(programme)
        upper = np.concatenate([np.zeros(n_rows), np.full(n_variables, np.inf)])
        self.workspace = osqp.OSQP(algebra="builtin")
        self.workspace.setup(
            hessian,
            linear,
            sparse.csc_matrix(rows),
            np.zeros(len(upper)),
            upper,
            verbose=False,
            eps_abs=OSQP_ACCURACY,
            eps_rel=OSQP_ACCURACY,
            max_iter=20_000,
            time_limit=TIME_LIMIT,
        )
        return self._solve(programme)

    def warm(self, programme: Programme) -> ConvexSolution:
        hessian, linear = self._numbers(programme)
        self.workspace.update(q=linear, Px=hessian.data)
        return self._solve(programme)

    def _numbers(self, programme: Programme) -> tuple[sparse.csc_matrix, np.ndarray]:
        """Return Hessian (upper triangle) and linear term for (v₁, v₂, v₃, v₄) with Qv = v₁ - v₂ and v = v₃ - v₄."""
        n_rows, rank = programme.design.shape
        gamma, identity = programme.gamma, sparse.identity(n_rows)
        triangle = sparse.bmat(
            [
                [2.0 * (programme.curvature + gamma) * identity, -2.0 * gamma * identity, None],
                [None, 2.0 * gamma * identity, None],
                [None, None, sparse.csc_matrix((2 * rank, 2 * rank))],
            ],
            format="csc",
        )
        triangle.sort_indices()
        root = np.sqrt(n_rows)
        self.d = root * (programme.design @ programme.linear)
        linear = np.concatenate([root * programme.slope - self.d, self.d, np.zeros(2 * rank)])
        return sparse.csc_matrix(triangle), linear

    def _solve(self, programme: Programme) -> ConvexSolution:
        result = self.workspace.solve(raise_error=False)
        n_rows, rank = programme.design.shape
        v1, v2, v3, v4 = np.split(result.x, [n_rows, 2 * n_rows, 2 * n_rows + rank])
        multipliers = (result.y[:n_rows] + self.d - 2.0 * programme.gamma * (v1 - v2)) / np.sqrt(n_rows)
        return ConvexSolution(v3 - v4, multipliers, result.info.iter, result.info.status == "solved")


class ClarabelPeer:
    """Clarabel on the reduced form, ``min gamma |v|² - <t, v> + <beta, s> + a |s|²`` with s ≥ Qv and s ≥ 0."""

    def cold(self, programme: Programme) -> ConvexSolution:
        n_rows, rank = programme.design.shape
        identity = sparse.identity(n_rows, format="csc")
        below = sparse.hstack([sparse.csc_matrix((n_rows, rank)), -identity])
        rows = sparse.vstack([_coupling(programme), below], format="csc")
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.presolve_enable, settings.max_threads = False, False, 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = ACCURACY
        settings.time_limit = TIME_LIMIT
        self.problem = clarabel.DefaultSolver(
            _hessian(programme),
            _linear(programme),
            sparse.csc_matrix(rows),
            np.zeros(2 * n_rows),
            [clarabel.NonnegativeConeT(2 * n_rows)],
            settings,
        )
        return self._solve(programme)

    def warm(self, programme: Programme) -> ConvexSolution:
        self.problem.update(P=_hessian(programme), q=_linear(programme))
        return self._solve(programme)

    def _solve(self, programme: Programme) -> ConvexSolution:
        n_rows, rank = programme.design.shape
        solution = self.problem.solve()
        solved = str(solution.status) == "Solved"
        return ConvexSolution(np.array(solution.x[:rank]), np.array(solution.z[:n_rows]), solution.iterations, solved)


class PIQPPeer:
    """PIQP on the reduced form."""

    def cold(self, programme: Programme) -> ConvexSolution:
        n_rows, rank = programme.design.shape
        self.solver = piqp.SparseSolver()
        settings = self.solver.settings
        settings.verbose = False
        settings.eps_abs = settings.eps_rel = ACCURACY
        settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = ACCURACY
        self.coupling = _coupling(programme)
        self.solver.setup(
            _hessian(programme),
            _linear(programme),
            G=self.coupling,
            h_u=np.zeros(n_rows),
            x_l=np.concatenate([np.full(rank, -np.inf), np.zeros(n_rows)]),
        )
        return self._solve(programme)

    def warm(self, programme: Programme) -> ConvexSolution:
        # A new P makes PIQP 0.6 rescale the constraints too; its factorisation is updated only if G is passed again.
        self.solver.update(P=_hessian(programme), c=_linear(programme), G=self.coupling)
        return self._solve(programme)

    def _solve(self, programme: Programme) -> ConvexSolution:
        status = self.solver.solve()
        result = self.solver.result
        v = result.x[: programme.design.shape[1]].copy()
        return ConvexSolution(v, result.z_u.copy(), result.info.iter, status == piqp.PIQP_SOLVED)


def _hessian(programme: Programme) -> sparse.csc_matrix:
    n_rows, rank = programme.design.shape
    diagonal = np.concatenate([np.full(rank, 2.0 * programme.gamma), np.full(n_rows, 2.0 * programme.curvature)])
    return sparse.csc_matrix(sparse.diags(diagonal))


def _linear(programme: Programme) -> np.ndarray:
    return np.concatenate([-programme.linear, programme.slope])


def _coupling(programme: Programme) -> sparse.csc_matrix:
    """Return the rows of Qv - s ≤ 0, whose multipliers are those of the programme."""
    identity = sparse.identity(len(programme.slope), format="csc")
    return sparse.csc_matrix(sparse.hstack([sparse.csc_matrix(programme.design), -identity]))


PEERS: dict[str, type[Any]] = {"native": NativePeer, "osqp": OSQPPeer, "clarabel": ClarabelPeer, "piqp": PIQPPeer}
