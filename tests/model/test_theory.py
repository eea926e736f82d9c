"""The constants of the theory hold exactly, and those of the paper fail where the errata say so."""

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.certificates import global_gap
from dconnet.convex.programme import get_backend
from dconnet.training.descent import Descent, Options
from dconnet.training.sweep import solve_output_weights
from problems import whitened_problem


def weighted_problem(gamma=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return Problem(rng.normal(size=(40, 3)), rng.normal(size=40), gamma, rng.uniform(0.5, 3.0, size=40))


def design(problem):
    M = np.column_stack([problem.X, np.ones(len(problem.X))])
    return M * np.sqrt(problem.sample_weight)[:, None]


def test_singular_values_are_those_of_the_weighted_design():
    problem = weighted_problem()
    singular = np.linalg.svd(design(problem), compute_uv=False)
    assert problem.constants.sigma_min == pytest.approx(singular[-1], rel=1e-12)
    assert problem.constants.sigma_max == pytest.approx(singular[0], rel=1e-12)
    dependent = Problem(problem.X[:, [0, 1, 2, 0]], problem.y, 0.3, problem.sample_weight)
    singular = np.linalg.svd(design(dependent), compute_uv=False)
    assert dependent.constants.sigma_min == pytest.approx(singular[-2], rel=1e-10)


def convex_part(problem, beta_g, alpha, u):
    """Return g of the paper in the coordinates of the data."""
    z = design(problem) @ u
    active = np.maximum(z, 0.0)
    return (beta_g @ active + alpha**2 * active @ active + problem.gamma * z @ z) / problem.total_weight


def test_modulus_of_strong_convexity_holds_and_is_the_largest():
    problem, rng = weighted_problem(), np.random.default_rng(2)
    beta_g = rng.uniform(size=40)

    def excess(x, y, modulus):  # not negative if g - modulus/2 |.|² is convex between x and y
        g = [convex_part(problem, beta_g, 0.7, u) for u in (x, y, (x + y) / 2.0)]
        return g[0] / 2.0 + g[1] / 2.0 - g[2] - modulus / 8.0 * np.sum((x - y) ** 2)

    modulus = problem.constants.strong_convexity
    pairs = rng.normal(size=(200, 2, 4))
    assert min(excess(x, y, modulus) for x, y in pairs) >= -1e-12
    # Where no row is active only the penalty curves, and least so in the smallest direction of M.
    weakest = np.linalg.svd(design(problem))[2][-1]
    inactive, step = np.array([0.0, 0.0, 0.0, -100.0]), weakest
    assert np.all(design(problem) @ (inactive + step) < 0.0)
    assert excess(inactive + step, inactive - step, modulus) == pytest.approx(0.0, abs=1e-9)
    assert excess(inactive + step, inactive - step, 1.001 * modulus) < 0.0


def test_the_papers_modulus_is_too_large_for_a_small_sigma_min():
    problem = Problem([[-0.01], [0.01]], [0.0, 0.0], gamma=1.0)
    assert problem.constants.sigma_min < 0.1
    curvature = [convex_part(problem, np.zeros(2), 1.0, np.array([w, -1.0])) for w in (-1.0, 0.0, 1.0)]
    second_difference = curvature[0] - 2.0 * curvature[1] + curvature[2]  # = modulus along w
    assert second_difference == pytest.approx(problem.constants.strong_convexity, rel=1e-6)
    assert second_difference < 2.0 * problem.gamma / 2.0 * problem.constants.sigma_min


def test_the_papers_decrease_of_a_dca_step_is_too_large():
    """A neuron moves only in the smallest direction of M, with all rows active before and after."""
    gamma, alpha, m = 1.0, 1e-4, 2
    X = np.array([[-0.01], [0.01]])
    problem = Problem(X, [1.0, 1.0], gamma)
    solution = alpha / (gamma + alpha**2)  # b of the neuron with w = 0 that minimises RegLoss for this alpha
    start = Network(W=[[0.5 * solution]], b=[solution], alpha=[alpha])
    descent = Descent(problem, get_backend("native"), Options(split="paper"), np.random.default_rng(0))
    state = descent.init(start)
    descent.prepare(state)
    tally = descent.sweep.run(state.V, state.alpha, np.array([0]), np.inf)
    end = problem.whitened.network(state.V, state.alpha)
    assert tally.programmes == 1
    np.testing.assert_allclose([end.W[0, 0], end.b[0]], [0.0, solution], atol=1e-12 * solution)
    decrease = problem.objective(start) - problem.objective(end)
    square = float(np.sum((start.parameters - end.parameters) ** 2))
    assert decrease >= problem.constants.dca_decrease * square - 1e-15
    assert decrease == pytest.approx(problem.constants.dca_decrease * square, rel=1e-2)
    for iterations in (1, 50):  # even its weaker form for up to 50 iterations
        assert decrease < 2.0 * gamma * problem.constants.sigma_min / (iterations * m) * square


def test_the_papers_decrease_of_the_output_layer_is_too_large():
    """For a neuron that no row activates, only the penalty of its output weight matters."""
    X, y, gamma = np.array([[-1.0], [0.0], [1.0]]), np.zeros(3), 0.5
    problem = Problem(X, y, gamma)
    before = Network(W=[[0.0]], b=[-1.0], alpha=[2.0])
    alpha = solve_output_weights(whitened_problem(before.preactivations(X), y, gamma), np.eye(1))
    after = Network(before.W, before.b, alpha)
    decrease = problem.objective(before) - problem.objective(after)
    assert alpha[0] == 0.0
    assert decrease == pytest.approx(problem.constants.output_decrease * 4.0, rel=1e-12)
    assert decrease < gamma / 2.0 * 4.0


def test_weights_are_bounded_by_the_objective():
    problem, rng = weighted_problem(1e-2), np.random.default_rng(5)
    for _ in range(20):
        network = Network(rng.normal(size=(2, 3)), rng.normal(size=2), rng.normal(size=2))
        objective = problem.objective(network)
        largest = np.max(np.linalg.norm(np.column_stack([network.W, network.b]), axis=1))
        assert largest <= problem.constants.hidden_bound(objective)
        assert np.linalg.norm(network.alpha) <= problem.constants.output_bound(objective)


def test_the_papers_bound_on_the_weights_lacks_gamma():
    problem = Problem([[-1.0], [1.0]], [0.1, -0.1], gamma=1e-4)
    network = Network(W=[[0.0]], b=[1.0], alpha=[0.0])
    preactivations = network.preactivations(problem.X)
    assert problem.objective(network) < np.sum(preactivations**2) / 2.0  # the paper's first inequality reversed
    assert problem.constants.hidden_bound(problem.objective(network)) >= 1.0


# Two neurons share the one neuron that is the global minimiser of every width, by an angle.
# For x = ±1 and y = 1 it has w = 0, and the penalty of a balanced network is at least twice gamma times |f|.
SHARED = Problem([[-1.0], [1.0]], [1.0, 1.0], gamma=0.5)


def shared(angle):
    """Split one neuron of size s into two of sizes s cos and s sin of an angle."""
    size = np.sqrt(np.sqrt(2.0) - SHARED.gamma)
    parts = size * np.array([np.cos(angle), np.sin(angle)])
    return Network(W=np.zeros((2, 1)), b=parts / np.sqrt(2.0), alpha=parts)


ANGLES = np.linspace(0.1, 1.4, 5)


def test_global_minimisers_need_not_be_isolated():
    least = (2.0 * np.sqrt(2.0) * SHARED.gamma - SHARED.gamma**2) / 2.0
    for angle in ANGLES:
        assert SHARED.objective(shared(angle)) == pytest.approx(least, rel=1e-14)
        gap = global_gap(SHARED, shared(angle))  # for one input the bound on all networks is exact
        assert gap.exact
        assert gap.bound == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("split", ["paper", "net"])
def test_algorithm_1_ends_beside_the_global_minimiser_that_it_began_at(split):
    """The paper's Proposition 12 claims that every start near a minimiser leads to that minimiser."""
    here = shared(np.pi / 4.0)
    descent = Descent(SHARED, get_backend("native"), Options(split=split, tol=1e-14), np.random.default_rng(0))
    for distance in (1e-1, 1e-3):
        near = shared(np.pi / 4.0 + distance)
        end = descent.run(near).network
        assert np.all(end.preactivations(SHARED.X) > 0.0)  # smooth there: all assumptions of the paper hold
        np.testing.assert_allclose(end.parameters, near.parameters, atol=1e-12)
        assert np.linalg.norm(end.parameters - here.parameters) > 0.9 * distance
        # Nor from a start that is no minimiser itself.
        above = Network(near.W + distance / 3.0, near.b, near.alpha)
        assert SHARED.objective(above) > SHARED.objective(here)
        end = descent.run(above).network
        assert SHARED.objective(end) == pytest.approx(SHARED.objective(here), rel=1e-12)
        assert np.linalg.norm(end.parameters - here.parameters) > 0.5 * distance
