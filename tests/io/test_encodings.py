"""The preparation of tables in model files: it comes back to the bit, and faults in it are told."""

import json

import numpy as np
import pandas as pd
import pytest

from dconnet import DCONClassifier, DCONRegressor, TableEncoder, optimise
from dconnet.encoding.columns import raw_columns
from dconnet.io.encodings import EncodingEntry, encoding_entries
from dconnet.io.model_file import SavedModel, load_model, save_model

RNG = np.random.default_rng(0)
N = 150
TABLE = pd.DataFrame(
    {
        "size": RNG.normal(size=N),
        "gaps": np.where(np.arange(N) % 9 == 0, np.nan, RNG.normal(size=N)),
        "colour": np.array(["red", "green", None])[np.arange(N) % 3],
        "city": [f"city {k:02}" for k in RNG.integers(0, 20, N)],
        "sold": pd.date_range("2024-01-01", periods=N, freq="7h"),
        "same": 1.0,
    }
)
NUMBERS = TABLE["size"].to_numpy() + (TABLE["colour"] == "red")
CLASSES = np.array(["a", "b", "c"])[np.digitize(NUMBERS, [0.0, 1.0])]


def fitted(n_bins, y):
    encoder = TableEncoder(n_bins, random_state=0)
    kind = DCONRegressor if y.dtype.kind == "f" else DCONClassifier
    network = kind(2, gamma=0.1, tol=1e-2, random_state=0).fit(encoder.fit_transform(TABLE, y), y)
    return encoder, network


@pytest.fixture(params=[(1, NUMBERS), (4, NUMBERS), (3, CLASSES)], ids=["linear", "ramps", "classes"])
def saved(request, tmp_path):
    encoder, network = fitted(*request.param)
    SavedModel.from_estimator(network, encoding=encoder.encoding_).save(tmp_path / "model.json")
    return encoder, network, tmp_path / "model.json"


def test_predictions_are_the_same_to_the_last_bit(saved):
    encoder, network, path = saved
    model = load_model(path)
    assert json.loads(path.read_text())["version"] == 3
    new = TABLE.assign(colour="violet", city=["city 01", "elsewhere"] * (N // 2))
    for table in (TABLE, new, TABLE[TABLE.columns[::-1]]):
        expected = encoder.transform(table[TABLE.columns])
        np.testing.assert_array_equal(model.inputs(table), expected)
        np.testing.assert_array_equal(model.predict(table), network.predict(expected))
    assert model.input_names == tuple(encoder.get_feature_names_out())
    assert model.feature_names == tuple(TABLE.columns)


def test_exports_do_not_pass_over_the_preparation():
    """With as many columns as the encoder makes of them, the numbers would be wrong, and nothing would tell."""
    table = TABLE[["size"]].rename(columns={"size": "x0"}) * 100.0
    encoder = TableEncoder().fit(table)
    network = DCONRegressor(2, gamma=0.1, tol=1e-2, random_state=0).fit(encoder.transform(table), NUMBERS)
    model = SavedModel.from_estimator(network, encoding=encoder.encoding_)
    with pytest.raises(ValueError, match="of_inputs"):
        model.to_python()
    with pytest.raises(ValueError, match="of_inputs"):
        optimise(model, [(0, 1)])
    np.testing.assert_allclose(model.of_inputs.to_chain()(model.inputs(table))[:, 0], model.predict(table), rtol=1e-12)


def test_the_entries_alone_are_enough(saved):
    """As the documentation says how: with plain Python, from the fields of the table."""
    encoder, _, path = saved
    entries = json.loads(path.read_text())["encoding"]
    fields = [values.tolist() for values in encoder.encoding_.schema.read(raw_columns(TABLE)).values]
    columns = []
    for feature in entries["features"]:
        values = fields[feature["field"]]
        if "means" in feature:
            values = [feature["means"][-1 if np.isnan(v) else int(v)] for v in values]
        if feature["kind"] == "levels":
            columns += [[float(v == level) for v in values] for level in range(feature["columns"])]
            continue
        filled = [feature["fill"] if np.isnan(v) else v for v in values]
        if feature["kind"] == "linear":
            columns.append([(v - feature["center"]) / feature["scale"] for v in filled])
            continue
        edges = feature["edges"]
        last = len(edges) - 2
        for j in range(last + 1):
            low = -np.inf if j == 0 else 0.0
            high = np.inf if j == last else 1.0
            columns.append([min(max((v - edges[j]) / (edges[j + 1] - edges[j]), low), high) for v in filled])
    expected = (np.array(columns).T - entries["mean"]) / entries["scale"]
    np.testing.assert_allclose(encoder.transform(TABLE), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda e: e["columns"].pop(), "5 columns are coded, but there are 6"),
        (lambda e: e["columns"].append({"kind": "picture"}), "Invalid value 'picture'"),
        (lambda e: e["features"][0].update(field=99), "a field is missing"),
        (lambda e: e["features"][0].update(field=-1), "Expected `int` >= 0"),
        (lambda e: e["features"][0].update(scale=0.0), "Expected `float` > 0.0"),
        (lambda e: e["features"][0].update(kind="levels"), "Object contains unknown field"),
        (lambda e: e["features"].append({"kind": "levels", "field": 0, "columns": 1}), "levels need a category"),
        (lambda e: e["features"].append({"kind": "levels", "field": 3, "columns": 2**62}), "need as many means"),
        (lambda e: e["mean"].pop(), "need as many means and scales"),
        (lambda e: e["mean"].__setitem__(0, 1e200), "Expected `float` <= 1e"),
        (lambda e: e["columns"][3]["levels"].pop(), "each needs its count"),
        (lambda e: e["columns"][4].update(parts=["century"]), "is not known"),
        (lambda e: e["columns"][4].update(weekdays=[9]), "the weekdays of 'sold'"),
    ],
)
def test_faults_are_told(tmp_path, change, fault):
    encoder, network = fitted(1, NUMBERS)
    path = tmp_path / "model.json"
    SavedModel.from_estimator(network, encoding=encoder.encoding_).save(path)
    content = json.loads(path.read_text())
    change(content["encoding"])
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=fault):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda f: f["means"].pop(), "every level of 'city' needs its means"),
        (lambda f: f.update(field=0), "every level of 'size' needs its means"),
        (lambda f: f.update(edges=f["edges"][::-1]), "ascending"),
    ],
)
def test_faults_in_means_are_told(tmp_path, change, fault):
    encoder, network = fitted(4, NUMBERS)
    path = tmp_path / "model.json"
    SavedModel.from_estimator(network, encoding=encoder.encoding_).save(path)
    content = json.loads(path.read_text())
    change(next(feature for feature in content["encoding"]["features"] if "means" in feature))
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=fault):
        load_model(path)


def test_files_without_a_preparation_stay_as_they_were(tmp_path):
    X = RNG.normal(size=(30, 2))
    save_model(DCONRegressor(2, gamma=0.1, tol=1e-2, random_state=0).fit(X, X[:, 0]), tmp_path / "model.json")
    content = json.loads((tmp_path / "model.json").read_text())
    assert content["version"] == 1
    assert "encoding" not in content
    model = load_model(tmp_path / "model.json")
    assert model.of_inputs is model
    assert model.input_names == ("x0", "x1")
    assert model.column_kinds == ("number", "number")


def test_sizes_must_agree():
    encoder, network = fitted(1, NUMBERS)
    with pytest.raises(ValueError, match="6 columns are coded, but there are 2 features"):
        SavedModel.from_estimator(network, feature_names=["a", "b"], encoding=encoder.encoding_)


def test_entries_are_those_of_the_schema():
    entries = encoding_entries(TableEncoder().fit(TABLE).encoding_)
    assert set(entries) == set(EncodingEntry.__struct_fields__)
