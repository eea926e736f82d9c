"""Inexact DCA: every step keeps its share of the decrease, and the limit is the same."""

from types import SimpleNamespace

import numpy as np
import pytest

from dconnet import Status
from dconnet.convex.programme import ConvexSolution, get_backend
from dconnet.training.dc import SPLITS
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from problems import assert_descent, catalogue, make_problem

SHARE = 0.1
ABLE = ["native", "reference"]
CASES = {name: case.programme for name, case in catalogue().items() if not case.extreme}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ABLE)
def test_inexact_answer_has_its_share_of_the_best_decrease(backend, case):
    programme = CASES[case]
    solver = get_backend(backend).prepare(programme.design)
    rng = np.random.default_rng(0)
    length = np.linalg.norm(programme.linear) / (programme.gamma + programme.curvature)
    for scale in (0.0, 1e-3, 1.0):
        v = scale * length * rng.standard_normal(programme.design.shape[1])
        start = ConvexSolution(v, programme.multipliers(v), 0, True)
        exact = solver.solve(programme, start)
        inexact = solver.solve_until(programme, start, programme.value(v), SHARE)
        assert inexact.converged
        assert inexact.iterations <= exact.iterations
        best = programme.value(v) - programme.value(exact.v)
        reached = programme.value(v) - programme.value(inexact.v)
        assert reached >= best / (1.0 + SHARE) - 1e-9 * (best + programme.magnitude)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("solver", ABLE)
def test_inexact_descent_has_the_same_limit_and_takes_fewer_iterations(solver, split):
    problem = make_problem(gamma=1.0, n_rows=40)
    start = xavier(3, 2, np.random.default_rng(0))
    reached = []
    for inexact in (False, True):
        backend = SimpleNamespace(prepare=get_backend(solver).prepare)  # no compiled sweep, which counts differently
        options = Options(split=split, tol=1e-5, inexact=inexact, max_epochs=5000)
        reached.append(Descent(problem, backend, options, np.random.default_rng(1)).run(start))
        assert reached[-1].status is Status.CONVERGED
        assert_descent(reached[-1].history)
    exact, inexact = reached
    assert inexact.objective == pytest.approx(exact.objective, rel=1e-8)
    assert inexact.history.total("iterations") < exact.history.total("iterations")
