"""Gurobi on the paper's quadratic programme: a commercial interior-point method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import gurobipy
import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.paper_form import (
    PaperForm,
    PaperFormSolver,
    QuadraticAnswer,
    QuadraticPoint,
    QuadraticProgramme,
)


@dataclass(frozen=True, slots=True)
class Gurobi:
    """Backend for Gurobi, https://www.gurobi.com.

    The licence that comes with ``pip install gurobipy`` allows quadratic programmes of up to 200 unknowns;
    the paper's form has 2 (n_rows + rank) of them.

    Parameters
    ----------
    tol : float
        Duality gap, relative, up to which the polished answer counts as converged.
    accuracy : float
        Complementarity gap at which Gurobi's barrier method stops, for the polish to take over.
    max_iter : int
        Limit on barrier iterations.
    """

    tol: float = 1e-10
    accuracy: float = 1e-10
    max_iter: int = 200

    def prepare(self, design: FloatArray) -> PaperFormSolver:
        """Build Gurobi's model with the constraints of this design."""
        form = PaperForm.of(design)
        settings = {
            "OutputFlag": 0,  # before the environment starts, or it prints its licence
            "Threads": 1,
            "Method": 2,  # barrier
            "ScaleFlag": 0,  # the numbers are of order one already; Gurobi's own scaling loses digits here
            "BarConvTol": self.accuracy,
            "BarIterLimit": self.max_iter,
            "FeasibilityTol": 1e-9,
            "OptimalityTol": 1e-9,
        }
        return PaperFormSolver(form, _Engine(form, settings), self.tol)


class _Engine:
    """One Gurobi model of which the objective changes."""

    def __init__(self, form: PaperForm, settings: dict[str, float]) -> None:
        # Any: Gurobi's stubs do not know that it takes sparse matrices.
        self.model = cast(Any, gurobipy.Model(env=gurobipy.Env(params=settings)))
        n_rows, self.n_variables = form.constraints.shape
        self.x = self.model.addMVar(self.n_variables, lb=0.0)
        self.rows = self.model.addMConstr(form.constraints, self.x, "=", np.zeros(n_rows))

    def answers(self, quadratic: QuadraticProgramme, start: QuadraticPoint | None) -> Iterator[QuadraticAnswer]:
        """One answer; interior points make no use of a start."""
        self.model.setMObjective(0.5 * quadratic.full_hessian(), quadratic.linear, 0.0)
        try:
            self.model.optimize()
            # Gurobi's Lagrangian subtracts <Pi, Ax>.
            point = QuadraticPoint(np.array(self.x.X), -np.array(self.rows.Pi))
        except gurobipy.GurobiError as error:
            if error.errno == gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED:
                raise ValueError(self._size_message()) from error
            return  # no answer at all, for example because the iteration limit came too early
        yield QuadraticAnswer(point, self.model.BarIterCount)

    def _size_message(self) -> str:
        return (
            f"The programme has {self.n_variables} unknowns, more than this Gurobi licence allows "
            "(200 for the one that pip installs). Install a full licence, see https://www.gurobi.com, "
            "or choose another solver, such as 'native' or 'clarabel'."
        )
