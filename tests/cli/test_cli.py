"""The command line, from a table to predictions."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dconnet
from dconnet import DCONClassifier, DCONRegressor, Status
from dconnet.cli import app
from dconnet.cli.inspect import count_dead
from dconnet.cli.shared import check_output
from dconnet.io.model_file import Scaling, load_model
from dconnet.io.tables import read_table, write_csv
from dconnet.model.network import Network
from dconnet.training.descent import Descent

# A few epochs do: the first whose step is below one ends the training.
QUICK = ("--n-hidden", "3", "--gamma", "0.05", "--tol", "1.0")


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def points():
    """Three features (one constant, one far from zero) and two targets."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), np.full(60, 0.1), 1000.0 + 50.0 * rng.normal(size=60)])
    y = 10.0 * np.abs(X[:, 0]) + 0.1 * X[:, 2]
    colour = np.where(X[:, 0] > 0.5, "red", np.where(X[:, 0] < -0.5, "blue", "green"))
    return {"a": X[:, 0], "b": X[:, 1], "big one": X[:, 2], "y": y, "colour": colour}


@pytest.fixture
def data(points):
    write_csv("data.csv", list(points), list(points.values()))
    return points


@pytest.fixture
def model(data):
    run("fit", "data.csv", "--target", "y", "--drop", "colour", *QUICK)
    return load_model("model.json")


def run(*arguments, code=0, stdin=None):
    result = CliRunner().invoke(app, list(map(str, arguments)), input=stdin)
    assert result.exit_code == code, result.output
    return result


def refusal(*arguments):
    """The one line on standard error with which a mistake of the user ends."""
    result = run(*arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: ")
    return result.stderr.removeprefix("Error: ").rstrip("\n")


def predictions(text):
    header, *rows = csv.reader(io.StringIO(text))
    return header, [row[0] for row in rows]


class TestFit:
    def test_regression_is_reported_and_saved(self, data):
        result = run("fit", "data.csv", "--target", "y", "--drop", "colour", *QUICK)
        model = load_model("model.json")
        assert "data.csv: 60 rows, 3 features, regression" in result.stdout
        assert model.trainings[0].message in result.stdout
        assert f"test: MSE {model.scores['test'].mse:.6g}" in result.stdout
        assert "trained on the training part of the data, is in model.json" in result.stdout
        assert model.kind == "regressor"
        assert model.feature_names == ("a", "b", "big one")
        assert model.target_name == "y"
        assert model.scores["train"].rows == 48
        assert model.scores["test"].rows == 12
        assert model.scores["test"].r2 > 0.5

    def test_a_network_that_only_knows_its_training_rows_is_remarked_on(self, points):
        noise = np.random.default_rng(1).normal(size=60)
        write_csv("data.csv", ["a", "b", "y"], [points["a"], points["big one"], noise])
        options = ("--target", "y", "--n-hidden", "20", "--max-epochs", "2")
        assert "try a larger --gamma" in run("fit", "data.csv", *options, "--gamma", "1e-5").stdout
        assert "try a larger --gamma" not in run("fit", "data.csv", *options, "--gamma", "10", "--force").stdout

    def test_a_model_is_not_written_to_a_file_named_like_the_standard_output(self, data):
        assert "Name a file" in refusal("fit", "data.csv", "--target", "y", "--drop", "colour", "-o", "-")

    def test_features_and_target_are_standardised_on_the_training_part(self, model, data):
        assert model.feature_scaling.scale[1] == 1.0  # the constant column
        assert 30.0 < model.feature_scaling.scale[2] < 70.0
        assert 90.0 < model.target_scaling.mean[0] < 120.0

    def test_no_scale(self, data):
        run("fit", "data.csv", "--target", "y", "--drop", "colour", "--drop", "big one", "--no-scale", *QUICK)
        model = load_model("model.json")
        assert model.feature_names == ("a", "b")
        assert model.feature_scaling.scale.tolist() == [1.0, 1.0]
        assert model.target_scaling.mean.tolist() == [0.0]

    def test_agrees_with_the_estimator(self, data):
        run("fit", "data.csv", "--target", "y", "--drop", "colour", "--test-fraction", 0, "--seed", 5, *QUICK)
        X = np.column_stack([data["a"], data["b"], data["big one"]])
        features, target = Scaling.of(X), Scaling.of(data["y"][:, None])
        estimator = DCONRegressor(3, gamma=0.05, scale=False, tol=1.0, random_state=5)
        estimator.fit(features.apply(X), target.apply(data["y"]))
        expected = target.undo(estimator.predict(features.apply(X)))
        np.testing.assert_array_equal(load_model("model.json").predict(X), expected)

    def test_same_seed_same_file(self, data):
        for name, seed in (("one.json", 3), ("two.json", 3), ("three.json", 4)):
            run("fit", "data.csv", "--target", "y", "--drop", "colour", "-o", name, "--seed", seed, *QUICK)
        contents = [Path(name).read_text() for name in ("one.json", "two.json", "three.json")]
        assert contents[0] == contents[1]
        assert contents[0] != contents[2]

    def test_all_rows_when_nothing_is_held_out(self, data):
        result = run("fit", "data.csv", "--target", "y", "--drop", "colour", "--test-fraction", 0, *QUICK)
        assert "trained on all the data" in result.stdout
        model = load_model("model.json")
        assert list(model.scores) == ["train"]
        assert model.scores["train"].rows == 60

    def test_text_is_classified(self, data):
        result = run("fit", "data.csv", "--target", "colour", "--drop", "y", *QUICK)
        model = load_model("model.json")
        assert "classification, 3 classes" in result.stdout
        assert "green: " in result.stdout
        assert f"test: accuracy {model.scores['test'].accuracy:.6g} on 12 rows" in result.stdout
        assert model.classes == ("blue", "green", "red")
        assert len(model.networks) == 3

    def test_numbers_are_classified_when_asked(self, points):
        write_csv("two.csv", ["a", "t"], [points["a"], (points["a"] > 0).astype(int) + 7])
        run("fit", "two.csv", "--target", "t", "--task", "classification", *QUICK)
        model = load_model("model.json")
        assert model.classes == (7, 8)
        assert len(model.networks) == 1
        run("fit", "two.csv", "--target", "t", "--force", *QUICK)
        assert load_model("model.json").kind == "regressor"

    def test_decimals_are_classified_when_asked(self, points):
        write_csv("two.csv", ["a", "t"], [points["a"], np.where(points["a"] > 0, 0.5, 1.5)])
        run("fit", "two.csv", "--target", "t", "--task", "classification", *QUICK)
        assert load_model("model.json").classes == ("0.5", "1.5")

    def test_a_class_with_one_row_does_not_stop_the_split(self, points):
        colour = points["colour"].copy()
        colour[0] = "violet"
        write_csv("rare.csv", ["a", "colour"], [points["a"], colour])
        run("fit", "rare.csv", "--target", "colour", "--test-fraction", 0.5, *QUICK)

    def test_parquet(self, points):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.table(points), "data.parquet")
        run("fit", "data.parquet", "--target", "y", "--drop", "colour", "-o", "p.json", *QUICK)
        write_csv("data.csv", list(points), list(points.values()))
        run("fit", "data.csv", "--target", "y", "--drop", "colour", "-o", "c.json", *QUICK)
        np.testing.assert_array_equal(load_model("p.json").networks[0].W, load_model("c.json").networks[0].W)

    def test_quiet(self, data):
        result = run("fit", "data.csv", "--target", "y", "--drop", "colour", "--quiet", *QUICK)
        assert result.output == ""

    def test_limits_are_told_and_not_warned_about(self, data):
        result = run("fit", "data.csv", "--target", "y", "--drop", "colour", "--max-epochs", 1, "--tol", 0)
        assert "Stopped after 1 epochs, not converged" in result.stdout
        assert result.stderr == ""
        run("fit", "data.csv", "--target", "y", "--drop", "colour", "--max-seconds", 1e-9, "--single", "--force")
        assert load_model("model.json").trainings[0].status is Status.TIME_LIMIT

    def test_options_reach_the_estimator(self, data):
        run(
            *(
                "fit",
                "data.csv",
                "--target",
                "y",
                "--drop",
                "colour",
                *QUICK,
                "--split",
                "net",
                "--algorithm",
                "paper",
                "--solver",
            ),
            *(
                "reference",
                "--max-epochs",
                7,
                "--max-seconds",
                60,
                "--early-stopping",
                "--seed",
                9,
                "--restart",
                "--inexact",
            ),
        )
        settings = load_model("model.json").settings
        wanted = {
            **{"n_hidden": 3, "gamma": 0.05, "tol": 1.0},
            **{
                "max_epochs": 7,
                "max_seconds": 60.0,
                "early_stopping": True,
                "random_state": 9,
            },
        }
        assert {name: settings[name] for name in wanted} == wanted

    def test_defaults_are_those_of_the_estimator(self):
        import typer

        defaults = {option.name: option.default for option in typer.main.get_command(app).commands["fit"].params}
        ours = DCONRegressor().get_params()
        assert (defaults["gamma"], ours["gamma"]) == (None, "auto")
        shared = (
            "n_hidden",
            "algorithm",
            "max_epochs",
            "max_seconds",
            "tol",
            "early_stopping",
        )
        assert {name: defaults[name] for name in shared} == {name: ours[name] for name in shared}

    def test_gamma_is_chosen(self, data):
        run("fit", "data.csv", "--target", "y", "--drop", "colour", "--n-hidden", 3, "--max-epochs", 2)
        model = load_model("model.json")
        assert model.settings["gamma"] == model.trainings[0].gamma
        assert "agrees with the stored one" in run("inspect", "model.json", "--data", "data.csv").stdout

    def test_missing_data(self):
        assert refusal("fit", "none.csv", "--target", "y") == "none.csv: No such file or directory"

    def test_unreadable_data(self, data, monkeypatch, in_folder):
        assert refusal("fit", in_folder, "--target", "y").endswith("Is a directory")

        def refuse(path, *_, **__):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "open", refuse)
        assert refusal("fit", "data.csv", "--target", "y") == "data.csv: Permission denied"

    def test_missing_columns(self, data):
        assert refusal("fit", "data.csv", "--target", "z").startswith("data.csv has no column 'z'. Its columns")
        assert refusal("fit", "data.csv", "--target", "y", "--drop", "z").startswith("data.csv has no column")

    def test_text_cannot_be_left_unscaled(self, data):
        message = refusal("fit", "data.csv", "--target", "y", "--no-scale")
        assert message == "--no-scale is about columns of numbers, but some hold text, dates or gaps. Leave it out."

    def test_a_table_of_text_that_does_not_vary(self):
        write_csv("data.csv", ["a", "y"], [["u"] * 30, np.arange(30.0)])
        assert refusal("fit", "data.csv", "--target", "y", "--single").endswith("no column varies.")

    def test_missing_value_in_the_target(self):
        write_csv("data.csv", ["a", "y"], [[1, 2, 3], [1, "", 3]])
        message = "data.csv, line 3, column 'y': the value is missing. Fill in the column or delete the row."
        assert refusal("fit", "data.csv", "--target", "y") == message

    def test_slips_in_a_numeric_target(self):
        write_csv("data.csv", ["a", "y"], [[1, 2, 3], [1, "2x", 3]])
        message = refusal("fit", "data.csv", "--target", "y")
        assert "line 3, column 'y': '2x' is not a number" in message
        assert message.endswith("Or use its values as classes with --task classification.")
        assert "'2x' is not a number" in refusal("fit", "data.csv", "--target", "y", "--task", "regression")
        write_csv("comma.csv", ["a", "y"], [[1, 2, 3], ["1,5", "2,5", "3,5"]])
        message = refusal("fit", "comma.csv", "--target", "y")
        assert "'1,5' has a comma (3 such cells in this column). Write decimals with a point" in message
        assert "--drop" not in message

    def test_a_target_with_a_value_for_each_row(self):
        write_csv("names.csv", ["a", "y"], [np.arange(20.0), [f"C{i}" for i in range(20)]])
        message = refusal("fit", "names.csv", "--target", "y")
        assert message.startswith("The target 'y' is text with 20 different values in 20 rows, like a name")
        run("fit", "names.csv", "--target", "y", "--task", "classification", "--test-fraction", 0, *QUICK)

    def test_values_that_are_too_large(self, data):
        message = "The values of column {} are too large to be standardised. Scale them down."
        for name in ("y", "big one"):
            write_csv("large.csv", list(data), [v * 1e200 if key == name else v for key, v in data.items()])
            found = refusal("fit", "large.csv", "--target", "y", "--drop", "colour", "--single")
            assert found == message.format(repr(name))

    def test_codes_are_classes(self):
        write_csv("codes.csv", ["a", "y"], [np.arange(20.0), ["01", "1"] * 10])
        text = run("fit", "codes.csv", "--target", "y", *QUICK).stdout
        assert "classification, 2 classes (for regression, use --task regression)" in text
        assert load_model("model.json").classes == ("01", "1")
        run("fit", "codes.csv", "--target", "y", "--task", "regression", "--force", *QUICK)

    def test_one_class_only(self):
        write_csv("data.csv", ["a", "y"], [[1, 2, 3], ["u", "u", "u"]])
        assert "at least two classes" in refusal("fit", "data.csv", "--target", "y")

    def test_nothing_to_predict_from(self, data):
        write_csv("y.csv", ["y"], [[1, 2]])
        assert refusal("fit", "y.csv", "--target", "y") == "y.csv has no column left to predict 'y' from."
        message = refusal("fit", "data.csv", "--target", "y", "--drop", "y")
        assert message == "The target 'y' cannot be dropped."

    def test_a_second_target_does_not_make_the_first_a_feature(self, data):
        message = refusal("fit", "data.csv", "--target", "y", "--target", "a")
        assert message.startswith(
            "An ensemble has one --target, got 'y' and 'a'. With --single, one network learns all"
        )

    def test_too_few_rows_to_hold_any_out(self):
        write_csv("data.csv", ["a", "y"], [[1], [2]])
        message = refusal("fit", "data.csv", "--target", "y", "--single")
        assert "With 1 row(s), --test-fraction 0.2 leaves none" in message

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--gamma", "0"), "'gamma' parameter"),
            (("--algorithm", "paper", "--split", "banana"), "split must be one of"),
            (("--algorithm", "paper", "--solver", "abacus"), "abacus"),
            (("--solver", "reference"), "need --algorithm paper"),
            (("--test-fraction", "1"), "--test-fraction must be below 1, got 1."),
            (("--max-seconds", "-1"), "'max_seconds' parameter"),
            (("--tol", "nan"), "'tol' parameter"),
        ],
    )
    def test_unfit_options(self, data, options, message):
        assert message in refusal("fit", "data.csv", "--target", "y", "--drop", "colour", *options)
        assert not Path("model.json").exists()

    @pytest.mark.parametrize("options", [("--n-hidden", "0"), ("--task", "guess"), ("--seed", "-1"), ("--what",)])
    def test_options_that_do_not_parse(self, data, options):
        result = run("fit", "data.csv", "--target", "y", *options, code=2)
        assert "Error: " in result.stderr
        assert "Traceback" not in result.stderr

    def test_the_output_is_checked_before_the_work(self, data, in_folder):
        (in_folder / "model.json").write_text("precious")
        message = refusal("fit", "none.csv", "--target", "y")
        assert message == "model.json exists already. Name another file, or replace it with --force."
        assert refusal("fit", "none.csv", "--target", "y", "-o", in_folder).endswith("is a folder. Name a file.")
        message = refusal("fit", "none.csv", "--target", "y", "-o", in_folder / "no" / "model.json")
        assert message.endswith("does not exist.")
        assert (in_folder / "model.json").read_text() == "precious"
        run("fit", "data.csv", "--target", "y", "--drop", "colour", "--force", *QUICK)
        assert load_model("model.json").kind == "regressor"

    def test_a_folder_that_cannot_be_written_to(self, data, monkeypatch):
        monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)
        assert "cannot be written to" in refusal("fit", "data.csv", "--target", "y")


class TestInterrupt:
    @staticmethod
    def interrupt_at(monkeypatch, call):
        """Press Ctrl-C when the output layer is about to be solved for the n-th time."""
        calls = iter(range(1, 1000))
        original = Descent.improve_output_layer

        def improve(self, state):
            if next(calls) == call:
                raise KeyboardInterrupt
            original(self, state)

        monkeypatch.setattr(Descent, "improve_output_layer", improve)

    def test_the_network_reached_is_saved(self, data, monkeypatch):
        self.interrupt_at(monkeypatch, 3)
        options = ("--n-hidden", 3, "--tol", 0)
        result = run("fit", "data.csv", "--target", "y", "--drop", "colour", *options, code=130)
        assert "Interrupted after 2 epochs" in result.stdout
        (training,) = load_model("model.json").trainings
        assert training.status is Status.INTERRUPTED
        assert training.recorded_epochs == 3  # the third was cut short

    def test_a_classifier_is_saved_too(self, data, monkeypatch):
        self.interrupt_at(monkeypatch, 3)
        options = ("--n-hidden", 3, "--tol", 0)
        result = run("fit", "data.csv", "--target", "colour", "--drop", "y", *options, code=130)
        assert "blue: Interrupted after 2 epochs" in result.stdout
        model = load_model("model.json")
        assert [training.status for training in model.trainings] == [Status.INTERRUPTED] * 3

    @pytest.mark.parametrize("target", ["y", "colour"])
    def test_a_fit_that_passes_the_interrupt_on_is_saved_too(self, data, monkeypatch, target):
        """As estimators do in Python, after they have kept what was reached."""
        kind = DCONRegressor if target == "y" else DCONClassifier
        original = kind.fit

        def fit(self, *arguments, **options):
            original(self, *arguments, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(kind, "fit", fit)
        other = "colour" if target == "y" else "y"
        result = run("fit", "data.csv", "--target", target, "--drop", other, *QUICK, code=130)
        assert "is in model.json" in result.stdout
        assert load_model("model.json").target_name == target

    def test_an_interrupt_before_there_is_a_network_saves_nothing(self, data, monkeypatch, in_folder):
        def fit(self, X, y):
            self.n_features_in_ = X.shape[1]  # a fitted attribute, but no network
            raise KeyboardInterrupt

        monkeypatch.setattr(DCONRegressor, "fit", fit)
        result = run("fit", "data.csv", "--target", "y", "--drop", "colour", *QUICK, code=130)
        assert result.stderr == "Interrupted.\n"
        assert not (in_folder / "model.json").exists()

    @pytest.mark.parametrize("moment", ["dconnet.io.tables.read_table", "dconnet.io.model_file.SavedModel.save"])
    def test_outside_of_the_training_nothing_is_saved(self, data, monkeypatch, in_folder, moment):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(moment, interrupt)
        result = run("fit", "data.csv", "--target", "y", "--drop", "colour", *QUICK, code=130)
        assert result.stderr == "Interrupted.\n"
        assert not (in_folder / "model.json").exists()


class TestPredict:
    def test_prints_what_the_model_predicts(self, model, data):
        header, values = predictions(run("predict", "model.json", "data.csv").stdout)
        X = read_table("data.csv").numeric(["a", "b", "big one"])
        assert header == ["predicted_y"]
        assert list(map(float, values)) == model.predict(X).tolist()

    def test_columns_are_matched_by_name(self, model, data):
        expected = run("predict", "model.json", "data.csv").stdout
        names = ["other", "big one", "b", "a"]
        write_csv("shuffled.csv", names, [["x"] * 60, *(data[name] for name in names[1:])])
        assert run("predict", "model.json", "shuffled.csv").stdout == expected

    def test_writes_a_file(self, model, in_folder):
        expected = run("predict", "model.json", "data.csv").stdout
        assert run("predict", "model.json", "data.csv", "--output", "out.csv").output == ""
        assert (in_folder / "out.csv").read_text() == expected
        assert "out.csv exists already" in refusal("predict", "model.json", "data.csv", "-o", "out.csv")
        run("predict", "model.json", "data.csv", "-o", "out.csv", "--force")

    def test_classes(self, data):
        run("fit", "data.csv", "--target", "colour", "--drop", "y", "--test-fraction", 0, *QUICK)
        header, values = predictions(run("predict", "model.json", "data.csv").stdout)
        X = np.column_stack([data["a"], data["b"], data["big one"]])
        scaled = Scaling.of(X).apply(X)
        estimator = DCONClassifier(3, gamma=0.05, tol=1.0, random_state=0).fit(scaled, data["colour"])
        assert header == ["predicted_colour"]
        assert values == estimator.predict(scaled).tolist()

    def test_missing_columns(self, model):
        write_csv("few.csv", ["a"], [[1.0]])
        message = refusal("predict", "model.json", "few.csv")
        assert message == "few.csv has no columns 'b', 'big one'. Its columns are 'a'."

    def test_unfit_cells_give_no_advice_that_does_not_apply(self, model):
        write_csv("gap.csv", ["a", "b", "big one"], [[1.0, "x"], [1.0, 2.0], [1.0, 2.0]])
        message = refusal("predict", "model.json", "gap.csv")
        assert message == "gap.csv, line 3, column 'a': 'x' is not a number. Encode the column as numbers."

    def test_files_that_are_not_there_or_not_models(self, model):
        assert refusal("predict", "none.json", "data.csv") == "none.json: No such file or directory"
        assert refusal("predict", "model.json", "none.csv") == "none.csv: No such file or directory"
        assert refusal("predict", "data.csv", "data.csv").startswith("Cannot load the model file data.csv: it is")


class TestPipes:
    COLUMNS = ("a", "b", "big one")

    @pytest.mark.parametrize(
        "name", ["-", pytest.param("/dev/stdin", marks=pytest.mark.skipif(os.name != "posix", reason="POSIX"))]
    )
    def test_predict_from_a_pipe(self, model, name):
        expected = run("predict", "model.json", "data.csv").stdout
        command = [sys.executable, "-m", "dconnet", "predict", "model.json", name]
        done = subprocess.run(command, input=Path("data.csv").read_bytes(), capture_output=True, check=True)
        assert done.stdout.decode() == expected
        assert done.stderr == b""

    @pytest.mark.skipif(os.name != "posix", reason="POSIX")
    def test_predict_into_a_pipe(self, model, monkeypatch):
        expected = run("predict", "model.json", "data.csv").stdout
        command = [sys.executable, "-m", "dconnet", "predict", "model.json", "data.csv", "-o", "/dev/stdout"]
        done = subprocess.run(command, capture_output=True, check=True)
        assert done.stdout.decode() == expected
        assert done.stderr == b""

    @pytest.mark.skipif(os.name != "posix", reason="POSIX")
    def test_the_folder_of_a_pipe_does_not_matter(self, monkeypatch):
        monkeypatch.setattr(os, "access", lambda *_: False)
        read, write = os.pipe()
        try:
            check_output(Path(f"/dev/fd/{write}"), force=False)
        finally:
            os.close(read)
            os.close(write)

    def test_fit_from_a_pipe(self, model, data):
        content = Path("data.csv").read_bytes()
        result = run("fit", "-", "--target", "y", "--drop", "colour", "-o", "p.json", *QUICK, stdin=content)
        assert "standard input: 60 rows" in result.stdout
        assert Path("p.json").read_bytes() == Path("model.json").read_bytes()

    def test_parquet_from_a_pipe(self, model, data):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.table({name: data[name] for name in self.COLUMNS}), "data.parquet")
        result = run("predict", "model.json", "-", stdin=Path("data.parquet").read_bytes())
        assert result.stdout == run("predict", "model.json", "data.csv").stdout

    def test_errors_name_the_standard_input(self, model):
        result = run("predict", "model.json", "-", stdin="a,b\n1,2\n", code=2)
        assert result.stderr == "Error: standard input has no column 'big one'. Its columns are 'a', 'b'.\n"


class TestLimits:
    def test_large_models_are_read_when_asked(self, model):
        for command in (("predict", "model.json", "data.csv"), ("inspect", "model.json")):
            assert "has more than 100 bytes" in refusal(*command, "--max-bytes", 100)
            run(*command, "--max-bytes", 10**9)

    def test_predictions_that_overflow_are_refused(self, model):
        content = json.loads(Path("model.json").read_text())
        content["networks"][0].update(W=[[1e150, 0, 0]] * 3, alpha=[1e150] * 3)
        Path("model.json").write_text(json.dumps(content))
        write_csv("huge.csv", ["a", "b", "big one"], [[1e250], [0.0], [0.0]])
        assert "The prediction for row 0 of X overflows" in refusal("predict", "model.json", "huge.csv")
        run("inspect", "model.json", "--json")

    @pytest.mark.filterwarnings("default")
    def test_warnings_are_plain_lines(self, data, monkeypatch):
        original = DCONRegressor.fit

        def fit(self, *arguments, **options):
            warnings.warn("This is\nodd.", stacklevel=2)
            return original(self, *arguments, **options)

        monkeypatch.setattr(DCONRegressor, "fit", fit)
        result = run("fit", "data.csv", "--target", "y", "--drop", "colour", *QUICK)
        assert result.stderr == "warning: This is odd.\n"


class TestInspect:
    def test_tells_what_is_in_the_file(self, model):
        text = run("inspect", "model.json").stdout
        assert "regressor of y with 3 features" in text
        assert "features: a, b, big one" in text
        assert "gamma=0.05" in text
        assert f"test: MSE {model.scores['test'].mse:.6g}" in text
        assert "network: 3 neurons, 0 of them dead" in text
        assert model.trainings[0].message in text
        assert "strongest neurons: " in text
        assert "strongest features: " in text

    def test_json_holds_everything(self, model):
        summary = json.loads(run("inspect", "model.json", "--json").stdout)
        assert summary["kind"] == "regressor"
        assert summary["classes"] is None
        assert summary["features"] == ["a", "b", "big one"]
        assert summary["settings"]["n_hidden"] == 3
        assert summary["scores"]["train"]["rows"] == 48
        (network,) = summary["networks"]
        assert network["objective"] == model.trainings[0].objective
        assert network["first_objective"] >= network["objective"]
        strengths = [entry["strength"] for entry in network["strongest_features"]]
        assert strengths == sorted(strengths, reverse=True)
        by_name = {entry["feature"]: entry["strength"] for entry in network["strongest_features"]}
        W, alpha = model.networks[0].W, model.networks[0].alpha
        assert by_name["a"] == pytest.approx(np.sum(np.abs(alpha * W[:, 0])))
        assert len(network["strongest_neurons"]) == 3

    def test_classifiers(self, data):
        run("fit", "data.csv", "--target", "colour", "--drop", "y", *QUICK)
        text = run("inspect", "model.json").stdout
        assert "classes: blue, green, red" in text
        assert "network for class green: 3 neurons" in text
        summary = json.loads(run("inspect", "model.json", "--json").stdout)
        assert [network["class"] for network in summary["networks"]] == ["blue", "green", "red"]

    def test_long_lists_are_shortened(self, points):
        names = [f"f{i}" for i in range(30)]
        rng = np.random.default_rng(1)
        write_csv("wide.csv", [*names, "y"], rng.normal(size=(31, 50)).tolist())
        run("fit", "wide.csv", "--target", "y", *QUICK)
        assert "and 18 more" in run("inspect", "model.json").stdout

    def test_control_characters_do_not_reach_the_terminal(self, model):
        content = json.loads(Path("model.json").read_text())
        content["target"]["name"] = "\x1b[31mred"
        content["trainings"][0]["message"] = "\x1b]0;title\x07"
        Path("model.json").write_text(json.dumps(content))
        text = run("inspect", "model.json").stdout
        assert "\x1b" not in text
        assert "\x07" not in text

    def test_unknown_figures(self, model):
        content = json.loads(Path("model.json").read_text())
        content["trainings"][0].update(stationarity=None, objectives=[])
        Path("model.json").write_text(json.dumps(content))
        text = run("inspect", "model.json").stdout
        assert "stationarity unknown" in text
        assert "at the start" not in text

    def test_dead_neurons(self):
        network = Network(
            W=[[1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [1e-20, 0.0], [0.0, 0.0]],
            b=[0.0, 0.0, 0.0, -1.0, 0.0, 1.0],
            alpha=[1.0, 1.0, 0.0, 1.0, 1.0, 1.0],
        )
        assert count_dead(network) == 4  # the first works, and the last is a constant
        assert count_dead(Network(np.zeros((2, 1)), np.zeros(2), np.zeros(2))) == 2

    def test_missing_model(self):
        assert refusal("inspect", "none.json") == "none.json: No such file or directory"


class TestInspectWithData:
    def test_certificate_is_printed_and_the_report_written(self, model):
        result = run("inspect", "model.json", "--data", "data.csv")
        training = model.trainings[0]
        assert "48 of the 60 rows of data.csv (the training part)" in result.stdout
        table = result.stdout.partition("Certificate: 3 neurons, 48 rows, 3 inputs")[2]
        assert f"{training.objective:.6g}" in table
        assert f"{training.stationarity:.2e}" in table
        assert "The report is in report.html." in result.stdout
        assert Path("report.html").read_text().startswith("<!DOCTYPE html>")

    def test_other_data_are_called_so(self, model, points):
        few = [values[:20] for values in points.values()]
        write_csv("few.csv", list(points), few)
        result = run("inspect", "model.json", "--data", "few.csv", "-o", "few.html")
        assert "20 rows of few.csv differs from the stored one" in result.stdout
        assert Path("few.html").exists()

    def test_classes_have_their_certificates(self, data):
        run("fit", "data.csv", "--target", "colour", "--drop", "y", *QUICK)
        text = run("inspect", "model.json", "--data", "data.csv").stdout
        assert [line.partition(":")[0] for line in text.splitlines() if line.startswith("Certificate")] == [
            f"Certificate of class {label}" for label in ("blue", "green", "red")
        ]

    def test_json(self, model):
        summary = json.loads(run("inspect", "model.json", "--data", "data.csv", "--json").stdout)
        assert summary["examination"]["is_training_data"] is True
        assert summary["examination"]["report"] == "report.html"
        assert summary["kind"] == "regressor"

    def test_dead_neurons_are_those_on_the_data(self, model):
        # A neuron that is positive beyond the data only, which no summary can know without them.
        network = model.networks[0]
        b = np.where(np.arange(network.n_hidden) == 0, -1e3, network.b)
        replace(model, networks=(Network(network.W, b, network.alpha),)).save("model.json")
        assert "3 neurons, 0 of them dead" in run("inspect", "model.json").stdout
        text = run("inspect", "model.json", "--data", "data.csv").stdout
        assert "3 neurons, 1 of them dead" in text
        assert re.search(r"^dead neurons +1 ", text, re.MULTILINE)
        summary = json.loads(run("inspect", "model.json", "--data", "data.csv", "--json", "--force").stdout)
        assert summary["networks"][0]["dead_neurons"] == 1

    @pytest.mark.parametrize("column", ["a", "y"])
    @pytest.mark.parametrize("cell", ["1e308", "-1e200", "1e80"])
    def test_cells_that_are_too_large_are_named(self, model, points, column, cell):
        points[column] = [*points[column][:3], cell, *points[column][4:]]
        write_csv("large.csv", list(points), list(points.values()))
        place = f"large.csv, line 5, column {column!r}"
        remedy = "Correct the column or delete the row."
        message = f"{place}: {float(cell)} is too large for this model. {remedy}"
        assert refusal("inspect", "model.json", "--data", "large.csv") == message

    def test_a_gamma_that_is_too_large_is_named(self, model):
        trainings = tuple(replace(training, gamma=None) for training in model.trainings)
        replace(model, settings={**model.settings, "gamma": 10**400}, trainings=trainings).save("model.json")
        message = "The gamma in the settings of the model file is too large for a floating-point number."
        assert refusal("inspect", "model.json", "--data", "data.csv") == message

    def test_an_existing_report_is_kept_unless_forced(self, model):
        Path("report.html").write_text("mine")
        assert "report.html exists already" in refusal("inspect", "model.json", "--data", "data.csv")
        assert Path("report.html").read_text() == "mine"
        run("inspect", "model.json", "--data", "data.csv", "--force")
        assert Path("report.html").read_text() != "mine"

    def test_output_without_data_is_refused(self, model):
        assert "Name the table with --data" in refusal("inspect", "model.json", "-o", "report.html")
        assert "Name the table with --data" in refusal("inspect", "model.json", "--replay")

    def test_training_is_repeated_on_demand(self, model):
        text = run("inspect", "model.json", "--data", "data.csv", "--replay").stdout
        assert "(H1) constant a" in text

    @pytest.fixture
    def without_matplotlib(self, monkeypatch):
        for name in ["matplotlib", *(name for name in sys.modules if name.startswith("matplotlib."))]:
            monkeypatch.setitem(sys.modules, name, None)

    def test_without_matplotlib_the_certificate_is_printed(self, model, without_matplotlib):
        result = run("inspect", "model.json", "--data", "data.csv")
        assert "Certificate: 3 neurons, 48 rows, 3 inputs" in result.stdout
        assert "The report is in" not in result.stdout
        assert result.stderr == "No report: Plots need Matplotlib: pip install 'dconnet[plot]'\n"
        assert not Path("report.html").exists()
        summary = json.loads(run("inspect", "model.json", "--data", "data.csv", "--json").stdout)
        assert summary["examination"]["report"] is None

    def test_a_report_that_was_asked_for_must_be_written(self, model, without_matplotlib):
        result = run("inspect", "model.json", "--data", "data.csv", "-o", "mine.html", code=2)
        assert "Certificate: 3 neurons" in result.stdout
        assert "pip install 'dconnet[plot]'" in result.stderr

    def test_missing_columns_are_named(self, model):
        write_csv("narrow.csv", ["a", "y"], [[1.0], [2.0]])
        assert "'b'" in refusal("inspect", "model.json", "--data", "narrow.csv")
        assert not Path("report.html").exists()


class TestProgramme:
    def test_version(self):
        assert run("--version").stdout == f"dconnet {dconnet.__version__}\n"

    def test_without_a_command_the_help_is_shown(self):
        result = CliRunner().invoke(app, [])
        assert all(command in result.output for command in ("fit", "predict", "inspect"))

    def test_as_a_module(self, data):
        command = [sys.executable, "-W", "error", "-m", "dconnet"]
        fit = ["fit", "data.csv", "--target", "y", "--drop", "colour", *QUICK]
        done = subprocess.run([*command, *fit], capture_output=True, text=True, check=True)
        assert "is in model.json" in done.stdout
        assert done.stderr == ""
        failed = subprocess.run([*command, *fit], capture_output=True, text=True, check=False)
        assert failed.returncode == 2
        assert failed.stderr.startswith("Error: model.json exists already.")

    def test_the_commands_need_no_optional_package(self, data):
        optional = ("pandas", "polars", "pyarrow", "pooch", "matplotlib", "jinja2", "torch", "osqp")
        code = (
            "import sys\n"
            "class Absent:\n"
            "    def find_spec(self, name, *_):\n"
            f"        if name.split('.')[0] in {optional}: raise ModuleNotFoundError(name)\n"
            "sys.meta_path.insert(0, Absent())\n"
            "from dconnet.cli import app\n"
            "for command in sys.argv[1:]:\n"
            "    app(command.split(), standalone_mode=False)\n"
            "    print('next')"
        )
        fit = " ".join(("fit", "data.csv", "--target", "y", "--drop", "colour", *QUICK))
        commands = (fit, "predict model.json data.csv", "inspect model.json --data data.csv")
        done = subprocess.run([sys.executable, "-c", code, *commands], capture_output=True, text=True, check=True)
        fitted, predicted, inspected, rest = done.stdout.split("next\n")
        assert "is in model.json" in fitted
        assert predicted.startswith("predicted_y\n")
        assert "Certificate: 3 neurons" in inspected
        assert rest == ""
        assert "pip install 'dconnet[report]'" in done.stderr

    def test_help_loads_nothing_heavy(self):
        code = (
            "import sys, dconnet.cli\n"
            "print([name for name in ('numpy', 'scipy', 'sklearn', 'msgspec', 'pandas') if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"
