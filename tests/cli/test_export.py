"""``dconnet export``: from a model file to something that runs elsewhere."""

import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from dconnet import AutoDCONRegressor, DCONClassifier, DCONRegressor, TableEncoder
from dconnet.cli import app
from dconnet.io.model_file import SavedModel, Scaling, load_model, save_model

X = np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model():
    """A network of scaled columns."""
    scaling = Scaling([3.0, -40.0], [0.5, 7.0])
    estimator = DCONRegressor(3, gamma=0.1, tol=0.1, random_state=0).fit(scaling.apply(X), np.abs(X[:, 0]))
    save_model(
        estimator,
        "model.json",
        feature_names=["age", "*/ \n"],
        feature_scaling=scaling,
        target_scaling=Scaling([10.0], [2.0]),
    )
    return load_model("model.json")


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["export", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def refusal(*arguments):
    result = run(*arguments, code=2)
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").rstrip("\n")


def test_python(model, in_folder):
    run("model.json", "network.py", "--name", "weight")
    module = {}
    exec((in_folder / "network.py").read_text(), module)
    assert module["FEATURES"] == ("age", "*/ \n")
    found = [module["weight"](row) for row in X.tolist()]
    np.testing.assert_allclose(found, model.predict(X), rtol=1e-12)


def test_c(model, in_folder):
    run("model.json", "network.h", "--dtype", "float32")
    assert (in_folder / "network.h").read_text() == model.to_c(precision="float")
    run("model.json", "network.txt", "--to", "c")
    assert (in_folder / "network.txt").read_text() == model.to_c()


def test_onnx(model):
    runtime = pytest.importorskip("onnxruntime", reason="it runs what was exported")
    pytest.importorskip("onnx", reason="the export to ONNX needs it")
    run("model.json", "network.onnx")
    (found,) = runtime.InferenceSession("network.onnx", providers=["CPUExecutionProvider"]).run(None, {"X": X})
    np.testing.assert_allclose(found[:, 0], model.predict(X), rtol=1e-12)


def test_torch(model):
    torch = pytest.importorskip("torch", reason="the export to PyTorch needs it")
    run("model.json", "network.pt2")
    found = torch.export.load("network.pt2").module()(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(found[:, 0], model.predict(X), rtol=1e-12)


def test_keras(model, monkeypatch, in_folder):
    monkeypatch.setattr("dconnet.export.keras.keras_file", lambda chain, dtype: f"{chain.widths} {dtype}".encode())
    run("model.json", "network.keras")
    assert (in_folder / "network.keras").read_text() == "(3,) float64"


def test_an_existing_file_is_kept(model, in_folder):
    (in_folder / "network.c").write_text("mine")
    assert refusal("model.json", "network.c") == (
        "network.c exists already. Name another file, or replace it with --force."
    )
    run("model.json", "network.c", "--force")
    assert (in_folder / "network.c").read_text() == model.to_c()
    assert sorted(path.name for path in in_folder.iterdir()) == ["model.json", "network.c"]


def test_standard_output(model):
    command = [sys.executable, "-m", "dconnet", "export", "model.json", "/dev/stdout", "--to", "python"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == model.to_python()


def test_mistakes(model):
    assert refusal("model.json", "network.txt") == (
        "The ending of network.txt does not tell what to write: name it with --to (onnx, torch, keras, c, python)."
    )
    assert "--name is about a function" in refusal("model.json", "network.onnx", "--name", "f")
    assert "double precision" in refusal("model.json", "network.py", "--dtype", "float32")
    assert "name of a function in C" in refusal("model.json", "network.c", "--name", "double")
    assert "Leave --probabilities out" in refusal("model.json", "network.c", "--probabilities")


def test_classifiers(in_folder):
    save_model(DCONClassifier(2, gamma=0.1, tol=0.1, random_state=0).fit(X, X[:, 0] > 0), "classes.json")
    run("classes.json", "network.c")
    assert (in_folder / "network.c").read_text() == load_model("classes.json").to_c()


def test_tables_are_prepared_elsewhere(in_folder):
    table = np.array([["red", 1.0], ["blue", None], ["red", 3.0], ["green", 2.0]] * 3, dtype=object)
    encoder = TableEncoder()
    estimator = DCONRegressor(3, gamma=0.1, tol=0.1, random_state=0).fit(encoder.fit_transform(table), np.arange(12.0))
    of_table = SavedModel.from_estimator(estimator, encoding=encoder.encoding_, feature_names=["colour", "size"])
    of_table.save("table.json")
    note = run("table.json", "network.py").stderr
    assert note.startswith("note: The preparation of the table is not exported")
    assert f"{len(of_table.input_names)} numbers for a row of 2 columns" in note
    module = {}
    exec((in_folder / "network.py").read_text(), module)
    assert module["FEATURES"] == of_table.input_names
    found = [module["predict"](row) for row in of_table.inputs(table).tolist()]
    np.testing.assert_allclose(found, of_table.predict(table), rtol=1e-12)


def test_ensembles_are_refused():
    save_model(AutoDCONRegressor(max_seconds=1.0, random_state=0).fit(X, X[:, 0]), "ensemble.json")
    message = refusal("ensemble.json", "network.onnx")
    assert "dconnet fit --single" in message
    assert "distil" in message
