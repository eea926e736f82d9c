"""All estimators pass scikit-learn's checks of the estimator contract."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    TableEncoder,
)

# Small and short: the contract is the same for all sizes.
PAPER = {"n_hidden": 3, "gamma": 0.1, "algorithm": "paper", "tol": 1e-3}
DEEP = {"hidden_layer_sizes": (4, 3), "lower_epochs": 2, "tol": 1e-3}
ESTIMATORS = [
    DCONRegressor(5),
    DCONClassifier(5),
    DCONRegressor(**PAPER),
    DCONClassifier(5, gamma=1e-3, scale=False),
    DCONRegressor(gamma=(0.01, 0.3), cv=3),
    LayerwiseDCONRegressor(**DEEP, skip=True),
    LayerwiseDCONClassifier(**DEEP),
    AutoDCONRegressor(),
    AutoDCONClassifier(),
    TableEncoder(6),
]
WEIGHTS_ARE_NOT_COPIES = {
    "check_sample_weight_equivalence_on_dense_data": "folds, quantiles and families count rows, not weights"
}


def expected_failures(estimator):
    return WEIGHTS_ARE_NOT_COPIES if isinstance(estimator, AutoDCONRegressor | AutoDCONClassifier) else {}


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_contract(estimator, check):
    if "array_api" in str(check):
        pytest.skip("scikit-learn skips the array API unless SCIPY_ARRAY_API is set")
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
        "check_set_output_transform_pandas",
        "check_set_output_transform_polars",
        "check_global_output_transform_pandas",
    ],
)
@pytest.mark.filterwarnings("ignore:X .*feature names")  # the checks mix arrays and tables
def test_names_and_output_of_transformers(check):
    """Run checks that scikit-learn applies to its own transformers only."""
    getattr(estimator_checks, check)("TableEncoder", TableEncoder(2))
