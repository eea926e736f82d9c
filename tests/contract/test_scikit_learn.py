"""The estimators keep scikit-learn's contract, every check of it."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from dconnet import DCONClassifier, DCONRegressor

# Small networks and loose tolerances keep the many fits of the checks short.
SMALL = {"n_hidden": 5, "max_epochs": 100, "gamma": 1e-2}


@parametrize_with_checks(
    [
        DCONRegressor(**SMALL),
        DCONClassifier(**SMALL),
        DCONRegressor(**SMALL, split="net"),
        DCONClassifier(**SMALL, split="net"),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_contract(estimator, check):
    if "array_api" in str(check):
        pytest.skip("scikit-learn skips the array API unless SCIPY_ARRAY_API is set")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)
