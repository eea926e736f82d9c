"""Invalid input gets an error with a remedy, unusual input a correct fit; never a wrong answer."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    Network,
    PaperAlgorithm,
    TableEncoder,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.abs(X[:, 0]) + X[:, 1]


def with_entry(value, dtype=float):
    changed = X.astype(dtype)
    changed[3, 1] = value
    return changed


def regressor(**changes):
    return DCONRegressor(**({"n_hidden": 3, "gamma": 0.1, "scale": False, "tol": 1e-4, "random_state": 0} | changes))


@pytest.mark.parametrize("model", [DCONRegressor(2), DCONClassifier(2)])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (with_entry(np.nan), "NaN"),
        (with_entry(np.inf), "infinity"),
        (with_entry("red", dtype=object), "could not convert string to float"),
        (with_entry(1j, dtype=complex), "Complex data not supported"),
        (sparse.csr_matrix(X), r"sparse.*toarray"),
        (np.ma.masked_greater(X, 1.0), r"X has masked entries.*filled"),
        (np.empty((0, 2)), "0 sample"),
        (np.empty((40, 0)), "0 feature"),
        (X[:39], "inconsistent numbers of samples"),
        (X[:, 0], "Reshape your data"),
        (np.array([(1.0, 2.0)] * 40, dtype=[("a", float), ("b", float)]), "structured_to_unstructured"),
        (np.full((40, 2), "2020-01-01", dtype="datetime64[D]"), "dates or times"),
        (pd.DataFrame({"a": X[:, 0], "b": pd.Timedelta(1, "s")}), "dates or times"),
        (pd.DataFrame({"a": X[:, 0], "b": pd.Timestamp("2020-01-01")}, dtype=object), "dates or times"),
    ],
)
def test_invalid_features_are_refused(model, data, message):
    with pytest.raises(ValueError, match=message):
        model.fit(data, np.arange(40) % 2)


@pytest.mark.parametrize(
    ("target", "weight", "message"),
    [
        (np.where(Y > 0, np.nan, Y), None, "Input y contains"),
        (np.where(Y > 0, np.inf, Y), None, "Input y contains"),
        (sparse.csr_matrix(X), None, r"y is sparse.*y\.toarray"),
        (np.ma.masked_greater(Y, 0.0), None, "y has masked entries"),
        (Y, np.ma.masked_array(np.ones(40), Y > 0.0), "sample_weight has masked entries"),
        (np.arange(40).astype("datetime64[D]"), None, "y holds dates"),
        (pd.DataFrame({"a": Y, "b": pd.Timestamp("2020-01-01")}), None, "y holds dates"),
        (np.column_stack([Y, np.where(Y > 0, np.nan, Y)]), None, "Input y contains NaN"),
        (np.column_stack([Y, Y])[:, :, None], None, "dim 3"),
        (np.column_stack([Y, Y])[:39], None, "inconsistent numbers of samples"),
        (Y * 1e200, None, "squares of y overflow"),
        (Y * 1e-200, None, r"squares underflow.*Scale y up"),
        (Y, np.zeros(40), "zero"),
        (Y, -np.ones(40), "must not be negative"),
        (Y, np.ones(39), r"sample_weight\.shape"),
        (Y, np.full(40, np.nan), "contains NaN"),
    ],
)
def test_invalid_targets_and_weights_are_refused(target, weight, message):
    with pytest.raises(ValueError, match=message):
        regressor(scale=True).fit(X, target, sample_weight=weight)


def test_huge_features_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match="StandardScaler"):
        regressor().fit(X * 1e150, Y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("gamma", value) for value in (0.0, -1.0, None, np.inf)),
        ("shrinkage", -1.0),
        *(("n_hidden", value) for value in (0, 2.5, True)),
        ("algorithm", "magic"),
        ("algorithm", PaperAlgorithm),
        ("init", "zeros"),
        ("init", 3),
        ("max_epochs", 0),
        ("max_seconds", -1.0),
        ("max_seconds", "1"),
        ("tol", None),
        ("tol", np.nan),
        ("early_stopping", "no"),
        ("validation_fraction", 1.0),
        ("n_iter_no_change", 0),
        ("n_jobs", 1.5),
        ("callback", 3),
        ("checkpoint", 3),
        ("verbose", "x"),
        ("random_state", -1),
    ],
)
def test_invalid_parameters_are_refused(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        regressor(**{name: value}).fit(X, Y)


def test_unknown_solvers_and_unsuitable_starts_are_refused():
    with pytest.raises((ValueError, ImportError), match="'magic'"):  # an ImportError without qpsolvers
        regressor(algorithm=PaperAlgorithm(solver="magic")).fit(X, Y)
    with pytest.raises(ValueError, match="has 1 neurons and 1 inputs"):
        regressor(init=Network([[1.0]], [0.0], [1.0])).fit(X, Y)


# --- unusual data ---


@pytest.mark.filterwarnings("ignore:Stopped after:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("inputs", "target", "gamma", "error"),
    [
        (np.array([[1.0, 2.0]]), np.array([3.0]), 1e-3, 0.01),
        (X * 1e-150, Y, 0.1, 0.3),  # weights of order 1e150 are right here; no intermediate result may underflow
        (RNG.normal(size=(10, 30)), RNG.normal(size=10), 1e-3, 0.3),
    ],
    ids=["one row", "tiny features", "more columns than rows"],
)
def test_extreme_tables_are_fitted(inputs, target, gamma, error):
    model = regressor(gamma=gamma, max_epochs=20).fit(inputs, target)
    assert np.linalg.norm(model.predict(inputs) - target) < error * np.linalg.norm(target)
    history = model.history_.objective
    assert np.all(np.diff(history) <= 1e-13 * history[:-1])


def test_features_that_are_constant_or_repeated_are_harmless():
    degenerate = np.column_stack([X, X[:, 0], np.ones(40), np.zeros(40)])
    model = regressor(n_hidden=6).fit(degenerate, Y)
    assert model.score(degenerate, Y) > 0.9
    np.testing.assert_allclose(model.network_.W[:, 0], model.network_.W[:, 2], atol=1e-8)
    np.testing.assert_allclose(model.network_.W[:, 4], 0.0, atol=1e-12)


def test_tiny_targets_are_fitted_in_their_unit():
    plain, tiny = (regressor(scale=True, n_hidden=5).fit(X, unit * Y) for unit in (1.0, 1e-140))
    np.testing.assert_allclose(1e140 * tiny.predict(X), plain.predict(X), rtol=1e-6)


@pytest.mark.parametrize("model", [DCONClassifier(2), AutoDCONClassifier()])
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array(["a", 1] * 20, dtype=object), "mixes text"),
        (["a", "a\0"] * 20, "NUL character"),
        (np.ma.masked_less(np.arange(40) % 3, 1), "masked entries"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(model, labels, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, labels)


@pytest.mark.parametrize("model", [AutoDCONRegressor(), TableEncoder()])
def test_masked_tables_are_refused(model):
    with pytest.raises(ValueError, match="X has masked entries"):
        model.fit(np.ma.masked_greater(X, 1.0), Y)


@pytest.mark.parametrize(
    "model", [DCONClassifier(2, gamma=0.1, tol=10.0, random_state=0), AutoDCONClassifier(random_state=0)]
)
@pytest.mark.parametrize("container", [pd.array, pd.Series])
def test_nullable_integers_stay_integers(model, container):
    model.fit(X, container((X[:, 0] > 0.0).astype(int), dtype="Int64"))
    assert model.classes_.dtype == np.int64


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (DCONRegressor(), "Use AutoDCONRegressor,.* make_pipeline.TableEncoder.., DCONRegressor"),
        (LayerwiseDCONClassifier(), "Use AutoDCONClassifier,.* LayerwiseDCONClassifier"),
    ],
)
def test_missing_values_point_to_estimators_that_take_them(model, advice):
    X = np.array([[1.0, 2.0], [np.nan, 3.0], [0.0, 1.0], [2.0, 2.0]])
    with pytest.raises(ValueError, match=rf"Input X contains NaN.*{advice}"):
        model.fit(X, [0, 1, 0, 1])
