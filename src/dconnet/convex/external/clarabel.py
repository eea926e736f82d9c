"""Clarabel on the paper's quadratic programme: an interior-point method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import clarabel
import numpy as np
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
class Clarabel:
    """Backend for the solver of Goulart and Chen (2024), https://clarabel.org.

    Parameters
    ----------
    tol : float
        Duality gap, relative, up to which the polished answer counts as converged.
    accuracy : float
        Duality gap and residuals at which Clarabel stops, for the polish to take over.
    max_iter : int
        Limit on Clarabel's iterations.
    """

    tol: float = 1e-10
    accuracy: float = 1e-10
    max_iter: int = 200

    def prepare(self, design: FloatArray) -> PaperFormSolver:
        """Set Clarabel up with the constraints of this design."""
        form = PaperForm.of(design)
        return PaperFormSolver(form, _Engine(form, self._settings()), self.tol)

    def _settings(self) -> clarabel.DefaultSettings:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_iter = self.max_iter
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = self.accuracy
        settings.presolve_enable = False  # it would forbid new numbers in an old problem
        # v₃ and v₄ may grow by the same amount at no cost: along that direction only the regularisation keeps the
        # Newton systems solvable. With Clarabel's own 1e-8, 3 % of programmes with many columns end too early.
        settings.static_regularization_constant = 1e-7
        settings.max_threads = 1
        return settings


class _Engine:
    """One Clarabel problem, ``[A; -I] x + s = 0`` with s zero for A and not negative for -I."""

    def __init__(self, form: PaperForm, settings: clarabel.DefaultSettings) -> None:
        self.n_rows, n_variables = form.constraints.shape
        rows = sparse.csc_matrix(sparse.vstack([form.constraints, -sparse.identity(n_variables)]))
        cones = [clarabel.ZeroConeT(self.n_rows), clarabel.NonnegativeConeT(n_variables)]
        nominal = form.nominal()
        right_side = np.zeros(self.n_rows + n_variables)
        self.problem = clarabel.DefaultSolver(nominal.hessian, nominal.linear, rows, right_side, cones, settings)

    def answers(self, quadratic: QuadraticProgramme, start: QuadraticPoint | None) -> Iterator[QuadraticAnswer]:
        """One answer; interior points make no use of a start."""
        self.problem.update(P=quadratic.hessian, q=quadratic.linear)
        solution = self.problem.solve()
        point = QuadraticPoint(np.array(solution.x), np.array(solution.z)[: self.n_rows])
        yield QuadraticAnswer(point, solution.iterations)
