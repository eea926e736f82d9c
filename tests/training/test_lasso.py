"""The lasso on the lengths of neurons: optimality conditions, dependent outputs, failures."""

import numpy as np
import pytest

from dconnet.training.new_neurons import solve_lengths, solve_output_vectors


def outputs_and_targets(n_rows, n, seed):
    rng = np.random.default_rng(seed)
    return np.maximum(rng.normal(size=(n_rows, n)), 0.0) * rng.choice([-1.0, 1.0], size=n), rng.normal(size=n_rows)


@pytest.mark.parametrize("gamma", [1.0, 0.01])
@pytest.mark.parametrize("n", [5, 30, 120])
@pytest.mark.parametrize("copies", [1, 2])
def test_lengths_satisfy_the_optimality_conditions(gamma, n, copies):
    A, y = outputs_and_targets(50, n, seed=n)
    A = np.hstack([A] * copies + [0.0 * A])
    c = solve_lengths(A, y, gamma)
    slopes = gamma - A.T @ (y - A @ c)
    assert np.all(c >= 0.0)
    assert np.all(slopes >= -1e-5 * gamma)
    np.testing.assert_allclose(slopes[c > 1e-6], 0.0, atol=1e-5 * gamma)
    assert not np.any(solve_lengths(A, y, 1.01 * np.max(A.T @ y)))


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_output_vectors_satisfy_the_optimality_conditions(n_outputs):
    rng = np.random.default_rng(3)
    activations = np.maximum(rng.normal(size=(20, 4)), 0.0)
    residual = rng.normal(size=20 if n_outputs is None else (20, n_outputs))
    outputs = solve_output_vectors(activations, residual, 0.5)
    products = activations.T @ (residual - activations @ outputs)
    sizes, weights = (np.linalg.norm(values.reshape(4, -1), axis=1) for values in (products, outputs))
    assert np.all(sizes <= 0.5 + 1e-6)
    assert np.any(weights > 0.0)
    np.testing.assert_allclose(sizes[weights > 0.0], 0.5, atol=1e-6)
