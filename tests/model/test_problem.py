"""RegLoss is the paper's, in both coordinate systems; weights count like repeated rows."""

import numpy as np
import pytest

from dconnet import Network, Problem


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    return X, y, Network(rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=4))


def regloss_by_loops(X, y, network, gamma):
    """The formulas of the paper's section 3.1, term by term."""
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


def test_objective_is_the_papers_regloss(data):
    X, y, network = data
    assert Problem(X, y, 0.3).objective(network) == pytest.approx(regloss_by_loops(X, y, network, 0.3), rel=1e-13)


def test_whitened_objective_is_the_same(data):
    X, y, network = data
    problem = Problem(X, y, 0.3)
    V = problem.whitened.whiten(network)
    whitened = problem.whitened.regloss(V, network.alpha)
    assert whitened == pytest.approx(problem.objective(network), rel=1e-12)


def test_integer_weights_count_like_repeated_rows(data):
    X, y, network = data
    weight = np.arange(12) % 4  # some rows have weight zero
    repeated = Problem(np.repeat(X, weight, axis=0), np.repeat(y, weight), 0.3)
    weighted = Problem(X, y, 0.3, sample_weight=weight)
    assert weighted.objective(network) == pytest.approx(repeated.objective(network), rel=1e-13)
    assert weighted.mse(network) == pytest.approx(repeated.mse(network), rel=1e-13)
    assert len(weighted.whitened.y) == np.count_nonzero(weight)


def test_other_targets_share_the_factorisation(data):
    X, y, network = data
    problem = Problem(X, y, 0.3)
    other = problem.with_targets(-y)
    assert other.whitening is problem.whitening
    assert other.objective(network) == pytest.approx(Problem(X, -y, 0.3).objective(network), rel=1e-14)
    np.testing.assert_array_equal(other.whitened.y, -problem.whitened.y)


def test_inputs_are_copied_and_frozen(data):
    X, y, network = data
    problem = Problem(X, y, 0.3)
    before = problem.objective(network)
    X[:] = 0.0
    assert problem.objective(network) == before
    with pytest.raises(ValueError, match="read-only"):
        problem.X[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        network.W[0, 0] = 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gamma": 0.0}, "gamma must be a positive"),
        ({"gamma": -1.0}, "gamma must be a positive"),
        ({"gamma": np.inf}, "gamma must be a positive"),
        ({"gamma": np.nan}, "gamma must be a positive"),
        ({"y": [1.0, 2.0]}, "y has 2 entries, but X has 3 rows"),
        ({"y": [1.0, np.nan, 2.0]}, "y contains NaN"),
        ({"y": [1e200, 1.0, 1.0]}, "squares of y overflow"),
        ({"X": [[1.0], [np.inf], [2.0]]}, "X contains NaN or infinity"),
        ({"X": [[1.0], ["a"], [2.0]]}, "X must be numeric"),
        ({"X": [[1.0], [2j], [2.0]]}, "Complex data not supported"),
        ({"X": [1.0, 2.0, 3.0]}, "X must have 2 dimension"),
        ({"X": np.empty((3, 0))}, "at least one row and one column"),
        ({"X": np.empty((0, 2)), "y": []}, "at least one row and one column"),
        ({"sample_weight": [1.0, 1.0]}, "sample_weight has 2 entries"),
        ({"sample_weight": [1.0, -1.0, 1.0]}, "must not be negative"),
        ({"sample_weight": [0.0, 0.0, 0.0]}, "zero everywhere"),
    ],
)
def test_bad_input_is_named(changes, message):
    arguments = {"X": [[1.0], [2.0], [3.0]], "y": [1.0, 2.0, 3.0], "gamma": 1.0} | changes
    with pytest.raises(ValueError, match=message):
        Problem(**arguments)


def test_network_shapes_must_agree():
    with pytest.raises(ValueError, match="agree on the number of neurons"):
        Network(W=[[1.0]], b=[1.0, 2.0], alpha=[1.0])
    with pytest.raises(ValueError, match=r"X must have shape \(n_samples, 1\)"):
        Network(W=[[1.0]], b=[1.0], alpha=[1.0]).predict([[1.0, 2.0]])


def test_an_output_that_overflows_is_refused():
    network = Network(W=[[1e308], [1e308]], b=[0.0, 0.0], alpha=[1.0, -1.0])
    with pytest.raises(OverflowError, match="The prediction for row 0 of X overflows"):
        network.predict([[10.0]])
    np.testing.assert_array_equal(network.predict([[-10.0]]), [0.0])
    np.testing.assert_array_equal(network.predict([[np.nan]]), [np.nan])


def test_problems_of_columns_share_their_inputs():
    rng = np.random.default_rng(0)
    X, Y, weight = rng.normal(size=(8, 2)), rng.normal(size=(8, 3)), rng.uniform(1.0, 2.0, size=8)
    found = Problem.of_columns(X, Y, 0.5, weight, shrinkage=0.1)
    assert len(found) == 3
    for problem, y in zip(found, Y.T, strict=True):
        assert problem.whitening is found[0].whitening
        np.testing.assert_array_equal(problem.y, y)
        np.testing.assert_array_equal(problem.sample_weight, weight)
        assert (problem.gamma, problem.shrinkage) == (0.5, 0.1)
