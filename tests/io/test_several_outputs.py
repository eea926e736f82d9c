"""Model files of networks with several outputs."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from dconnet import AutoDCONRegressor, DCONClassifier, DCONRegressor
from dconnet.cli import app
from dconnet.io.codec import decode, encode
from dconnet.io.model_file import SavedModel, Scaling, Score, load_model, save_model


@pytest.fixture(scope="module")
def regressor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    Y = np.column_stack([np.abs(X[:, 0]), 100.0 * X[:, 1] + 7.0])
    return X, Y, DCONRegressor(4, gamma=0.1, random_state=0, tol=1e-3).fit(X, Y)


def test_a_model_file_predicts_as_the_estimator(regressor, tmp_path):
    X, Y, model = regressor
    save_model(model, tmp_path / "model.json", target_name=["height", "width"])
    saved = load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(saved.predict(X), model.predict(X))
    assert saved.target_names == ("height", "width")
    np.testing.assert_array_equal(saved.trainings[0].output_scale, model.target_scale_)
    np.testing.assert_array_equal(saved.networks[0].alpha, model.network_.alpha)
    np.testing.assert_array_equal(saved.networks[0].intercept, model.network_.intercept)
    assert json.loads((tmp_path / "model.json").read_text())["version"] == 4
    score = Score.of(saved, X, Y)
    assert score.r2 == pytest.approx(model.score(X, Y))
    assert score.mse == pytest.approx(np.mean((Y - model.predict(X)) ** 2))


def test_targets_may_be_scaled_each_by_itself(regressor):
    X, _, model = regressor
    scaling = Scaling([1.0, -2.0], [10.0, 0.5])
    saved = decode(encode(SavedModel.from_estimator(model, target_scaling=scaling)).encode())
    assert saved.target_names == ("y0", "y1")
    np.testing.assert_allclose(saved.predict(X), [1.0, -2.0] + model.predict(X) * [10.0, 0.5])
    np.testing.assert_allclose(saved.to_chain()(X), saved.predict(X))


def test_the_command_line_writes_a_column_for_each_target(regressor, tmp_path):
    X, _, model = regressor
    save_model(model, tmp_path / "model.json", target_name=["height", "width"])
    np.savetxt(tmp_path / "data.csv", X, delimiter=",", header="x0,x1", comments="", fmt="%.17g")
    runner = CliRunner()
    told = runner.invoke(app, ["predict", str(tmp_path / "model.json"), str(tmp_path / "data.csv")])
    lines = told.stdout.splitlines()
    assert lines[0] == "predicted_height,predicted_width"
    np.testing.assert_allclose(np.loadtxt(lines[1:], delimiter=","), model.predict(X))
    told = runner.invoke(app, ["inspect", str(tmp_path / "model.json")])
    assert told.exit_code == 0
    assert "4 neurons" in told.stdout


def test_classes_may_share_a_network():
    X, y = load_iris(return_X_y=True)
    options = {"gamma": 0.1, "multi_class": "shared", "random_state": 0, "tol": 1e-2}
    model = DCONClassifier(4, **options).fit(X, y)
    saved = decode(encode(SavedModel.from_estimator(model)).encode())
    assert saved.targets.shared
    np.testing.assert_array_equal(saved.outputs(X), model.decision_function(X))
    np.testing.assert_array_equal(saved.predict(X), model.predict(X))
    assert saved.settings["multi_class"] == "shared"


def test_networks_with_one_output_have_the_files_that_they_had(regressor):
    X, Y, _ = regressor
    model = DCONRegressor(3, gamma=0.1, random_state=0, tol=1e-2).fit(X, Y[:, 0])
    entries = json.loads(encode(SavedModel.from_estimator(model)))
    assert entries["version"] == 1
    assert "names" not in entries["target"]
    assert "output_scale" not in entries["trainings"][0]
    assert isinstance(entries["networks"][0]["alpha"][0], float)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda e: e["networks"][0]["alpha"].__setitem__(0, [1.0]), "differ in their number of outputs"),
        (lambda e: e["networks"][0].update(alpha=[[]] * 4), "or have none"),
        (lambda e: e["networks"][0].update(alpha=[1.0, [1.0], 1.0, 1.0]), "differ in their number of outputs"),
        (lambda e: e["networks"][0].update(intercept=[1.0]), "intercept must have 2 entries"),
        (lambda e: e["target"].update(names=["a"]), "names of 2 targets"),
        (lambda e: e["target"].update(names=["a", "a"]), "must differ"),
        (lambda e: e["target"].update(mean=[0.0], scale=[1.0]), "1 targets are scaled"),
        (lambda e: e["trainings"][0].update(output_scale=[0.0, 1.0]), "> 0"),
        (lambda e: e["scores"].update(test={"rows": 3, "each": [{"mse": 1.0}]}), "1 targets are scored"),
        (lambda e: e["scores"].update(test={"rows": 3, "each": [{"mse": 1.0}, {"rows": 3}]}), "rows"),
    ],
)
def test_faulty_files_are_refused(regressor, change, fault):
    entries = json.loads(encode(SavedModel.from_estimator(regressor[2])))
    change(entries)
    with pytest.raises(ValueError, match=fault):
        decode(json.dumps(entries).encode())


def test_what_is_for_one_output_says_so(regressor, tmp_path):
    X = regressor[0]
    one = DCONRegressor(2, gamma=0.1, tol=1e-1, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="one target has one name"):
        SavedModel.from_estimator(one, target_name=["a", "b"])
    with pytest.raises(ValueError, match="has one target"):
        save_model(AutoDCONRegressor(), tmp_path / "model.json", target_name=["a", "b"])
