"""Bad input gets an error that says what and how to mend it, or a correct fit; never a wrong answer."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dconnet import DCONClassifier, DCONRegressor, Network, PaperAlgorithm

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
        (np.empty((0, 2)), "0 sample"),
        (np.empty((40, 0)), "0 feature"),
        (X[:39], "inconsistent numbers of samples"),
        (X[:, 0], "Reshape your data"),
        (np.array([(1.0, 2.0)] * 40, dtype=[("a", float), ("b", float)]), "structured_to_unstructured"),
        (np.full((40, 2), "2020-01-01", dtype="datetime64[D]"), "dates or times"),
        (pd.DataFrame({"a": X[:, 0], "b": pd.Timestamp("2020-01-01")}), "dates or times"),
        (pd.DataFrame({"a": X[:, 0], "b": pd.Timedelta(1, "s")}), "dates or times"),
        (pd.DataFrame({"a": X[:, 0], "b": pd.Timestamp("2020-01-01")}, dtype=object), "dates or times"),
    ],
)
def test_bad_inputs_are_named(model, data, message):
    with pytest.raises(ValueError, match=message):
        model.fit(data, np.arange(40) % 2)


@pytest.mark.parametrize("target", [np.where(Y > 0, np.nan, Y), np.where(Y > 0, np.inf, Y)])
def test_bad_targets_are_named(target):
    with pytest.raises(ValueError, match="Input y contains"):
        regressor().fit(X, target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (sparse.csr_matrix(X), r"y is sparse.*y\.toarray"),
        (np.arange(40).astype("datetime64[D]"), "y holds dates"),
        (pd.DataFrame({"a": Y, "b": pd.Timestamp("2020-01-01")}), "y holds dates"),
        (np.column_stack([Y, np.where(Y > 0, np.nan, Y)]), "Input y contains NaN"),
        (np.column_stack([Y, Y])[:, :, None], "dim 3"),
        (np.column_stack([Y, Y])[:39], "inconsistent numbers of samples"),
    ],
)
def test_unusable_targets_are_named(target, message):
    with pytest.raises(ValueError, match=message):
        regressor().fit(X, target)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"gamma": 0.0},
            r"'gamma' parameter of DCONRegressor must be a float in the range \(0.0, inf\),.*Got 0.0",
        ),
        ({"gamma": -1.0}, "'gamma' parameter"),
        ({"gamma": None}, "'gamma' parameter"),
        ({"gamma": np.inf}, "'gamma' parameter"),
        ({"shrinkage": -1.0}, "'shrinkage' parameter"),
        ({"n_hidden": 0}, "'n_hidden' parameter"),
        ({"n_hidden": 2.5}, "'n_hidden' parameter"),
        ({"n_hidden": True}, "'n_hidden' parameter"),
        ({"algorithm": "magic"}, "'algorithm' parameter.*'accelerated'"),
        ({"algorithm": PaperAlgorithm(solver="magic")}, "Unknown solver 'magic'"),
        ({"algorithm": PaperAlgorithm}, "'algorithm' parameter"),
        ({"init": "zeros"}, "'init' parameter.*'xavier'"),
        ({"init": 3}, "'init' parameter.*Network"),
        ({"init": Network([[1.0]], [0.0], [1.0])}, "has 1 neurons and 1 inputs"),
        ({"max_epochs": 0}, "'max_epochs' parameter"),
        ({"max_seconds": -1.0}, "'max_seconds' parameter"),
        ({"max_seconds": "1"}, "'max_seconds' parameter"),
        ({"tol": None}, "'tol' parameter"),
        ({"tol": np.nan}, "'tol' parameter"),
        ({"early_stopping": "no"}, "'early_stopping' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"n_iter_no_change": 0}, "'n_iter_no_change' parameter"),
        ({"n_iter_no_change": 2.9}, "'n_iter_no_change' parameter"),
        ({"verbose": "x"}, "'verbose' parameter"),
        ({"random_state": -1}, "'random_state' parameter"),
    ],
)
def test_bad_parameters_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        regressor(**changes).fit(X, Y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(40), "zero"),
        (-np.ones(40), "must not be negative"),
        (np.ones(39), r"sample_weight\.shape"),
        (np.full(40, np.nan), "contains NaN"),
    ],
)
def test_bad_weights_are_named(weight, message):
    with pytest.raises(ValueError, match=message):
        regressor().fit(X, Y, sample_weight=weight)


NOT_CONVERGED = pytest.mark.filterwarnings("ignore:Stopped after:sklearn.exceptions.ConvergenceWarning")


@NOT_CONVERGED
def test_one_row_is_fitted():
    model = regressor(gamma=1e-3).fit([[1.0, 2.0]], [3.0])
    assert model.predict([[1.0, 2.0]])[0] == pytest.approx(3.0, rel=1e-2)


@NOT_CONVERGED
def test_tiny_features_are_fitted():
    """Weights of order 1e150 are right here; nothing on the way may underflow."""
    model = regressor(max_epochs=60).fit(X * 1e-150, Y)
    assert model.score(X * 1e-150, Y) > 0.8
    history = model.history_.objective
    assert np.all(np.diff(history) <= 1e-13 * history[:-1])


def test_huge_features_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match="StandardScaler"):
        regressor().fit(X * 1e150, Y)


def test_huge_targets_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match="squares of y overflow"):
        regressor().fit(X, Y * 1e200)


def test_features_that_are_constant_or_repeated_are_harmless():
    degenerate = np.column_stack([X, X[:, 0], np.ones(40), np.zeros(40)])
    model = regressor(n_hidden=6).fit(degenerate, Y)
    assert model.score(degenerate, Y) > 0.9
    np.testing.assert_allclose(model.network_.W[:, 0], model.network_.W[:, 2], atol=1e-8)
    np.testing.assert_allclose(model.network_.W[:, 4], 0.0, atol=1e-12)


@NOT_CONVERGED
def test_more_columns_than_rows_are_fitted():
    wide = RNG.normal(size=(10, 30))
    target = RNG.normal(size=10)
    model = regressor(gamma=1e-3).fit(wide, target)
    assert model.score(wide, target) > 0.9


def test_targets_whose_squares_underflow_are_refused():
    with pytest.raises(ValueError, match=r"squares underflow.*Scale y up"):
        regressor(scale=True).fit(X, 1e-200 * Y)
    small = regressor(scale=True, n_hidden=5).fit(X, 1e-140 * Y)
    np.testing.assert_allclose(
        1e140 * small.predict(X), regressor(scale=True, n_hidden=5).fit(X, Y).predict(X), rtol=1e-6
    )
