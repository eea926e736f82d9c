"""OSQP on the paper's quadratic programme: operator splitting, warm-started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import osqp
from scipy import sparse

from dconnet._arrays import FloatArray
from dconnet.convex.paper_form import (
    PaperForm,
    PaperFormSolver,
    QuadraticAnswer,
    QuadraticPoint,
    QuadraticProgramme,
)


@dataclass(frozen=True, slots=True)
class OSQP:
    """Backend for the solver of Stellato et al. (2020), https://osqp.org.

    Parameters
    ----------
    tol : float
        Duality gap, relative, up to which the polished answer counts as converged.
    accuracies : tuple of float
        Residuals, absolute and relative, at which OSQP hands over to the polish. As soon as the pattern of
        rows is right the polish is exact, so the first may be coarse; OSQP goes on to the next where needed.
    max_iter : int
        Limit on OSQP's iterations.
    """

    tol: float = 1e-10
    accuracies: tuple[float, ...] = (1e-5, 1e-7, 1e-9, 1e-11)
    max_iter: int = 20_000

    def prepare(self, design: FloatArray) -> PaperFormSolver:
        """Set OSQP up with the constraints of this design."""
        form = PaperForm.of(design)
        return PaperFormSolver(form, _Engine(form, self), self.tol)


# The numbers of the programmes are of order one, for which OSQP's own 0.1 is too small a step.
_INITIAL_RHO = 3.0

_SETTINGS = {
    "verbose": False,
    "rho": _INITIAL_RHO,
    # Every programme is feasible and bounded: what looks like a certificate of the contrary is rounding.
    "eps_prim_inf": 1e-15,
    "eps_dual_inf": 1e-15,
}


class _Engine:
    """One OSQP workspace whose numbers change and whose pattern stays.

    OSQP wants ``l ≤ [A; I] x ≤ u``, and gives the multipliers of all these rows.
    """

    def __init__(self, form: PaperForm, options: OSQP) -> None:
        self.constraints, self.options = form.constraints, options
        self.n_rows, self.n_variables = form.constraints.shape
        rows = sparse.csc_matrix(sparse.vstack([form.constraints, sparse.identity(self.n_variables)]))
        lower = np.zeros(self.n_rows + self.n_variables)
        upper = np.concatenate([np.zeros(self.n_rows), np.full(self.n_variables, np.inf)])
        nominal = form.nominal()
        self.workspace = osqp.OSQP(algebra="builtin")
        self.workspace.setup(nominal.hessian, nominal.linear, rows, lower, upper, **_SETTINGS)

    def answers(self, quadratic: QuadraticProgramme, start: QuadraticPoint | None) -> Iterator[QuadraticAnswer]:
        """Iterate until the residuals reach one accuracy after the other."""
        try:
            self._load(quadratic, start)
            yield from self._iterate()
        except (ValueError, osqp.OSQPException):  # numbers that OSQP refuses
            return

    def _load(self, quadratic: QuadraticProgramme, start: QuadraticPoint | None) -> None:
        if start is None:
            # Neither iterates nor step size may remember what was solved before.
            start = QuadraticPoint(np.zeros(self.n_variables), np.zeros(self.n_rows))
            self.workspace.update_settings(rho=_INITIAL_RHO)
        # OSQP keeps the upper triangle alone, and counts the entries of Px within it. All of them are given,
        # in the order in which the triangle was stored at setup.
        self.workspace.update(q=quadratic.linear, Px=quadratic.hessian.data)
        self.workspace.warm_start(start.x, np.concatenate([start.y, self._bound_multipliers(quadratic, start)]))

    def _bound_multipliers(self, quadratic: QuadraticProgramme, point: QuadraticPoint) -> FloatArray:
        """Multipliers of x ≥ 0: what is left of the gradient, which OSQP takes negative for lower bounds."""
        gradient: FloatArray = quadratic.full_hessian() @ point.x + quadratic.linear + self.constraints.T @ point.y
        return np.minimum(-gradient, 0.0)

    def _iterate(self) -> Iterator[QuadraticAnswer]:
        iterations = 0
        for accuracy in self.options.accuracies:
            left = self.options.max_iter - iterations
            if left <= 0:
                return
            self.workspace.update_settings(eps_abs=accuracy, eps_rel=accuracy, max_iter=left)
            result = self.workspace.solve(raise_error=False)
            iterations += result.info.iter
            yield QuadraticAnswer(QuadraticPoint(result.x, result.y[: self.n_rows]), iterations)
