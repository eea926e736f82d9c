"""The paper's own quadratic programme, which the external solvers receive.

With z = Qv split into its positive and negative part, z = v₁ - v₂, and v likewise into v₃ - v₄, it is

    min  <q, x> + ½ xᵀPx    subject to    Ax = 0,  x ≥ 0,    x = (v₁, v₂, v₃, v₄),

    q = (beta - d, d, 0, 0),    A = [-I  I  Q  -Q],

with P = 2 [[(a + gamma) I, -gamma I], [-gamma I, gamma I]] on (v₁, v₂) and zero elsewhere, for any d with
Qᵀd = t, here d = Qt. The paper's factor 1/m is dropped, and the whitened design stands in the place of M.

Let y be the multiplier of Ax = 0, in the Lagrangian ``objective + <y, Ax>``, and ``λ = y + d - 2 gamma z``. The
condition for v₂ says that λ is not negative, and zero where z < 0; the one for v₁ that λ is at most beta + 2 a v₁,
and equal to it where z > 0; those for v₃ and v₄ that Qᵀy = 0, hence 2 gamma v - t + Qᵀλ = 0. So this λ is the
multiplier of the hinges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from dconnet._arrays import FloatArray
from dconnet.convex.backend import ConvexSolution, require_orthonormal
from dconnet.convex.polish import polish
from dconnet.convex.programme import Programme
from dconnet.convex.scaling import Unit


class QuadraticProgramme(NamedTuple):
    """Numbers of one quadratic programme; its constraints belong to the form.

    Attributes
    ----------
    hessian : sparse CSC matrix of shape (2 n_rows + 2 rank, 2 n_rows + 2 rank)
        Upper triangle of P, with the same pattern for all programmes.
    linear : array of shape (2 n_rows + 2 rank,)
        q.
    """

    hessian: sparse.csc_matrix
    linear: FloatArray

    def full_hessian(self) -> sparse.csc_matrix:
        """P with both its triangles."""
        return sparse.csc_matrix(self.hessian + sparse.triu(self.hessian, k=1).T)


class QuadraticPoint(NamedTuple):
    """Primal and dual variables of the quadratic programme.

    Attributes
    ----------
    x : array of shape (2 n_rows + 2 rank,)
        (v₁, v₂, v₃, v₄).
    y : array of shape (n_rows,)
        Multiplier of ``Ax = 0`` in the Lagrangian ``objective + <y, Ax>``.
    """

    x: FloatArray
    y: FloatArray

    def is_finite(self) -> bool:
        """Whether all its numbers are numbers."""
        return bool(np.isfinite(self.x).all() and np.isfinite(self.y).all())


class QuadraticAnswer(NamedTuple):
    """What an engine reached, and after how many iterations."""

    point: QuadraticPoint
    iterations: int


class Engine(Protocol):
    """An external solver of quadratic programmes that has been set up for one form."""

    def answers(self, quadratic: QuadraticProgramme, start: QuadraticPoint | None) -> Iterator[QuadraticAnswer]:
        """Ever closer answers, as far as the engine can and the caller wants; none at all if it failed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PaperForm:
    """The quadratic programmes over one design.

    Attributes
    ----------
    matrix : array of shape (n_rows, rank)
        ``√n_rows Q``, whose columns have mean square one: entries of order one for any number of rows.
    constraints : sparse CSC matrix of shape (n_rows, 2 n_rows + 2 rank)
        A.
    """

    matrix: FloatArray
    constraints: sparse.csc_matrix

    @classmethod
    def of(cls, design: FloatArray) -> PaperForm:
        """Build the constraints, which depend on the design alone."""
        require_orthonormal(design)
        n_rows = len(design)
        matrix = np.sqrt(n_rows) * design
        identity = sparse.identity(n_rows, format="csc")
        dense = sparse.csc_matrix(matrix)
        constraints = sparse.hstack([-identity, identity, dense, -dense], format="csc")
        return cls(matrix, sparse.csc_matrix(constraints))

    @property
    def row_unit(self) -> float:
        """Factor between ``matrix`` and Q, hence between d, beta, z, λ here and in the programme."""
        return float(np.sqrt(len(self.matrix)))

    @property
    def n_variables(self) -> int:
        """Number of unknowns, 2 n_rows + 2 rank."""
        return int(self.constraints.shape[1])

    def quadratic(self, programme: Programme) -> QuadraticProgramme:
        """P and q of this programme."""
        d = self.matrix @ programme.linear
        linear = np.zeros(self.n_variables)
        linear[: 2 * len(d)] = np.concatenate([self.row_unit * programme.slope - d, d])
        return QuadraticProgramme(self._hessian(programme.curvature, programme.gamma), linear)

    def nominal(self) -> QuadraticProgramme:
        """A programme of this form to set a solver up with, before the numbers of the first one are known."""
        return QuadraticProgramme(self._hessian(0.5, 0.5), np.zeros(self.n_variables))

    def _hessian(self, curvature: float, gamma: float) -> sparse.csc_matrix:
        """Upper triangle of P: one entry in each column of v₁, two in each of v₂, none for v₃ and v₄."""
        n_rows, rank = self.matrix.shape
        first = np.arange(n_rows)
        data = np.concatenate(
            [np.full(n_rows, 2.0 * (curvature + gamma)), np.tile([-2.0 * gamma, 2.0 * gamma], n_rows)]
        )
        indices = np.concatenate([first, np.column_stack([first, n_rows + first]).ravel()])
        ends = np.concatenate([first, n_rows + 2 * first, np.full(2 * rank + 1, 3 * n_rows)])
        return sparse.csc_matrix((data, indices, ends), shape=(self.n_variables, self.n_variables))

    def point(self, programme: Programme, v: FloatArray, multipliers: FloatArray) -> QuadraticPoint:
        """The pair (v, λ) as a point of the quadratic programme."""
        z = self.matrix @ v
        x = np.concatenate([_positive(z), _positive(-z), _positive(v), _positive(-v)])
        d = self.matrix @ programme.linear
        return QuadraticPoint(x, self.row_unit * multipliers - d + 2.0 * programme.gamma * z)

    def pair(self, programme: Programme, point: QuadraticPoint) -> tuple[FloatArray, FloatArray]:
        """The pair (v, λ) from a point of the quadratic programme."""
        n_rows, rank = self.matrix.shape
        v1, v2, v3, v4 = np.split(point.x, [n_rows, 2 * n_rows, 2 * n_rows + rank])
        d = self.matrix @ programme.linear
        return v3 - v4, (point.y + d - 2.0 * programme.gamma * (v1 - v2)) / self.row_unit


def _positive(values: FloatArray) -> FloatArray:
    return np.maximum(values, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class PaperFormSolver:
    """A backend that hands the paper's quadratic programme to an external engine.

    Attributes
    ----------
    form : PaperForm
        The form for the prepared design.
    engine : Engine
        The external solver, set up for the form.
    tol : float
        Duality gap, relative, up to which the polished answer counts as converged.
    """

    form: PaperForm
    engine: Engine
    tol: float

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve one programme, from the answer to a similar one where the engine can make use of it."""
        unit = Unit.of(programme)
        if unit.length == 0.0:
            return ConvexSolution(np.zeros_like(programme.linear), np.zeros_like(programme.slope), 0, True)
        scaled, solution = unit.scaled(programme), None
        for answer in self.engine.answers(self.form.quadratic(scaled), self._start(unit, scaled, start)):
            if answer.point.is_finite():
                v, multipliers = self.form.pair(scaled, answer.point)
                solution = self._polished(programme, unit.length * v, unit.gradient * multipliers, answer.iterations)
            if solution is not None and solution.converged:
                break
        return solution or self._without_answer(programme)

    def _without_answer(self, programme: Programme) -> ConvexSolution:
        """What is left if the engine failed: a finite answer that says itself whether it is good enough."""
        zero = np.zeros_like(programme.linear)
        return self._polished(programme, zero, programme.multipliers(zero), 0)

    def _start(self, unit: Unit, scaled: Programme, start: ConvexSolution | None) -> QuadraticPoint | None:
        if start is None:
            return None
        return self.form.point(scaled, start.v / unit.length, start.multipliers / unit.gradient)

    def _polished(
        self, programme: Programme, v: FloatArray, multipliers: FloatArray, iterations: int
    ) -> ConvexSolution:
        v, multipliers = polish(programme, v, multipliers)
        # Where the slopes dwarf the linear term, the gap alone calls answers closed that are far from optimal. At a
        # solution the residual is of the order of its square root.
        converged = programme.relative_gap(v, multipliers) <= self.tol and programme.kkt_residual(
            v, multipliers
        ) <= np.sqrt(self.tol)
        return ConvexSolution(v, multipliers, iterations, bool(converged))
