"""`TableEncoder`: any table as standardised columns, by scikit-learn's rules."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from dconnet import DCONClassifier, DCONRegressor, TableEncoder
from dconnet.estimators.tables import MixedColumnWarning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    t=np.array(["u", "v", "w"])[np.arange(80) % 3], d=pd.date_range("2020", periods=80)
)


# Two hundred rows of forty cities, of which some are dear.
CITIES = np.array([f"city {k:02}" for k in range(40)])[RNG.integers(0, 40, size=200)]
DEAR = np.array([int(city[-2:]) % 3 for city in CITIES]) + 0.1 * RNG.normal(size=200)
MANY = pd.DataFrame({"size": RNG.normal(size=200), "city": CITIES})


@parametrize_with_checks([TableEncoder(), TableEncoder(6)])
def test_contract(estimator, check):
    if "array_api" in str(check):
        pytest.skip("scikit-learn skips the array API unless SCIPY_ARRAY_API is set")
    check(estimator)


def test_numbers_are_standardised_and_named():
    encoder = TableEncoder(n_bins=1).fit(FRAME)
    encoded = encoder.transform(FRAME)
    np.testing.assert_allclose(encoded[:, :3], (X - X.mean(axis=0)) / X.std(axis=0), rtol=1e-5, atol=1e-6)
    names = encoder.get_feature_names_out()
    assert list(names[:3]) == ["a", "b", "c"]
    assert list(names[3:6]) == ["t: u", "t: v", "t: w"]
    assert len(names) == encoded.shape[1] == len(set(names))


@pytest.mark.parametrize(
    "check",
    [
        "check_transformer_get_feature_names_out",
        "check_transformer_get_feature_names_out_pandas",
        "check_set_output_transform",
        "check_set_output_transform_pandas",
        "check_set_output_transform_polars",
        "check_global_output_transform_pandas",
        "check_global_set_output_transform_polars",
    ],
)
@pytest.mark.filterwarnings("ignore:X .*feature names")  # the checks mix arrays and tables
def test_names_and_output_of_transformers(check):
    """Checks that scikit-learn applies to its own transformers only."""
    if "polars" in check:
        pytest.importorskip("polars", reason="polars is not installed")
    getattr(estimator_checks, check)("TableEncoder", TableEncoder(2))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_output_has_names(kind):
    pytest.importorskip(kind, reason=f"{kind} is not installed")
    encoder = TableEncoder().set_output(transform=kind)
    found = encoder.fit_transform(FRAME)
    assert list(found.columns) == list(encoder.get_feature_names_out())
    np.testing.assert_array_equal(found.to_numpy(), TableEncoder().fit(FRAME).transform(FRAME))


def test_names_are_all_different():
    table = pd.DataFrame({"a": ["u", "v", "w"] * 20, "a: u": np.arange(60.0), "a: v": np.arange(60.0) ** 2})
    names = TableEncoder().fit(table).get_feature_names_out()
    assert list(names) == ["a: u", "a: v", "a: w", "a: u (2)", "a: v (2)"]


def test_a_linear_map_of_ramps_is_piecewise_linear():
    x = np.linspace(-1.0, 1.0, 201)[:, None]
    y = np.abs(x[:, 0])
    assert make_pipeline(TableEncoder(n_bins=2), LinearRegression()).fit(x, y).score(x, y) > 0.999


def test_levels_that_are_not_known_and_gaps_are_encoded():
    encoder = TableEncoder().fit(FRAME)
    other = FRAME.assign(t="never seen", a=np.nan)
    assert np.isfinite(encoder.transform(other)).all()


def test_a_fit_that_fails_leaves_the_encoder_as_it_was():
    faulty = pd.DataFrame({"a": [1.0, np.inf, 2.0]})
    with pytest.raises(ValueError, match="infinity"):
        (fresh := TableEncoder()).fit(faulty)
    with pytest.raises(NotFittedError):
        fresh.transform(FRAME)
    encoder = TableEncoder().fit(FRAME)
    expected = encoder.transform(FRAME)
    with pytest.raises(ValueError, match="infinity"):
        encoder.fit(faulty)
    np.testing.assert_array_equal(encoder.transform(FRAME), expected)


def test_threads_of_the_linear_algebra_have_no_influence():
    table = RNG.normal(size=(5000, 12))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(clone(TableEncoder(6)).fit(table).encoding_.mean)
    np.testing.assert_array_equal(found[0], found[1])


def test_all_kinds_of_tables_are_the_same():
    pa, pl = pytest.importorskip("pyarrow", reason="pyarrow"), pytest.importorskip("polars", reason="polars")
    expected = TableEncoder(3).fit(FRAME).transform(FRAME)
    for table in (pl.DataFrame(FRAME.to_dict("series")), pa.Table.from_pandas(FRAME)):
        np.testing.assert_array_equal(TableEncoder(3).fit(table).transform(table), expected)


def test_a_table_without_anything_that_varies_has_no_columns():
    constant = pd.DataFrame({"a": ["u"] * 30})
    encoder = TableEncoder().fit(constant)
    assert encoder.transform(constant).shape == (30, 0)
    assert encoder.columns_ == [{"column": "a", "kind": "category", "treatment": "dropped: constant"}]
    with pytest.raises(ValueError, match="0 feature"):
        make_pipeline(TableEncoder(), DCONRegressor()).fit(constant, np.arange(30.0))


def test_one_column_of_text_is_enough():
    table = pd.DataFrame({"a": ["u", "v", "w"] * 20})
    y = np.array([1.0, 2.0, 4.0] * 20)
    model = make_pipeline(TableEncoder(), DCONRegressor(3, gamma=1e-3, random_state=0)).fit(table, y)
    assert model.score(table, y) > 0.99


def test_sparse_tables_are_refused():
    with pytest.raises(TypeError, match="dense"):
        TableEncoder().fit(sparse.csr_array(X))


def test_text_in_place_of_a_number_is_told():
    table = pd.DataFrame({"a": ["1", "2", "3", "four", "5", "6"] * 4})
    with pytest.warns(MixedColumnWarning, match="'four'"):
        TableEncoder().fit(table)


class TestMeansOfTheTarget:
    def test_means_are_those_of_scikit_learn(self):
        """Which are smoothed by the same formula, in units of the target."""
        encoder = TableEncoder(random_state=0).fit(MANY, DEAR)
        theirs = TargetEncoder(target_type="continuous", random_state=0).fit(MANY[["city"]], DEAR)
        feature = encoder.encoding_.coder.features[1]
        ours = encoder.transform(MANY)[:, 1] * feature.scale + feature.center
        np.testing.assert_allclose(ours, theirs.transform(MANY[["city"]])[:, 0], rtol=1e-9)
        assert list(encoder.get_feature_names_out()) == ["size", "city: target"]
        assert encoder.columns_[1]["treatment"] == "40 levels, by the target"

    def test_the_target_of_a_row_has_no_part_in_its_code(self):
        """In the training, a change of one target leaves its own row as it was, up to the common unit."""
        changed = DEAR.copy()
        changed[7] += 1e-3
        encoders = [TableEncoder(random_state=0) for _ in range(2)]
        raw = []
        for encoder, y in zip(encoders, (DEAR, changed), strict=True):
            crossed = encoder.fit_transform(MANY, y)[:, 1]
            feature = encoder.encoding_.coder.features[1]
            raw.append(crossed * feature.scale + feature.center)
        assert abs(raw[0][7] - raw[1][7]) < 1e-12
        assert np.abs(raw[0] - raw[1]).max() > 1e-6

    def test_random_levels_tell_nothing(self):
        """Without cross-fitting, a model would find the noise of the target in the means of the levels."""
        noise = np.random.default_rng(1).normal(size=200)
        encoder = TableEncoder(random_state=0)
        crossed = encoder.fit_transform(MANY, noise)[:, 1]
        assert abs(np.corrcoef(crossed, noise)[0, 1]) < 0.2 < np.corrcoef(encoder.transform(MANY)[:, 1], noise)[0, 1]

    def test_levels_that_are_not_known_get_the_mean_of_all(self):
        encoder = TableEncoder(random_state=0).fit(MANY, DEAR)
        feature = encoder.encoding_.coder.features[1]
        found = encoder.transform(MANY.assign(city="elsewhere"))[:, 1] * feature.scale + feature.center
        np.testing.assert_allclose(found, DEAR.mean(), rtol=1e-12)

    def test_classes_get_a_column_each(self):
        three = np.array(["low", "middle", "high"])[np.round(DEAR).astype(int).clip(0, 2)]
        names = TableEncoder().fit(MANY, three).get_feature_names_out()
        assert list(names) == ["size", "city: target 1", "city: target 2", "city: target 3"]
        assert TableEncoder().fit(MANY, three == "low").transform(MANY).shape == (200, 2)

    def test_several_targets_get_a_column_each(self):
        both = np.column_stack([DEAR, -DEAR])
        assert TableEncoder().fit_transform(MANY, both).shape == (200, 3)
        with pytest.raises(ValueError, match="several columns of classes"):
            TableEncoder(target_type="class").fit(MANY, both)

    @pytest.mark.parametrize(
        ("y", "n_columns"),
        [(np.arange(200), 1), (np.arange(200) % 3, 3), (np.arange(200) % 3 + 0.5, 1), (np.arange(200) % 2 == 0, 1)],
    )
    def test_whole_numbers_of_few_values_are_classes(self, y, n_columns):
        assert TableEncoder().fit(MANY[["city"]], y).transform(MANY[["city"]]).shape[1] == n_columns

    def test_the_target_can_be_left_out(self):
        without = TableEncoder(target_type=None).fit(MANY, DEAR)
        np.testing.assert_array_equal(without.transform(MANY), TableEncoder().fit(MANY).transform(MANY))

    def test_missing_targets_are_refused(self):
        with pytest.raises(ValueError, match="NaN"):
            TableEncoder().fit(MANY, np.where(DEAR > 2.0, np.nan, DEAR))


class TestBeforeANetwork:
    model = make_pipeline(TableEncoder(), DCONRegressor(4, gamma=0.03, tol=1e-3, random_state=0))

    def test_cross_validation_and_grid_search(self):
        assert cross_val_score(self.model, MANY, DEAR, cv=3).min() > 0.5
        search = GridSearchCV(self.model, {"tableencoder__n_bins": [1, 3]}, cv=2).fit(MANY, DEAR)
        assert search.best_score_ > 0.5

    def test_clones_and_pickles_predict_the_same(self):
        model = clone(self.model).set_params(tableencoder__random_state=0).fit(MANY, DEAR)
        other = clone(model).fit(MANY, DEAR)
        again = pickle.loads(pickle.dumps(model))
        for found in (other, again):
            np.testing.assert_array_equal(found.predict(MANY), model.predict(MANY))

    def test_classes(self):
        labels = np.where(DEAR > 1.5, "dear", "cheap")
        model = make_pipeline(TableEncoder(), DCONClassifier(3, gamma=0.03, tol=1e-3, random_state=0))
        assert model.fit(MANY, labels).score(MANY, labels) > 0.9

    def test_for_some_columns_alone(self):
        encoder = make_column_transformer((TableEncoder(), ["t", "d"]), remainder="passthrough")
        found = encoder.fit_transform(FRAME)
        assert found.shape[1] == len(encoder.get_feature_names_out()) > 3


def test_a_target_of_another_length_is_refused_also_where_it_is_not_used():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        TableEncoder().fit(pd.DataFrame({"a": np.arange(30.0)}), np.arange(5))
