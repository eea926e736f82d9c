"""The lower bound for networks of all widths."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, Problem
from dconnet.certificates import global_gap


def data(n_features, seed=0, n_rows=40):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, np.abs(X[:, 0]) - 0.5 * X[:, -1] + 0.2 * rng.normal(size=n_rows)


def trained(X, y, gamma, n_hidden=12, **options):
    options = {"tol": 1e-9, "random_state": 0} | options
    return DCONRegressor(n_hidden=n_hidden, gamma=gamma, **options, scale=False).fit(X, y).network_


@pytest.mark.parametrize("n_features", [1, 2])
def test_a_wide_network_reaches_the_proved_bound(n_features):
    X, y = data(n_features)
    found = global_gap(Problem(X, y, 1.0), trained(X, y, 1.0))
    assert found.exact
    assert found.kind == "proved"
    assert found.relative_gap < 1e-3
    assert found.proved_bound == found.bound
    assert found.correlation == pytest.approx(1.0, abs=1e-2)


def test_no_network_of_any_width_is_below_the_bound():
    X, y = data(2)
    problem = Problem(X, y, 0.3)
    bound = global_gap(problem, trained(X, y, 0.3, n_hidden=3, tol=1e-4)).bound
    for n_hidden in (1, 2, 5, 30):
        for seed in range(2):
            network = trained(X, y, 0.3, n_hidden, tol=1e-3, random_state=seed)
            assert problem.objective(network) >= bound


@pytest.mark.parametrize("n_features", [1, 2])
def test_the_search_finds_what_the_enumeration_finds(n_features):
    X, y = data(n_features, seed=1)
    problem = Problem(X, y, 0.1)
    network = trained(X, y, 0.1, n_hidden=2, tol=1e-3)
    exact, searched = global_gap(problem, network), global_gap(problem, network, exact=False)
    assert searched.kind == "estimate"
    assert searched.correlation == pytest.approx(exact.correlation, rel=1e-9)
    assert searched.bound == pytest.approx(exact.bound, rel=1e-9)
    assert searched.proved_bound <= exact.bound


def test_the_estimate_for_many_inputs_orders_as_it_should():
    X, y = data(6, n_rows=80)
    problem = Problem(X, y, 1.0)
    found = global_gap(problem, trained(X, y, 1.0, n_hidden=15))
    assert not found.exact
    assert 0.0 < found.proved_bound < found.bound <= found.objective
    assert found.relative_gap < 0.05


def test_the_new_neuron_lowers_the_objective_as_promised():
    X, y = data(2, seed=2)
    problem = Problem(X, y, 0.1)
    network = trained(X, y, 0.1, n_hidden=1, tol=1e-3)
    found = global_gap(problem, network)
    assert found.correlation > 1.0
    output = np.maximum(np.column_stack([X, np.ones(len(X))]) @ found.direction, 0.0)
    residual = problem.residual(network)
    product = residual @ output
    weight = (abs(product) - 0.1) / (output @ output)  # the direction has length one in whitened coordinates
    neuron = np.sqrt(weight) * found.direction
    grown = Network(
        np.vstack([network.W, neuron[:-1]]),
        np.append(network.b, neuron[-1]),
        np.append(network.alpha, np.sign(product) * np.sqrt(weight)),
    )
    expected = (abs(product) - 0.1) ** 2 / (output @ output) / len(y)
    assert problem.objective(network) - problem.objective(grown) == pytest.approx(expected, rel=1e-9)
    assert abs(product) / 0.1 == pytest.approx(found.correlation, rel=1e-9)


def test_weights_count_like_repetitions():
    X, y = data(2, n_rows=20)
    counts = np.arange(20) % 3
    network = trained(X, y, 0.5, n_hidden=3, tol=1e-3)
    weighted = global_gap(Problem(X, y, 0.5, counts), network)
    repeated = global_gap(Problem(np.repeat(X, counts, axis=0), np.repeat(y, counts), 0.5), network)
    assert weighted.bound == pytest.approx(repeated.bound, rel=1e-10)
    assert weighted.relative_gap == pytest.approx(repeated.relative_gap, rel=1e-8)


def test_equal_inputs_with_different_targets_cannot_be_fitted():
    X, y = data(1, n_rows=15)
    X, y = np.vstack([X, X]), np.concatenate([y, y + 1.0])
    problem = Problem(X, y, 0.1)
    found = global_gap(problem, trained(X, y, 0.1))
    assert found.relative_gap < 1e-3
    assert found.bound >= 0.25  # the mean square of what the targets differ by


def test_dependent_features_change_nothing():
    X, y = data(2)
    network = trained(X, y, 0.5, n_hidden=3, tol=1e-3)
    wide = np.column_stack([X, X[:, 0] + X[:, 1], np.full(len(X), 3.0)])
    widened = Network(np.column_stack([network.W, np.zeros((3, 2))]), network.b, network.alpha)
    plain, dependent = global_gap(Problem(X, y, 0.5), network), global_gap(Problem(wide, y, 0.5), widened)
    assert dependent.exact
    assert dependent.bound == pytest.approx(plain.bound, rel=1e-9)


def test_zero_is_proved_optimal_where_the_penalty_wins():
    X, y = data(2)
    problem = Problem(X, y, 1e4)
    found = global_gap(problem, Network(np.zeros((1, 2)), [0.0], [0.0]))
    assert found.correlation < 1.0
    assert found.relative_gap == pytest.approx(0.0, abs=1e-12)


def test_zero_targets():
    found = global_gap(Problem([[1.0], [2.0]], [0.0, 0.0], 0.1), Network([[0.0]], [0.0], [0.0]))
    assert found.objective == found.bound == found.gap == found.relative_gap == 0.0
