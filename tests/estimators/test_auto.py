"""The auto estimators: any table in, good predictions out, the same way each time."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dconnet import AutoDCONClassifier, AutoDCONRegressor

# Folds are drawn: two copies of a row may come into different folds, where one row of weight two cannot.
FOLDS = "copies of a row can be in several folds, a row of weight two cannot"
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": FOLDS}


@parametrize_with_checks([AutoDCONRegressor(), AutoDCONClassifier()], expected_failed_checks=lambda _: EXPECTED)
def test_contract(estimator, check):
    if "array_api" in str(check):
        pytest.skip("scikit-learn skips the array API unless SCIPY_ARRAY_API is set")
    check(estimator)
