"""Estimators in files: they come back fitted, to the bit, and faulty files are told."""

import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.exceptions import NotFittedError
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    Network,
    TableEncoder,
)
from dconnet.certificates import certificate
from dconnet.io.estimators import load_estimator, save_estimator
from dconnet.io.model_file import load_model, save_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.abs(X[:, 0]) - 0.5 * X[:, 1]
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [0.0, 0.8])]
QUICK = {"tol": 1e-2, "random_state": 0}
DEEP = {"hidden_layer_sizes": (3, 2), "lower_epochs": 2, "max_epochs": 50, **QUICK}
TABLE = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
    gap=np.where(np.arange(60) % 7 == 0, np.nan, X[:, 0]),
    colour=np.array(["red", "green", "blue", "blue"])[np.arange(60) % 4],
    town=[f"town {k:02}" for k in RNG.integers(0, 15, 60)],
)


def again(estimator, tmp_path):
    save_estimator(estimator, tmp_path / "estimator.json")
    return load_estimator(tmp_path / "estimator.json")


def same(a, b):
    """Whether two values are the same, to the bit of their numbers."""
    if isinstance(a, np.ndarray):
        return type(b) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, key), getattr(b, key)) for key in a.__dataclass_fields__)
    return (a is b or a == b or repr(a) == repr(b)) and type(a) is type(b)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (DCONRegressor(3, **QUICK), Y),
        (DCONRegressor(3, gamma=0.1, scale=False, shrinkage=0.1, **QUICK), Y),
        (DCONRegressor(2, gamma=0.1, init=Network(np.ones((2, 3)), np.zeros(2), np.ones(2)), **QUICK), Y),
        (DCONClassifier(2, gamma=0.1, **QUICK), LABELS),
        (DCONClassifier(2, gamma=0.1, **QUICK), Y > 0.5),
        (DCONRegressor(2, gamma=np.array([0.1, 1.0]), cv=KFold(3), **QUICK), Y),
        (DCONClassifier(2, gamma=[0.1, 1.0], cv=3, **QUICK), LABELS),
        (LayerwiseDCONRegressor(**DEEP), Y),
        (LayerwiseDCONRegressor(**DEEP, skip=True), Y),
        (LayerwiseDCONClassifier(**DEEP), LABELS),
        (DCONRegressor(2, gamma=0.1, early_stopping=True, **QUICK), Y),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_that_was_fitted_comes_back(estimator, y, tmp_path):
    model = clone(estimator).set_params(warm_start=True).fit(TABLE[["a", "b", "c"]], y)
    found = again(model, tmp_path)
    rows = TABLE[["a", "b", "c"]]
    np.testing.assert_array_equal(found.predict(rows), model.predict(rows))
    assert same(found.get_params(), model.get_params())
    before, after = dict(vars(model)), dict(vars(found))
    assert set(before) == set(after)
    assert [name for name in before if not same(before[name], after[name])] == []
    for a, b in zip(model.problems(rows, y), found.problems(rows, y), strict=True):
        assert a.objective(model.solutions_[0].network) == b.objective(found.solutions_[0].network)
    np.testing.assert_array_equal(found.fit(rows, y).predict(rows), model.fit(rows, y).predict(rows))  # goes on
    assert same(clone(found).get_params(), clone(model).get_params())


def test_certificates_are_the_same(tmp_path):
    model = DCONRegressor(3, gamma=0.1, random_state=0).fit(X, Y)
    found = again(model, tmp_path)
    expected = certificate(model.problems(X, Y)[0], model.network_).to_dict()
    assert certificate(found.problems(X, Y)[0], found.network_).to_dict() == expected


def test_a_generator_goes_on(tmp_path):
    model = DCONRegressor(2, gamma=0.1, tol=1e-2, random_state=np.random.RandomState(3)).fit(X, Y)
    found = again(model, tmp_path)
    assert found.random_state.randint(1000) == model.random_state.randint(1000)


@pytest.mark.parametrize(("kind", "y"), [(AutoDCONRegressor, Y), (AutoDCONClassifier, LABELS)])
def test_auto_estimators(kind, y, tmp_path):
    model = kind(max_seconds=1e-9, random_state=0).fit(TABLE, y)
    found = again(model, tmp_path)
    np.testing.assert_array_equal(found.predict(TABLE), model.predict(TABLE))
    assert found.get_params() == model.get_params()
    assert found.members_ == model.members_
    np.testing.assert_array_equal(found.oof_prediction_, model.oof_prediction_)
    np.testing.assert_array_equal(found.feature_names_in_, model.feature_names_in_)
    save_model(model, tmp_path / "model.json")
    other = load_estimator(tmp_path / "model.json")
    np.testing.assert_array_equal(other.predict(TABLE), model.predict(TABLE))
    np.testing.assert_array_equal(other.feature_names_in_, model.feature_names_in_)


NETWORK = DCONRegressor(2, gamma=0.1, **QUICK)
COLUMNS = ColumnTransformer(
    [
        ("numbers", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["a", "gap"]),
        ("levels", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"]),
        ("codes", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["town"]),
        ("as it is", "passthrough", ["b"]),
    ]
)


@pytest.mark.parametrize(
    ("steps", "columns"),
    [
        ([StandardScaler()], ["a", "b"]),
        ([StandardScaler(with_mean=False), MinMaxScaler((-1, 1), clip=True)], ["a", "b"]),
        ([RobustScaler(with_centering=False), MaxAbsScaler()], ["a", "b"]),
        ([FunctionTransformer(np.square), StandardScaler()], ["a", "b"]),
        ([SimpleImputer(strategy="median", add_indicator=True), StandardScaler()], ["a", "gap"]),
        ([SimpleImputer(strategy="constant", fill_value=2.5), "passthrough"], ["gap", "b"]),
        (
            [SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="first", sparse_output=False)],
            ["colour", "town"],
        ),
        (
            [OneHotEncoder(min_frequency=5, handle_unknown="infrequent_if_exist", sparse_output=False)],
            ["town", "colour"],
        ),
        ([OneHotEncoder(max_categories=4, sparse_output=False, dtype=np.float32)], ["town"]),
        ([OrdinalEncoder(max_categories=3)], ["town"]),
        ([OrdinalEncoder(categories=[["blue", "green", "red"]])], ["colour"]),
        ([TableEncoder(3, random_state=0)], list(TABLE.columns)),
        ([COLUMNS], list(TABLE.columns)),
        ([clone(COLUMNS).set_params(remainder=RobustScaler(), verbose_feature_names_out=False)], list(TABLE.columns)),
        (
            [
                ColumnTransformer(
                    [
                        ("text", OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude=np.number)),
                        ("numbers", TableEncoder(random_state=0), ["gap", "a"]),
                    ],
                    remainder="passthrough",
                )
            ],
            list(TABLE.columns),
        ),
    ],
    ids=lambda value: "-".join(str(step)[:24] for step in value),
)
@pytest.mark.filterwarnings("ignore:Found unknown categories")
def test_pipelines(steps, columns, tmp_path):
    rows = TABLE[columns]
    model = Pipeline(
        [(f"step {j}", clone(step) if not isinstance(step, str) else step) for j, step in enumerate(steps)]
    )
    model.steps.append(("network", clone(NETWORK)))
    model.fit(rows, Y)
    found = again(model, tmp_path)
    np.testing.assert_array_equal(found.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(found.predict(rows[::-7]), model.predict(rows[::-7]))
    if "make_column_selector" not in str(model):  # which prints its address
        assert str(found) == str(model)
    assert [name for name, _ in found.steps] == [name for name, _ in model.steps]
    refitted = clone(found).fit(rows, Y)
    np.testing.assert_array_equal(refitted.predict(rows), model.predict(rows))
    if "square" not in str(steps):
        np.testing.assert_array_equal(found[:-1].get_feature_names_out(), model[:-1].get_feature_names_out())


def test_arrays_without_names(tmp_path):
    model = make_pipeline(
        ColumnTransformer([("one", StandardScaler(), [0, 2]), ("two", MinMaxScaler(), slice(1, 2))]), clone(NETWORK)
    ).fit(X, Y)
    found = again(model, tmp_path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "transform",
    [{"transformer": StandardScaler()}, {"func": np.log1p, "inverse_func": np.expm1}],
    ids=["scaler", "log"],
)
def test_transformed_targets(transform, tmp_path):
    y = np.exp(Y)
    model = TransformedTargetRegressor(make_pipeline(MinMaxScaler(), clone(NETWORK)), **transform).fit(X, y)
    found = again(model, tmp_path)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    assert str(found) == str(model)
    np.testing.assert_array_equal(clone(found).fit(X, y).predict(X), model.predict(X))


def test_the_output_of_steps_is_kept(tmp_path):
    model = make_pipeline(StandardScaler(), clone(NETWORK)).set_output(transform="pandas").fit(TABLE[["a", "b"]], Y)
    found = again(model, tmp_path)
    assert list(found[0].transform(TABLE[["a", "b"]]).columns) == ["a", "b"]


@pytest.mark.parametrize("multi_class", ["ovr", "shared"])
@pytest.mark.parametrize("labels", [np.array(["a", "b", "c"]), np.array([5, 7, 9])], ids=["text", "numbers"])
@pytest.mark.parametrize("balanced", [True, False])
def test_weights_of_classes(multi_class, labels, balanced, tmp_path):
    y = labels[np.digitize(X[:, 0], [-0.5, 0.5])]
    weight = "balanced" if balanced else {labels[0]: 3.0, labels[1]: 1.0, labels[2]: 0.5}
    model = DCONClassifier(2, gamma=0.1, multi_class=multi_class, class_weight=weight, tol=1e-2, random_state=0)
    found = again(model.fit(X, y), tmp_path)
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    for mine, theirs in zip(found.problems(X, y), model.problems(X, y), strict=True):
        np.testing.assert_array_equal(mine.sample_weight, theirs.sample_weight)
    np.testing.assert_array_equal(clone(found).fit(X, y).predict_proba(X), model.predict_proba(X))


def test_callback_and_checkpoint_stay_behind(tmp_path):
    watched = clone(NETWORK).set_params(callback=lambda epoch: None, checkpoint=tmp_path / "state")
    found = again(watched.fit(X, Y), tmp_path)
    assert (found.callback, found.checkpoint) == (None, None)
    np.testing.assert_array_equal(found.predict(X), watched.predict(X))
    (tmp_path / "state").unlink()
    scaled = TransformedTargetRegressor(watched, transformer=StandardScaler()).fit(X, Y)
    found = again(scaled, tmp_path)
    assert (found.regressor.callback, found.regressor.checkpoint) == (None, None)
    np.testing.assert_array_equal(found.predict(X), scaled.predict(X))


class TestWhatCannotBeSaved:
    def test_unknown_steps_are_named(self, tmp_path):
        model = make_pipeline(KNNImputer(), clone(NETWORK)).fit(X, Y)
        with pytest.raises(TypeError, match=r"the step sklearn\.impute\._knn\.KNNImputer \(Pipeline.*skops"):
            save_estimator(model, tmp_path / "model.json")
        with pytest.raises(TypeError, match="Ridge"):
            save_estimator(Ridge().fit(X, Y), tmp_path / "model.json")
        assert not (tmp_path / "model.json").exists()

    def test_functions_are_named(self, tmp_path):
        model = make_pipeline(FunctionTransformer(lambda X: X), clone(NETWORK)).fit(X, Y)
        with pytest.raises(TypeError, match=r"function.*func"):
            save_estimator(model, tmp_path / "model.json")

    def test_only_fitted_estimators(self, tmp_path):
        with pytest.raises(NotFittedError):
            save_estimator(DCONRegressor(), tmp_path / "model.json")
        with pytest.raises(TypeError, match="not a int"):
            save_estimator(3, tmp_path / "model.json")


class TestOtherFiles:
    def test_networks_for_predictions_become_estimators(self, tmp_path):
        model = clone(NETWORK).fit(X, Y)
        save_model(model, tmp_path / "model.json")
        np.testing.assert_array_equal(load_estimator(tmp_path / "model.json").predict(X), model.predict(X))

    def test_estimators_are_told(self, tmp_path):
        save_estimator(clone(NETWORK).fit(X, Y), tmp_path / "model.json")
        with pytest.raises(ValueError, match="load_estimator"):
            load_model(tmp_path / "model.json")

    def test_too_large(self, tmp_path):
        save_estimator(clone(NETWORK).fit(X, Y), tmp_path / "model.json")
        with pytest.raises(ValueError, match="more than 100 bytes"):
            load_estimator(tmp_path / "model.json", max_bytes=100)

    def test_versions(self, tmp_path):
        path = tmp_path / "model.json"
        save_estimator(clone(NETWORK).fit(X, Y), path)
        path.write_text(path.read_text().replace('"version": 3', '"version": 99'))
        with pytest.raises(ValueError, match="version 99, but this dconnet reads version 3"):
            load_estimator(path)


def changed(content, kind, change):
    """The content with a change in the fields of the first object of a kind."""
    content = json.loads(content)
    change(next(e for e in content["objects"] if e["kind"] == kind and "unfitted" not in e["fields"]))
    return json.dumps(content)


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "model.json"
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer([("n", numbers, ["a", "gap"]), ("l", OneHotEncoder(sparse_output=False), ["colour"])])
    save_estimator(make_pipeline(columns, clone(NETWORK)).fit(TABLE, Y), path)
    return path.read_text()


class TestTampering:
    @pytest.mark.parametrize(
        ("kind", "change", "fault"),
        [
            ("Network", lambda e: e.update(kind="os.system"), "no kind of object 'os.system'"),
            ("Network", lambda e: e.update(kind=3), "no kind of object 3"),
            ("Network", lambda e: e.update(more=1), "a kind and fields"),
            (
                "Network",
                lambda e: e["fields"].update(W={"array": {"dtype": "float64", "shape": [2**40], "data": ""}}),
                "shape",
            ),
            (
                "Network",
                lambda e: e["fields"].update(W={"array": {"dtype": "V8", "shape": [1], "data": ""}}),
                "no arrays of",
            ),
            (
                "Network",
                lambda e: e["fields"].update(W={"array": {"dtype": "float64", "shape": [1], "data": "*"}}),
                "faulty",
            ),
            ("Network", lambda e: e["fields"].update(W={"call": "x"}), "no kind of value 'call'"),
            ("Network", lambda e: e["fields"].update(W={"object": 999}), "there is no object 999"),
            ("Network", lambda e: e["fields"].update(W={"function": "load"}), "a function is faulty"),
            ("Network", lambda e: e["fields"].update(W={"a": 1, "b": 2}), "one member"),
            ("Network", lambda e: e["fields"].pop("b"), "a Network is faulty"),
            ("DCONRegressor", lambda e: e["fields"].update(predict=1), "no attribute 'predict'"),
            ("DCONRegressor", lambda e: e["fields"].update(tol=-1), "a DCONRegressor is faulty"),
            ("DCONRegressor", lambda e: e["fields"].update(n_features_in_=7), "a DCONRegressor is faulty"),
            ("DCONRegressor", lambda e: e["fields"].pop("solutions_"), "a DCONRegressor is faulty"),
            (
                "StandardScaler",
                lambda e: e["fields"].update(mean_={"array": {"dtype": "str", "shape": [0], "data": []}}),
                "mean_",
            ),
            ("StandardScaler", lambda e: e["fields"].update(n_features_in_=-1), "a StandardScaler is faulty"),
            ("OneHotEncoder", lambda e: e["fields"].update(categories_=[]), "needs its categories"),
            ("SimpleImputer", lambda e: e["fields"].update(statistics_=3), "every feature needs a statistic"),
            ("ColumnTransformer", lambda e: e["fields"].update(n_features_in_=2**60), "must be a positive number"),
            ("Pipeline", lambda e: e["fields"].update(params={"dict": [["memory", "x"]]}), "a folder of pickles"),
        ],
    )
    def test_changes_are_refused(self, content, kind, change, fault, tmp_path):
        path = tmp_path / "model.json"
        path.write_text(changed(content, kind, change))
        with pytest.raises(ValueError, match=fault):
            load_estimator(path)

    @pytest.mark.parametrize("seed", range(60))
    def test_a_random_change_is_refused_or_harmless(self, content, seed, tmp_path):
        rng = np.random.default_rng(seed)
        text = bytearray(content.encode())
        for place in rng.integers(0, len(text), size=3):
            text[place] = rng.integers(32, 127)
        path = tmp_path / "model.json"
        path.write_bytes(bytes(text))
        with suppress(ValueError):  # and nothing else
            load_estimator(path)

    def test_other_faults(self, content, tmp_path):
        path = tmp_path / "model.json"
        for text, fault in [
            ("[" * 100_000, "object|nested|JSON"),
            ("x", "JSON"),
            ("{}", "no entry"),
            (content.replace('"objects": [', '"objects": [], "objects": ['), "two members of the same name"),
            (json.dumps(json.loads(content) | {"objects": []}), "no estimator"),
        ]:
            path.write_text(text)
            with pytest.raises(ValueError, match=fault):
                load_estimator(path)
