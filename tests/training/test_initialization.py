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
    with pytest.raises(ValueError, match=r"gamma = 1e\+20 is too large for this start: .* Use a gamma below ") as error:
        model.fit(X, y)
    limit = float(re.search(r"below (\S+)\.$", str(error.value)).group(1))
    model.set_params(gamma=0.9 * limit).fit(X, y)
    assert not np.any(np.abs(model.predict(X)) > 1e-6)


@pytest.mark.parametrize(
    ("gamma", "shrinkage", "factor", "message"),
    [
        (1e308, 0.0, 1.0, r"gamma = 1e\+308 is too large"),
        (1e3, 1e17, 1.0, r"gamma = 1000 with shrinkage = 1e\+17 is too large"),
        (1e-3, 0.0, 1e200, "Scale X and y"),
    ],
)
def test_the_cause_is_named(data, gamma, shrinkage, factor, message):
    X, y = data
    with pytest.raises(ValueError, match=message):
        check_start(Problem(factor * X, y, gamma, shrinkage=shrinkage), xavier(2, 3, np.random.default_rng(0)))
