"""Shrinkage: a penalty on the weights themselves, as further rows of the design."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, PaperAlgorithm, Problem
from dconnet.certificates import stationarity, subgradient
from dconnet.convex.programme import get_backend
from dconnet.training.initialization import xavier
from problems import trace
from tolerances import ROUNDING

SHRINKAGE = 0.2


INPUTS = {
    "tall": lambda rng: rng.normal(size=(60, 4)),
    "rare categories": lambda rng: np.column_stack(
        [rng.normal(size=60), np.eye(12)[np.minimum(rng.geometric(0.3, size=60) - 1, 11)]]
    ),
    "fewer rows than columns": lambda rng: rng.normal(size=(12, 20)),
    "constant columns": lambda rng: np.column_stack([rng.normal(size=(40, 2)), np.zeros(40), np.full(40, 3.0)]),
}


def build(name="tall"):
    rng = np.random.default_rng(5)
    X = INPUTS[name](rng)
    y = np.abs(X[:, 0]) + 0.3 * rng.normal(size=len(X))
    return Problem(X, y, 0.05, shrinkage=SHRINKAGE), xavier(X.shape[1], 4, rng)


@pytest.mark.parametrize("inputs", INPUTS)
def test_objective_and_subgradient_by_their_definitions(inputs):
    problem, network = build(inputs)
    white = problem.whitened
    V = white.whiten(network)
    M = np.column_stack([problem.X, np.ones(len(problem.X))])
    U = np.column_stack([network.W, network.b])
    penalty = np.sum((M @ U.T) ** 2) + SHRINKAGE * len(M) * np.sum(network.W**2)
    assert np.sum(V**2) == pytest.approx(penalty, rel=1e-12)
    np.testing.assert_allclose(white.preactivations(V), M[problem.groups.first] @ U.T, atol=1e-12)
    np.testing.assert_allclose(white.network(V, network.alpha).parameters, network.parameters, atol=1e-10)
    plain = Problem(problem.X, problem.y, problem.gamma)
    expected = plain.objective(network) + problem.gamma * SHRINKAGE * np.sum(network.W**2)
    assert problem.objective(network) == pytest.approx(expected, rel=1e-13)
    assert white.regloss(V, network.alpha) == pytest.approx(expected, rel=1e-12)

    def objective(U):
        return problem.objective(Network(U[:, :-1], U[:, -1], network.alpha))

    found = subgradient(problem, network).hidden
    for direction in np.random.default_rng(0).normal(size=(10, *U.shape)):
        slope = (objective(U + 1e-6 * direction) - objective(U - 1e-6 * direction)) / 2e-6
        assert np.vdot(found, direction) == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("name", ["admm", "parallel"])
def test_solvers_that_need_an_orthonormal_design_name_the_cause(name):
    with pytest.raises(ValueError, match="shrinkage"):
        get_backend(name).prepare(build()[0].whitened.Q)


@pytest.mark.parametrize("algorithm", ["paper", "accelerated"])
@pytest.mark.parametrize("inputs", INPUTS)
def test_every_epoch_lowers_the_objective(inputs, algorithm):
    problem, start = build(inputs)
    run = trace(problem, start, split="net", max_epochs=30, algorithm=algorithm)
    objectives = np.array([problem.objective(network) for network in run.networks])
    assert np.all(np.diff(objectives) <= ROUNDING * objectives[0])
    assert objectives[-1] < 0.9 * objectives[0]
    np.testing.assert_allclose(run.history.objective, objectives, rtol=1e-9)
    if algorithm == "paper":
        assert run.sufficient_decrease().holds
        assert run.relative_error().holds


@pytest.mark.parametrize("algorithm", [PaperAlgorithm(split="net"), "accelerated"], ids=["paper", "accelerated"])
def test_fits_end_at_stationary_points(algorithm):
    problem, _ = build("rare categories")
    settings = {"gamma": 0.05, "shrinkage": SHRINKAGE, "scale": False, "tol": 1e-9, "max_epochs": 5000}
    model = DCONRegressor(4, algorithm=algorithm, random_state=0, **settings).fit(problem.X, problem.y)
    assert model.stationarity_ < 1e-5
    assert model.objective_ == pytest.approx(problem.objective(model.network_), rel=1e-13)
    assert stationarity(problem, model.network_).norm == pytest.approx(model.stationarity_)
    assert stationarity(Problem(problem.X, problem.y, 0.05), model.network_).norm > 1e-3
