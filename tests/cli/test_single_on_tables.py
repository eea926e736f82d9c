"""One network on tables with text, dates and gaps, from the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dconnet import DCONRegressor, TableEncoder
from dconnet.cli import app
from dconnet.inspection.saved.examination import examine
from dconnet.io.model_file import load_model
from dconnet.io.tables import read_table

RNG = np.random.default_rng(0)
N = 160
TABLE = pd.DataFrame(
    {
        "size": RNG.normal(size=N).round(3),
        "colour": np.array(["red", "green", "blue"])[RNG.integers(0, 3, N)],
        "city": [f"city {k:02}" for k in RNG.integers(0, 20, N)],
        "sold": pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d"),
        "age": np.where(RNG.random(N) < 0.1, np.nan, RNG.integers(1, 9, N)),
    }
)
PRICE = TABLE["size"].abs() + (TABLE["colour"] == "red") + TABLE["city"].str[-2:].astype(int) / 10.0


def run(*arguments):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.assign(price=PRICE).to_csv("table.csv", index=False)
    TABLE.assign(dear=np.where(PRICE > 1.7, "dear", "cheap")).to_csv("classes.csv", index=False)


def fit(table="table.csv", target="price", *options):
    return run("fit", table, "--target", target, "--n-hidden", 3, "--gamma", 0.01, "--max-epochs", 3, *options)


def test_the_model_is_an_encoder_and_a_network():
    text = fit("table.csv", "price", "--test-fraction", 0)
    assert "160 rows, 5 features, regression" in text
    model = load_model("model.json")
    encoder = TableEncoder(target_type="number", random_state=0)
    y = PRICE.to_numpy()
    network = DCONRegressor(3, gamma=0.01, scale=False, max_epochs=3, random_state=0)
    with pytest.warns(UserWarning, match="not converged"):
        network.fit(encoder.fit_transform(TABLE, y), (y - y.mean()) / y.std())
    expected = y.mean() + y.std() * network.predict(encoder.transform(TABLE))
    np.testing.assert_allclose(model.predict(TABLE), expected, rtol=1e-9)
    assert model.scores["train"].r2 > 0.9
    assert "city: target" in model.input_names


def test_raw_tables_are_predicted_also_with_unknown_levels():
    fit()
    other = TABLE.assign(colour="violet", city=None, age=np.nan)
    other.to_csv("new.csv", index=False)
    lines = run("predict", "model.json", "new.csv").splitlines()
    np.testing.assert_allclose([float(line) for line in lines[1:]], load_model("model.json").predict(other))
    assert np.isfinite(load_model("model.json").predict(other)).all()


@pytest.mark.parametrize(("table", "target"), [("table.csv", "price"), ("classes.csv", "dear")])
def test_the_rows_of_the_training_are_found_again(table, target):
    """Although their means of the target were those of other rows."""
    fit(table, target)
    text = run("inspect", "model.json", "--data", table, "--replay")
    assert "(the training part) agrees with the stored one" in text
    assert "strongest features: " in text
    assert Path("report.html").read_text().startswith("<!DOCTYPE html>")
    found = examine(load_model("model.json"), read_table(table))
    assert found.is_training_data
    assert found.of_table.encoding is not None
    assert len(found.frame) == len(found.X) == N
    assert found.model.feature_names == found.of_table.input_names


def test_other_rows_are_told_from_those_of_the_training():
    fit()
    TABLE.assign(price=PRICE + 0.1).to_csv("other.csv", index=False)
    assert "they are not the rows that the model was trained on" in run("inspect", "model.json", "--data", "other.csv")
    summary = json.loads(run("inspect", "model.json", "--json"))
    assert summary["features"] == list(TABLE.columns)
    assert {entry["feature"] for entry in summary["networks"][0]["strongest_features"]} >= {"size", "colour: red"}


def test_tables_of_numbers_are_fitted_as_before():
    TABLE[["size"]].assign(other=np.arange(N) % 7, price=PRICE).to_csv("numbers.csv", index=False)
    fit("numbers.csv", "price")
    assert load_model("model.json").encoding is None
    assert json.loads(Path("model.json").read_text())["version"] == 1


def test_slips_are_told():
    slipped = TABLE.assign(size=TABLE["size"].astype(str), price=PRICE)
    slipped.loc[3, "size"] = "one"
    slipped.to_csv("slip.csv", index=False)
    found = CliRunner().invoke(app, ["fit", "slip.csv", "--target", "price", "--n-hidden", "2", "--max-epochs", "1"])
    assert found.exit_code == 0
    assert "line 5, column 'size': 'one' is not a number" in found.stderr
