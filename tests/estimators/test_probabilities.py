"""Calibrated probabilities of classifiers."""

import numpy as np
import pytest
from sklearn import datasets
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import ShuffleSplit, train_test_split

from dconnet import DCONClassifier
from dconnet.estimators.gamma_choice import GAMMAS
from dconnet.model.targets import PLAIN_SLOPE, probabilities_of

X, CODES = datasets.load_iris(return_X_y=True)
LABELS = np.array(["setosa", "versicolor", "virginica"])[CODES]
QUICK = {"max_epochs": 2, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("labels", [LABELS, LABELS == "versicolor"], ids=["three", "two"])
@pytest.mark.parametrize(
    "estimator",
    [
        DCONClassifier(3, gamma=0.01, scale=False, early_stopping=True, **QUICK),
        DCONClassifier(3, gamma=0.1, multi_class="shared", **QUICK),
        DCONClassifier(3, gamma=[0.1, 1.0], cv=3, **QUICK),
        DCONClassifier(3, gamma=[0.1], cv=ShuffleSplit(2, random_state=0), **QUICK),
    ],
    ids=["unscaled", "shared", "candidates", "one candidate"],
)
def test_probabilities_agree_with_predictions(estimator, labels):
    model = clone(estimator).fit(X, labels)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (150, len(model.classes_))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(probabilities), rtol=1e-9)
    scores = model.decision_function(X).reshape(150, -1)
    np.testing.assert_array_equal(probabilities, probabilities_of(model.calibration_.slope * scores))


def test_a_given_gamma_and_the_same_one_chosen_have_the_same_slope():
    chosen = DCONClassifier(5, **QUICK).fit(X, LABELS)
    gamma = min(GAMMAS, key=lambda gamma: abs(gamma - chosen.gamma_ / chosen.target_scale_))
    given = DCONClassifier(5, gamma=gamma, **QUICK).fit(X, LABELS)
    assert given.calibration_ == chosen.calibration_
    assert given.mse_path_ is None


DATA = {
    "iris": datasets.load_iris(return_X_y=True),
    "noisy": datasets.make_classification(400, 10, n_informative=5, flip_y=0.2, random_state=0),
    "rare": datasets.make_classification(600, 10, n_informative=5, weights=[0.93], random_state=0),
    "five": datasets.make_classification(600, 10, n_informative=6, n_classes=5, flip_y=0.1, random_state=0),
}


@pytest.mark.parametrize("name", DATA)
def test_the_log_loss_on_held_out_rows_is_below_that_of_raw_scores(name):
    train, test, y, y_test = train_test_split(*DATA[name], test_size=0.4, random_state=0, stratify=DATA[name][1])
    model = DCONClassifier(10, max_epochs=2, random_state=0).fit(train, y)
    scores = model.decision_function(test).reshape(len(test), -1)
    raw, calibrated = (log_loss(y_test, p) for p in (probabilities_of(scores), model.predict_proba(test)))
    assert calibrated < 0.95 * raw
    # No slope is much better, even in hindsight, unless it separates the classes of the held-out rows.
    best = min(log_loss(y_test, probabilities_of(slope * scores)) for slope in np.geomspace(0.1, 100.0, 50))
    assert calibrated < 1.25 * best + 0.06


def test_without_folds_the_slope_is_that_of_least_squares():
    model = DCONClassifier(2, **QUICK).fit(np.ones((9, 2)), [0, 1, 1, 0, 1, 0, 1, 1, 1])
    assert model.calibration_.slope == PLAIN_SLOPE
    np.testing.assert_allclose(model.predict_proba([[1.0, 1.0]]), [[1 / 3, 2 / 3]], atol=0.02)
