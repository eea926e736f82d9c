"""The most correlated neuron by enumeration, against all sign patterns one by one and against samples."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import nnls

from dconnet.model.whitening import Whitening
from dconnet.training.arrangement import (
    _best_on_sphere,
    can_enumerate,
    candidates,
    largest_correlation,
    rounding,
)


def by_all_patterns(Q, r):
    """The maximum over each of the 2^m cones on its own: the length of the projection of its gradient to it."""
    best = 0.0
    for signs in product((-1.0, 1.0), repeat=len(Q)):
        signs = np.array(signs)
        gradient = Q.T @ (r * (signs > 0.0))
        outward = (signs[:, None] * Q).T  # the cone is where outwardᵀ v ≥ 0
        # The projection of a to the cone is a plus the combination of its normals that makes it shortest.
        best = max(best, nnls(outward, -gradient)[1], nnls(outward, gradient)[1])
    return best


def designs(rank):
    rng = np.random.default_rng(rank)
    plain = np.column_stack([rng.normal(size=(8, rank - 1)), np.ones(8)])
    grid = np.array([[a, b, 1.0] for a in (0.0, 1.0, 2.0) for b in (0.0, 1.0, 2.0)])[:, 3 - rank :]
    repeated = np.vstack([plain[:4], 2.0 * plain[:2], -plain[:2]])
    with_zero = np.vstack([plain[:6], np.zeros((1, rank))])
    return [plain, np.unique(grid, axis=0), repeated, with_zero]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", range(4))
def test_enumeration_agrees_with_all_patterns(rank, kind):
    Q = designs(rank)[kind]
    for seed in range(4):
        r = np.random.default_rng(seed).normal(size=len(Q))
        value, v = largest_correlation(Q, r)
        assert value == pytest.approx(by_all_patterns(Q, r), rel=1e-9, abs=1e-12)
        assert np.linalg.norm(v) == pytest.approx(1.0, rel=1e-12)
        assert abs(r @ np.maximum(Q @ v, 0.0)) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("rank", [2, 3])
def test_no_sample_is_above_it(rank):
    rng = np.random.default_rng(7)
    Q = Whitening.of(np.column_stack([rng.normal(size=(80, rank - 1)), np.ones(80)])).Q
    r = rng.normal(size=80)
    value, v = largest_correlation(Q, r)
    V = np.vstack([rng.normal(size=(50000, rank)), v + 1e-3 * rng.normal(size=(2000, rank))])
    V /= np.linalg.norm(V, axis=1)[:, None]
    samples = np.abs(np.maximum(V @ Q.T, 0.0) @ r)
    assert samples.max() <= value * (1.0 + 1e-12)
    assert samples.max() >= 0.999 * value


def test_residuals_of_one_sign_are_best_met_by_one_gradient():
    """With r ≥ 0 and all rows in one half space, some direction meets all of them at once."""
    Q = np.array([[1.0, 0.1, 0.0], [1.0, 0.0, 0.1], [1.0, -0.1, -0.1]])
    value, v = largest_correlation(Q, np.ones(3))
    assert value == pytest.approx(3.0, rel=1e-12)
    np.testing.assert_allclose(v, [1.0, 0.0, 0.0], atol=1e-12)


def test_where_it_is_offered():
    assert can_enumerate(np.zeros((10**6, 2)))
    assert can_enumerate(np.zeros((2000, 3)))
    assert not can_enumerate(np.zeros((2001, 3)))
    assert not can_enumerate(np.zeros((5, 4)))
    with pytest.raises(ValueError, match="rank one to three"):
        largest_correlation(np.eye(4), np.ones(4))


@pytest.mark.parametrize("kind", range(4))
def test_the_kernel_finds_what_the_plain_search_of_the_sphere_finds(kind):
    rng = np.random.default_rng(kind)
    X = rng.normal(size=(60, 2))
    if kind == 1:
        X = np.round(X)  # rows that meet in many points
    if kind == 2:
        X[:, 1] = 3.0 * X[:, 0] + 1e-7 * X[:, 1]
    Q = np.column_stack([X, np.ones(60)]) * (rng.uniform(0.0, 2.0, size=(60, 1)) if kind == 3 else 1.0)
    for _ in range(5):
        r = rng.normal(size=60)
        value, v = largest_correlation(Q, r)
        plain = _best_on_sphere(Q, r)
        assert value == pytest.approx(abs(r @ np.maximum(Q @ plain.v, 0.0)), rel=1e-9)
        assert abs(r @ np.maximum(Q @ v, 0.0)) == pytest.approx(value, rel=1e-12)


def test_a_floor_saves_work_but_not_the_largest():
    rng = np.random.default_rng(1)
    for rank in (2, 3):
        Q = np.column_stack([rng.normal(size=(40, rank - 1)), np.ones(40)])
        r = rng.normal(size=40)
        largest, _ = largest_correlation(Q, r)
        values, directions = candidates(Q, r, floor=0.9 * largest)
        assert values.max() == pytest.approx(largest, rel=1e-12)
        assert np.all(values >= 0.9 * largest)
        exact = np.abs(np.maximum(directions @ Q.T, 0.0) @ r)
        np.testing.assert_allclose(exact, values, rtol=1e-9)
        values, _ = candidates(Q, r, floor=2.0 * largest)
        assert values.max() <= largest * (1.0 + 1e-12)


def test_the_allowance_for_rounding_is_small_but_covers_sums_in_another_order():
    rng = np.random.default_rng(2)
    Q = np.column_stack([rng.normal(size=(500, 2)), np.ones(500)])
    r = rng.normal(size=500)
    order = rng.permutation(500)
    one, other = largest_correlation(Q, r)[0], largest_correlation(Q[order], r[order])[0]
    assert abs(one - other) <= rounding(Q, r) <= 1e-8 * one
