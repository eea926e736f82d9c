"""Several outputs over one hidden layer: objective, derivatives and descent against independent formulas."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dconnet import Network, Problem
from dconnet.certificates import stationarity, subgradient
from dconnet.convex.programme import get_backend
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.dc import SPLITS
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from problems import assert_descent, trace

DESCENTS = {"paper": Descent, "accelerated": AcceleratedDescent}


def data(n_rows=60, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    signals = np.column_stack([np.abs(X[:, 0]), X[:, 1] * X[:, 0], np.maximum(X[:, 2], 0.0) - X[:, 1]])
    return X, signals @ rng.normal(size=(3, 3)) + 0.1 * rng.normal(size=(n_rows, 3))


def start_of(n_hidden=5, n_features=3, n_outputs=3, seed=1):
    return xavier(n_features, n_hidden, np.random.default_rng(seed), n_outputs)


def descend(problem, start, algorithm="paper", split="net", seed=3, **options):
    chosen = Options(split=split, **{"max_epochs": 30} | options)
    return DESCENTS[algorithm](problem, get_backend("native"), chosen, np.random.default_rng(seed)).run(start)


@pytest.mark.parametrize("scale", [None, [0.5, 2.0, 30.0]])
def test_the_objective_is_the_formula_in_both_coordinates(scale):
    X, Y = data(n_rows=20)
    X[3] = X[8]  # rows with the same inputs
    weight = np.random.default_rng(2).integers(0, 3, size=20).astype(float)
    network = start_of().with_intercept([0.3, -1.0, 2.0])
    problem = Problem(X, Y, 0.2, weight, shrinkage=0.1, intercept=network.intercept, output_scale=scale)
    unit = np.ones(3) if scale is None else np.array(scale)
    Z = X @ network.W.T + network.b
    error = (Y - network.intercept - np.maximum(Z, 0.0) @ network.alpha) / unit
    penalty = np.sum(weight[:, None] * Z**2) + np.sum((network.alpha / unit) ** 2)
    penalty += 0.1 * np.sum(weight) * np.sum(network.W**2)
    expected = (np.sum(weight[:, None] * error**2) + 0.2 * penalty) / np.sum(weight)
    assert problem.objective(network) == pytest.approx(expected, rel=1e-13)
    white = problem.whitened
    V, alpha = white.whiten(network), white.output_weights(network)
    assert white.regloss(V, alpha) == pytest.approx(expected, rel=1e-12)
    assert problem.mse(network) == pytest.approx(white.mse(V, alpha))
    np.testing.assert_allclose(white.network(V, alpha).alpha, network.alpha, rtol=1e-15)
    zero = Network(np.zeros((1, 3)), np.zeros(1), np.zeros((1, 3)), network.intercept)
    assert problem.zero_objective == pytest.approx(problem.objective(zero), rel=1e-13)


@pytest.mark.parametrize("algorithm", DESCENTS)
@pytest.mark.parametrize("split", SPLITS)
def test_the_objective_never_rises_and_ends_at_a_stationary_network(algorithm, split):
    X, Y = data()
    problem = Problem(X, Y, 0.3, intercept=Y.mean(axis=0), output_scale=Y.std(axis=0))
    found = descend(problem, start_of(), algorithm, split, max_epochs=400, tol=1e-9)
    assert_descent(found.history)
    assert found.objective == pytest.approx(problem.objective(found.network))
    assert stationarity(problem, found.network, split).norm < 1e-5


def test_the_subgradient_is_the_gradient_by_finite_differences():
    scale = np.array([1.0, 4.0, 0.5])
    problem = Problem(*data(n_rows=25), 0.3, output_scale=scale)
    network = start_of(n_hidden=3)

    def value(theta):
        hidden, output = theta[:12].reshape(3, 4), theta[12:].reshape(3, 3)
        return problem.objective(Network(hidden[:, :3], hidden[:, 3], output * scale))

    here = np.concatenate([np.column_stack([network.W, network.b]).ravel(), (network.alpha / scale).ravel()])
    found = subgradient(problem, network)
    slopes = [(value(here + step) - value(here - step)) / 2e-6 for step in 1e-6 * np.eye(len(here))]
    np.testing.assert_allclose(
        np.concatenate([found.hidden.ravel(), found.output.ravel()]), slopes, rtol=1e-5, atol=1e-8
    )


@pytest.mark.parametrize("algorithm", DESCENTS)
def test_rotated_outputs_have_rotated_networks(algorithm):
    X, Y = data()
    R, start = np.linalg.qr(np.random.default_rng(7).normal(size=(3, 3)))[0], start_of()
    turned = Network(start.W, start.b, start.alpha @ R)
    options = {"max_epochs": 3, "tol": 0.0} | ({"max_evaluations": 60} if algorithm == "accelerated" else {})
    first = descend(Problem(X, Y, 0.2), start, algorithm, **options)
    second = descend(Problem(X, Y @ R, 0.2), turned, algorithm, **options)
    np.testing.assert_allclose(first.history.objective, second.history.objective, rtol=1e-6)
    np.testing.assert_allclose(first.network.predict(X) @ R, second.network.predict(X), atol=1e-4)


def test_no_other_optimiser_gets_lower():
    """Compare with SciPy's L-BFGS from many starts, with an independent gradient."""
    X, Y = data(n_rows=40)
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

    starts = np.random.default_rng(0).normal(size=(40, n_hidden * 6))
    best = min(minimize(value_and_gradient, s, jac=True, method="L-BFGS-B").fun for s in starts) / len(X)
    found = descend(problem, start_of(n_hidden=n_hidden, n_outputs=2), "accelerated", max_epochs=200)
    assert best * (1.0 - 1e-4) <= found.objective <= best * (1.0 + 1e-6)


@pytest.mark.parametrize("split", SPLITS)
def test_the_conditions_of_the_theory_hold(split):
    X, Y = data()
    problem = Problem(X, Y, 0.1, output_scale=[1.0, 3.0, 0.2])
    run = trace(problem, start_of(), split=split, max_epochs=15)
    assert run.sufficient_decrease().holds
    assert run.relative_error().holds
