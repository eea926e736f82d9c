"""The output weights: normal equations, and agreement with scikit-learn and one decomposition of all rows."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dconnet.model.rows import QR_ROWS
from dconnet.training.sweep import solve_output_weights
from problems import whitened_problem


def output_weights(hidden, y, gamma):
    """Return the best output weights of a given hidden layer."""
    return solve_output_weights(whitened_problem(hidden, y, gamma), np.eye(hidden.shape[1]))


@pytest.mark.parametrize("shape", [(60, 5), (5, 60), (20, 20), (1, 3), (3, 1)])
@pytest.mark.parametrize("gamma", [1e-6, 1e-2, 10.0])
def test_gradient_vanishes_and_ridge_agrees(shape, gamma):
    rng = np.random.default_rng(0)
    hidden, y = np.maximum(rng.normal(size=shape), 0.0), rng.normal(size=shape[0])
    alpha = output_weights(hidden, y, gamma)
    gradient = hidden.T @ (hidden @ alpha - y) + gamma * alpha
    assert np.abs(gradient).max() <= 1e-12 * np.abs(hidden.T @ y).max()
    ridge = Ridge(alpha=gamma, fit_intercept=False, solver="svd").fit(hidden, y)
    np.testing.assert_allclose(alpha, ridge.coef_, rtol=1e-8, atol=1e-10)


def test_dead_neurons_get_weight_zero():
    hidden = np.column_stack([np.linspace(0.0, 1.0, 10), np.zeros(10)])
    assert output_weights(hidden, np.ones(10), gamma=1e-3)[1] == 0.0
    np.testing.assert_array_equal(output_weights(np.zeros((4, 2)), np.ones(4), gamma=1e-3), 0.0)


@pytest.mark.parametrize("n_rows", [QR_ROWS + 1, 5 * QR_ROWS + 3])
@pytest.mark.parametrize("closeness", [1.0, 1e-12])
@pytest.mark.parametrize("gamma", [1e-12, 1e-3])
def test_many_blocks_are_as_exact_as_one_decomposition(n_rows, closeness, gamma):
    """This includes nearly equal neurons, and neurons that differ in size by ten orders of magnitude."""
    rng = np.random.default_rng(3)
    Q, Y = rng.normal(size=(n_rows, 4)), rng.normal(size=(n_rows, 2))
    V = np.repeat(rng.normal(size=(4, 4)), 2, axis=0)
    V[::2] += closeness * rng.normal(size=(4, 4))
    V[-2:] *= 1e-10
    hidden = np.maximum(Q @ V.T, 0.0)
    left, singular, right = np.linalg.svd(hidden, full_matrices=False)
    direct = right.T @ ((singular / (singular**2 + gamma))[:, None] * (left.T @ Y))

    def objective(alpha):
        return np.sum((Y - hidden @ alpha) ** 2, axis=0) + gamma * np.sum(alpha**2, axis=0)

    alpha = solve_output_weights(whitened_problem(Q, Y, gamma), V)
    # Weights that cancel are large, and with them the rounding of the outputs.
    size = np.linalg.norm(Y) + singular[0] * np.abs(alpha).max()
    assert np.all(objective(alpha) <= objective(direct) + 1e-15 * size * np.linalg.norm(Y))
    gradient = hidden.T @ (hidden @ alpha - Y) + gamma * alpha
    assert np.all(np.abs(gradient) <= 1e-14 * singular[0] * size)
