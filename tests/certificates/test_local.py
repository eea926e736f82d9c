"""Local minima of the subproblems of single neurons, and dead neurons."""

import numpy as np

from dconnet import DCONRegressor, Network, PaperAlgorithm, Problem
from dconnet.certificates import dead_neurons, local_optimality, stationarity
from dconnet.model.piecewise import active_neurons
from dconnet.training.dc import NeuronProblem
from dconnet.training.kinks import MAX_CHOICES, Verdict, examine


def stuck(n_kinked=1):
    """Return a fixed point of the DCA with rows at concave kinks, from which RegLoss still descends."""
    kinks = np.linspace(0.0, 1.0, n_kinked)
    X = np.vstack([np.column_stack([np.ones(n_kinked), kinks]), [[2.0, 0.0], [3.0, 1.0], [4.0, -1.0], [0.0, 0.5]]])
    u, alpha, gamma = np.array([1.0, 0.0, -1.0]), 0.7, 0.1
    M = np.column_stack([X, np.ones(len(X))])
    z = M @ u
    assert np.count_nonzero(z == 0.0) == n_kinked
    residual = np.zeros(len(X))
    residual[:n_kinked] = 0.5  # alpha times residual above zero: a concave kink
    others = z > 0.0
    # The residuals of the three active rows make the gradient with all kinked rows active zero.
    target = gamma * M.T @ z / alpha - M[:n_kinked].T @ residual[:n_kinked]
    residual[others] = np.linalg.solve(M[others].T, target)
    problem = Problem(X, alpha * np.maximum(z, 0.0) + residual, gamma)
    return problem, Network(W=[u[:2]], b=[u[2]], alpha=[alpha])


def best_nearby(problem, network, unit, size, n=4000):
    """Return the lowest RegLoss at a small distance in the weights of one neuron."""
    rng = np.random.default_rng(0)
    U = np.column_stack([network.W, network.b])
    lowest = np.inf
    for direction in rng.normal(size=(n, U.shape[1])):
        shifted = U.copy()
        shifted[unit] += size * direction / np.linalg.norm(direction)
        lowest = min(lowest, problem.objective(Network(shifted[:, :-1], shifted[:, -1], network.alpha)))
    return lowest


def test_a_concave_kink_that_stops_the_dca_is_a_saddle():
    problem, network = stuck()
    local = local_optimality(problem, network)
    assert local.dca[0] < 1e-12
    assert local.worst[0] > 1e-2
    assert local.verdicts == ("saddle",)
    assert best_nearby(problem, network, 0, 1e-3, n=200) < problem.objective(network)
    assert stationarity(problem, network).neurons[0] < 1e-12  # stationarity alone does not reveal it
    off = Network(network.W, network.b + 0.1, network.alpha)
    assert local_optimality(problem, off).verdicts == ("not stationary",)


def test_verdicts_of_a_trained_network_agree_with_a_search_nearby():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    y = np.abs(X[:, 0]) + 0.3 * rng.normal(size=40)
    model = DCONRegressor(
        n_hidden=4, gamma=0.5, algorithm=PaperAlgorithm(split="net"), tol=1e-11, random_state=0, scale=False
    ).fit(X, y)
    problem = Problem(X, y, 0.5)
    local = local_optimality(problem, model.network_, tol=1e-6)
    objective = problem.objective(model.network_)
    assert local.count("local minimum") >= 1
    for unit, verdict in enumerate(local.verdicts):
        lowest = best_nearby(problem, model.network_, unit, 1e-4, n=500)
        assert (lowest >= objective * (1.0 - 1e-12)) == (verdict == "local minimum")


def test_dead_neurons():
    problem, _ = stuck()
    network = Network(W=[[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], b=[0.0, 0.0, 0.5], alpha=[1.0, 2.0, 0.0])
    dead = dead_neurons(problem, network)
    np.testing.assert_array_equal(dead, [False, True, True])
    np.testing.assert_array_equal(active_neurons(network), ~dead)  # without data
    alive = Network(network.W[~dead], network.b[~dead], network.alpha[~dead])
    assert problem.mse(alive) == problem.mse(network)


def test_certificate_and_restart_procedure_agree():
    for n_kinked in (1, 3, MAX_CHOICES + 3):
        problem, network = stuck(n_kinked)
        white = problem.whitened
        V = white.whiten(network)
        neuron = NeuronProblem.of(white, np.maximum(white.preactivations(V), 0.0), network.alpha, 0, "net")
        verdict, direction = examine(neuron, V[0])
        local = local_optimality(problem, network)
        assert local.complete[0] == (n_kinked <= MAX_CHOICES)
        assert (verdict is Verdict.DESCENDS) == (local.verdicts == ("saddle",))
        if direction is not None:
            moved = white.network(V + 1e-5 * np.linalg.norm(V) * direction, network.alpha)
            assert problem.objective(moved) < problem.objective(network)
