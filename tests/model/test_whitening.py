"""Whitening: an orthonormal design, exact maps, and minimum-norm weights."""

import numpy as np
import pytest

from dconnet.model.whitening import Whitening

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))

# Columns of the design without the constant one, and the rank of the design with it.
DESIGNS = {
    "full rank": (X, 4),
    "constant column": (np.column_stack([X, np.full(40, 0.1)]), 4),
    "duplicate column": (X[:, [0, 1, 0]], 3),
    "one-hot columns": (np.column_stack([np.eye(4)[RNG.integers(4, size=40)], X[:, 0]]), 5),
    "zero column": (np.column_stack([X, np.zeros(40)]), 4),
    "fewer rows than columns": (RNG.normal(size=(5, 12)), 5),
    "one row": (X[:1], 1),
    "scales far apart": (X * [1e-6, 1.0, 1e9], 4),
    "tiny": (1e-150 * X, 4),
    "huge": (1e150 * X, 4),
}


def design(name):
    columns, rank = DESIGNS[name]
    return np.column_stack([columns, np.ones(len(columns))]), rank


@pytest.mark.parametrize("name", DESIGNS)
def test_factorisation_reproduces_the_design(name):
    M, rank = design(name)
    white = Whitening.of(M)
    assert white.rank == rank
    size = np.abs(M).max(axis=0) + (np.abs(M).max(axis=0) == 0.0)
    np.testing.assert_allclose(white.Q.T @ white.Q, np.eye(rank), atol=1e-13)
    np.testing.assert_allclose((white.Q @ white.to_white) / size, M / size, atol=1e-12)
    np.testing.assert_allclose(white.to_white @ white.from_white, np.eye(rank), atol=1e-9)
    if size.min() > 1e-9 and size.max() < 1e3:  # the weights have minimum norm
        np.testing.assert_allclose(white.from_white, np.linalg.pinv(M) @ white.Q, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in DESIGNS if name not in ("tiny", "huge")])
def test_a_penalty_is_a_part_of_the_factorisation(name):
    M, _ = design(name)
    P = np.random.default_rng(3).normal(size=(5, M.shape[1])) * np.abs(M).max(axis=0)
    white, both = Whitening.of(M, P), np.vstack([M, P])
    assert white.rank == np.linalg.matrix_rank(both / np.maximum(np.abs(both).max(axis=0), 1e-300))
    size = np.maximum(np.abs(M).max(axis=0), 1.0)
    np.testing.assert_allclose((white.Q @ white.to_white) / size, M / size, atol=1e-12)
    gram = both.T @ both / np.outer(size, size)
    np.testing.assert_allclose(white.to_white.T @ white.to_white / np.outer(size, size), gram, atol=1e-10)
    lower = P @ white.from_white
    np.testing.assert_allclose(white.Q.T @ white.Q + lower.T @ lower, np.eye(white.rank), atol=1e-9)
