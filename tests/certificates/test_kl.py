"""The Hessian against finite differences, and the conditions for the exponent one half."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, Problem
from dconnet.certificates import hessian, kl_exponent, subgradient


def random_case(n_outputs=None):
    rng = np.random.default_rng(0)
    shape = (30,) if n_outputs is None else (30, n_outputs)
    options = {} if n_outputs is None else {"output_scale": np.array([1.0, 5.0])}
    problem = Problem(rng.normal(size=(30, 2)), rng.normal(size=shape), 0.2, rng.uniform(0.5, 2.0, size=30), **options)
    return problem, Network(rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=(3, *shape[1:])))


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_hessian_matches_finite_differences(n_outputs):
    problem, network = random_case(n_outputs)
    scale = problem.output_scale if n_outputs else 1.0
    point = np.concatenate([np.column_stack([network.W, network.b]).ravel(), (network.alpha / scale).ravel()])

    def gradient(point):
        U, alpha = point[:9].reshape(3, 3), point[9:].reshape(network.alpha.shape) * scale
        found = subgradient(problem, Network(U[:, :-1], U[:, -1], alpha))
        return np.concatenate([found.hidden.ravel(), found.output.ravel()])

    columns = np.array([(gradient(point + e) - gradient(point - e)) / 2e-6 for e in 1e-6 * np.eye(len(point))])
    matrix = hessian(problem, network)
    np.testing.assert_allclose(matrix, columns, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
    found, eigenvalues = kl_exponent(problem, network), np.linalg.eigvalsh(columns)
    assert found.smallest == pytest.approx(eigenvalues[np.argmin(np.abs(eigenvalues))], rel=1e-4)
    assert found.negative == np.count_nonzero(eigenvalues < 0.0)


def smooth_stationary_network():
    """Train one neuron to convergence, with no row near its kink."""
    X = np.array([[-2.0], [-1.5], [1.0], [2.0], [3.0]])
    y = np.array([0.0, 0.0, 1.0, 2.0, 3.0])
    model = DCONRegressor(n_hidden=1, gamma=0.1, tol=1e-14, random_state=0, scale=False).fit(X, y)
    return Problem(X, y, 0.1), model.network_


def test_the_exponent_at_a_smooth_stationary_network():
    problem, network = smooth_stationary_network()
    assert subgradient(problem, network).norm < 1e-6
    found = kl_exponent(problem, network)
    assert found.at_zero == 0
    assert found.holds
    assert found.negative == 0
    # The KL inequality: the root of the excess of the objective is at most a multiple of the gradient norm.
    rng = np.random.default_rng(0)
    point = np.concatenate([network.W[0], network.b, network.alpha])
    ratios = []
    for direction in rng.normal(size=(200, 3)):
        near = point + 1e-3 * direction
        moved = Network([near[:1]], near[1:2], near[2:])
        excess = problem.objective(moved) - problem.objective(network)
        ratios.append(np.sqrt(abs(excess)) / subgradient(problem, moved).norm)
    assert max(ratios) < 1.1 / np.sqrt(2.0 * abs(found.smallest))


def test_neurons_with_the_same_active_rows_make_the_hessian_singular():
    problem, network = smooth_stationary_network()

    def rotated(angle):
        shares = np.array([np.cos(angle), np.sin(angle)])
        return Network(np.outer(shares, network.W[0]), shares * network.b[0], shares * network.alpha[0])

    assert problem.objective(rotated(0.9)) == pytest.approx(problem.objective(network), rel=1e-12)
    found = kl_exponent(problem, rotated(0.7))
    assert found.twins == ((0, 1),)
    assert found.at_zero == 0
    assert abs(found.smallest) < 1e-6
