"""`class_weight`: the same as weights of rows, in fits, choice of gamma, certificates and validation errors."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.class_weight import compute_sample_weight

from dconnet import AutoDCONClassifier, DCONClassifier, LayerwiseDCONClassifier

X, CODES = load_iris(return_X_y=True)
X, CODES = X[::2], CODES[::2]
LABELS = np.array(["setosa", "versicolor", "virginica"])[CODES]
CLASSIFIERS = [
    DCONClassifier(3, gamma=0.1, max_epochs=2, random_state=0),
    DCONClassifier(3, gamma=[0.1, 1.0], max_epochs=2, random_state=0),
    LayerwiseDCONClassifier((3, 2), gamma=0.1, max_epochs=2, lower_epochs=1, random_state=0),
    AutoDCONClassifier(max_seconds=1e-9, random_state=0),
]
IDS = ["gamma", "gammas", "layers", "auto"]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=IDS)
@pytest.mark.parametrize("class_weight", ["balanced", {"setosa": 2.0, "virginica": 0.3}, {"versicolor": 0.0}])
def test_class_weights_equal_weights_of_rows_to_the_bit(estimator, class_weight):
    rows = slice(10, None)  # classes of different sizes
    own = np.linspace(0.5, 1.5, len(X))[rows]
    weighted = clone(estimator).set_params(class_weight=class_weight).fit(X[rows], LABELS[rows], own)
    factors = compute_sample_weight(class_weight, LABELS[rows])
    if class_weight == "balanced":
        totals = {label: sum(own[LABELS[rows] == label].tolist()) for label in np.unique(LABELS)}
        factors = np.array([sum(totals.values()) / (3 * totals[label]) for label in LABELS[rows]])
    same = clone(estimator).fit(X[rows], LABELS[rows], own * factors)
    np.testing.assert_array_equal(weighted.decision_function(X), same.decision_function(X))
    assert weighted.classes_.tolist() == same.classes_.tolist()


def test_problems_and_validation_errors_are_weighted():
    weights = {"setosa": 3.0, "versicolor": 1.0, "virginica": 0.5}
    model = DCONClassifier(2, gamma=0.1, class_weight=weights, max_epochs=2, random_state=0)
    model.fit(X, LABELS, X_val=X[::3], y_val=LABELS[::3])
    for k, problem in enumerate(model.problems(X, LABELS)):
        assert problem.objective(model.networks_[k]) == pytest.approx(model.objectives_[k], rel=1e-12)
    factors = compute_sample_weight(weights, LABELS[::3])
    target = np.where(LABELS[::3] == "setosa", 1.0, -1.0)
    error = np.average((target - model.networks_[0].predict(X[::3])) ** 2, weights=factors)
    assert model.histories_[0].validation_mse[-1] == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=IDS)
def test_invalid_class_weights_are_refused(estimator):
    with pytest.raises(ValueError, match="class_weight must be finite and not negative"):
        clone(estimator).set_params(class_weight={"setosa": -1.0}).fit(X, LABELS)
    with pytest.raises(ValueError, match="class_weight"):
        clone(estimator).set_params(class_weight="fair").fit(X, LABELS)
