"""`TableEncoder`: any table as standardised columns."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder
from threadpoolctl import threadpool_limits

from dconnet import DCONRegressor, TableEncoder
from dconnet.estimators.data import ColumnWarning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    t=np.array(["u", "v", "w"])[np.arange(80) % 3], d=pd.date_range("2020", periods=80)
)
# 200 rows of 40 cities with three levels of prices.
CITIES = np.array([f"city {k:02}" for k in range(40)])[RNG.integers(0, 40, size=200)]
PRICES = np.array([int(city[-2:]) % 3 for city in CITIES]) + 0.1 * RNG.normal(size=200)
HOUSES = pd.DataFrame({"size": RNG.normal(size=200), "city": CITIES})


def test_numbers_are_standardised_and_columns_named():
    encoder = TableEncoder(n_bins=1).fit(FRAME)
    encoded = encoder.transform(FRAME)
    np.testing.assert_allclose(encoded[:, :3], (X - X.mean(axis=0)) / X.std(axis=0), rtol=1e-5, atol=1e-6)
    names = encoder.get_feature_names_out()
    assert list(names[:6]) == ["a", "b", "c", "t: u", "t: v", "t: w"]
    assert len(names) == encoded.shape[1] == len(set(names))
    assert np.isfinite(encoder.transform(FRAME.assign(t="unknown", a=np.nan))).all()
    ambiguous = pd.DataFrame({"a": ["u", "v", "w"] * 20, "a: u": np.arange(60.0), "a: v": np.arange(60.0) ** 2})
    names = TableEncoder().fit(ambiguous).get_feature_names_out()
    assert list(names) == ["a: u", "a: v", "a: w", "a: u (2)", "a: v (2)"]


def test_a_failed_fit_leaves_the_encoder_unchanged():
    fresh, encoder = TableEncoder(), TableEncoder().fit(FRAME)
    expected = encoder.transform(FRAME)
    for either in (fresh, encoder):
        with pytest.raises(ValueError, match="infinity"):
            either.fit(pd.DataFrame({"a": [1.0, np.inf, 2.0]}))
    with pytest.raises(NotFittedError):
        fresh.transform(FRAME)
    np.testing.assert_array_equal(encoder.transform(FRAME), expected)


def test_blas_threads_change_no_bit():
    numbers, means = RNG.normal(size=(5000, 12)), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            means.append(TableEncoder(6).fit(numbers).encoding_.mean)
    np.testing.assert_array_equal(*means)


def test_a_constant_table_has_no_columns():
    constant = pd.DataFrame({"a": ["u"] * 30})
    assert TableEncoder().fit(constant).transform(constant).shape == (30, 0)
    with pytest.raises(ValueError, match="TableEncoder, for example, drops columns that do not vary"):
        make_pipeline(TableEncoder(), DCONRegressor()).fit(constant, np.arange(30.0))


def test_invalid_tables_and_targets():
    with pytest.raises(TypeError, match="dense"):
        TableEncoder().fit(sparse.csr_array(X))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TableEncoder().fit(HOUSES, np.arange(5))
    with pytest.raises(ValueError, match="several columns of classes"):
        TableEncoder(target_type="class").fit(HOUSES, np.column_stack([PRICES, -PRICES]))
    with pytest.raises(ValueError, match="NaN"):
        TableEncoder().fit(HOUSES, np.where(PRICES > 2.0, np.nan, PRICES))
    with pytest.raises(ValueError, match="several columns named 'a'"):
        TableEncoder().fit(pd.DataFrame(np.ones((3, 2)), columns=["a", "a"]))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "2", "3", "four", "5", "6"] * 4, "Column 'a' of X is read as text.*row 4 holds 'four'"),
        ([f"{j} kg" for j in range(24)], "Column 'a' of X is dropped: nearly every row.*such as '0 kg'"),
        (["1,200", "3,400", "5"] * 8, "Column 'a' of X: '1,200' is read as 1200, but"),
        (["03/03/2024", "03/04/2024", "05/06/2024"] * 8, "Column 'a' of X: dates such as '03/04/2024'.*month first"),
    ],
)
def test_columns_that_are_dropped_or_ambiguous_are_named(cells, message):
    with pytest.warns(ColumnWarning, match=message):
        TableEncoder().fit(pd.DataFrame({"a": cells}))


# --- target means ---


def test_target_means_are_those_of_scikit_learn():
    encoder = TableEncoder(random_state=0).fit(HOUSES, PRICES)
    feature = encoder.encoding_.coder.features[1]

    def target_means(table):
        return encoder.transform(table)[:, 1] * feature.scale + feature.center

    expected = TargetEncoder(target_type="continuous", random_state=0).fit(HOUSES[["city"]], PRICES)
    np.testing.assert_allclose(target_means(HOUSES), expected.transform(HOUSES[["city"]])[:, 0], rtol=1e-9)
    np.testing.assert_allclose(target_means(HOUSES.assign(city="elsewhere")), PRICES.mean(), rtol=1e-12)
    without = TableEncoder(target_type=None).fit(HOUSES, PRICES)
    np.testing.assert_array_equal(without.transform(HOUSES), TableEncoder().fit(HOUSES).transform(HOUSES))


@pytest.mark.parametrize(
    ("y", "n_columns"),
    [
        (np.arange(200), 1),
        (np.arange(200) % 3, 3),
        (np.arange(200) % 3 + 0.5, 1),
        (np.arange(200) % 2 == 0, 1),
        (np.array(["low", "middle", "high"])[np.arange(200) % 3], 3),
        (np.column_stack([PRICES, -PRICES]), 2),
    ],
)
def test_each_class_or_target_has_a_column(y, n_columns):
    encoder = TableEncoder().fit(HOUSES[["city"]], y)
    assert encoder.transform(HOUSES[["city"]]).shape[1] == n_columns
    assert len(encoder.get_feature_names_out()) == n_columns


def test_pipelines_with_a_network():
    model = make_pipeline(TableEncoder(random_state=0), DCONRegressor(4, gamma=0.03, tol=1e-3, random_state=0))
    search = GridSearchCV(model, {"tableencoder__n_bins": [1, 3]}, cv=2).fit(HOUSES, PRICES)
    assert search.best_score_ > 0.5
    encoder = make_column_transformer((TableEncoder(), ["t", "d"]), remainder="passthrough")
    assert encoder.fit_transform(FRAME).shape[1] == len(encoder.get_feature_names_out()) > 3
