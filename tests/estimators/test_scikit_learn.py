"""The estimators keep scikit-learn's contract, every check of it."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from dconnet import (
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
)

# Small and short: the contract is the same for all sizes. Those without a parameter are as they come.
PAPER = {"n_hidden": 3, "gamma": 0.1, "algorithm": "paper", "tol": 1e-3}
DEEP = {"hidden_layer_sizes": (4, 3), "lower_epochs": 2, "tol": 1e-3}
ESTIMATORS = [
    DCONRegressor(),
    DCONClassifier(),
    DCONRegressor(**PAPER),
    DCONClassifier(**PAPER),
    DCONRegressor(5, gamma=1e-3, scale=False),
    DCONClassifier(5, gamma=1e-3, scale=False),
    DCONRegressor(gamma=(0.01, 0.3), cv=3),
    DCONClassifier(gamma=(0.01, 0.3), cv=3),
    LayerwiseDCONRegressor(**DEEP),
    LayerwiseDCONRegressor(**DEEP, skip=True),
    LayerwiseDCONClassifier(**DEEP),
]


@pytest.mark.no_cover
@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_contract(estimator, check):
    if "array_api" in str(check):
        pytest.skip("scikit-learn skips the array API unless SCIPY_ARRAY_API is set")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)
