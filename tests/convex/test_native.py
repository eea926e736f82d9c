"""The compiled backend: misleading starts, layouts of the design, and the reported method."""

import numpy as np

from dconnet.convex.native import Native
from dconnet.convex.programme import Programme, get_backend
from dconnet.model.whitening import Whitening
from problems import catalogue
from tolerances import KKT


def dying_neuron(seed):
    """The solution is zero, and most slopes are ten thousand times the linear term."""
    rng = np.random.default_rng(seed)
    design = Whitening.of(rng.normal(size=(50, 5))).Q
    slope = np.where(rng.random(50) < 0.8, 1e4 * np.abs(rng.normal(size=50)), np.maximum(rng.normal(size=50), 0.0))
    linear = design.T @ (rng.random(50) * np.minimum(slope, 1.0))
    return Programme(design, linear, slope, curvature=1.0, gamma=1e-3)


def test_nan_is_reported_as_not_converged():
    programme = dying_neuron(0)
    broken = Programme(programme.design, np.full(5, np.nan), programme.slope, 1.0, 1e-3)
    answer = get_backend("native").prepare(programme.design).solve(broken)
    assert not answer.converged
    assert answer.method == "none"
    assert np.isfinite(answer.v).all()


def test_any_layout_of_the_design_gives_the_same_answer():
    programme = dying_neuron(1)
    layouts = [np.ascontiguousarray(programme.design), np.asfortranarray(programme.design), programme.design]
    wide = np.full((50, 8), np.nan)  # rows of the right width, but no zeros behind the columns
    wide[:, :5] = programme.design
    answers = [Native().prepare(design).solve(programme).v for design in [*layouts, wide[:, :5]]]
    for v in answers[1:]:
        np.testing.assert_array_equal(v, answers[0])


def test_a_start_that_is_the_solution_takes_no_step():
    """Also where so many rows are at their kink that the walk cannot begin."""
    programme = catalogue()["repeated rows"].programme
    solver = Native().prepare(programme.design)
    solved = solver.solve(programme)
    again = solver.solve(programme, solved)
    assert (again.method, again.iterations) == ("start", 0)
    assert again.kkt_residual(programme) <= KKT
