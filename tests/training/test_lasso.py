"""The lasso on the lengths of neurons: optimality conditions, and dependent outputs."""

import numpy as np
import pytest

from dconnet.training.lasso import solve_lengths


def outputs_and_targets(n_rows, n, seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n_rows, 4)))[0]
    directions = rng.normal(size=(n, 4))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    return np.maximum(Q @ directions.T, 0.0) * rng.choice([-1.0, 1.0], size=n), rng.normal(size=n_rows)


def value(A, y, gamma, c):
    return np.sum((y - A @ c) ** 2) + 2.0 * gamma * np.sum(c)


@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("n", [5, 30, 120])
def test_lengths_satisfy_the_optimality_conditions(gamma, n):
    A, y = outputs_and_targets(50, n, seed=n)
    c = solve_lengths(A, y, gamma)
    slopes = gamma - A.T @ (y - A @ c)
    assert np.all(c >= 0.0)
    assert np.all(slopes >= -1e-5 * gamma)
    np.testing.assert_allclose(slopes[c > 1e-6], 0.0, atol=1e-5 * gamma)


def test_repeated_outputs():
    A, y = outputs_and_targets(40, 10, seed=1)
    twice = np.hstack([A, A, 0.0 * A])
    once, both = solve_lengths(A, y, 0.1), solve_lengths(twice, y, 0.1)
    assert value(twice, y, 0.1, both) == pytest.approx(value(A, y, 0.1, once), rel=1e-9)


def test_a_large_penalty_gives_zero():
    A, y = outputs_and_targets(40, 10, seed=2)
    assert not np.any(solve_lengths(A, y, 1.01 * np.max(A.T @ y)))


def test_failure_returns_none(monkeypatch):
    A, y = outputs_and_targets(40, 10, seed=3)

    def fail(*args, **options):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("dconnet.training.lasso.optimize.nnls", fail)
    assert solve_lengths(A, y, 0.01) is None
    assert solve_lengths(np.full((3, 2), np.nan), np.ones(3), 0.1) is None
