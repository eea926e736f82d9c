"""Fitted estimators evaluated on tables."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss, mean_squared_error, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    Problem,
    TableEncoder,
)
from dconnet.certificates import certify, stationarity
from dconnet.inspection.examine import examine
from dconnet.inspection.split import split_rows
from inspection_cases import (
    examine_outputs,
    examine_with_held_out_rows,
    make_labels,
    make_table,
    with_metadata,
)

FAST = {"gamma": 0.1, "tol": 1e-2, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    """Two features in units far from one, a target, and classes."""
    rng = np.random.default_rng(0)
    X = np.column_stack([100.0 + 20.0 * rng.normal(size=60), 0.001 * rng.normal(size=60)])
    return X, np.abs(X[:, 0] - 100.0) + 1000.0 * X[:, 1], np.digitize(X[:, 0], [90.0, 110.0])


def cases(X, y, labels):
    table, target = make_table()
    return {
        "regressor": (DCONRegressor(3, **FAST), X, y),
        "early stopping": (DCONRegressor(3, early_stopping=True, **FAST), X, y),
        "shrinkage": (DCONRegressor(3, shrinkage=0.1, **FAST), X, y),
        "classifier": (DCONClassifier(2, class_weight="balanced", **FAST), X, labels),
        "layers": (LayerwiseDCONRegressor([3, 2], tol=1e-2, random_state=0), X, y),
        "layers of classes": (LayerwiseDCONClassifier([3, 2], tol=1e-2, random_state=0), X, labels),
        "scaler": (make_pipeline(StandardScaler(), DCONRegressor(2, **FAST)), X, y),
        "encoder": (make_pipeline(TableEncoder(random_state=0), DCONRegressor(2, **FAST)), table, target),
    }


@pytest.mark.parametrize("name", cases([], [], []))
def test_training_rows_are_recognised_by_reg_loss(data, name):
    estimator, X, y = cases(*data)[name]
    estimator.fit(X, y)
    found = examine(estimator, X, y)
    assert found.is_training_data == (name != "early stopping")
    np.testing.assert_array_equal(found.predictions, estimator.predict(X))
    model = found.model
    for each, solution in zip(found.networks, model.solutions_, strict=True):
        assert each.network is solution.network
        assert each.is_as_fitted == found.is_training_data
    if name == "encoder":  # the fit saw means of the target of other rows
        np.testing.assert_allclose([e.certificate.objective for e in found.networks], model.objective_, rtol=1e-8)
    else:
        expected = certify(model, found.inputs, found.y)
        assert [e.certificate.objective for e in found.networks] == [e.objective for e in expected]
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"] == len(y)
    if "layers" in name:
        with pytest.raises(ValueError, match="cannot be repeated"):
            examine(estimator, X, y, replay=True)


def test_other_rows_are_not_taken_for_training_rows(data):
    X, y, _ = data
    estimator = DCONRegressor(3, scale=False, **FAST).fit(X[:30], y[:30])
    found = examine(estimator, X, y)
    assert not found.is_training_data
    assert found.is_evaluated.all()
    problem = Problem(X, y, gamma=0.1)
    (each,) = found.networks
    assert each.certificate.objective == problem.objective(each.network)
    assert each.certificate.stationarity.norm == stationarity(problem, each.network).norm
    with pytest.raises(ValueError, match="on its training rows only"):
        examine(estimator, X, y, replay=True)


def test_rows_that_dconnet_fit_held_out_are_found_again():
    found, test = examine_with_held_out_rows()
    np.testing.assert_array_equal(np.flatnonzero(found.is_evaluated), test)
    np.testing.assert_array_equal(np.flatnonzero(~found.is_training_row), test)
    assert found.networks[0].certificate.n_rows == 40
    assert found.score["mse"] == pytest.approx(mean_squared_error(found.y[test], found.predictions[test]))
    assert found.evaluated_rows == "20 held-out rows"
    residuals = np.sort(np.abs(found.y - found.predictions)[test])
    assert found.half_widths.tolist() == [residuals[18]]  # the 19th of 20: 0.9 times 21, rounded up
    found.model.random_state = np.random.RandomState(0)
    assert not examine(found.model, found.X, found.y).is_training_data


@pytest.mark.parametrize(("fitted", "dtype"), [(int, str), (str, int), (float, object)])
def test_labels_may_be_text_or_numbers(data, fitted, dtype):
    X, _, labels = data
    estimator = DCONClassifier(2, **FAST).fit(X, labels.astype(fitted))
    found = examine(estimator, X, labels.astype(dtype))
    assert found.is_training_data
    assert found.score["log_loss"] == pytest.approx(log_loss(labels, estimator.predict_proba(X)))
    with pytest.raises(ValueError, match="not trained on: huge"):
        examine(estimator, X[:1], ["huge"])


def test_foreign_estimators_and_invalid_tables_are_refused(data):
    X, y, _ = data
    for estimator in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        with pytest.raises(TypeError, match="not a Ridge"):
            examine(estimator.fit(X, y), X, y)
    fitted = DCONRegressor(2, **FAST).fit(X, y)
    for table, target, message in [
        (X, y[:5], "inconsistent numbers of samples"),
        (X * [1.0, 1e80], y, r"Column 'x1' contains .* too large"),
        (X[:2], [0.0, 1e200], "Column 'y' contains 1e"),
    ]:
        with pytest.raises(ValueError, match=message):
            examine(fitted, table, target)


def test_scores_of_several_targets_are_means():
    found = examine_outputs()
    assert found.is_training_data
    assert found.target_names == ("height", "weight")
    each = [found.score_rows(found.is_evaluated, k) for k in range(2)]
    for k, score in enumerate(each):
        assert score["r2"] == pytest.approx(r2_score(found.y[:, k], found.predictions[:, k]))
    assert found.score["mse"] == pytest.approx(np.mean([score["mse"] for score in each]))
    assert found.half_widths.shape == (2,)


class TestImportance:
    def test_is_the_increase_of_the_error(self):
        X = np.random.default_rng(0).normal(size=(80, 3))
        y = 3.0 * X[:, 1] + np.abs(X[:, 2])
        estimator = DCONRegressor(4, gamma=1e-3, tol=1e-4, random_state=0).fit(pd.DataFrame(X, columns=list("abc")), y)
        found = examine(estimator, pd.DataFrame(X, columns=list("abc")), y).importances
        assert [each.feature for each in found] == [1, 2, 0]
        # Shuffling an independent feature adds twice the variance of its part to the squared error.
        assert found[0].value == pytest.approx(3.0 * np.sqrt(2.0), rel=0.25)
        assert abs(found[2].value) < 0.05
        assert found[0].share == 1.0

    def test_inputs_of_one_feature_are_shuffled_together(self):
        rng = np.random.default_rng(0)
        level = rng.integers(3, size=90)
        table = pd.DataFrame({"x": rng.normal(size=90), "level": np.array(["a", "b", "c"])[level]})
        y = 5.0 * level
        network = DCONRegressor(4, gamma=1e-3, tol=1e-4, random_state=0)
        found = examine(make_pipeline(TableEncoder(), network).fit(table, y), table, y).importances
        assert [each.feature for each in found] == [1, 0]
        # The network is nearly exact: what is left after a shuffle is the difference of two levels.
        assert found[0].value == pytest.approx(np.sqrt(2.0) * y.std(), rel=0.1)


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module", params=["regressor", "classifier"])
def auto(request, table):
    X, y = table
    if request.param == "regressor":
        return AutoDCONRegressor(random_state=0).fit(X, y), X, y
    labels = make_labels(y, ["low", "mid", "high"])
    return AutoDCONClassifier(random_state=0).fit(X, labels), X, labels


class TestAuto:
    def test_training_rows_are_predicted_out_of_fold(self, auto):
        estimator, X, y = auto
        found = examine(estimator, X, y)
        assert found.is_training_row.all()
        assert found.networks == ()
        if found.classes is None:
            np.testing.assert_array_equal(found.predictions, estimator.oof_prediction_)
            assert found.score["r2"] == pytest.approx(estimator.oof_score_)
        else:
            np.testing.assert_array_equal(found.probabilities, estimator.oof_prediction_)
            assert found.score["log_loss"] == pytest.approx(estimator.oof_log_loss_)
            assert found.score["accuracy"] == pytest.approx(estimator.oof_score_)
        assert [each.value for each in found.importances] == sorted(estimator.feature_importances_, reverse=True)
        with pytest.raises(ValueError, match="cannot be repeated"):
            examine(estimator, X, y, replay=True)

    def test_other_rows_are_predicted_by_all_networks(self, auto):
        estimator, X, y = auto
        changed = X.assign(age=X["age"].to_numpy()[::-1])  # the same target, but other features
        for table, target in ((X[:100], y[:100]), (X[::-1], y[::-1]), (changed, y)):
            found = examine(estimator, table, target)
            assert not found.is_training_data
            np.testing.assert_array_equal(found.predictions, estimator.predict(table))

    @pytest.mark.parametrize("is_sorted", [False, True])
    @pytest.mark.filterwarnings("ignore:Stopped by max_seconds")
    def test_held_out_rows_are_found_again(self, table, is_sorted):
        X, y = table
        train, test = split_rows(y, 40, 3, classify=False)
        train = np.sort(train) if is_sorted else train
        estimator = AutoDCONRegressor(random_state=3, max_seconds=1e-6).fit(X.iloc[train], y[train])
        with_metadata(estimator, X.columns, scores={"test": {"n_rows": 40}})
        found = examine(estimator, X, y)
        np.testing.assert_array_equal(np.flatnonzero(~found.is_training_row), np.sort(test))
        own = np.isfinite(estimator.oof_prediction_)
        np.testing.assert_array_equal(found.predictions[train[own]], estimator.oof_prediction_[own])
        assert found.is_evaluated.sum() == own.sum() + 40
        low, high = (end[:, 0] for end in found.intervals)
        np.testing.assert_array_equal((low[test], high[test]), estimator.predict_interval(X.iloc[test], 0.9))
        assert found.half_widths == pytest.approx(np.median(high - low) / 2.0)
