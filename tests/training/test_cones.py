"""Bounds by branch and bound over cones: never too low, and close where there is time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dconnet import Problem
from dconnet._native import ConeSearch
from dconnet.certificates import global_gap
from dconnet.model.whitening import Whitening
from dconnet.training.arrangement import can_search, largest_correlation, search_cones
from dconnet.training.initialization import xavier
from dconnet.training.new_neurons import climb, random_starts


def design(n_rows, rank, seed=0):
    rng = np.random.default_rng(seed)
    Q = Whitening.of(np.column_stack([rng.normal(size=(n_rows, rank - 1)), np.ones(n_rows)])).Q
    return np.ascontiguousarray(Q), rng.normal(size=n_rows)


def bound_of(*arguments, **options):
    return search_cones(*arguments, **options)[0]


def searched(Q, r):
    values, directions = climb(Q, r, random_starts(np.empty((0, Q.shape[1])), 32, np.random.default_rng(0)))
    return values.max(), directions[values.argmax()][None, :]


@pytest.mark.parametrize("rank", [2, 3])
def test_it_agrees_with_the_enumeration(rank):
    for seed in range(5):
        Q, r = design(60, rank, seed)
        largest, _ = largest_correlation(Q, r)
        bound = bound_of(Q, r, np.eye(rank), relative_gap=1e-6)
        assert largest <= bound <= largest * (1.0 + 2e-6)


@pytest.mark.parametrize(("rank", "n_rows"), [(4, 100), (5, 60), (6, 40)])
def test_it_closes_beyond_rank_three(rank, n_rows):
    Q, r = design(n_rows, rank)
    found, directions = searched(Q, r)
    bound = bound_of(Q, r, directions, relative_gap=1e-3)
    assert found <= bound <= found * (1.0 + 2e-3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 40), st.integers(0, 3000))
def test_no_direction_is_above_the_bound_whatever_the_limit(seed, rank, n_rows, max_parts):
    rng = np.random.default_rng(seed)
    Q, r = rng.normal(size=(n_rows, rank)), rng.normal(size=n_rows)
    bound = bound_of(Q, r, np.empty((0, rank)), max_parts=max_parts)
    V = rng.normal(size=(500, rank))
    V = np.vstack([V, Q, -Q]) / np.linalg.norm(np.vstack([V, Q, -Q]), axis=1)[:, None]
    assert np.max(np.abs(np.maximum(V @ Q.T, 0.0) @ r)) <= bound


def test_more_parts_make_it_better():
    Q, r = design(80, 5)
    bounds = [bound_of(Q, r, np.empty((0, 5)), max_parts=n) for n in (0, 1000, 5000)]
    assert bounds[0] > bounds[1] > bounds[2]
    assert bound_of(Q, r, np.empty((0, 5)), max_seconds=0.0) >= bounds[2]


def test_rows_that_are_zero_and_residuals_that_are_zero():
    assert bound_of(np.eye(3), np.zeros(3), np.eye(3)) == 0.0
    assert bound_of(np.vstack([np.eye(4), np.zeros((2, 4))]), np.ones(6), np.eye(4)) == pytest.approx(2.0, rel=1e-3)


def test_where_it_is_there():
    assert can_search(np.zeros((5, 6)))
    assert not can_search(np.zeros((5, 7)))
    assert not can_search(np.zeros((5, 4)), n_outputs=2)
    with pytest.raises(ValueError, match="between two and eight"):
        ConeSearch(np.zeros((3, 9)), np.zeros(3))


@pytest.mark.parametrize("n_features", [3, 4])
def test_the_proved_bound_comes_close_to_the_estimate(n_features):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, n_features))
    problem = Problem(X, np.abs(X[:, 0]) + 0.3 * rng.normal(size=60), 0.5)
    start = xavier(n_features, 3, rng)
    plain, coarse = global_gap(problem, start), global_gap(problem, start, max_parts=0)
    assert coarse.proved_bound <= plain.proved_bound <= plain.bound
    improved = global_gap(problem, start, improve=True, max_parts=200_000)
    assert improved.proved_bound > plain.proved_bound
    assert improved.proved_bound >= 0.97 * improved.bound
    assert improved.correlation == plain.correlation  # that of the network as it is
    assert "It is proved that no network of this kind, however wide" in improved.sentence
