"""Model files: the loaded estimator predicts to the same bits; anything else than a valid file is refused."""

import base64
import copy
import dataclasses
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dconnet
from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    PaperAlgorithm,
    TableEncoder,
)
from dconnet.ensemble.trees import Trees

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
N_ROWS = 120
X = rng.standard_normal((N_ROWS, 3))
y = np.abs(X[:, 0]) - X[:, 1]
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [0.0, 1.0])]
TABLE = pd.DataFrame(
    {
        "size": np.where(X[:, 2] > 1.0, np.nan, X[:, 0]),
        "colour": np.where(X[:, 1] > 0.0, "red", "blue"),
        "shop": [f"shop {j % 20}" for j in range(N_ROWS)],
        "sold": pd.date_range("2026-01-01", periods=N_ROWS),
    }
)
SHORT = {"max_epochs": 3, "random_state": 0}
WEIGHTS = {"low": 1.0, "middle": 2.0, "high": 3.0}
ESTIMATORS = {
    "regressor": lambda: DCONRegressor(3, gamma=1e-3, **SHORT).fit(X, y),
    "regressor that chooses gamma": lambda: DCONRegressor(3, **SHORT).fit(pd.DataFrame(X, columns=list("abc")), y),
    "regressor of two targets": lambda: DCONRegressor(3, **SHORT).fit(X, pd.DataFrame({"p": y, "q": -y})),
    "regressor of Algorithm 1": lambda: DCONRegressor(3, algorithm=PaperAlgorithm("net", restart=True), **SHORT).fit(
        X, y
    ),
    "growing regressor": lambda: DCONRegressor("auto", gamma=0.01, **SHORT).fit(X, y),
    "classifier": lambda: DCONClassifier(3, class_weight=WEIGHTS, **SHORT).fit(X, LABELS),
    "classifier of one network": lambda: DCONClassifier(3, multi_class="shared", **SHORT).fit(X, LABELS.astype(object)),
    "binary classifier": lambda: DCONClassifier(3, gamma=1e-2, **SHORT).fit(X, y > 0.0),
    "layer-wise regressor": lambda: LayerwiseDCONRegressor((3, 2), skip=True, **SHORT).fit(X, y),
    "layer-wise classifier": lambda: LayerwiseDCONClassifier((3, 2), **SHORT).fit(X, np.digitize(y, [0.0, 1.0])),
    "auto regressor": lambda: AutoDCONRegressor(random_state=0).fit(TABLE, y),
    "auto classifier": lambda: AutoDCONClassifier(random_state=0).fit(TABLE, LABELS),
    "table encoder": lambda: TableEncoder(4, random_state=0).fit(TABLE, y),
    "pipeline": lambda: make_pipeline(TableEncoder(random_state=0), DCONRegressor(3, **SHORT)).fit(TABLE, y),
}


def data_for(estimator):
    if getattr(estimator, "n_features_in_", 4) == TABLE.shape[1]:
        return TABLE
    names = getattr(estimator, "feature_names_in_", None)
    return X if names is None else pd.DataFrame(X, columns=names)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_loaded_estimator_equals_the_saved_one(kind, tmp_path):
    estimator = ESTIMATORS[kind]()
    dconnet.save(estimator, tmp_path / "model.json", scores={"test": {"r2": 0.5}}, description="a test")
    loaded = dconnet.load(tmp_path / "model.json")
    assert type(loaded) is type(estimator)
    for method in ("predict", "predict_proba", "predict_interval", "transform", "hidden"):
        if hasattr(estimator, method):
            expected, found = (getattr(each, method)(data_for(estimator)) for each in (estimator, loaded))
            np.testing.assert_array_equal(found, expected)
    own = np.random.default_rng(1).standard_normal((5000, 3))
    if data_for(estimator) is not TABLE and not hasattr(estimator, "feature_names_in_"):
        for form in (np.asfortranarray(own), pd.DataFrame(own), np.repeat(own, 2, axis=1)[:, ::2]):
            np.testing.assert_array_equal(loaded.predict(form), estimator.predict(own))
    pairs = zip(*(getattr(each, "steps", [("", each)]) for each in (estimator, loaded)), strict=True)
    for (_, own), (_, other) in pairs:
        not_stored = {"_table", "metadata_"}  # the training data, and what the file adds
        assert set(vars(own)) - not_stored == set(vars(other)) - not_stored
        assert own.get_params() == other.get_params()
    assert loaded.metadata_.scores == {"test": {"r2": 0.5}}
    assert loaded.metadata_.description == "a test"
    dconnet.save(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


@pytest.mark.parametrize("kind", ["regressor that chooses gamma", "classifier", "layer-wise regressor"])
def test_a_loaded_estimator_can_be_certified_and_continued(kind, tmp_path):
    model = ESTIMATORS[kind]()
    dconnet.save(model, tmp_path / "model.json")
    loaded = dconnet.load(tmp_path / "model.json")
    data, target = data_for(model), LABELS if kind == "classifier" else y
    for own, other in zip(model.problems(data, target), loaded.problems(data, target), strict=True):
        network = model.solutions_[0].network
        assert own.objective(network) == other.objective(network)
    for each in (model, loaded):
        each.set_params(warm_start=True).fit(data, target)
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))


def test_names_come_from_the_tables_of_fit(tmp_path):
    model = DCONRegressor(2, gamma=0.1, max_epochs=1).fit(
        pd.DataFrame(X, columns=list("abc")), pd.DataFrame({"p": y, "q": -y})
    )
    dconnet.save(model, tmp_path / "model.json")
    metadata = dconnet.load(tmp_path / "model.json").metadata_
    assert (metadata.feature_names, metadata.target_names) == (("a", "b", "c"), ("p", "q"))
    with pytest.raises(ValueError, match="3 features, but 2 feature names"):
        dconnet.save(model, tmp_path / "model.json", feature_names=["a", "b"])


def test_parameters_that_a_file_cannot_hold_become_their_defaults(tmp_path):
    model = DCONRegressor(
        2,
        gamma=0.1,
        max_epochs=1,
        callback=lambda epoch: False,
        checkpoint=tmp_path / "state.npz",
        random_state=np.random.RandomState(0),
    ).fit(X, y)
    dconnet.save(model, tmp_path / "model.json")
    loaded = dconnet.load(tmp_path / "model.json")
    assert loaded.callback is loaded.checkpoint is loaded.random_state is None
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_what_cannot_be_saved_is_refused_and_leaves_the_file_alone(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("precious")
    with pytest.raises(ValueError, match=r"'standardscaler'.*skops or joblib"):
        dconnet.save(make_pipeline(StandardScaler(), DCONRegressor(2, max_epochs=1)).fit(X, y), path)
    with pytest.raises(ValueError, match="StandardScaler"):
        dconnet.save(StandardScaler().fit(X), path)
    with pytest.raises(NotFittedError):
        dconnet.save(DCONRegressor(), path)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


# --- invalid files ---


@pytest.fixture(scope="module")
def small():
    """Return the JSON of small models, by kind."""
    short = {"gamma": 0.1, "max_epochs": 1, "random_state": 0}
    table = TABLE[["size", "colour", "sold"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "regressor": DCONRegressor(2, **short).fit(X, y),
            "classifier": DCONClassifier(2, class_weight="balanced", **short).fit(X, LABELS),
            "pipeline": make_pipeline(TableEncoder(3), DCONRegressor(2, **short)).fit(table, y),
            "auto": AutoDCONRegressor(max_seconds=1e-9, random_state=0).fit(table, y),
        }


def as_json(model, path):
    dconnet.save(model, path)
    return json.loads(path.read_text())


def refuse(content, path, message=""):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ValueError, match=f"(?s)not a valid model file: .*{message}"):
        dconnet.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ""),
        ("{", ""),
        ("[]", ""),
        ("{}", "format"),
        (b"\xff\xfe{}", ""),
        ('{"format": "other", "version": 1}', "its format is 'other'"),
        ('{"format": "dconnet-model", "version": 99}', "version 99"),
        ("[" * 100_000, ""),
    ],
)
def test_other_files_are_refused(content, message, tmp_path):
    refuse(content, tmp_path / "model.json", message)


def numbers(*values):
    """Return an array entry with a block of its own, whose place `change` fills in."""
    return {"array": {"dtype": "float64", "shape": [len(values)], "blocks": [np.array(values, float).tobytes()]}}


def labels(*items):
    return {"array": {"dtype": "object", "shape": [len(items)], "items": list(items)}}


def parameters(**values):
    return {"dict": [list(pair) for pair in values.items()]}


WEIGHTS_OF_2 = {"dtype": "float64", "shape": [2, 3], "blocks": [0]}
CHANGES = [
    ("regressor", "Network", "evil", 1, "no field 'evil'"),
    ("regressor", "Network", "W", {"array": WEIGHTS_OF_2 | {"shape": [-1, -6]}}, "cannot have the shape"),
    ("regressor", "Network", "W", {"array": WEIGHTS_OF_2 | {"shape": [2, 4]}}, "bytes"),
    ("regressor", "Network", "W", {"array": WEIGHTS_OF_2 | {"blocks": [10**6]}}, "block of an array"),
    ("regressor", "Network", "W", {"array": WEIGHTS_OF_2 | {"dtype": "object_"}}, "arrays of 'object_'"),
    ("regressor", "Network", "alpha", numbers(1.0), "must agree"),
    ("regressor", "Network", "alpha", numbers(1.0, np.nan), "invalid value array"),
    ("regressor", "Network", "intercept", 10**400, "invalid value 1000"),
    ("regressor", "Solution", "network", {"object": 999}, "'object' 999"),
    ("regressor", "Solution", "network", {"object": 0, "tuple": []}, "exactly one type"),
    ("regressor", "Solution", "status", {"enum": ["Status", "__class__"]}, "'enum'"),
    ("regressor", "DCONRegressor", "parameters", parameters(x=1), "no parameter 'x'"),
    ("regressor", "DCONRegressor", "parameters", parameters(n_hidden=-1), "'n_hidden' parameter"),
    ("regressor", "DCONRegressor", "n_features_in_", 4, "do not match|4 features"),
    ("regressor", "DCONRegressor", "n_features_in_", 10**12, "n_features_in_"),
    ("regressor", "DCONRegressor", "feature_names_in_", labels(10**400, "b", "c"), "feature_names_in_"),
    ("regressor", "DCONRegressor", "feature_names_in_", [["a"], ["b"], ["c"]], "feature_names_in_"),
    ("regressor", "DCONRegressor", "feature_names_in_", labels("a"), "every feature needs a name"),
    ("classifier", "Targets", "classes", labels("a", "a", "b"), "different labels"),
    ("classifier", "Targets", "classes", labels("a", "b"), "3 outputs for 1 columns"),
    ("pipeline", "Pipeline", "steps", {"tuple": [{"tuple": ["encoder", 5]}]}, "is no estimator"),
    ("pipeline", "TableEncoding", "scale", numbers(), "positive scale"),
    ("pipeline", "Coder", "plain", {"tuple": [99]}, "coded field does not exist"),
    ("pipeline", "CategoryColumn", "levels", {"tuple": ["a", "a"]}, "must differ"),
    ("pipeline", "DateColumn", "parts", {"tuple": ["century"]}, "are invalid"),
    ("pipeline", "Ramps", "edges", numbers(1.0, 1.0), "ascending"),
    ("auto", "Ensemble", "weights", numbers(*range(99)), "99 weights for"),
    ("auto", "Intervals", "scores", numbers(2.0, 1.0), "ascending"),
    ("auto", "Intervals", "low", 1e6, "within the limits"),
    ("auto", "Intervals", "exponent", 2.0, "invalid scale"),
]


@pytest.mark.parametrize(("model", "kind", "field", "value", "message"), CHANGES)
def test_changed_objects_are_refused(model, kind, field, value, message, small, tmp_path):
    file = as_json(small[model], tmp_path / "model.json")
    value = copy.deepcopy(value)
    if (
        isinstance(value, dict)
        and "blocks" in value.get("array", {})
        and isinstance(value["array"]["blocks"][0], bytes)
    ):
        file["blocks"].append(base64.b64encode(value["array"]["blocks"][0]).decode())
        value["array"]["blocks"] = [len(file["blocks"]) - 1]
    next(entry["fields"] for entry in file["objects"] if entry["type"] == kind)[field] = value
    refuse(json.dumps(file), tmp_path / "model.json", message)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("children", [[1, 2], [1, 1], [2, 3]], "invalid children"),
        ("children", [[1, 0], [1, 1], [2, 2]], "invalid children"),  # rows that go right would stay for ever
        ("children", [[0, 1], [1, 1], [2, 2]], "invalid children"),
        ("children", [[1, 2], [0, 0], [2, 2]], "invalid children"),
        ("columns", [8, 0, 0], "node that does not exist"),
        ("columns", [-1, 0, 0], "node that does not exist"),
        ("roots", [[3]], "node that does not exist"),
        ("roots", [[-1]], "node that does not exist"),
        ("values", [0.0, 1.0], "do not match"),
        ("columns", [7, 0, 0], None),
    ],
)
def test_trees_with_invalid_nodes_are_refused(part, value, message, tmp_path):
    arrays = {"columns": [0, 0, 0], "children": [[1, 2], [1, 1], [2, 2]], "roots": [[0]]}
    numbers = {"thresholds": [0.5, 0.0, 0.0], "values": [0.0, 1.0, 2.0], "baseline": [0.0]}
    (numbers if part in numbers else arrays)[part] = value
    arrays = {name: np.array(own, dtype=np.int32) for name, own in arrays.items()}
    trees = Trees(**arrays, **{name: np.array(own) for name, own in numbers.items()})
    model = AutoDCONRegressor(max_seconds=1e-9, random_state=0).fit(X, y)  # with inputs for three fields and y
    model._intervals = dataclasses.replace(model._intervals, trees=(trees,), uses_fields=True)
    dconnet.save(model, tmp_path / "model.json")
    if message is None:
        dconnet.load(tmp_path / "model.json").predict_interval(X)
    else:
        refuse((tmp_path / "model.json").read_text(), tmp_path / "model.json", message)


def test_changed_files_are_refused(small, tmp_path):
    path = tmp_path / "model.json"
    file = as_json(small["regressor"], path)
    repeated = {"array": {"dtype": "float64", "shape": [10**6, 6], "blocks": [0] * 10**6}}
    *rest, estimator = file["objects"]
    for change, message in (
        ({"objects": []}, "there are no objects"),
        ({"objects": rest}, "not an estimator"),
        ({"objects": [*rest, estimator | {"type": "Popen"}]}, "no class 'Popen'"),
        ({"objects": [*rest, estimator | {"fields": estimator["fields"] | {"gammas_": repeated}}]}, "bytes|larger"),
        ({"objects": [*rest, estimator | {"fields": {}}]}, "lacks the field"),
        ({"metadata": file["metadata"] | {"feature_names": ["a"]}}, "3 features, but 1"),
        ({"metadata": file["metadata"] | {"feature_names": [1, 2, 3]}}, "Expected `str`"),
        ({"blocks": ["no base64"]}, ""),
        ({"evil": 1}, "evil"),
    ):
        refuse(json.dumps(file | change), path, message)
    refuse(json.dumps(file).replace('"n_targets": 1', '"n_targets": 1, "n_targets": 1'), path, "twice")
    file = as_json(small["classifier"], path)
    del file["objects"][-1]["fields"]["calibration_"]
    refuse(json.dumps(file), path, "lacks the field 'calibration_'")


def mutations(node):
    """Yield functions that change one value of a JSON document, and return a function that restores the value."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        for other in (None, -1, 10**9, 1.5, "text", [], {}, {"tuple": []}):

            def change(key=key, value=value, other=other):
                node[key] = other
                return lambda: node.__setitem__(key, value)

            yield change
        yield from mutations(value)


@pytest.mark.parametrize("kind", ["regressor", "classifier", "pipeline", "auto"])
def test_every_mutation_is_refused_or_loads_a_model_that_predicts(kind, small, tmp_path):
    file = as_json(small[kind], tmp_path / "model.json")
    data = TABLE[["size", "colour", "sold"]].to_numpy(dtype=object) if kind in ("pipeline", "auto") else X
    every = list(mutations({"objects": file["objects"], "metadata": file["metadata"]}))
    n_refused = 0
    for number in rng.permutation(len(every))[:300]:
        restore = every[number]()
        (tmp_path / "model.json").write_text(json.dumps(file))
        restore()
        try:
            loaded = dconnet.load(tmp_path / "model.json")
        except ValueError:
            n_refused += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert len(loaded.predict(data)) == len(data)
    assert n_refused > 150


def test_a_large_file_is_read_back(tmp_path):
    """A file of 51.6 MB was refused by a limit on the size."""
    names = [f"column {j}" for j in range(1000)]
    wide = np.random.default_rng(0).standard_normal((20, len(names)))
    model = DCONRegressor(1500, gamma=0.1, max_epochs=1, max_evaluations=1).fit(wide, wide[:, 0])
    dconnet.save(model, tmp_path / "model.json", feature_names=names)
    assert (tmp_path / "model.json").stat().st_size > 10_000_000
    np.testing.assert_array_equal(dconnet.load(tmp_path / "model.json").predict(wide), model.predict(wide))
