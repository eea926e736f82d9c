"""The DC subproblem of a neuron: both splits describe the objective, and the DCA descends to a critical point."""

from types import SimpleNamespace

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.convex.programme import ConvexSolution, get_backend
from dconnet.training.dc import SPLITS, NeuronProblem, dca, net_split, paper_split


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(50, 3)), rng.normal(size=50), 0.05)
    network = Network(rng.normal(size=(4, 3)), rng.normal(size=4), np.array([0.8, -0.5, 0.3, -1.1]))
    return problem, network


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("unit", range(4))
def test_g_minus_h_is_the_objective_up_to_a_constant_and_below_its_majoriser(setting, split, unit):
    problem, network = setting
    neuron, v = neuron_problem(problem, network, unit, split)
    z = neuron.design @ v
    majoriser = neuron.majoriser(neuron.not_negative(v, z))
    for candidate in np.random.default_rng(1).normal(size=(10, len(v))) * 3.0:
        change = neuron.value(candidate, neuron.design @ candidate) - neuron.value(v, z)
        expected = problem.objective(with_neuron(problem, network, unit, candidate)) - problem.objective(network)
        assert change / problem.total_weight == pytest.approx(expected, rel=1e-10)
        assert majoriser.value(candidate) - majoriser.value(v) >= change - 1e-10


@pytest.mark.parametrize("n_outputs", [None, 3])
def test_splits_follow_the_proof_term_by_term(n_outputs):
    rng = np.random.default_rng(1)
    hidden = np.maximum(rng.normal(size=(40, 4)), 0.0)
    Y, A = rng.normal(size=(40, n_outputs or 1)), rng.normal(size=(4, n_outputs or 1))
    arguments = (Y, hidden, A, 1) if n_outputs else (Y[:, 0], hidden, A[:, 0], 1)
    beta_g, beta_h = np.zeros(40), np.zeros(40)
    for j in range(40):
        for k in range(Y.shape[1]):
            parts = [-2.0 * Y[j, k] * A[1, k]]
            parts += [2.0 * A[i, k] * A[1, k] * hidden[j, i] for i in range(4) if i != 1]
            beta_g[j] += sum(part for part in parts if part > 0.0)
            beta_h[j] -= sum(part for part in parts if part < 0.0)
    np.testing.assert_allclose(paper_split(*arguments), (beta_g, beta_h), rtol=1e-12, atol=1e-14)
    net_g, net_h = net_split(*arguments)  # the smallest split with the same difference
    np.testing.assert_allclose(net_g - net_h, beta_g - beta_h, atol=1e-11)
    assert np.all(np.minimum(net_g, net_h) == 0.0)


def neuron_problem(problem, network, unit, split):
    white = problem.whitened
    V = white.whiten(network)
    hidden = np.maximum(white.Q @ V.T, 0.0)
    betas = SPLITS[split](white.y, hidden, network.alpha, unit)
    return NeuronProblem(white.Q, *betas, float(network.alpha[unit]) ** 2, problem.gamma), V[unit]


def with_neuron(problem, network, unit, v):
    V = problem.whitened.whiten(network)
    V[unit] = v
    return problem.whitened.network(V, network.alpha)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("solver", ["reference", "native"])
def test_dca_ends_where_subgradients_of_g_and_h_meet(setting, split, solver):
    for unit in range(4):
        neuron, v = neuron_problem(*setting, unit, split)
        backend = get_backend(solver).prepare(neuron.design)
        outcome = dca(neuron, v, backend, max_iter=200)
        assert outcome.converged
        assert outcome.refused == 0
        z = neuron.design @ outcome.v
        assert neuron.value(outcome.v, z) <= neuron.value(v, neuron.design @ v)
        # The end is a fixed point: the minimiser of the majoriser built there.
        again = backend.solve(neuron.majoriser(neuron.not_negative(outcome.v, z)))
        np.testing.assert_allclose(again.v, outcome.v, atol=1e-8 * (1.0 + np.abs(outcome.v).max()))


def test_output_weight_zero_gives_weights_zero(setting):
    problem, network = setting
    neuron, v = neuron_problem(problem, Network(network.W, network.b, network.alpha * [0, 1, 1, 1]), 0, "paper")
    assert not dca(neuron, v, get_backend("reference").prepare(neuron.design), max_iter=50).v.any()


@pytest.mark.parametrize("answer", [1e3, np.nan])
def test_a_step_that_raises_the_objective_is_refused_and_counted(setting, answer):
    neuron, v = neuron_problem(*setting, 0, "net")
    wrong = ConvexSolution(np.full(4, answer), np.zeros(50), 1, False)
    outcome = dca(neuron, v, SimpleNamespace(solve=lambda programme, start=None: wrong), max_iter=50)
    np.testing.assert_array_equal(outcome.v, v)
    assert outcome.refused == outcome.unsolved == 1
