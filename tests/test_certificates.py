"""Stationarity against finite differences, at hand-made kinks, and at trained networks."""

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.certificates import stationarity


def test_smooth_blocks_match_finite_differences():
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(40, 3)), rng.normal(size=40), 0.2)
    network = Network(rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3))
    white, step = problem.whitened, 1e-6
    V = white.whiten(network)

    def objective(V, alpha):
        return problem.total_weight * white.regloss(V, white.Q @ V.T, alpha)

    unit = 2.0 * np.linalg.norm(problem.y)
    gradient = np.zeros_like(V)
    for index in np.ndindex(V.shape):
        shift = np.zeros_like(V)
        shift[index] = step
        gradient[index] = (objective(V + shift, network.alpha) - objective(V - shift, network.alpha)) / (2 * step)
    output = [
        (objective(V, network.alpha + e) - objective(V, network.alpha - e)) / (2 * step)
        for e in step * np.eye(network.n_hidden)
    ]
    blocks = stationarity(problem, network)
    np.testing.assert_allclose(blocks.neurons, np.linalg.norm(gradient, axis=1) / unit, rtol=1e-6)
    assert blocks.output_layer == pytest.approx(np.linalg.norm(output) / unit, rel=1e-6)
    assert blocks.norm == pytest.approx(np.hypot(np.linalg.norm(gradient), np.linalg.norm(output)) / unit, rel=1e-6)


def test_a_convex_kink_may_hold_a_neuron():
    """At w = -1, b = 1 the row x = 1 sits at the kink, and its slope may be anything in between."""
    X, gamma = np.array([[0.0], [1.0], [2.0]]), 1e-3
    network = Network(W=[[-1.0]], b=[1.0], alpha=[1.0])
    # The target of row 0 makes the smooth part small; that of row 1 is below the output: a convex kink.
    y = np.array([1.0 + gamma, -1.0, 0.0])
    free = stationarity(Problem(X, y, gamma), network).neurons[0]
    pinned = stationarity(Problem(X, y * [1, -1, 1], gamma), network).neurons[0]  # now a concave kink
    assert free < 1e-2
    assert pinned > 0.1


def test_zero_network_and_zero_target_are_stationary():
    network = Network(W=np.zeros((2, 1)), b=np.zeros(2), alpha=np.zeros(2))
    problem = Problem([[1.0], [2.0]], [0.0, 0.0], 0.1)
    assert stationarity(problem, network).norm == 0.0


def test_the_papers_condition_is_the_weaker_one():
    rng = np.random.default_rng(1)
    problem = Problem(rng.normal(size=(30, 2)), rng.normal(size=30), 0.1)
    network = Network(rng.normal(size=(3, 2)), np.zeros(3), rng.normal(size=3))
    dead = Network(network.W * [[0], [1], [1]], network.b, network.alpha)  # all rows of neuron 0 at the kink
    assert np.all(stationarity(problem, dead, "paper").neurons <= stationarity(problem, dead, "net").neurons + 1e-9)
