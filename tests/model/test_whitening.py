"""Whitening: an orthonormal design, exact maps, and minimum-norm weights."""

import numpy as np
import pytest

from dconnet.model.whitening import Whitening


def full_rank(rng):
    return np.column_stack([rng.normal(size=(40, 3)), np.ones(40)]), 4


def constant_column(rng):
    return np.column_stack([rng.normal(size=(40, 2)), np.full(40, 0.1), np.ones(40)]), 3


def duplicate_column(rng):
    X = rng.normal(size=(40, 2))
    return np.column_stack([X, X[:, 0], np.ones(40)]), 3


def one_hot(rng):
    return np.column_stack([np.eye(4)[rng.integers(4, size=40)], rng.normal(size=(40, 1)), np.ones(40)]), 5


def zero_column(rng):
    return np.column_stack([rng.normal(size=(40, 2)), np.zeros(40), np.ones(40)]), 3


def fewer_rows_than_columns(rng):
    return np.column_stack([rng.normal(size=(5, 12)), np.ones(5)]), 5


def one_row(rng):
    return np.column_stack([rng.normal(size=(1, 3)), np.ones(1)]), 1


def scales_far_apart(rng):
    return np.column_stack([rng.normal(size=(40, 3)) * [1e-6, 1.0, 1e9], np.ones(40)]), 4


DESIGNS = [
    full_rank,
    constant_column,
    duplicate_column,
    one_hot,
    zero_column,
    fewer_rows_than_columns,
    one_row,
    scales_far_apart,
]


@pytest.mark.parametrize("make", DESIGNS)
def test_factorisation_reproduces_the_design(make):
    M, rank = make(np.random.default_rng(0))
    white = Whitening.of(M)
    assert white.rank == rank
    np.testing.assert_allclose(white.Q.T @ white.Q, np.eye(rank), atol=1e-13)
    np.testing.assert_allclose(white.Q @ white.to_white, M, rtol=1e-12, atol=1e-12 * np.abs(M).max(axis=0).min())
    np.testing.assert_allclose(white.to_white @ white.from_white, np.eye(rank), atol=1e-9)


@pytest.mark.parametrize("make", DESIGNS)
def test_a_penalty_is_a_part_of_the_factorisation(make):
    rng = np.random.default_rng(3)
    M, _ = make(rng)
    P = rng.normal(size=(5, M.shape[1])) * np.abs(M).max(axis=0)
    white, both = Whitening.of(M, P), np.vstack([M, P])
    assert white.rank == np.linalg.matrix_rank(both / np.maximum(np.abs(both).max(axis=0), 1e-300))
    size = np.maximum(np.abs(M).max(axis=0), 1.0)
    np.testing.assert_allclose((white.Q @ white.to_white) / size, M / size, atol=1e-12)
    gram = both.T @ both / np.outer(size, size)
    np.testing.assert_allclose(white.to_white.T @ white.to_white / np.outer(size, size), gram, atol=1e-10)
    lower = P @ white.from_white
    np.testing.assert_allclose(white.Q.T @ white.Q + lower.T @ lower, np.eye(white.rank), atol=1e-9)


@pytest.mark.parametrize("make", [constant_column, duplicate_column, one_hot, zero_column, fewer_rows_than_columns])
def test_weights_have_minimum_norm(make):
    M, _ = make(np.random.default_rng(1))
    white = Whitening.of(M)
    np.testing.assert_allclose(white.from_white, np.linalg.pinv(M) @ white.Q, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales_neither_overflow_nor_lose_rank(scale):
    M, _ = full_rank(np.random.default_rng(2))
    M[:, :3] *= scale
    white = Whitening.of(M)
    assert white.rank == 4
    np.testing.assert_allclose(white.to_white @ white.from_white, np.eye(4), atol=1e-10)
