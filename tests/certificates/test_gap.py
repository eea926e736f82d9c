"""The lower bound for networks of all widths."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, Problem
from dconnet.certificates import global_gap
from dconnet.training.initialization import xavier


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
    assert found.kind == "proved"
    assert found.relative_gap < 1e-3
    assert found.proved_bound == found.bound
    assert found.correlation == pytest.approx(1.0, abs=1e-2)


def test_several_outputs():
    X, y = data(1)
    Y = np.column_stack([y, np.maximum(X[:, 0], 0.0) - 0.5])
    narrow, wide = (DCONRegressor(n, gamma=1.0, random_state=0).fit(X, Y) for n in (2, 12))
    (problem,) = wide.problems(X, Y)
    bounds = [global_gap(problem, model.network_) for model in (narrow, wide)]
    assert all(found.exact for found in bounds)
    assert max(found.bound for found in bounds) <= wide.objective_ * (1.0 + 1e-9)
    assert bounds[1].relative_gap < 1e-3
    estimate = global_gap(problem, narrow.network_, exact=False)
    assert estimate.proved_bound <= bounds[0].bound * (1.0 + 1e-9)
    assert estimate.bound == pytest.approx(bounds[0].bound, rel=1e-3)


@pytest.mark.parametrize("n_features", [1, 2])
def test_search_agrees_with_enumeration(n_features):
    X, y = data(n_features, seed=1)
    problem, network = Problem(X, y, 0.1), trained(X, y, 0.1, n_hidden=2, tol=1e-3)
    exact, searched = global_gap(problem, network), global_gap(problem, network, exact=False)
    assert searched.kind == "estimate"
    assert searched.correlation == pytest.approx(exact.correlation, rel=1e-9)
    assert searched.bound == pytest.approx(exact.bound, rel=1e-9)
    assert searched.proved_bound <= exact.bound


@pytest.mark.parametrize("n_features", [3, 4])
def test_growth_and_branch_and_bound_improve_the_proved_bound(n_features):
    X, y = data(n_features, seed=1, n_rows=60)
    problem, start = Problem(X, y, 0.5), xavier(n_features, 3, np.random.default_rng(1))
    plain, coarse = global_gap(problem, start), global_gap(problem, start, max_parts=0)
    assert coarse.proved_bound <= plain.proved_bound <= plain.bound
    improved = global_gap(problem, start, improve=True, max_parts=200_000)
    assert improved.proved_bound > plain.proved_bound
    assert improved.proved_bound >= 0.97 * improved.bound
    assert improved.correlation == plain.correlation  # that of the given network


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_the_new_neuron_lowers_the_objective_by_the_predicted_amount(n_outputs):
    X, y = data(2, seed=2)
    Y = y if n_outputs is None else np.column_stack([y, X[:, 0] ** 2])
    problem, network = Problem(X, Y, 0.1), xavier(2, 1, np.random.default_rng(0), n_outputs)
    found = global_gap(problem, network)
    assert found.correlation > 1.0
    output = np.maximum(np.column_stack([X, np.ones(len(X))]) @ found.direction, 0.0)
    pull = problem.residual(network).T @ output
    size = np.linalg.norm(pull)
    assert size / 0.1 == pytest.approx(found.correlation, rel=1e-9)
    root = np.sqrt((size - 0.1) / (output @ output))  # the direction has length one in whitened coordinates
    grown = Network(
        np.vstack([network.W, root * found.direction[:-1]]),
        np.append(network.b, root * found.direction[-1]),
        np.concatenate([network.alpha, [root * pull / size]]),
    )
    expected = (size - 0.1) ** 2 / (output @ output) / len(y)
    assert problem.objective(network) - problem.objective(grown) == pytest.approx(expected, rel=1e-9)
