"""Shares of many kinked rows."""

import numpy as np
import pytest

from dconnet.training.kinks import _shares


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("n_kinked", [10, 60, 3000])
def test_shares_satisfy_the_conditions_of_the_closest_combination(n_kinked, size):
    rng = np.random.default_rng(n_kinked)
    columns = rng.standard_normal((7, n_kinked)) * rng.uniform(0.0, 2.0, size=n_kinked)
    target = size * rng.standard_normal(7)
    shares = _shares(columns, target)
    assert np.all((shares >= 0.0) & (shares <= 1.0))
    slope = columns.T @ (columns @ shares - target)  # of half the squared distance
    noise = 1e-9 * (1.0 + np.max(np.abs(target))) * np.max(np.linalg.norm(columns, axis=0))
    assert np.all(slope[shares < 1.0 - 1e-9] >= -noise)
    assert np.all(slope[shares > 1e-9] <= noise)


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-30])
def test_shares_of_columns_next_to_zero(size):
    rng = np.random.default_rng(0)
    columns, target = size * rng.standard_normal((3, 40)), rng.standard_normal(3)
    shares = _shares(columns, target)
    np.testing.assert_array_equal(shares, target @ columns > 0.0)
    assert not _shares(0.0 * columns, np.zeros(3)).any()
