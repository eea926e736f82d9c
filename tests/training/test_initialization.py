"""Starts that hide the targets are refused, with the reason."""

import re

import numpy as np
import pytest

from dconnet import DCONRegressor, Problem
from dconnet.training.initialization import check_start, xavier


@pytest.fixture
def data():
    X = np.random.default_rng(0).normal(size=(30, 2))
    return X, np.abs(X[:, 0])


def test_a_huge_gamma_is_named_with_the_largest_usable_one(data):
    X, y = data
    model = DCONRegressor(3, gamma=1e20, random_state=0, scale=False)
    with pytest.raises(
        ValueError, match=r"^gamma = 1e\+20 is too large for this start: .* Use a gamma below "
    ) as error:
        model.fit(X, y)
    assert "features" not in str(error.value)
    limit = float(re.search(r"below (\S+)\.$", str(error.value)).group(1))
    model.set_params(gamma=0.9 * limit).fit(X, y)  # the limit is one
    assert not np.any(np.abs(model.predict(X)) > 1e-6)


def test_a_gamma_that_overflows_is_to_blame(data):
    with pytest.raises(ValueError, match=r"^gamma = 1e\+308 is too large .* Use a smaller gamma\.$"):
        DCONRegressor(3, gamma=1e308, random_state=0, scale=False).fit(*data)


def test_shrinkage_is_named(data):
    problem = Problem(*data, gamma=1e3, shrinkage=1e17)
    with pytest.raises(ValueError, match=r"^gamma = 1000 with shrinkage = 1e\+17 is too large"):
        check_start(problem, xavier(2, 3, np.random.default_rng(0)))


@pytest.mark.parametrize("factor", [1e9, 1e200])
def test_huge_features_are_to_blame(data, factor):
    X, y = data
    with pytest.raises(
        ValueError, match=r"^The features are too large, or y is too small, for this start: .* Scale X and y"
    ):
        DCONRegressor(3, random_state=0, gamma=1e-3, scale=False).fit(factor * X, y)
