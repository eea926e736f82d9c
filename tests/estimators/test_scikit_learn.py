"""All estimators pass scikit-learn's checks of the estimator contract, and work with its tools."""

import numpy as np
import pytest
import sklearn
from sklearn import config_context
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    TableEncoder,
)

# Small and short: the contract is the same for all sizes, and for the first family of members alone.
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
    AutoDCONRegressor(max_seconds=1e-9),
    AutoDCONClassifier(max_seconds=1e-9),
    TableEncoder(6),
]
WEIGHTS_ARE_NOT_COPIES = {
    "check_sample_weight_equivalence_on_dense_data": "folds, quantiles and families count rows, not weights"
}


def expected_failures(estimator):
    return WEIGHTS_ARE_NOT_COPIES if isinstance(estimator, AutoDCONRegressor | AutoDCONClassifier) else {}


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The out-of-fold")
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


@pytest.fixture
def metadata_routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.parametrize(
    ("estimator", "step"),
    [
        pytest.param(AutoDCONRegressor(max_seconds=1e-9), None, id="auto"),
        pytest.param(
            make_pipeline(TableEncoder(), DCONRegressor(3, gamma=0.1)),
            -1,
            id="pipeline",
            marks=pytest.mark.skipif(
                parse_version(sklearn.__version__) < parse_version("1.7"),
                reason="pipelines of scikit-learn 1.6 do not route the weights of the score",
            ),
        ),
    ],
)
@pytest.mark.usefixtures("metadata_routing")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of the time limit
def test_weights_are_routed_to_fit_and_score(estimator, step):
    """Rows of weight zero have wild targets: training on them or scoring them would ruin the score."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    is_wild = rng.random(90) < 0.3
    y = np.where(is_wild, 1e6 * rng.normal(size=90), X[:, 0])
    last = estimator if step is None else estimator[step]
    last.set_params(random_state=0).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    weights = {"sample_weight": 1.0 - is_wild}
    scores = cross_validate(estimator, X, y, params=weights, cv=3)["test_score"]
    assert (scores > 0.5).all()


@pytest.mark.peers
@pytest.mark.filterwarnings("default")  # warnings of shap's dependencies, and of the time limit
def test_shap_explains_the_auto_estimators():
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = AutoDCONRegressor(max_seconds=1e-9, random_state=0).fit(X, X[:, 0] + np.abs(X[:, 1]))
    found = shap.Explainer(model.predict, X)(X[:5])
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), model.predict(X[:5]))
