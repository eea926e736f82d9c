"""Stationarity against finite differences, at hand-made kinks, and at trained networks."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, PaperAlgorithm, Problem
from dconnet.certificates import stationarity, subgradient


def gradient_by_differences(problem, network, step=1e-6):
    """Return central differences of RegLoss in (W, b) and alpha."""
    U = np.column_stack([network.W, network.b])

    def objective(U, alpha):
        return problem.objective(Network(U[:, :-1], U[:, -1], alpha))

    hidden = np.zeros_like(U)
    for index in np.ndindex(U.shape):
        shift = np.zeros_like(U)
        shift[index] = step
        hidden[index] = (objective(U + shift, network.alpha) - objective(U - shift, network.alpha)) / (2 * step)
    output = [
        (objective(U, network.alpha + e) - objective(U, network.alpha - e)) / (2 * step)
        for e in step * np.eye(network.n_hidden)
    ]
    return hidden, np.array(output)


@pytest.mark.parametrize("split", ["net", "paper"])
@pytest.mark.parametrize("dependent", [False, True])
def test_smooth_subgradients_match_finite_differences(split, dependent):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    X[5] = X[6]  # equal rows are grouped
    X = np.column_stack([X, X[:, 0] - 2.0 * X[:, 1]]) if dependent else X
    problem = Problem(X, rng.normal(size=40), 0.2, rng.uniform(size=40))
    network = Network(rng.normal(size=(3, X.shape[1])), rng.normal(size=3), rng.normal(size=3))
    vector = subgradient(problem, network, split)
    hidden, output = gradient_by_differences(problem, network)
    np.testing.assert_allclose(vector.hidden, hidden, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(vector.output, output, rtol=1e-6, atol=1e-8)
    assert vector.norm == pytest.approx(np.hypot(np.linalg.norm(hidden), np.linalg.norm(output)), rel=1e-6)
    assert vector.limiting.all()
    blocks, white = stationarity(problem, network, split), problem.whitened
    whitened = hidden @ white.whitening.from_white * problem.total_weight  # the gradient in v = R u
    unit = 2.0 * white.target_norm
    np.testing.assert_allclose(blocks.neurons, np.linalg.norm(whitened, axis=1) / unit, rtol=1e-5)
    assert blocks.output_layer == pytest.approx(np.linalg.norm(output) * problem.total_weight / unit, rel=1e-6)


def test_the_papers_condition_is_weaker():
    rng = np.random.default_rng(1)
    problem = Problem(rng.normal(size=(30, 2)), rng.normal(size=30), 0.1)
    W = rng.normal(size=(3, 2)) * [[0], [1], [1]]  # all rows of neuron 0 are at its kink
    network = Network(W, np.zeros(3), rng.normal(size=3))
    paper, net = (stationarity(problem, network, split).neurons for split in ("paper", "net"))
    assert np.all(paper <= net + 1e-9)
    zero = Network(W=np.zeros((2, 1)), b=np.zeros(2), alpha=np.zeros(2))
    assert stationarity(Problem([[1.0], [2.0]], [0.0, 0.0], 0.1), zero).norm == 0.0


def kinked(slope_sign, seed=6):
    """Return a problem and a neuron with one row at its kink, convex for sign one and concave for minus one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2))
    w, alpha = np.array([1.0, -0.5]), 0.8
    network = Network(W=[w], b=[-(X[0] @ w)], alpha=[alpha])
    y = rng.normal(size=12)
    y[0] = -slope_sign * 1.5  # the slope of row 0 is -2 alpha y_0
    return Problem(X, y, 0.1), network


def moved(network, shift):
    return Network(network.W, network.b + shift, network.alpha)


def test_a_convex_kink_offers_all_slopes_between_its_two_sides():
    problem, network = kinked(1.0)
    sides = [gradient_by_differences(problem, moved(network, shift), 1e-8)[0][0] for shift in (1e-5, -1e-5)]
    shares = np.linspace(0.0, 1.0, 20001)
    shortest = min(np.linalg.norm(np.outer(shares, sides[0]) + np.outer(1.0 - shares, sides[1]), axis=1))
    vector = subgradient(problem, network)
    assert vector.neurons[0] == pytest.approx(shortest, abs=1e-4)
    assert vector.neurons[0] < 0.99 * min(map(np.linalg.norm, sides))  # a slope strictly between
    assert vector.limiting.all()


def test_a_concave_kink_offers_the_slopes_of_its_two_sides_only():
    problem, network = kinked(-1.0)
    active, inactive = (gradient_by_differences(problem, moved(network, s), 1e-8)[0][0] for s in (1e-5, -1e-5))
    dca = subgradient(problem, network)
    best = subgradient(problem, network, concave="best")
    np.testing.assert_allclose(dca.hidden[0], active, atol=1e-4)
    assert best.norm <= dca.norm
    assert best.neurons[0] == pytest.approx(min(np.linalg.norm(active), np.linalg.norm(inactive)), abs=1e-4)
    assert dca.limiting.all()
    assert best.limiting.all()
    dead = Network(W=[[0.0, 0.0]], b=[0.0], alpha=[0.8])  # all twelve rows, which are dependent, at the kink
    assert not subgradient(problem, dead).limiting.any()
    with pytest.raises(ValueError, match="split must be one of"):
        stationarity(problem, network, "half")
    with pytest.raises(ValueError, match="concave must be one of"):
        subgradient(problem, network, concave="worst")


def test_the_papers_split_can_leave_the_limiting_subdifferential():
    X = np.linspace(-1, 1, 21).reshape(-1, 1)
    problem = Problem(X, X[:, 0] ** 2, gamma=0.1)
    algorithm = PaperAlgorithm(kinks="active")
    model = DCONRegressor(n_hidden=3, gamma=0.1, algorithm=algorithm, random_state=0, scale=False).fit(X, X[:, 0] ** 2)
    vector = subgradient(problem, model.network_, "paper")
    assert vector.norm < 1e-6
    assert not vector.limiting.all()
    assert subgradient(problem, model.network_, "net").norm > 1e-2
