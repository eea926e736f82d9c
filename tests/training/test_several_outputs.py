"""Several outputs over one hidden layer: objective, derivatives and descent against independent formulas."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from dconnet import Network, Problem
from dconnet.certificates import stationarity, subgradient, trace
from dconnet.convex.backend import get_backend
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.dc import SPLITS, NeuronProblem
from dconnet.training.descent import Descent, Options
from dconnet.training.early_stopping import Validation
from dconnet.training.initialization import xavier
from dconnet.training.newton import Piece, newton_step

DESCENTS = {"paper": Descent, "accelerated": AcceleratedDescent}


def data(n_rows=60, n_features=3, n_outputs=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    signals = np.column_stack([np.abs(X[:, 0]), X[:, 1] * X[:, 0], np.maximum(X[:, 2], 0.0) - X[:, 1]])
    return X, signals[:, :n_outputs] @ rng.normal(size=(n_outputs, n_outputs)) + 0.1 * rng.normal(
        size=(n_rows, n_outputs)
    )


def start_of(n_hidden=5, n_features=3, n_outputs=3, seed=1):
    return xavier(n_features, n_hidden, np.random.default_rng(seed), n_outputs)


def rotation(n, seed=7):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


def descend(problem, start, algorithm="paper", split="net", seed=3, **options):
    chosen = Options(split=split, **{"max_epochs": 30} | options)
    return DESCENTS[algorithm](problem, get_backend("native"), chosen, np.random.default_rng(seed)).run(start)


def formula(X, Y, network, gamma, weight, scale, shrinkage=0.0):
    """Return RegLoss, entry by entry."""
    total = 0.0
    for x, y, s in zip(X, Y, weight, strict=True):
        z = network.W @ x + network.b
        for k in range(Y.shape[1]):
            output = network.intercept[k] + sum(a * max(t, 0.0) for a, t in zip(network.alpha[:, k], z, strict=True))
            total += s * ((y[k] - output) / scale[k]) ** 2
        total += gamma * s * float(z @ z)
    total += gamma * (np.sum((network.alpha / scale) ** 2) + shrinkage * np.sum(weight) * np.sum(network.W**2))
    return total / np.sum(weight)


# --- the problem ---


@pytest.mark.parametrize("scale", [None, [0.5, 2.0, 30.0]])
def test_the_objective_is_the_formula_in_both_coordinates(scale):
    X, Y = data(n_rows=20)
    X[3] = X[8]  # rows with the same inputs
    weight = np.random.default_rng(2).integers(0, 3, size=20).astype(float)
    network = start_of().with_intercept([0.3, -1.0, 2.0])
    problem = Problem(X, Y, 0.2, weight, shrinkage=0.1, intercept=network.intercept, output_scale=scale)
    expected = formula(X, Y, network, 0.2, weight, np.ones(3) if scale is None else np.array(scale), shrinkage=0.1)
    assert problem.objective(network) == pytest.approx(expected, rel=1e-13)
    white = problem.whitened
    V = white.whiten(network)
    assert white.regloss(V, white.output_weights(network)) == pytest.approx(expected, rel=1e-12)
    back = white.network(V, white.output_weights(network))
    np.testing.assert_allclose(back.alpha, network.alpha, rtol=1e-15)
    zero = Network(np.zeros((1, 3)), np.zeros(1), np.zeros((1, 3)), network.intercept)
    assert problem.zero_objective == pytest.approx(problem.objective(zero), rel=1e-13)
    assert problem.mse(network) == pytest.approx(white.mse(V, white.output_weights(network)))
    assert problem.residual(network).shape == Y.shape


def test_one_column_is_the_problem_of_a_vector():
    X, Y = data()
    network = xavier(3, 4, np.random.default_rng(0))
    column = Network(network.W, network.b, network.alpha[:, None], [0.0])
    as_vector, as_column = Problem(X, Y[:, 0], 0.1), Problem(X, Y[:, :1], 0.1)
    assert as_column.objective(column) == pytest.approx(as_vector.objective(network), rel=1e-14)
    for algorithm in DESCENTS:
        vector, matrix = descend(as_vector, network, algorithm), descend(as_column, column, algorithm)
        assert matrix.network.alpha.shape == (4, 1)
        assert matrix.objective == pytest.approx(vector.objective, rel=1e-8)


def test_weights_are_copies():
    X, Y = data(n_rows=30)
    weight = np.random.default_rng(4).integers(0, 4, size=30)
    copies = np.repeat(np.arange(30), weight)
    options = {"intercept": [1.0, 0.0, -1.0], "output_scale": [1.0, 2.0, 3.0]}
    weighted, repeated = Problem(X, Y, 0.1, weight, **options), Problem(X[copies], Y[copies], 0.1, **options)
    first, second = (descend(p, start_of(), max_epochs=20) for p in (weighted, repeated))
    np.testing.assert_allclose(first.network.parameters, second.network.parameters, rtol=1e-9, atol=1e-12)


def test_invalid_shapes_are_refused():
    X, Y = data(n_rows=5)
    with pytest.raises(ValueError, match="intercept must be a number or have one for each output"):
        Problem(X, Y, 0.1, intercept=[1.0, 2.0])
    with pytest.raises(ValueError, match="intercept must be a number"):
        Problem(X, Y[:, 0], 0.1, intercept=[1.0, 2.0])
    with pytest.raises(ValueError, match="output_scale must be positive"):
        Problem(X, Y, 0.1, output_scale=[1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="output_scale must be positive"):
        Problem(X, Y[:, 0], 0.1, output_scale=2.0)
    with pytest.raises(ValueError, match="at least one column"):
        Problem(X, Y[:, :0], 0.1)
    problem = Problem(X, Y, 0.1)
    for network in (xavier(3, 2, np.random.default_rng(0)), start_of(n_outputs=2)):
        for use in (problem.objective, problem.mse, problem.whitened.whiten, lambda n: descend(problem, n)):
            with pytest.raises(ValueError, match="output weights of shape"):
                use(network)
    with pytest.raises(ValueError, match="output intercept"):
        problem.whitened.whiten(start_of().with_intercept(1.0))


# --- blocks of the descent ---


def test_the_subproblem_of_a_neuron_is_the_objective():
    X, Y = data()
    white = Problem(X, Y, 0.2).whitened
    network = start_of()
    V, alpha = white.whiten(network), network.alpha
    Z = white.preactivations(V)
    rng = np.random.default_rng(0)
    for split in SPLITS:
        neuron = NeuronProblem.of(white, np.maximum(Z, 0.0), alpha, 2, split)
        assert np.all(neuron.beta_g >= 0.0)
        assert np.all(neuron.beta_h >= 0.0)
        moved = V.copy()
        moved[2] = rng.normal(size=V.shape[1])
        change = neuron.value(moved[2], white.Q @ moved[2]) - neuron.value(V[2], Z[:, 2])
        expected = white.total_weight * (white.regloss(moved, alpha) - white.regloss(V, alpha))
        assert change == pytest.approx(expected, rel=1e-10)


def test_the_papers_split_is_that_of_each_output_summed():
    X, Y = data()
    hidden = np.maximum(X @ np.random.default_rng(1).normal(size=(3, 4)), 0.0)
    alpha = np.random.default_rng(2).normal(size=(4, 3))
    rising, falling = SPLITS["paper"](Y, hidden, alpha, 1)
    slow = np.zeros((2, len(Y)))
    for j in range(len(Y)):
        for k in range(3):
            terms = [-2.0 * alpha[1, k] * Y[j, k]]
            terms += [2.0 * alpha[1, k] * alpha[i, k] * hidden[j, i] for i in range(4) if i != 1]
            slow[0, j] += sum(max(t, 0.0) for t in terms)
            slow[1, j] += sum(max(-t, 0.0) for t in terms)
    np.testing.assert_allclose([rising, falling], slow, rtol=1e-12)
    net_rising, net_falling = SPLITS["net"](Y, hidden, alpha, 1)
    np.testing.assert_allclose(net_rising - net_falling, rising - falling, atol=1e-11)
    assert np.all(net_rising <= rising + 1e-12)


def test_derivatives_of_all_weights_are_those_of_finite_differences():
    X, Y = data(n_rows=30)
    white = Problem(X, Y, 0.1).whitened
    network = start_of(n_hidden=3)
    V, alpha = white.whiten(network), network.alpha
    piece = Piece.around(white, V, alpha, 1e-9)
    gradient, hessian = piece.gradient_and_hessian()
    assert piece.shape.n_unknowns == 3 * (4 + 3)

    def half(step):
        step_V, step_alpha = piece.spread(step)
        return 0.5 * white.total_weight * white.regloss(V + step_V, alpha + step_alpha)

    eye, h = np.eye(piece.shape.n_unknowns), 1e-4
    np.testing.assert_array_equal(hessian, hessian.T)
    central = [(half(h * e) - half(-h * e)) / (2.0 * h) for e in eye]
    np.testing.assert_allclose(gradient, central, atol=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(10):
        d = rng.normal(size=piece.shape.n_unknowns)
        d /= np.linalg.norm(d)
        second = (half(h * d) - 2.0 * half(0.0 * d) + half(-h * d)) / h**2
        assert d @ hessian @ d == pytest.approx(second, rel=1e-4)
    step_V, step_alpha = newton_step(white, V, alpha)
    assert step_V.shape == V.shape
    assert step_alpha.shape == alpha.shape


# --- descents ---


@pytest.mark.parametrize("algorithm", DESCENTS)
@pytest.mark.parametrize("split", SPLITS)
def test_the_objective_never_rises_and_ends_at_a_stationary_network(algorithm, split):
    X, Y = data()
    problem = Problem(X, Y, 0.3, intercept=Y.mean(axis=0), output_scale=Y.std(axis=0))
    found = descend(problem, start_of(), algorithm, split, max_epochs=400, tol=1e-9)
    assert np.all(np.diff(found.history.objective) <= 0.0)
    assert found.objective == pytest.approx(problem.objective(found.network))
    assert stationarity(problem, found.network, split).norm < 1e-5


def test_the_subgradient_is_the_gradient_by_finite_differences():
    X, Y = data(n_rows=25)
    problem = Problem(X, Y, 0.3, output_scale=[1.0, 4.0, 0.5])
    network = start_of(n_hidden=3)
    vector, scale, h = subgradient(problem, network), np.array([1.0, 4.0, 0.5]), 1e-6

    def moved(W=0.0, b=0.0, alpha=0.0):
        return problem.objective(Network(network.W + W, network.b + b, network.alpha + alpha))

    for unit in range(3):
        own = np.eye(3)[unit]
        for j in range(3):
            step = h * np.outer(own, np.eye(3)[j])
            by_weight = (moved(W=step) - moved(W=-step)) / (2.0 * h)
            assert vector.hidden[unit, j] == pytest.approx(by_weight, rel=1e-5, abs=1e-8)
            by_output = (moved(alpha=step * scale) - moved(alpha=-step * scale)) / (2.0 * h)
            assert vector.output[unit, j] == pytest.approx(by_output, rel=1e-5, abs=1e-8)
        by_intercept = (moved(b=h * own) - moved(b=-h * own)) / (2.0 * h)
        assert vector.hidden[unit, 3] == pytest.approx(by_intercept, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("algorithm", DESCENTS)
def test_rotated_outputs_have_rotated_networks(algorithm):
    X, Y = data()
    R, start = rotation(3), start_of()
    turned = Network(start.W, start.b, start.alpha @ R)
    options = {"max_epochs": 3, "tol": 0.0} | ({"max_evaluations": 60} if algorithm == "accelerated" else {})
    first = descend(Problem(X, Y, 0.2), start, algorithm, **options)
    second = descend(Problem(X, Y @ R, 0.2), turned, algorithm, **options)
    np.testing.assert_allclose(first.history.objective, second.history.objective, rtol=1e-6)
    np.testing.assert_allclose(first.network.predict(X) @ R, second.network.predict(X), atol=1e-4)


def test_copies_of_one_target_are_no_harder_than_the_target():
    """For Y = y wᵀ with a w of length one, the best networks have output weights along w, and RegLoss is that of y."""
    X, Y = data()
    y, w = Y[:, 0], np.array([0.6, 0.0, -0.8])
    one = descend(Problem(X, y, 0.2), xavier(3, 6, np.random.default_rng(0)), "accelerated", max_epochs=200)
    lifted = Network(one.network.W, one.network.b, np.outer(one.network.alpha, w))
    problem = Problem(X, np.outer(y, w), 0.2)
    assert problem.objective(lifted) == pytest.approx(one.objective, rel=1e-12)
    found = descend(problem, start_of(n_hidden=6), "accelerated", max_epochs=200)
    assert found.objective == pytest.approx(one.objective, rel=1e-2)
    across = found.network.alpha - np.outer(found.network.alpha @ w, w)
    assert np.abs(across).max() < 1e-4 * np.abs(found.network.alpha).max()


def test_no_other_optimiser_gets_lower():
    """Compare with SciPy's L-BFGS from many starts, with an independent gradient."""
    X, Y = data(n_rows=40, n_outputs=2)
    problem, n_hidden = Problem(X, Y[:, :2], 0.5), 3
    white = problem.whitened

    def value_and_gradient(theta):
        V, A = theta[: n_hidden * 4].reshape(n_hidden, 4), theta[n_hidden * 4 :].reshape(n_hidden, 2)
        Z = white.Q @ V.T
        S = np.maximum(Z, 0.0)
        error = S @ A - white.y
        value = np.sum(error**2) + white.gamma * np.sum(theta**2)
        by_V = 2.0 * ((error @ A.T) * (Z > 0.0)).T @ white.Q + 2.0 * white.gamma * V
        return value, np.concatenate([by_V.ravel(), (2.0 * S.T @ error + 2.0 * white.gamma * A).ravel()])

    rng = np.random.default_rng(0)
    starts = rng.normal(size=(40, n_hidden * 6))
    best = min(minimize(value_and_gradient, s, jac=True, method="L-BFGS-B").fun for s in starts) / len(X)
    start = start_of(n_hidden=n_hidden, n_outputs=2)
    found = descend(problem, start, "accelerated", max_epochs=200)
    assert found.objective == pytest.approx(best, rel=1e-4)
    assert found.objective <= best * (1.0 + 1e-6)


def test_a_balanced_neuron_is_as_long_as_its_output_weights():
    X, Y = data()
    problem = Problem(X, Y, 0.2)
    found = descend(problem, start_of(), "accelerated", max_epochs=300)
    lengths = np.linalg.norm(problem.whitened.whiten(found.network), axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(found.network.alpha, axis=1), rtol=1e-3)


@pytest.mark.parametrize("split", SPLITS)
def test_the_conditions_of_the_theory_hold(split):
    X, Y = data()
    problem = Problem(X, Y, 0.1, output_scale=[1.0, 3.0, 0.2])
    run = trace(problem, start_of(), Options(split=split, max_epochs=15))
    for coordinates in ("data", "whitened"):
        assert run.sufficient_decrease(coordinates).holds
        assert run.relative_error(coordinates).holds


def test_units_of_outputs_do_not_matter():
    X, Y = data()
    scale = np.array([2.0, 0.25, 1024.0])  # powers of two round nothing
    plain = Problem(X, Y, 0.1, intercept=[1.0, 0.5, 0.25], output_scale=[1.0, 2.0, 4.0])
    other = Problem(X, Y * scale, 0.1, intercept=scale * [1.0, 0.5, 0.25], output_scale=scale * [1.0, 2.0, 4.0])
    start = start_of()
    for algorithm in DESCENTS:
        first = descend(plain, start, algorithm, max_epochs=10)
        second = descend(other, Network(start.W, start.b, start.alpha * scale), algorithm, max_epochs=10)
        np.testing.assert_array_equal(first.network.W, second.network.W)
        np.testing.assert_array_equal(first.network.alpha * scale, second.network.alpha)
        np.testing.assert_array_equal(first.history.step_norm, second.history.step_norm)


def test_restarts_lead_to_local_minima():
    X, Y = data()
    problem = Problem(X, Y, 0.3)
    found = descend(problem, start_of(), restart=True, max_epochs=100)
    assert np.all(np.diff(found.history.objective) <= 0.0)
    inexact = descend(problem, start_of(), inexact=True, max_epochs=100)
    assert np.all(np.diff(inexact.history.objective) <= 0.0)


def test_validation_sums_over_the_outputs():
    X, Y = data(n_rows=10)
    weight, network = np.arange(10.0), start_of()
    errors = Y - network.predict(X)
    validation = Validation(X, Y, weight, patience=None)
    assert validation.mse(network) == pytest.approx(np.sum(weight[:, None] * errors**2) / weight.sum())
    scaled = replace(validation, scale=np.array([1.0, 2.0, 4.0]))
    expected = np.sum(weight[:, None] * (errors / [1.0, 2.0, 4.0]) ** 2) / weight.sum()
    assert scaled.mse(network) == pytest.approx(expected)
