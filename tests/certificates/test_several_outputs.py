"""Certificates of networks with several outputs: the new neuron, the lower bound, the Hessian, local minima."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, Problem
from dconnet.certificates import certificate, global_gap, kl_exponent, local_optimality
from dconnet.certificates.gap import _correlation_ceiling
from dconnet.certificates.kl import hessian
from dconnet.model.whitening import Whitening
from dconnet.training.arrangement import can_enumerate, largest_correlation
from dconnet.training.initialization import xavier
from dconnet.training.new_neurons import climb, random_starts


def design(n_rows, n_features, seed=0):
    rng = np.random.default_rng(seed)
    return Whitening.of(np.column_stack([rng.normal(size=(n_rows, n_features)), np.ones(n_rows)])).Q, rng


def sphere(rank, n_points, rng):
    V = rng.normal(size=(n_points, rank))
    return V / np.linalg.norm(V, axis=1, keepdims=True)


def values(Q, R, V):
    return np.linalg.norm(np.maximum(V @ Q.T, 0.0) @ R, axis=1)


@pytest.mark.parametrize("n_features", [0, 1, 2])
@pytest.mark.parametrize("n_outputs", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_no_direction_is_better_than_the_one_found(n_features, n_outputs, seed):
    rng = np.random.default_rng(seed)
    rank = n_features + 1
    Q, R = rng.normal(size=(12, rank)), rng.normal(size=(12, n_outputs))
    largest, v = largest_correlation(Q, R)
    assert np.linalg.norm(v) == pytest.approx(1.0)
    assert largest == pytest.approx(values(Q, R, v[None])[0])
    grid = sphere(rank, 100_000, rng)
    best = values(Q, R, grid)
    assert best.max() <= largest * (1.0 + 1e-12)
    assert best.max() >= 0.98 * largest  # the grid is fine enough for this to say something


def test_one_column_is_a_vector():
    rng = np.random.default_rng(0)
    for rank in (1, 2, 3):
        Q, r = rng.normal(size=(15, rank)), rng.normal(size=15)
        assert largest_correlation(Q, r[:, None])[0] == pytest.approx(largest_correlation(Q, r)[0], rel=1e-12)


def test_rotated_outputs_have_the_same_correlation():
    Q, rng = design(30, 2)
    R = rng.normal(size=(30, 3))
    turned = R @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    assert largest_correlation(Q, turned)[0] == pytest.approx(largest_correlation(Q, R)[0], rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_search_finds_what_enumeration_finds_and_the_correlation_ceiling_is_above(seed):
    Q, rng = design(40, 2, seed)
    R = rng.normal(size=(40, 3))
    exact, _ = largest_correlation(Q, R)
    climbs, V = climb(Q, R, random_starts(np.empty((0, 3)), 64, np.random.default_rng(0)))
    found, v = climbs.max(), V[climbs.argmax()]
    assert found == pytest.approx(values(Q, R, v[None])[0])
    assert found <= exact * (1.0 + 1e-12)
    assert found >= 0.99 * exact  # an estimate
    assert _correlation_ceiling(Q, R) >= exact


def test_the_bound_is_below_every_network():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    Y = np.column_stack([np.abs(X[:, 0]), np.maximum(X[:, 0], 0.0) - 0.5]) + 0.1 * rng.normal(size=(40, 2))
    narrow = DCONRegressor(2, gamma=1.0, random_state=0, tol=1e-4).fit(X, Y)
    wide = DCONRegressor(12, gamma=1.0, random_state=0).fit(X, Y)
    (problem,) = wide.problems(X, Y)
    bounds = [global_gap(problem, model.network_) for model in (narrow, wide)]
    assert all(found.exact for found in bounds)
    assert max(found.bound for found in bounds) <= wide.objective_ * (1.0 + 1e-9)
    assert bounds[1].relative_gap < 1e-3  # which also says that the bound is no lower than it need be
    assert bounds[1].correlation == pytest.approx(1.0, abs=1e-2)
    estimate = global_gap(problem, narrow.network_, exact=False)
    assert estimate.proved_bound <= bounds[0].bound * (1.0 + 1e-9)
    assert estimate.bound == pytest.approx(bounds[0].bound, rel=1e-3)


def test_a_correlation_above_one_is_a_neuron_that_pays():
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    problem = Problem(X, Y, gamma=0.5)
    network = xavier(3, 2, rng, 2)
    found = global_gap(problem, network)
    assert not found.exact
    assert found.correlation > 1.0
    white = problem.whitened
    R = white.y - np.maximum(white.preactivations(white.whiten(network)), 0.0) @ network.alpha
    v = white.whitening.to_white @ found.direction
    sigma = np.maximum(white.Q @ v, 0.0)
    pull = R.T @ sigma
    c = (np.linalg.norm(pull) - white.gamma) / (sigma @ sigma)
    W = np.vstack([network.W, np.sqrt(c) * found.direction[:-1]])
    b = np.append(network.b, np.sqrt(c) * found.direction[-1])
    alpha = np.vstack([network.alpha, np.sqrt(c) * pull / np.linalg.norm(pull)])
    assert problem.objective(Network(W, b, alpha)) < problem.objective(network)


def test_many_rows_of_two_inputs_are_searched_and_not_enumerated():
    Q, _ = design(301, 2)
    assert can_enumerate(Q)
    assert not can_enumerate(Q, n_outputs=2)
    assert can_enumerate(Q[:300], n_outputs=2)


def test_the_hessian_is_that_of_finite_differences():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    problem = Problem(X, Y, gamma=0.3, output_scale=[1.0, 5.0])
    network = xavier(2, 2, rng, 2)
    found = hessian(problem, network)
    assert found.shape == (2 * (3 + 2), 2 * (3 + 2))

    def at(step):
        U, alpha = step[:6].reshape(2, 3), step[6:].reshape(2, 2) * [1.0, 5.0]
        return problem.objective(Network(network.W + U[:, :2], network.b + U[:, 2], network.alpha + alpha))

    h = 1e-4
    for _ in range(10):
        d = rng.normal(size=10)
        second = (at(h * d) - 2.0 * at(0.0 * d) + at(-h * d)) / h**2
        assert d @ found @ d == pytest.approx(second, rel=1e-4)


def test_all_of_it_in_one_table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    Y = np.column_stack([np.abs(X[:, 0]), X[:, 1] + np.abs(X[:, 2])])
    model = DCONRegressor(4, gamma=0.5, random_state=0).fit(X, Y)
    (problem,) = model.problems(X, Y)
    found = certificate(problem, model.network_)
    assert found.stationarity.norm < 1e-6
    assert local_optimality(problem, model.network_).count("local minimum") == 4
    assert len(kl_exponent(problem, model.network_).eigenvalues) == 4 * (4 + 2)
    assert "estimate" in found.report()
    assert found.to_dict()["gap"]["kind"] == "estimate"
