"""Inexact DCA: every step keeps its share of the decrease, and the limit is the same."""

import numpy as np
import pytest

from dconnet import DCONRegressor, PaperAlgorithm, Status
from dconnet.convex.backend import ConvexSolution, get_backend, solve_inexactly
from dconnet.training.dc import SPLITS, NeuronProblem, dca
from dconnet.training.sweep import PythonSweep
from problems import catalogue, whitened_setting

SHARE = 0.1
ABLE = ["native", "reference"]
CASES = {name: case.programme for name, case in catalogue().items() if not case.extreme}


def answers(backend, programme, v):
    """Return the exact and the inexact answer from the point v."""
    solver = get_backend(backend).prepare(programme.design)
    start = ConvexSolution(v, programme.multipliers(v), 0, True)
    return solver.solve(programme, start), solver.solve_until(programme, start, programme.value(v), SHARE)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ABLE)
def test_inexact_answer_has_its_share_of_the_best_decrease(backend, case):
    programme = CASES[case]
    rng = np.random.default_rng(0)
    length = np.linalg.norm(programme.linear) / (programme.gamma + programme.curvature)
    for scale in (0.0, 1e-3, 1.0):
        v = scale * length * rng.standard_normal(programme.design.shape[1])
        exact, inexact = answers(backend, programme, v)
        assert inexact.converged
        assert inexact.iterations <= exact.iterations
        best = programme.value(v) - programme.value(exact.v)
        reached = programme.value(v) - programme.value(inexact.v)
        assert reached >= best / (1.0 + SHARE) - 1e-9 * (best + programme.magnitude)


@pytest.mark.parametrize("backend", ABLE)
def test_an_exact_start_stays(backend):
    """From the solution, the decrease is zero, and so is any share of it."""
    programme = CASES["typical 300x8 gamma=0.01 alpha=1"]
    solution = get_backend("reference").prepare(programme.design).solve(programme).v
    _, inexact = answers(backend, programme, solution)
    np.testing.assert_allclose(inexact.v, solution, atol=1e-8 * np.abs(solution).max())


class ExactOnly:
    """A backend that cannot stop early."""

    def __init__(self, inner):
        self.inner = inner

    def prepare(self, design):
        return ExactOnly(self.inner.prepare(design))

    def solve(self, programme, start=None):
        return self.inner.solve(programme, start)


def test_solvers_that_cannot_stop_early_stay_exact():
    programme = CASES["typical 40x4 gamma=0.1 alpha=1"]
    solver = ExactOnly(get_backend("reference")).prepare(programme.design)
    answer = solve_inexactly(solver, programme, None, np.ones(5))
    np.testing.assert_array_equal(answer.v, solver.solve(programme).v)
    X, y = data()
    settings = {"gamma": 0.1, "max_epochs": 3, "tol": 1e9, "random_state": 0}
    model = DCONRegressor(
        2, algorithm=PaperAlgorithm(solver=ExactOnly(get_backend("reference")), inexact=True), **settings
    ).fit(X, y)
    assert np.all(np.diff(model.history_.objective) <= 0.0)


@pytest.mark.parametrize("backend", ABLE)
@pytest.mark.parametrize("split", SPLITS)
def test_inexact_sweep_takes_fewer_iterations(split, backend):
    """Both sweeps are those in Python: the compiled one counts other iterations."""
    counts = {}
    for inexact in (False, True):
        problem, V, alpha = whitened_setting()
        before = problem.regloss(V, alpha)
        solver = get_backend(backend).prepare(problem.Q)
        tally = PythonSweep(problem, solver, split, 50, inexact=inexact).run(V, alpha, np.arange(5), np.inf)
        assert problem.regloss(V, alpha) < before
        assert (tally.refused, tally.unsolved) == (0, 0)
        counts[inexact] = tally.iterations / tally.programmes
    assert counts[True] < counts[False]


def data(n_rows=80):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 1]


@pytest.mark.parametrize("solver", ABLE)
def test_inexact_fit_has_the_same_limit(solver):
    X, y = data(n_rows=40)
    settings = {"gamma": 1.0, "tol": 1e-5, "random_state": 2, "scale": False}
    exact, inexact = (
        DCONRegressor(
            2, algorithm=PaperAlgorithm(split="net", kinks="active", solver=solver, inexact=inexact), **settings
        ).fit(X, 3.0 * y)
        for inexact in (False, True)
    )
    assert inexact.status_ is exact.status_ is Status.CONVERGED
    assert inexact.objective_ == pytest.approx(exact.objective_, rel=1e-8)
    assert max(exact.stationarity_, inexact.stationarity_) < 1e-4
    if solver != "native":  # an exact fit with the native solver uses the compiled sweep, which counts differently
        assert inexact.history_.total("iterations") < exact.history_.total("iterations")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ABLE)
@pytest.mark.parametrize("restart", [False, True])
def test_regloss_never_rises(restart, solver):
    X, y = data()
    model = DCONRegressor(
        3,
        gamma=0.05,
        algorithm=PaperAlgorithm(solver=solver, restart=restart, inexact=True),
        max_epochs=8,
        random_state=0,
        scale=False,
    )
    history = model.fit(X, y).history_
    assert np.all(np.diff(history.objective) <= 0.0)
    assert history.total("refused") == history.total("unsolved") == 0


def test_inexact_dca_does_not_touch_the_tangent_it_is_given():
    neuron = NeuronProblem(np.array([[0.6], [-0.8]]), np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1.0, 0.1)
    tangent = np.array([True, True])
    dca(neuron, np.zeros(1), get_backend("native").prepare(neuron.design), 5, tangent=tangent, inexact=True)
    assert tangent.all()
