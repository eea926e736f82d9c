"""`DCONRegressor` and `DCONClassifier`: fitted attributes, starts, validation data, failures and interrupts."""

import pickle
from pkgutil import resolve_name

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from dconnet import DCONClassifier, DCONRegressor, Network, Problem, Status

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.abs(X[:, 0]) + X[:, 1]
LABELS = np.array(["left", "middle", "right"])[np.digitize(X[:, 0], [-0.5, 0.5])]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


def regressor(**changes):
    return DCONRegressor(**({"n_hidden": 4, "gamma": 0.3, "scale": False, "tol": 1e-4, "random_state": 0} | changes))


def classifier(**changes):
    return DCONClassifier(**({"n_hidden": 3, "gamma": 0.3, "scale": False, "tol": 1e-3, "random_state": 0} | changes))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize(
    ("model", "y", "weight"),
    [
        (regressor(gamma="auto", scale=True, max_epochs=3), Y, None),
        (regressor(scale=True), Y, RNG.uniform(0.1, 2.0, size=60)),
        (classifier(class_weight="balanced", scale=True), LABELS, None),
    ],
    ids=["gamma", "weights", "balanced"],
)
def test_the_order_of_rows_changes_no_bit(model, y, weight, copies):
    weight = np.ones(60) if weight is None else weight
    rows = np.repeat(np.arange(60), copies)
    first = clone(model).fit(X[rows], y[rows], weight[rows])
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(rows)
        again = clone(model).fit(X[order], y[order], weight[order])
        for one, two in zip(first.networks_, again.networks_, strict=True):
            np.testing.assert_array_equal(one.parameters, two.parameters)


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(FRAME, Y)


@pytest.fixture(scope="module")
def fitted_classifier():
    return classifier().fit(X, LABELS)


# --- fitted attributes ---


def test_fitted_attributes_describe_the_network(fitted):
    assert fitted.status_ is Status.CONVERGED
    assert fitted.network_.W.shape == (4, 3)
    assert fitted.objective_ == Problem(X, Y, 0.3).objective(fitted.network_)
    assert fitted.n_iter_ == len(fitted.history_) - 1 == len(fitted.history_.to_frame()) - 1
    assert 0.0 <= fitted.stationarity_ < 1e-3
    np.testing.assert_array_equal(fitted.predict(FRAME), fitted.network_.predict(X))
    assert fitted.score(FRAME, Y) > 0.9
    features = fitted.transform(FRAME)
    np.testing.assert_allclose(features @ fitted.network_.alpha, fitted.predict(FRAME), rtol=1e-13)


def test_the_largest_output_wins(fitted_classifier):
    model = fitted_classifier
    assert model.classes_.tolist() == ["left", "middle", "right"]
    outputs = np.column_stack([network.predict(X) for network in model.networks_])
    np.testing.assert_array_equal(model.predict(X), model.classes_[outputs.argmax(axis=1)])
    np.testing.assert_array_equal(model.decision_function(X), outputs)
    assert model.score(X, LABELS) > 0.85
    np.testing.assert_array_equal(model.transform(X)[:, 3:6], model.networks_[1].hidden(X))


def test_features_that_overflow_are_refused():
    model = regressor(scale=True).fit(1e-6 * X, Y)
    with pytest.raises(OverflowError, match="row 1"):
        model.transform([[0.0, 0.0, 0.0], [1.7e308, -1.7e308, 0.0]])


def test_verbose_shows_progress(capsys):
    for verbose, stream in ((2, "out"), (1, "err")):
        regressor(algorithm="paper", verbose=verbose, max_epochs=2, tol=10.0).fit(X, Y)
        assert "RegLoss" in getattr(capsys.readouterr(), stream)
    regressor(algorithm="paper", max_epochs=2, tol=10.0).fit(X, Y)
    assert capsys.readouterr() == ("", "")


# --- starts ---


def test_starts_from_a_given_network():
    start = Network(RNG.normal(size=(4, 3)), RNG.normal(size=4), RNG.normal(size=4))
    model = regressor(init=start).fit(X, Y)
    assert model.history_.objective[0] == pytest.approx(Problem(X, Y, 0.3).objective(start), rel=1e-12)


def test_warm_start_continues_the_last_fit():
    with pytest.warns(ConvergenceWarning, match="Raise max_epochs") as caught:
        model = regressor(warm_start=True, max_epochs=2).fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]
    reached = model.objective_
    model.set_params(max_epochs=1000).fit(X, Y)
    assert model.history_.objective[0] == pytest.approx(reached, rel=1e-12)
    assert model.objective_ < reached


def test_a_refused_warm_start_leaves_the_estimator_unchanged(fitted, fitted_classifier):
    for model, wrong, message in (
        (fitted, (FRAME[["a", "b"]], Y), "feature"),
        (fitted_classifier, (X, np.where(X[:, 0] > 0.0, "yes", "no")), "needs the classes"),
    ):
        before, warm = model.predict(model_input(model)), pickle.loads(pickle.dumps(model)).set_params(warm_start=True)
        with pytest.raises(ValueError, match=message):
            warm.fit(*wrong)
        np.testing.assert_array_equal(warm.predict(model_input(model)), before)


def model_input(model):
    return FRAME if hasattr(model, "feature_names_in_") else X


# --- validation data and early stopping ---


def test_given_validation_data_are_recorded_and_used():
    weight = np.arange(9.0)
    recorded = regressor().fit(X, Y, X_val=X[:9], y_val=Y[:9], sample_weight_val=weight)
    expected = np.average((Y[:9] - recorded.predict(X[:9])) ** 2, weights=weight)
    assert recorded.history_.validation_mse[-1] == pytest.approx(expected)
    noise = np.random.default_rng(5).normal(size=9)
    stopped = regressor(gamma=1e-4, early_stopping=True, n_iter_no_change=2).fit(X, Y, X_val=X[:9], y_val=noise)
    assert stopped.status_ is Status.EARLY_STOPPED
    error = np.mean((noise - stopped.predict(X[:9])) ** 2)
    assert error == pytest.approx(stopped.history_.validation_mse.min())


@pytest.mark.parametrize(
    "validation",
    [
        {"X_val": X[:3], "y_val": np.array([1.0, None, 2.0], dtype=object)},
        {"X_val": X[:3], "y_val": np.full(3, 1e200)},
        {"X_val": X[:3], "y_val": np.ones(3), "sample_weight_val": [-1.0, 1.0, 1.0]},
        {"X_val": X[:3], "y_val": np.ones(3), "sample_weight_val": np.zeros(3)},
        {"sample_weight_val": np.ones(3)},
        {"X_val": X[:3]},
        {"X_val": X[:3, :1], "y_val": np.ones(3)},
    ],
)
def test_invalid_validation_data_are_refused(validation):
    with pytest.raises(ValueError, match=r"NaN|overflow|negative|zero|needs X_val and y_val|together|features"):
        regressor(early_stopping=True).fit(X, Y, **validation)


@pytest.mark.parametrize("fraction", [0.1, 0.3])
def test_early_stopping_keeps_the_only_row_of_a_class(fraction):
    labels = LABELS.copy()
    labels[7] = "rare"
    model = classifier(early_stopping=True, validation_fraction=fraction, gamma=0.01).fit(X, labels)
    assert model.classes_.tolist() == ["left", "middle", "rare", "right"]
    assert all(np.isfinite(history.validation_mse).all() for history in model.histories_)
    # With no row of its own in training, the network of the class would be minus one everywhere.
    assert model.networks_[2].predict(X[[7]])[0] > -0.9


def test_invalid_classes_are_refused():
    with pytest.raises(ValueError, match="too small to set aside"):
        classifier(early_stopping=True).fit(X[:6], np.arange(6) % 5)
    with pytest.raises(ValueError, match="one class"):
        classifier().fit(X, np.ones(60))
    for missing in (None, np.nan, pd.NA):
        with pytest.raises(ValueError, match="missing class labels"):
            classifier().fit(X, [missing, *LABELS[1:]])


# --- failures and interrupts ---


@pytest.mark.parametrize("invalid", [{"sample_weight": -np.ones(60)}, {"X_val": X[:5]}])
def test_a_failed_fit_leaves_the_estimator_unchanged(fitted, invalid):
    before = fitted.predict(FRAME)
    with pytest.raises(ValueError, match=r"negative|together"):
        fitted.fit(FRAME[["c", "b", "a"]], Y, **invalid)
    np.testing.assert_array_equal(fitted.predict(FRAME), before)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(FRAME[["c", "b", "a"]])
    fresh = regressor()
    with pytest.raises(ValueError, match=r"negative|together"):
        fresh.fit(X, Y, **invalid)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_an_error_in_the_certificate_leaves_the_estimator_unchanged(monkeypatch, fitted):
    before = dict(vars(fitted))

    def fail(*_):
        raise RuntimeError("no certificate")

    monkeypatch.setattr("dconnet.estimators.layer.stationarity", fail)
    with pytest.raises(RuntimeError, match="no certificate"):
        fitted.fit(X[:, :2], Y)
    assert vars(fitted) == before


@pytest.mark.parametrize(
    ("where", "call"),
    [
        ("dconnet.training.descent.Descent.init", 1),
        ("dconnet.training.descent.Descent.step", 3),
        ("dconnet.estimators.layer.stationarity", 1),
    ],
)
@pytest.mark.parametrize(("make", "y"), [(regressor, Y), (classifier, LABELS)])
def test_an_interrupt_keeps_what_was_reached(monkeypatch, where, call, make, y):
    calls, original = [], resolve_name(where)

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(where, interrupted)
    model = make()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(model.stationarities_) == len(model.networks_)
    assert np.isin(model.predict(X), LABELS).all() if make is classifier else np.isfinite(model.predict(X)).all()
    if call == 3:
        assert set(model.statuses_) == {Status.INTERRUPTED}
        assert model.histories_[0].objective[-1] < model.histories_[0].objective[0]
