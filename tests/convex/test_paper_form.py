"""The paper's quadratic programme: equivalence, warm starts, and engines that fail."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dconnet.convex.paper_form import (
    PaperForm,
    PaperFormSolver,
    QuadraticAnswer,
    QuadraticPoint,
    QuadraticProgramme,
)
from dconnet.convex.reference import Reference
from problems import catalogue
from tolerances import ROUNDING

PROGRAMMES = {
    name: catalogue()[name].programme
    for name in ("typical 40x4 gamma=0.1 alpha=1", "known solution, 6 kinked rows", "zero: multipliers well inside")
}


@pytest.fixture(params=PROGRAMMES)
def solved(request: pytest.FixtureRequest) -> tuple:
    """A programme, its form, its solution, and the solution as a point of the quadratic programme."""
    programme = PROGRAMMES[request.param]
    solution = Reference().prepare(programme.design).solve(programme)
    form = PaperForm.of(programme.design)
    return programme, form, solution, form.point(programme, solution.v, solution.multipliers)


def test_form_is_the_one_of_the_paper(solved: tuple) -> None:
    programme, form, *_ = solved
    n_rows, rank = programme.design.shape
    identity, matrix = np.eye(n_rows), np.sqrt(n_rows) * programme.design
    a, gamma = programme.curvature, programme.gamma
    block = 2.0 * np.block([[(a + gamma) * identity, -gamma * identity], [-gamma * identity, gamma * identity]])
    P = np.pad(block, (0, 2 * rank))
    np.testing.assert_array_equal(form.quadratic(programme).full_hessian().toarray(), P)
    np.testing.assert_array_equal(form.constraints.toarray(), np.hstack([-identity, identity, matrix, -matrix]))


def test_only_the_upper_triangle_is_stored_and_its_pattern_stays(solved: tuple) -> None:
    programme, form, *_ = solved
    first, second = form.nominal().hessian, form.quadratic(programme).hessian
    assert (np.tril(first.toarray(), -1) == 0.0).all()
    assert (first.indices == second.indices).all()
    assert (first.indptr == second.indptr).all()


def test_objectives_agree_up_to_the_unit_of_the_rows(solved: tuple) -> None:
    programme, form, solution, point = solved
    quadratic = form.quadratic(programme)
    value = quadratic.linear @ point.x + 0.5 * point.x @ (quadratic.full_hessian() @ point.x)
    assert value / len(programme.design) == pytest.approx(
        programme.value(solution.v), rel=1e-9, abs=ROUNDING * programme.magnitude
    )


def test_solution_is_optimal_for_the_quadratic_programme(solved: tuple) -> None:
    programme, form, _, (x, y) = solved
    quadratic = form.quadratic(programme)
    gradient = quadratic.full_hessian() @ x + quadratic.linear + form.constraints.T @ y
    scale = np.max(np.abs(quadratic.linear))
    assert np.max(np.abs(form.constraints @ x)) <= ROUNDING * max(1.0, np.max(x))
    assert np.min(gradient) >= -ROUNDING * scale
    assert np.max(np.abs(gradient * x)) <= ROUNDING * scale * max(1.0, np.max(x))


def test_pair_is_recovered_from_its_point(solved: tuple) -> None:
    programme, form, solution, point = solved
    v, multipliers = form.pair(programme, point)
    np.testing.assert_allclose(v, solution.v, rtol=0.0, atol=ROUNDING)
    np.testing.assert_allclose(multipliers, solution.multipliers, rtol=0.0, atol=ROUNDING)


class Scripted:
    """An engine that gives the answers it was told to give."""

    def __init__(self, *points: QuadraticPoint) -> None:
        self.points, self.given = points, 0

    def answers(self, quadratic: QuadraticProgramme, start: QuadraticPoint | None) -> Iterator[QuadraticAnswer]:
        for point in self.points:
            self.given += 1
            yield QuadraticAnswer(point, self.given)


def scripted_solve(*fill: float, tol: float = 1e-10) -> tuple:
    programme = PROGRAMMES["typical 40x4 gamma=0.1 alpha=1"]
    form = PaperForm.of(programme.design)
    points = [QuadraticPoint(np.full(form.n_variables, value), np.full(len(programme.slope), value)) for value in fill]
    engine = Scripted(*points)
    return PaperFormSolver(form, engine, tol).solve(programme), engine


@pytest.mark.parametrize("fill", [(), (np.nan,), (np.inf, np.nan)], ids=["no answer", "NaN", "infinity"])
def test_failed_engine_leaves_a_finite_answer_that_does_not_count_as_converged(fill: tuple[float, ...]) -> None:
    solution, _ = scripted_solve(*fill)
    assert np.isfinite(solution.v).all()
    assert not solution.converged


def test_engine_is_asked_again_while_its_answers_are_too_coarse() -> None:
    solution, engine = scripted_solve(1.0, 2.0, 3.0, tol=0.0)  # which nothing but an exact zero satisfies
    assert (solution.iterations, engine.given) == (3, 3)
