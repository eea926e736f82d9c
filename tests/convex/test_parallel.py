"""The paper's parallel solver: batches, both methods, and the backends of joblib."""

from dataclasses import replace

import joblib
import numpy as np
import pytest

from dconnet import DCONRegressor, PaperAlgorithm
from dconnet.convex.native import Native
from dconnet.convex.parallel import Parallel
from problems import catalogue
from tolerances import KKT

CASES = catalogue()
SOME = [
    "typical 40x4 gamma=0.1 alpha=1",
    "typical 60x5 gamma=10 alpha=0.1",
    "known solution, 3 kinked rows",
    "zero: multipliers well inside",
    "rank-deficient inputs",
]
METHODS = ["augmented-lagrangian", "penalty"]


def excess(programme, v):
    """How far P(v) is above its minimum, relative."""
    least = programme.value(Native().prepare(programme.design).solve(programme).v)
    return (programme.value(v) - least) / (abs(least) + programme.magnitude)


@pytest.mark.parametrize("n_batches", [1, 4])
@pytest.mark.parametrize("case", [*SOME, "one row, active", "typical 20x19 gamma=0.01 alpha=1"])
def test_augmented_lagrangian_finds_the_exact_solution(case, n_batches):
    programme = CASES[case].programme
    solver = Parallel(n_batches).prepare(programme.design)
    answer = solver.solve(programme)
    assert answer.converged
    assert answer.kkt_residual(programme) <= 10.0 * KKT
    assert excess(programme, answer.v) <= KKT
    exact = Native().prepare(programme.design).solve(programme)
    assert solver.solve(programme, exact).iterations == 1


@pytest.mark.parametrize("case", SOME)
def test_penalty_method_reaches_its_tolerance(case):
    programme = CASES[case].programme
    for tol in (3e-2, 3e-3):
        answer = Parallel(3, method="penalty", tol=tol).prepare(programme.design).solve(programme)
        assert answer.converged
        assert answer.kkt_residual(programme) <= 3.0 * tol
        assert excess(programme, answer.v) <= tol


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("joblib_backend", ["threading", "loky"])
def test_answer_does_not_depend_on_the_joblib_backend(method, joblib_backend):
    programme = CASES["typical 90x6 gamma=0.01 alpha=0.3"].programme
    alone = Parallel(3, method, max_iter=15).prepare(programme.design).solve(programme)
    with joblib.parallel_config(backend=joblib_backend):
        together = Parallel(3, method, max_iter=15, n_jobs=2).prepare(programme.design).solve(programme)
    assert np.array_equal(alone.v, together.v)
    assert np.array_equal(alone.multipliers, together.multipliers)


def test_training_is_that_with_the_native_solver():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.abs(X[:, 0])
    algorithm = PaperAlgorithm(kinks="active", max_dca_iter=5)
    model = DCONRegressor(3, gamma=0.1, scale=False, algorithm=algorithm, tol=0.5, random_state=0)
    exact = model.fit(X, y).objective_
    model.set_params(algorithm=replace(algorithm, solver=Parallel(n_batches=2))).fit(X, y)
    assert np.all(np.diff(model.history_.objective) <= 0.0)
    assert model.objective_ == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    "option",
    [{"n_batches": 0}, {"method": "admm"}, {"mu": 0.0}, {"growth": 1.0}, {"n_jobs": 0}, {"tol": 0.0}, {"max_iter": 0}],
)
def test_bad_option_is_refused(option):
    with pytest.raises(ValueError, match=f"{next(iter(option))} must"):
        Parallel(**option)
