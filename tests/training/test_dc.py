"""The DC subproblem of a neuron: both splits describe the objective, and the DCA descends to a critical point."""

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.convex.backend import ConvexSolution, get_backend
from dconnet.training.dc import SPLITS, NeuronProblem, dca, net_split, paper_split

GAMMA = 0.05


@pytest.fixture
def setting():
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(50, 3)), rng.normal(size=50), GAMMA)
    network = Network(rng.normal(size=(4, 3)), rng.normal(size=4), np.array([0.8, -0.5, 0.3, -1.1]))
    return problem, network


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
@pytest.mark.parametrize("unit", range(4))
def test_g_minus_h_is_the_objective_up_to_a_constant(setting, split, unit):
    problem, network = setting
    neuron, v = neuron_problem(problem, network, unit, split)
    rng = np.random.default_rng(1)
    for candidate in rng.normal(size=(5, len(v))) * 3.0:
        change = neuron.value(candidate, neuron.design @ candidate) - neuron.value(v, neuron.design @ v)
        expected = problem.objective(with_neuron(problem, network, unit, candidate)) - problem.objective(network)
        assert change / problem.total_weight == pytest.approx(expected, rel=1e-10)


def test_betas_of_the_paper_by_loops(setting):
    """Compare with the proof of the DC decomposition, term by term."""
    problem, network = setting
    hidden, y, alpha = network.hidden(problem.X), problem.y, network.alpha
    unit = 1
    beta_g, beta_h = np.zeros(len(y)), np.zeros(len(y))
    for j in range(len(y)):
        parts = [-2.0 * y[j] * alpha[unit]]
        parts += [2.0 * alpha[i] * alpha[unit] * hidden[j, i] for i in range(4) if i != unit]
        beta_g[j] = sum(part for part in parts if part > 0.0)
        beta_h[j] = -sum(part for part in parts if part < 0.0)
    np.testing.assert_allclose(paper_split(y, hidden, alpha, unit), (beta_g, beta_h), rtol=1e-12, atol=1e-14)


def test_net_split_is_the_smallest(setting):
    problem, network = setting
    hidden = network.hidden(problem.X)
    for unit in range(4):
        paper_g, paper_h = paper_split(problem.y, hidden, network.alpha, unit)
        net_g, net_h = net_split(problem.y, hidden, network.alpha, unit)
        np.testing.assert_allclose(paper_g - paper_h, net_g - net_h, atol=1e-13)
        assert np.all(np.minimum(net_g, net_h) == 0.0)
        assert np.all(paper_g - net_g >= -1e-13)


@pytest.mark.parametrize("split", SPLITS)
def test_majoriser_lies_above_and_touches(setting, split):
    problem, network = setting
    neuron, v = neuron_problem(problem, network, 0, split)
    z = neuron.design @ v
    programme = neuron.majoriser(neuron.not_negative(v, z))
    offset = neuron.value(v, z) - programme.value(v)
    rng = np.random.default_rng(2)
    for candidate in rng.normal(size=(20, len(v))) * 3.0:
        assert programme.value(candidate) + offset >= neuron.value(candidate, neuron.design @ candidate) - 1e-10


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("unit", range(4))
@pytest.mark.parametrize("solver", ["reference", "native"])
def test_dca_ends_where_subgradients_of_g_and_h_meet(setting, split, unit, solver):
    problem, network = setting
    neuron, v = neuron_problem(problem, network, unit, split)
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
    assert not neuron.beta_g.any()
    assert not neuron.beta_h.any()
    outcome = dca(neuron, v, get_backend("reference").prepare(neuron.design), max_iter=50)
    assert not outcome.v.any()
    assert outcome.programmes == 0


class Wrong:
    """A backend with wrong answers."""

    def __init__(self, answer):
        self.answer = answer

    def solve(self, programme, start=None):
        v = np.full(programme.design.shape[1], self.answer)
        return ConvexSolution(v, np.zeros(len(programme.slope)), 1, False)


@pytest.mark.parametrize("answer", [1e3, np.nan])
def test_a_step_that_raises_the_objective_is_refused_and_counted(setting, answer):
    problem, network = setting
    neuron, v = neuron_problem(problem, network, 0, "net")
    outcome = dca(neuron, v, Wrong(answer), max_iter=50)
    np.testing.assert_array_equal(outcome.v, v)
    assert outcome.refused == 1
    assert outcome.unsolved == 1


def test_rows_at_the_kink_are_active_in_spite_of_noise(setting):
    problem, network = setting
    neuron, v = neuron_problem(problem, network, 0, "net")
    z = neuron.design @ v
    largest = np.linalg.norm(neuron.design, axis=1) * np.linalg.norm(v)
    z[3], z[4] = -1e-12 * largest[3], -1e-6 * largest[4]
    assert neuron.not_negative(v, z)[3]
    assert not neuron.not_negative(v, z)[4]
    np.testing.assert_array_equal(neuron.not_negative(v, z)[5:], z[5:] >= 0.0)


def test_noise_becomes_zero_but_small_weights_stay(setting):
    problem, network = setting
    neuron, v = neuron_problem(problem, network, 0, "net")
    assert not np.any(neuron.without_noise(1e-13 * v)[0])
    assert not np.any(neuron.without_noise(1e-13 * v)[1])
    np.testing.assert_array_equal(neuron.without_noise(1e-3 * v)[0], 1e-3 * v)
    assert neuron.not_negative(np.zeros_like(v), np.zeros(len(neuron.beta_g))).all()
