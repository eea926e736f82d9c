"""Networks and problems: RegLoss of the paper in both coordinate systems; weights count like repeated rows."""

import copy
import pickle

import numpy as np
import pytest

from dconnet import Network, Problem


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    return X, y, Network(rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=4))


def regloss_by_loops(X, y, network, gamma):
    """Return RegLoss of section 3.1 of the paper, term by term."""
    m = len(y)
    loss = regularisation = 0.0
    for j in range(m):
        output = 0.0
        for i in range(network.n_hidden):
            preactivation = float(network.W[i] @ X[j] + network.b[i])
            output += network.alpha[i] * max(preactivation, 0.0)
            regularisation += preactivation**2 / m
        loss += (y[j] - output) ** 2 / m
    return loss + gamma * (regularisation + float(network.alpha @ network.alpha) / m)


def test_objective_is_the_papers_regloss_in_both_coordinates(data):
    X, y, network = data
    problem, expected = Problem(X, y, 0.3), regloss_by_loops(X, y, network, 0.3)
    assert problem.objective(network) == pytest.approx(expected, rel=1e-13)
    white = problem.whitened
    assert white.regloss(white.whiten(network), network.alpha) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
def test_integer_weights_count_like_repeated_rows(data, shrinkage):
    X, y, network = data
    weight = np.arange(12) % 4  # some rows have weight zero
    repeated = Problem(np.repeat(X, weight, axis=0), np.repeat(y, weight), 0.3, shrinkage=shrinkage)
    weighted = Problem(X, y, 0.3, sample_weight=weight, shrinkage=shrinkage)
    assert weighted.objective(network) == pytest.approx(repeated.objective(network), rel=1e-13)
    assert weighted.mse(network) == pytest.approx(repeated.mse(network), rel=1e-13)
    assert len(weighted.whitened.y) == np.count_nonzero(weight)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_arrays_are_read_only_also_in_copies(data, duplicate):
    X, y, network = data
    problem = Problem(X, y, 0.3, shrinkage=0.5)
    white = problem.whitened  # cached, and copied with the problem
    for original, found in [(network, duplicate(network)), (problem, duplicate(problem)), (white, duplicate(white))]:
        for name in ("W", "alpha", "X", "y"):
            if hasattr(original, name):
                np.testing.assert_array_equal(getattr(found, name), getattr(original, name))
                assert not getattr(found, name).flags.writeable
    assert duplicate(problem).objective(network) == problem.objective(network)


def test_inputs_are_copied_unless_asked_otherwise(data):
    X, y, network = data
    problem, shared = Problem(X, y, 0.3), Problem(X, y, 0.3, copy=False)
    assert np.shares_memory(shared.X, X)
    assert X.flags.writeable
    before = problem.objective(network)
    X[:] = 0.0
    assert problem.objective(network) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 0.0}, "gamma must be a positive"),
        ({"gamma": np.inf}, "gamma must be a positive"),
        ({"gamma": np.nan}, "gamma must be a positive"),
        ({"shrinkage": -0.1}, "shrinkage must be zero or"),
        ({"y": [1.0, 2.0]}, "y has 2 entries, but X has 3 rows"),
        ({"y": [1.0, np.nan, 2.0]}, "y contains NaN"),
        ({"y": [1e200, 1.0, 1.0]}, "squares of y overflow"),
        ({"X": [[1.0], [np.inf], [2.0]]}, "X contains NaN or infinity"),
        ({"X": [[1.0], ["a"], [2.0]]}, "X must be numeric"),
        ({"X": [[1.0], [2j], [2.0]]}, "Complex data not supported"),
        ({"X": [1.0, 2.0, 3.0]}, "X must have 2 dimension"),
        ({"X": np.empty((3, 0))}, "at least one row and one column"),
        ({"sample_weight": [1.0, 1.0]}, "sample_weight has 2 entries"),
        ({"sample_weight": [1.0, -1.0, 1.0]}, "must not be negative"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, "zero everywhere"),
        ({"intercept": [1.0, 2.0]}, "intercept must be a number"),
        ({"y": np.ones((3, 2)), "intercept": [1.0]}, "intercept must be a number or have one for each output"),
        ({"y": np.ones((3, 2)), "output_scale": [1.0, 0.0]}, "output_scale must be positive"),
        ({"y": np.ones((3, 0))}, "at least one column"),
    ],
)
def test_invalid_problems_are_refused(changes, message):
    arguments = {"X": [[1.0], [2.0], [3.0]], "y": [1.0, 2.0, 3.0], "gamma": 1.0} | changes
    with pytest.raises(ValueError, match=message):
        Problem(**arguments)


def test_outputs_are_networks_over_the_same_neurons():
    rng = np.random.default_rng(0)
    network = Network(rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=(4, 2)), intercept=[1.0, -2.0])
    X = rng.normal(size=(20, 3))
    assert network.n_outputs == 2
    for k in range(2):
        np.testing.assert_allclose(network.of_output(k).predict(X), network.predict(X)[:, k], rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(network.with_intercept(3.0).intercept, [3.0, 3.0])
    assert len(network.parameters) == 4 * 2 + 4 * 3 + 4
    with pytest.raises(ValueError, match="from 0 to 1"):
        network.of_output(2)


@pytest.mark.parametrize(
    ("alpha", "intercept", "message"),
    [
        ([1.0], [1.0], "one number"),
        ([1.0], np.nan, "finite"),
        ([[1.0, 2.0]], [1.0, 2.0, 3.0], "2 entries"),
        ([[[1.0]]], 0.0, "dimension"),
        ([[1.0], [2.0]], 0.0, "agree on the number of neurons"),
    ],
)
def test_invalid_networks_are_refused(alpha, intercept, message):
    with pytest.raises(ValueError, match=message):
        Network([[1.0]], [0.0], alpha, intercept)


def test_invalid_inputs_of_a_network_are_refused():
    network = Network(W=[[1e308], [1e308]], b=[0.0, 0.0], alpha=[1.0, -1.0])
    with pytest.raises(OverflowError, match="The prediction for row 0 of X overflows"):
        network.predict([[10.0]])
    np.testing.assert_array_equal(network.predict([[-10.0]]), [0.0])
    np.testing.assert_array_equal(network.predict([[np.nan]]), [np.nan])
    with pytest.raises(ValueError, match=r"X must have shape \(n_samples, 1\)"):
        network.predict([[1.0, 2.0]])
