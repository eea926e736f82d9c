"""The largest correlation of a new neuron: enumeration against all sign patterns, and proved bounds against samples."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from dconnet.certificates.gap import _correlation_ceiling
from dconnet.model.whitening import Whitening
from dconnet.training.arrangement import (
    largest_correlation,
    search_cones,
)
from dconnet.training.new_neurons import climb, random_starts


def best_of_all_patterns(Q, r):
    """Return the maximum over each of the 2^m cones: the length of the projection of its gradient to the cone."""
    best = 0.0
    for signs in product((-1.0, 1.0), repeat=len(Q)):
        gradient = Q.T @ (r * (np.array(signs) > 0.0))
        inward = (np.array(signs)[:, None] * Q).T  # the cone is where inwardᵀ v ≥ 0
        # The projection of a to the cone is a plus the combination of its normals that makes it shortest.
        best = max(best, nnls(inward, -gradient)[1], nnls(inward, gradient)[1])
    return best


def designs(rank):
    rng = np.random.default_rng(rank)
    plain = np.column_stack([rng.normal(size=(8, rank - 1)), np.ones(8)])
    grid = np.array([[a, b, 1.0] for a in (0.0, 1.0, 2.0) for b in (0.0, 1.0, 2.0)])[:, 3 - rank :]
    repeated = np.vstack([plain[:4], 2.0 * plain[:2], -plain[:2]])
    with_zero = np.vstack([plain[:6], np.zeros((1, rank))])
    return [plain, np.unique(grid, axis=0), repeated, with_zero]


def whitened_design(n_rows, rank, seed=0):
    rng = np.random.default_rng(seed)
    Q = Whitening.of(np.column_stack([rng.normal(size=(n_rows, rank - 1)), np.ones(n_rows)])).Q
    return np.ascontiguousarray(Q), rng


def values(Q, R, V):
    products = np.maximum(V @ Q.T, 0.0) @ R
    return np.abs(products) if R.ndim == 1 else np.linalg.norm(products, axis=1)


def sphere(rng, n_points, rank):
    V = rng.normal(size=(n_points, rank))
    return V / np.linalg.norm(V, axis=1, keepdims=True)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", range(4))
def test_enumeration_agrees_with_all_patterns(rank, kind):
    Q = designs(rank)[kind]
    for seed in range(3):
        r = np.random.default_rng(seed).normal(size=len(Q))
        value, v = largest_correlation(Q, r)
        assert value == pytest.approx(best_of_all_patterns(Q, r), rel=1e-9, abs=1e-12)
        assert np.linalg.norm(v) == pytest.approx(1.0, rel=1e-12)
        assert values(Q, r, v[None])[0] == pytest.approx(value, rel=1e-12)
        assert largest_correlation(Q, r[:, None])[0] == pytest.approx(value, rel=1e-12)  # one column is a vector


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("n_outputs", [2, 4])
def test_no_direction_exceeds_the_maximum_over_several_outputs(rank, n_outputs):
    rng = np.random.default_rng(rank)
    Q, R = rng.normal(size=(12, rank)), rng.normal(size=(12, n_outputs))
    largest, v = largest_correlation(Q, R)
    assert largest == pytest.approx(values(Q, R, v[None])[0])
    best = values(Q, R, sphere(rng, 50_000, rank)).max()
    assert 0.98 * largest <= best <= largest * (1.0 + 1e-12)
    rotated = R @ np.linalg.qr(rng.normal(size=(n_outputs, n_outputs)))[0]
    assert largest_correlation(Q, rotated)[0] == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_climbs_find_nearly_the_maximum_and_the_ceiling_is_above(seed):
    Q, rng = whitened_design(40, 3, seed)
    R = rng.normal(size=(40, 3))
    exact, _ = largest_correlation(Q, R)
    found, V = climb(Q, R, random_starts(np.empty((0, 3)), 64, np.random.default_rng(0)))
    np.testing.assert_allclose(found, values(Q, R, V))
    assert 0.99 * exact <= found.max() <= exact * (1.0 + 1e-12)
    assert _correlation_ceiling(Q, R) >= exact


@pytest.mark.parametrize(("rank", "n_rows"), [(2, 60), (3, 60), (4, 100), (5, 60), (6, 40)])
def test_branch_and_bound_closes_the_gap(rank, n_rows):
    Q, rng = whitened_design(n_rows, rank)
    r = rng.normal(size=n_rows)
    if rank <= 3:
        found, first = largest_correlation(Q, r)
    else:
        climbs, V = climb(Q, r, random_starts(np.empty((0, rank)), 32, np.random.default_rng(0)))
        found, first = climbs.max(), V[climbs.argmax()]
    bound, _ = search_cones(Q, r, first[None], relative_gap=1e-3)
    assert found <= bound <= found * (1.0 + 2e-3)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 40), st.integers(0, 3000))
def test_no_direction_exceeds_the_bound_for_any_limit(seed, rank, n_rows, max_parts):
    rng = np.random.default_rng(seed)
    Q, r = rng.normal(size=(n_rows, rank)), rng.normal(size=n_rows)
    bound, _ = search_cones(Q, r, np.empty((0, rank)), max_parts=max_parts)
    V = np.vstack([sphere(rng, 500, rank), *(sign * Q / np.linalg.norm(Q, axis=1)[:, None] for sign in (1, -1))])
    assert np.max(values(Q, r, V)) <= bound
    assert search_cones(Q, r, np.empty((0, rank)), max_seconds=0.0)[0] >= bound * (1.0 - 1e-12)
