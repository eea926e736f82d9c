"""Shrinkage: a penalty on the weights themselves, as further rows of the design."""

import numpy as np
import pytest

from dconnet import DCONClassifier, DCONRegressor, Network, PaperAlgorithm, Problem
from dconnet.certificates import certificate, certify, stationarity, subgradient, trace
from dconnet.convex.backend import get_backend
from dconnet.inspection.path import gamma_path
from dconnet.inspection.replay import replay
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier
from problems import dca_programme
from tolerances import ROUNDING

SHRINKAGE = 0.2


def tall(rng):
    return rng.normal(size=(60, 4))


def rare_categories(rng):
    return np.column_stack([rng.normal(size=60), np.eye(12)[np.minimum(rng.geometric(0.3, size=60) - 1, 11)]])


def fewer_rows_than_columns(rng):
    return rng.normal(size=(12, 20))


def constant_columns(rng):
    return np.column_stack([rng.normal(size=(40, 2)), np.zeros(40), np.full(40, 3.0)])


INPUTS = [tall, rare_categories, fewer_rows_than_columns, constant_columns]


def build(make, shrinkage=SHRINKAGE, gamma=0.05):
    rng = np.random.default_rng(5)
    X = make(rng)
    y = np.abs(X[:, 0]) + 0.3 * rng.normal(size=len(X))
    return Problem(X, y, gamma, shrinkage=shrinkage), xavier(X.shape[1], 4, rng)


@pytest.mark.parametrize("make", INPUTS)
def test_objective_and_penalty_by_their_definitions(make):
    problem, network = build(make)
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


@pytest.mark.parametrize("gamma", [1e-4, 0.1])
@pytest.mark.parametrize("make", INPUTS)
def test_native_and_reference_solve_the_same_programmes(make, gamma):
    design = build(make)[0].whitened.Q
    programme = dca_programme(design, np.random.default_rng(0), gamma=gamma)
    native, reference = (get_backend(name).prepare(design).solve(programme) for name in ("native", "reference"))
    assert native.converged
    assert reference.converged
    assert native.kkt_residual(programme) < 1e-9
    assert native.relative_gap(programme) < 1e-10
    size = 1.0 + np.abs(reference.v).max()
    np.testing.assert_allclose(native.v, reference.v, atol=1e-5 * size)


@pytest.mark.parametrize("name", ["admm", "parallel"])
def test_solvers_that_need_an_orthonormal_design_say_so(name):
    with pytest.raises(ValueError, match="shrinkage"):
        get_backend(name).prepare(build(tall)[0].whitened.Q)


@pytest.mark.parametrize("algorithm", ["paper", "accelerated"])
@pytest.mark.parametrize("make", INPUTS)
def test_every_epoch_lowers_the_objective(make, algorithm):
    problem, start = build(make)
    run = trace(problem, start, Options(split="net", max_epochs=30), algorithm=algorithm)
    objectives = np.array([problem.objective(network) for network in run.networks])
    assert objectives[0] == pytest.approx(problem.objective(start), rel=1e-12)
    assert np.all(np.diff(objectives) <= ROUNDING * objectives[0])
    assert objectives[-1] < 0.9 * objectives[0]
    np.testing.assert_allclose(run.history.objective, objectives, rtol=1e-9)
    if algorithm == "paper":
        assert run.sufficient_decrease().holds
        assert run.relative_error().holds


@pytest.mark.parametrize("changes", [{"restart": True}, {"inexact": True}, {"split": "paper"}])
@pytest.mark.parametrize("solver", ["native", "reference"])
def test_variants_lower_the_objective_as_well(changes, solver):
    problem, start = build(rare_categories)
    run = trace(problem, start, Options(**({"split": "net", "max_epochs": 10} | changes)), solver=solver)
    objectives = np.array([problem.objective(network) for network in run.networks])
    assert np.all(np.diff(objectives) <= ROUNDING * objectives[0])
    assert objectives[-1] < 0.9 * objectives[0]


@pytest.mark.parametrize("make", INPUTS)
def test_the_subgradient_matches_finite_differences(make):
    problem, network = build(make)
    U, step = np.column_stack([network.W, network.b]), 1e-6

    def objective(U):
        return problem.objective(Network(U[:, :-1], U[:, -1], network.alpha))

    found = subgradient(problem, network).hidden
    for direction in np.random.default_rng(0).normal(size=(10, *U.shape)):
        slope = (objective(U + step * direction) - objective(U - step * direction)) / (2.0 * step)
        assert np.vdot(found, direction) == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("algorithm", [PaperAlgorithm(split="net"), "accelerated"], ids=["paper", "accelerated"])
def test_fits_end_at_stationary_points(algorithm):
    problem, _ = build(rare_categories)
    model = DCONRegressor(
        4,
        gamma=0.05,
        shrinkage=SHRINKAGE,
        algorithm=algorithm,
        tol=1e-9,
        max_epochs=5000,
        random_state=0,
        scale=False,
    ).fit(problem.X, problem.y)
    assert model.stationarity_ < 1e-5
    assert model.objective_ == pytest.approx(problem.objective(model.network_), rel=1e-13)
    assert stationarity(problem, model.network_).norm == pytest.approx(model.stationarity_)
    without = Problem(problem.X, problem.y, 0.05)
    assert stationarity(without, model.network_).norm > 1e-3


def test_weights_shrink_where_the_data_hardly_determine_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 40)) * np.logspace(0.0, -3.0, 40)
    y = np.abs(X[:, 0]) + 0.2 * rng.normal(size=60)
    sizes = [
        np.abs(
            DCONRegressor(4, gamma=1e-2, shrinkage=value, tol=1e-4, random_state=0, scale=False)
            .fit(X, y)
            .network_.W[:, -10:]
        ).max()
        for value in (0.0, 1e-2)
    ]
    assert sizes[1] < 0.05 * sizes[0]


def test_certificates_replay_and_path_use_it():
    problem, _ = build(tall)
    X, y = problem.X, problem.y
    model = DCONRegressor(3, gamma=0.05, shrinkage=SHRINKAGE, tol=1e-4, random_state=0, scale=False).fit(X, y)
    (found,) = certify(model, X, y)
    assert found.objective == pytest.approx(model.objective_)
    assert found.stationarity.norm == pytest.approx(model.stationarity_)
    assert certificate(problem, model.network_).gap.bound <= model.objective_
    (run,) = replay(model, X, y)
    assert run.problem.shrinkage == SHRINKAGE
    path = gamma_path(model, X, y, gammas=[0.05, 0.5])
    assert path.objective[0, 0] == pytest.approx(problem.objective(path.networks[0][0]), rel=1e-12)


def test_a_classifier_passes_it_on():
    problem, _ = build(tall)
    labels = np.digitize(problem.y, [0.5, 1.0])
    model = DCONClassifier(2, gamma=0.1, shrinkage=SHRINKAGE, tol=1e-3, random_state=0, scale=False).fit(
        problem.X, labels
    )
    for k, network in enumerate(model.networks_):
        signs = np.where(labels == k, 1.0, -1.0)
        expected = Problem(problem.X, signs, 0.1, shrinkage=SHRINKAGE).objective(network)
        assert model.objective_[k] == pytest.approx(expected, rel=1e-12)
