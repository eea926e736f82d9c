"""PIQP on the paper's quadratic programme: a proximal interior-point method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import piqp

from dconnet._arrays import FloatArray
from dconnet.convex.paper_form import (
    PaperForm,
    PaperFormSolver,
    QuadraticAnswer,
    QuadraticPoint,
    QuadraticProgramme,
)


@dataclass(frozen=True, slots=True)
class PIQP:
    """Backend for the solver of Schwan et al. (2023), https://predict-epfl.github.io/piqp.

    Parameters
    ----------
    tol : float
        Duality gap, relative, up to which the polished answer counts as converged.
    accuracy : float
        Duality gap and residuals at which PIQP stops, for the polish to take over.
    max_iter : int
        Limit on PIQP's iterations.
    """

    tol: float = 1e-10
    accuracy: float = 1e-10
    max_iter: int = 250

    def prepare(self, design: FloatArray) -> PaperFormSolver:
        """Set PIQP up with the constraints of this design."""
        form = PaperForm.of(design)
        solver = piqp.SparseSolver()
        settings = solver.settings
        settings.verbose = False
        settings.max_iter = self.max_iter
        settings.eps_abs = settings.eps_rel = self.accuracy
        settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = self.accuracy
        settings.kkt_solver = piqp.KKTSolver.sparse_ldlt_ineq_cond  # the fastest by half for many rows
        # v₃ and v₄ may grow by the same amount at no cost: along that direction only the regularisation keeps the
        # Newton systems solvable. With PIQP's own limit of 1e-10 some of them blow up; refinement repairs what the
        # larger one costs.
        settings.reg_lower_limit = settings.reg_finetune_lower_limit = 1e-7
        settings.iterative_refinement_always_enabled = True
        return PaperFormSolver(form, _Engine(form, solver), self.tol)


class _Engine:
    """One PIQP problem whose numbers change and whose pattern stays."""

    def __init__(self, form: PaperForm, solver: piqp.SparseSolver) -> None:
        self.solver, self.constraints = solver, form.constraints
        n_rows, n_variables = form.constraints.shape
        nominal = form.nominal()
        solver.setup(
            nominal.hessian,
            nominal.linear,
            A=form.constraints,
            b=np.zeros(n_rows),
            x_l=np.zeros(n_variables),
        )

    def answers(self, quadratic: QuadraticProgramme, start: QuadraticPoint | None) -> Iterator[QuadraticAnswer]:
        """One answer; interior points make no use of a start."""
        # A new P makes PIQP 0.6 rescale the constraints too, but its factorisation learns of that only if
        # they are given as well: without A it solves another programme.
        self.solver.update(P=quadratic.hessian, c=quadratic.linear, A=self.constraints)
        self.solver.solve()
        result = self.solver.result
        yield QuadraticAnswer(QuadraticPoint(result.x.copy(), result.y.copy()), result.info.iter)
