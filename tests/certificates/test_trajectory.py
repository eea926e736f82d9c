"""Descents against the conditions of the theory, epoch by epoch."""

import numpy as np
import pytest

from dconnet import Problem
from dconnet.certificates import subgradient
from dconnet.training.initialization import xavier
from problems import trace


def data(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    y = np.abs(X[:, 0]) - X[:, 1] + 0.1 * rng.normal(size=60)
    if kind == "dependent":
        return np.column_stack([X, X[:, 0] + X[:, 1]]), y, None
    if kind == "small":
        return 0.02 * X, y, None
    return X, y, rng.uniform(0.2, 4.0, size=60) if kind == "weighted" else None


def run(kind, split, gamma, **options):
    X, y, weight = data(kind)
    start = xavier(X.shape[1], 4, np.random.default_rng(1))
    return trace(Problem(X, y, gamma, weight), start, split=split, **options)


@pytest.mark.parametrize("kind", ["plain", "weighted", "dependent", "small"])
@pytest.mark.parametrize("split", ["paper", "net"])
@pytest.mark.parametrize("gamma", [1e-2, 1.0])
def test_every_epoch_satisfies_both_conditions(kind, split, gamma):
    trajectory = run(kind, split, gamma, max_epochs=10)
    decrease, error = trajectory.sufficient_decrease(), trajectory.relative_error()
    assert decrease.holds
    assert error.holds
    assert decrease.theoretical <= decrease.measured
    assert 0.0 < error.measured <= error.theoretical


def test_measurements_agree_with_the_history():
    trajectory = run("weighted", "net", 0.1, max_epochs=6)
    objective, steps = trajectory.history.objective, trajectory.history.step_norm[1:]
    values = [trajectory.problem.objective(network) for network in trajectory.networks]
    np.testing.assert_allclose(values, objective, rtol=1e-11)
    np.testing.assert_allclose(trajectory.step_norms(), steps, rtol=1e-9)
    np.testing.assert_allclose(trajectory.sufficient_decrease().ratios, -np.diff(objective) / steps**2, rtol=1e-9)
    norms = [subgradient(trajectory.problem, network, "net").norm for network in trajectory.networks[1:]]
    np.testing.assert_allclose(trajectory.relative_error().ratios, norms / steps, rtol=1e-9)
