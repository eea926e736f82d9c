"""One network for several targets, from the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dconnet import DCONRegressor
from dconnet.cli import app
from dconnet.io.model_file import load_model

RNG = np.random.default_rng(0)
N = 80
INPUTS = pd.DataFrame(RNG.normal(size=(N, 3)).round(3), columns=["a", "b", "c"])
HEIGHT = 1.7 + 0.1 * INPUTS["a"].abs() + 0.05 * INPUTS["b"]
WEIGHT = 70.0 + 9.0 * INPUTS["a"].abs() - 4.0 * INPUTS["c"]
TABLE = INPUTS.assign(height=HEIGHT, weight=WEIGHT)
CITY = np.array([f"city {k:02}" for k in RNG.integers(0, 15, N)])
BOTH = ("--target", "height", "--target", "weight")
QUICK = ("--single", "--n-hidden", 4, "--gamma", 0.01, "--tol", 1e-2)


def run(*arguments, code=0):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == code, found.output
    return found.stderr if code else found.stdout


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("table.csv", index=False)


def test_one_network_learns_all_targets():
    text = run("fit", "table.csv", *BOTH, *QUICK, "--test-fraction", 0)
    assert text.startswith("table.csv: 80 rows, 3 features, regression of 2 targets\n")
    model = load_model("model.json")
    assert model.target_names == ("height", "weight")
    assert model.feature_names == ("a", "b", "c")
    X, Y = (INPUTS - INPUTS.mean()) / INPUTS.std(ddof=0), TABLE[["height", "weight"]].to_numpy()
    scaled = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    expected = DCONRegressor(4, gamma=0.01, tol=1e-2, scale=False, random_state=0).fit(X.to_numpy(), scaled)
    found = model.predict(INPUTS)
    np.testing.assert_allclose(found, Y.mean(axis=0) + Y.std(axis=0) * expected.predict(X.to_numpy()), rtol=1e-9)
    errors = np.mean((Y - found) ** 2, axis=0)
    for name, score, error in zip(("height", "weight"), model.scores["train"].each, errors, strict=True):
        assert score.mse == pytest.approx(error)
        assert f"\n  {name}: MSE {error:.6g}, R2 {score.r2:.6g}\n" in text
    assert model.scores["train"].r2 == pytest.approx(np.mean([score.r2 for score in model.scores["train"].each]))


def test_gamma_is_chosen_and_rows_are_held_out():
    run("fit", "table.csv", *BOTH, "--single", "--n-hidden", 3, "--max-epochs", 2, "--early-stopping")
    model = load_model("model.json")
    assert {part: score.rows for part, score in model.scores.items()} == {"train": 64, "test": 16}
    assert model.trainings[0].gamma > 0.0


def test_predictions_have_a_column_for_each_target():
    run("fit", "table.csv", *BOTH, *QUICK)
    run("predict", "model.json", "table.csv", "-o", "predicted.csv")
    found = pd.read_csv("predicted.csv")
    assert list(found) == ["predicted_height", "predicted_weight"]
    np.testing.assert_allclose(found.to_numpy(), load_model("model.json").predict(INPUTS), rtol=1e-12)


def test_the_model_is_examined_on_the_rows_of_its_training():
    run("fit", "table.csv", *BOTH, *QUICK)
    text = run("inspect", "model.json", "--data", "table.csv", "--replay")
    assert text.startswith("regressor of height, weight with 3 features\n")
    assert "RegLoss on 64 of the 80 rows of table.csv (the training part) agrees with the stored one" in text
    score = json.loads(Path("model.json").read_text())["scores"]["test"]
    for name, own in zip(("height", "weight"), score["each"], strict=True):
        assert f"\n  {name}: MSE {own['mse']:.6g}, R2 {own['r2']:.6g}\n" in text
    page = Path("report.html").read_text()
    assert "observed height" not in page  # the letters of pictures are paths
    assert page.count("Left: observed values over predicted values") == 2
    assert "R² of height" in page
    assert "R² of weight" in page


def test_json_names_the_targets_and_their_errors():
    run("fit", "table.csv", *BOTH, *QUICK)
    found = json.loads(run("inspect", "model.json", "--data", "table.csv", "--json"))
    assert found["targets"] == ["height", "weight"]
    assert found["networks"][0]["n_outputs"] == 2
    assert [set(own) for own in found["scores"]["test"]["each"]] == [{"mse", "r2"}] * 2
    assert found["examination"]["is_training_data"] is True
    assert len(found["examination"]["score"]["each"]) == 2


def test_categories_with_many_levels_are_coded_by_all_targets():
    number = pd.Series(CITY).str[-2:].astype(int)
    TABLE.assign(city=CITY, height=HEIGHT + number, weight=WEIGHT - 10.0 * number).to_csv("table.csv", index=False)
    run("fit", "table.csv", *BOTH, *QUICK)
    model = load_model("model.json")
    assert len([name for name in model.input_names if name.startswith("city")]) >= 2
    text = run("inspect", "model.json", "--data", "table.csv")
    assert "they are the rows that the model was trained on" in text
    assert min(score.r2 for score in model.scores["train"].each) > 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (BOTH, "Error: An ensemble has one --target, got 'height' and 'weight'. With --single, one network learns all"),
        ((*BOTH, "--target", "height", "--single"), "Error: The target 'height' is named twice."),
        ((*BOTH, "--single", "--drop", "weight"), "Error: The target 'weight' cannot be dropped."),
        ((*BOTH, "--single", "--task", "classification"), "Error: Several targets must be numbers."),
        (("--target", "height", "--target", "city", "--single"), "Error: table.csv, line 2, column 'city': 'city"),
    ],
)
def test_what_cannot_be_is_refused_before_the_training(arguments, message):
    TABLE.assign(city=CITY).to_csv("table.csv", index=False)
    text = run("fit", "table.csv", *arguments, code=2)
    assert text.startswith(message)
    assert text.count("\n") == 1
    assert not Path("model.json").exists()
