"""The command line with ensembles: any table in, predictions with intervals or probabilities out."""

import csv
import io
import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dconnet import AutoDCONClassifier, AutoDCONRegressor
from dconnet.cli import app
from dconnet.io.ensemble import OUT_OF_FOLD, SavedEnsemble
from dconnet.io.model_file import SavedModel, load_model
from dconnet.io.tables import Frame, write_csv

N_ROWS = 150


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def houses():
    """Numbers with gaps, text, dates, an identifier, and two targets."""
    rng = np.random.default_rng(0)
    size, town = rng.uniform(50, 200, N_ROWS), rng.choice(["Ulm", "Bonn", "Kiel"], N_ROWS)
    price = 1000.0 * size * np.where(town == "Ulm", 2.0, 1.0) + 5000.0 * rng.normal(size=N_ROWS)
    return {
        "size": [f"{value:.2f}" if value > 60 else "NA" for value in size],
        "town": town.tolist(),
        "sold": [str(date(2020, 1, 1) + timedelta(days=int(day))) for day in rng.integers(0, 700, N_ROWS)],
        "number": [f"no {i}" for i in range(N_ROWS)],
        "price": price.tolist(),
        "class": np.where(price > np.median(price), "dear", "cheap").tolist(),
    }


@pytest.fixture(scope="module")
def files(houses, tmp_path_factory):
    """A table, and a model of each kind."""
    folder = tmp_path_factory.mktemp("houses")
    write_csv(folder / "data.csv", list(houses), list(houses.values()))
    outputs = {
        "price": run("fit", folder / "data.csv", "--target", "price", "--drop", "class", "-o", folder / "price.json"),
        "class": run("fit", folder / "data.csv", "--target", "class", "--drop", "price", "-o", folder / "class.json"),
    }
    return folder, {name: result.stdout for name, result in outputs.items()}


def run(*arguments, code=0):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result


def refusal(*arguments):
    """The one line on standard error with which a mistake of the user ends."""
    result = run(*arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    return result.stderr.removeprefix("Error: ").rstrip("\n")


def typed(houses):
    """The features as Python has them, made without the reader of the command line."""
    columns = {
        "size": np.array([np.nan if cell == "NA" else float(cell) for cell in houses["size"]]),
        "town": np.array(houses["town"], dtype=object),
        "sold": np.array(houses["sold"], dtype="datetime64[s]"),
        "number": np.array(houses["number"], dtype=object),
    }
    return Frame(tuple(columns), tuple(columns.values()))


def csv_columns(text):
    header, *rows = csv.reader(io.StringIO(text))
    return dict(zip(header, zip(*rows, strict=True), strict=True))


class TestFit:
    def test_everything_is_told(self, files):
        folder, told = files
        model = load_model(folder / "price.json")
        text = told["price"]
        assert "data.csv: 150 rows, 4 features, regression" in text
        lines = [" ".join(line.split()) for line in text.splitlines()]
        assert any(line.startswith("size number median for") for line in lines)
        assert any(line.startswith("town category 3 levels") for line in lines)
        assert any(line.startswith("sold date day, day of year, weekday") for line in lines)
        assert any(line.startswith("number text dropped: nearly every row") for line in lines)
        score = model.scores[OUT_OF_FOLD]
        assert f"out of fold: MSE {score.mse:.6g}, R2 {score.r2:.6g} on 150 rows" in lines
        for member in model.estimator.members_:
            shown = f"{member['family']} {member['kind']} {member['gamma']:g} {member['n_hidden']}"
            assert any(line.startswith(shown) for line in lines) == (member["weight"] > 0.0)
        assert "Trained in " in lines[-1]
        assert "The model, trained on all the data, is in" in lines[-1]

    def test_agrees_with_the_estimators(self, files, houses):
        folder, _ = files
        X = typed(houses)
        regressor = AutoDCONRegressor(random_state=0).fit(X, np.array(houses["price"]))
        np.testing.assert_array_equal(load_model(folder / "price.json").predict(X), regressor.predict(X))
        classifier = AutoDCONClassifier(random_state=0).fit(X, np.array(houses["class"]))
        np.testing.assert_array_equal(load_model(folder / "class.json").predict_proba(X), classifier.predict_proba(X))

    def test_parquet_is_the_same(self, files, houses):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        folder, _ = files
        X = typed(houses)
        columns = {name: pa.array(X[name].to_numpy(), from_pandas=True) for name in X.columns}
        pq.write_table(pa.table({**columns, "price": houses["price"]}), "data.parquet")
        run("fit", "data.parquet", "--target", "price", "--quiet")
        np.testing.assert_array_equal(load_model("model.json").predict(X), load_model(folder / "price.json").predict(X))

    def test_rows_can_be_held_out(self, files):
        folder, _ = files
        data = ("fit", folder / "data.csv", "--target", "class", "--drop", "price")
        text = run(*data, "--test-fraction", 0.2).stdout
        model = load_model("model.json")
        assert {part: score.rows for part, score in model.scores.items()} == {OUT_OF_FOLD: 120, "test": 30}
        assert f"test: accuracy {model.scores['test'].accuracy:.6g} on 30 rows" in text
        assert "log loss" in text
        assert "trained on the training part of the data" in text

    def test_options_reach_the_estimator(self, files):
        folder, _ = files
        data = ("fit", folder / "data.csv", "--target", "price", "--drop", "class")
        text = run(*data, "--quality", "high", "--jobs", 2, "--seed", 7, "--max-seconds", 1e-6, "-q").output
        assert text == ""
        model = load_model("model.json")
        wanted = {"quality": "high", "n_jobs": 2, "random_state": 7, "max_seconds": 1e-6}
        assert {name: model.settings[name] for name in wanted} == wanted
        assert len({member["family"] for member in model.estimator.members_}) == 1  # the time was over

    def test_jobs_do_not_change_the_model(self, files):
        folder, _ = files
        run("fit", folder / "data.csv", "--target", "price", "--drop", "class", "--jobs", 2, "-q")
        one, two = (json.loads(Path(path).read_text()) for path in (folder / "price.json", "model.json"))
        assert one["blocks"] == two["blocks"]
        assert one["objects"] == two["objects"]

    @pytest.mark.parametrize("options", [("--single",), ("--gamma", 0.1), ("--no-scale",)])
    def test_options_of_one_network_give_one_network(self, options):
        write_csv("numbers.csv", ["a", "price"], [np.linspace(0, 1, 20), np.linspace(0, 1, 20) ** 2])
        run("fit", "numbers.csv", "--target", "price", *options)
        assert isinstance(load_model("model.json"), SavedModel)

    def test_one_network_on_text_dates_and_gaps(self, files):
        folder, _ = files
        data = ("fit", folder / "data.csv", "--target", "price", "--drop", "class")
        run(*data, "--single", "--max-seconds", 0.2, "-q")
        model = load_model("model.json")
        assert isinstance(model, SavedModel)
        assert model.encoding is not None
        assert "Leave it out" in refusal(*data, "--no-scale", "--force")

    def test_options_of_both_kinds_are_refused(self, files):
        folder, _ = files
        data = ("fit", folder / "data.csv", "--target", "price")
        message = refusal(*data, "--n-hidden", 3, "--quality", "high")
        assert message == (
            "--quality is about an ensemble, but --n-hidden asks for a single network. Leave out one of them."
        )
        assert "--jobs is about an ensemble, but --single asks" in refusal(*data, "--single", "--jobs", 2)

    def test_a_missing_target_is_named(self):
        write_csv("data.csv", ["a", "y"], [[1, 2, 3], [1, "", 3]])
        message = "data.csv, line 3, column 'y': the value is missing. Fill in the column or delete the row."
        assert refusal("fit", "data.csv", "--target", "y") == message

    def test_slips_in_a_column_of_numbers_are_named(self):
        rng = np.random.default_rng(0)
        size = rng.uniform(50, 200, 60).round(2).tolist()
        size[4] = "70m"
        write_csv("slip.csv", ["size", "y"], [size, rng.normal(size=60)])
        result = run("fit", "slip.csv", "--target", "y", "--max-seconds", 1e-6)
        assert result.stderr == (
            "warning: A column of numbers or dates is taken as text. slip.csv, line 6, column 'size': '70m' is not a "
            "number. Encode the column as numbers, or leave it out with --drop size.\n"
        )

    def test_many_plain_columns_are_counted(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 32))
        names = [f"f{i}" for i in range(31)]
        columns = [*X[:, :31].T, ["u", "v"] * 30, X[:, 0]]
        write_csv("wide.csv", [*names, "letter", "y"], columns)
        text = run("fit", "wide.csv", "--target", "y", "--max-seconds", 1e-6).stdout
        assert "31 other columns are numbers and used as they are." in text
        assert "letter  category" in text

    def test_an_interrupt_keeps_what_was_trained(self, files, monkeypatch):
        folder, _ = files
        original = AutoDCONRegressor.fit

        def fit(self, *arguments, **options):
            original(self, *arguments, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(AutoDCONRegressor, "fit", fit)
        result = run("fit", folder / "data.csv", "--target", "price", "--drop", "class", code=130)
        assert "Interrupted after" in result.stdout
        assert isinstance(load_model("model.json"), SavedEnsemble)

    def test_an_interrupt_before_there_is_anything_saves_nothing(self, files, monkeypatch):
        def fit(self, X, y):
            raise KeyboardInterrupt

        folder, _ = files
        monkeypatch.setattr(AutoDCONRegressor, "fit", fit)
        result = run("fit", folder / "data.csv", "--target", "price", code=130)
        assert result.stderr == "Interrupted.\n"
        assert not Path("model.json").exists()


class TestPredict:
    def test_predictions(self, files, houses):
        folder, _ = files
        columns = csv_columns(run("predict", folder / "price.json", folder / "data.csv").stdout)
        assert list(columns) == ["predicted_price"]
        expected = load_model(folder / "price.json").predict(typed(houses))
        np.testing.assert_array_equal(np.array(columns["predicted_price"], dtype=float), expected)

    def test_intervals(self, files, houses):
        folder, _ = files
        text = run("predict", folder / "price.json", folder / "data.csv", "--coverage", 0.8).stdout
        columns = csv_columns(text)
        assert list(columns) == ["predicted_price", "low_price", "high_price"]
        expected = load_model(folder / "price.json").predict_interval(typed(houses), 0.8)
        for name, ends in zip(("low_price", "high_price"), expected, strict=True):
            np.testing.assert_array_equal(np.array(columns[name], dtype=float), ends)

    def test_probabilities(self, files, houses):
        folder, _ = files
        run("predict", folder / "class.json", folder / "data.csv", "--probabilities", "-o", "out.csv")
        columns = csv_columns(Path("out.csv").read_text())
        assert list(columns) == ["predicted_class", "probability_cheap", "probability_dear"]
        dear = np.array(columns["probability_dear"], dtype=float)
        np.testing.assert_array_equal(dear, load_model(folder / "class.json").predict_proba(typed(houses))[:, 1])
        assert [name == "dear" for name in columns["predicted_class"]] == (dear > 0.5).tolist()

    def test_rows_with_gaps_and_new_towns(self, files):
        folder, _ = files
        write_csv("new.csv", ["sold", "town", "size", "number"], [["", "NA"], ["Rome", ""], ["", "70"], ["", "x"]])
        values = csv_columns(run("predict", folder / "price.json", "new.csv").stdout)["predicted_price"]
        assert np.isfinite(np.array(values, dtype=float)).all()

    @pytest.mark.parametrize(
        ("model", "options", "message"),
        [
            ("price", ("--probabilities",), "There are no classes: price is a number."),
            ("class", ("--coverage", 0.9), "There are no intervals: class is a class."),
            ("price", ("--coverage", 1.5), "coverage must lie between 0 and 1"),
        ],
    )
    def test_what_the_model_has_not(self, files, model, options, message):
        folder, _ = files
        assert message in refusal("predict", folder / f"{model}.json", folder / "data.csv", *options)

    def test_a_single_network_has_no_intervals(self):
        write_csv("data.csv", ["a", "y"], [np.linspace(0, 1, 20), np.linspace(0, 1, 20) ** 2])
        run("fit", "data.csv", "--target", "y", "--n-hidden", 2, "--tol", 1)
        message = refusal("predict", "model.json", "data.csv", "--coverage", 0.9)
        assert message == "--coverage needs an ensemble, but the model is a single network. Fit without --single."
        message = refusal("predict", "model.json", "data.csv", "--probabilities")
        assert message == "There are no classes: y is a number."

    def test_probabilities_of_a_single_network(self):
        x = np.linspace(0, 1, 30)
        write_csv("data.csv", ["a", "y"], [x, np.where(x > 0.4, "high", "low")])
        run("fit", "data.csv", "--target", "y", "--n-hidden", 2, "--tol", 1)
        columns = csv_columns(run("predict", "model.json", "data.csv", "--probabilities").stdout)
        assert list(columns) == ["predicted_y", "probability_high", "probability_low"]
        high, low = (np.array(columns[f"probability_{label}"], dtype=float) for label in ("high", "low"))
        np.testing.assert_allclose(high + low, 1.0, rtol=1e-12)
        assert list(columns["predicted_y"]) == np.where(high > low, "high", "low").tolist()

    def test_missing_columns_and_unfit_cells_are_named(self, files):
        folder, _ = files
        write_csv("few.csv", ["size"], [[1.0]])
        assert "few.csv has no columns 'town', 'sold', 'number'" in refusal("predict", folder / "price.json", "few.csv")
        write_csv("odd.csv", ["size", "town", "sold", "number"], [["big"], ["Ulm"], ["2020-01-01"], ["x"]])
        assert "'size'" in refusal("predict", folder / "price.json", "odd.csv")


class TestInspect:
    def test_tells_what_is_in_the_file(self, files):
        folder, told = files
        text = run("inspect", folder / "price.json").stdout
        assert "regressor of price with 4 features" in text
        assert "settings: n_jobs=1, quality=default, random_state=0" in text
        table = told["price"].partition("column")[2].partition("\n\nout of fold")[0]
        assert table in text
        assert "classes: cheap, dear" in run("inspect", folder / "class.json").stdout

    def test_json(self, files):
        folder, _ = files
        summary = json.loads(run("inspect", folder / "class.json", "--json").stdout)
        model = load_model(folder / "class.json")
        assert summary["classes"] == ["cheap", "dear"]
        assert summary["members"] == model.estimator.members_
        assert [column["column"] for column in summary["columns"]] == list(model.feature_names)
        assert sum(column["importance"] for column in summary["columns"]) == pytest.approx(1.0)

    def test_the_report_is_about_rows_out_of_fold(self, files):
        folder, _ = files
        for name in ("price", "class"):
            text = run("inspect", folder / f"{name}.json", "--data", folder / "data.csv", "-o", f"{name}.html").stdout
            assert "The 150 rows of data.csv are those that the model was trained on." in text
            scores = [line.partition(": ")[2] for line in text.splitlines() if "on 150 rows" in line]
            assert scores[0].startswith(scores[1].partition(" on ")[0])  # that of the file, and that of the table
            assert f"The report is in {name}.html." in text
            assert Path(f"{name}.html").read_text().startswith("<!DOCTYPE html>")

    def test_data_in_json(self, files):
        folder, _ = files
        found = json.loads(run("inspect", folder / "price.json", "--data", folder / "data.csv", "--json").stdout)
        assert found["examination"]["is_training_data"] is True
        assert found["examination"]["report"] == "report.html"

    def test_a_training_is_not_repeated(self, files):
        folder, _ = files
        message = refusal("inspect", folder / "price.json", "--data", folder / "data.csv", "--replay")
        assert message == "--replay is about a single network, but the model is an ensemble."
