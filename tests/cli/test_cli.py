"""The command line, from a table to predictions, reports and exports."""

import errno
import io
import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dconnet
from dconnet.cli import main
from dconnet.encoding.coder import deal
from dconnet.io.table_files import read_table, write_table
from dconnet.training.descent import Descent

QUICK = ("--n-hidden", "3", "--gamma", "0.05", "--tol", "1.0")
N_ROWS = 80


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def table():
    """Write numbers.csv with numbers alone, and table.csv with codes, text, dates and missing values."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 2))
    table = pd.DataFrame({"a": X[:, 0], "big one": 1000.0 + 50.0 * X[:, 1]})
    table["y"] = 10.0 * np.abs(X[:, 0]) + X[:, 1]
    table["z"] = -table["y"]
    table.to_csv("numbers.csv", index=False)
    table["code"] = [f"{j % 4:02d}" for j in range(N_ROWS)]
    table["sold"] = pd.date_range("2026-01-01", periods=N_ROWS).strftime("%Y-%m-%d")
    table["colour"] = np.where(X[:, 0] > 0.5, "red", np.where(X[:, 0] < -0.5, "blue", "green"))
    table.loc[3, "a"] = np.nan
    table.to_csv("table.csv", index=False, sep=";")
    return table


def run(*arguments, code=0):
    with pytest.raises(SystemExit) as exit_code:
        main(arguments)
    assert (exit_code.value.code or 0) == code


def fails(capsys, *arguments):
    """Return the error of a command: one line, exit code 2, nothing on standard output."""
    capsys.readouterr()
    run(*arguments, code=2)
    found = capsys.readouterr()
    errors = [line for line in found.err.splitlines() if not line.startswith("warning")]
    assert len(errors) == 1, found.err
    assert errors[0].startswith("Error: ")
    return errors[0]


def read_exactly(path):
    """Return a CSV file with exact numbers, which `read_csv` of older pandas rounds."""
    table = pd.read_csv(path, dtype=str)
    for name in table:
        with suppress(ValueError):
            table[name] = table[name].map(float)
    return table


def predictions(*arguments):
    run("predict", *arguments, "-o", "predicted.csv", "--force")
    return read_exactly("predicted.csv")


# --- fit and predict ---


def test_a_single_network_on_numbers(table, capsys):
    run("fit", "numbers.csv", "--target", "y", "--drop", "z", "-o", "m.json", *QUICK)
    out = capsys.readouterr().out
    assert "80 rows, 2 features, target y, regression, 16 rows held out" in out
    assert "test: MSE" in out
    model = dconnet.load("m.json")
    assert isinstance(model, dconnet.DCONRegressor)
    assert model.metadata_.feature_names == ("a", "big one")
    assert model.metadata_.target_names == ("y",)
    assert model.metadata_.scores["test"]["n_rows"] == 16
    found = predictions("m.json", "numbers.csv")
    numbers = read_exactly("numbers.csv")
    np.testing.assert_array_equal(found["predicted_y"], model.predict(numbers[["a", "big one"]]))
    shuffled = numbers[["z", "big one", "a"]]
    shuffled.to_csv("other order.csv", index=False)
    assert predictions("m.json", "other order.csv").equals(found)


def test_a_single_network_on_a_table_is_a_pipeline(table):
    run("fit", "table.csv", "--target", "y", "--drop", "z", "--single", "--max-epochs", "3", "-q")
    model = dconnet.load("model.json")
    assert [type(step) for step in model] == [dconnet.TableEncoder, dconnet.DCONRegressor]
    assert model[-1].scale
    rows = read_table("table.csv")
    rows.loc[0, ["code", "colour"]] = ["77", "unseen"]
    rows.to_csv("new.csv", index=False)
    found = predictions("model.json", "new.csv")["predicted_y"]
    np.testing.assert_array_equal(found, model.predict(rows[list(model.metadata_.feature_names)]))


def test_an_ensemble_with_intervals(table, capsys):
    run("fit", "table.csv", "--target", "y", "--drop", "z", "--test-fraction", "0.25")
    out = capsys.readouterr().out
    for words in ("out of fold: MSE", "test: MSE", "category  4 levels", "importance", "weight"):
        assert words in out
    model = dconnet.load("model.json")
    assert isinstance(model, dconnet.AutoDCONRegressor)
    found = predictions("model.json", "table.csv", "--coverage", "0.8")
    assert found.columns.tolist() == ["predicted_y", "low_y", "high_y"]
    assert (found["low_y"] < found["high_y"]).all()
    np.testing.assert_array_equal(
        found["predicted_y"], model.predict(read_table("table.csv")[list(model.feature_names_in_)])
    )


@pytest.mark.parametrize("options", [(), QUICK])
def test_classes_with_probabilities(options, table):
    run("fit", "table.csv", "--target", "colour", "-q", *options)
    found = predictions("model.json", "table.csv", "--probabilities")
    names = ["probability_blue", "probability_green", "probability_red"]
    assert found.columns.tolist() == ["predicted_colour", *names]
    np.testing.assert_allclose(found[names].sum(axis=1), 1.0)
    assert (found["predicted_colour"] == table["colour"]).mean() > 0.6


@pytest.mark.filterwarnings("ignore:The out-of-fold")
def test_columns_without_information_give_no_table_of_members(folder, capsys):
    (folder / "coins.csv").write_text("x,side\n1,heads\n1,tails\n")
    run("fit", "coins.csv", "--target", "side")
    printed = capsys.readouterr().out
    assert "No member got a weight" in printed
    assert "learns" not in printed


def test_several_targets_share_a_network(table):
    run("fit", "numbers.csv", "--target", "y", "--target", "z", "-q", *QUICK)
    assert dconnet.load("model.json").metadata_.target_names == ("y", "z")
    found = predictions("model.json", "numbers.csv")
    assert found.columns.tolist() == ["predicted_y", "predicted_z"]


def test_codes_stay_text(folder):
    """Targets and features 01, 1 and 001 differ."""
    lines = [f"{('01', '1', '001')[j % 3]},{j},{('a', 'b', 'c')[j % 3]}" for j in range(60)]
    Path("codes.csv").write_text("\n".join(["code,x,y", *lines]) + "\n")
    run("fit", "codes.csv", "--target", "y", "-q")
    assert predictions("model.json", "codes.csv")["predicted_y"].tolist() == ["a", "b", "c"] * 20
    run("fit", "codes.csv", "--target", "code", "-q", "--force")
    assert dconnet.load("model.json").classes_.tolist() == ["001", "01", "1"]


def test_a_class_that_only_test_rows_have_loses_no_model(table):
    table["colour"] = ["violet", *table["colour"][1:]]
    table.to_csv("rare.csv", index=False)
    for seed in range(20):
        run("fit", "rare.csv", "--target", "colour", "-q", "--force", "--seed", str(seed), "--max-epochs", "1", *QUICK)
        model = dconnet.load("model.json")
        if "violet" not in model.classes_:
            break
    assert "log_loss" not in model.metadata_.scores["test"]
    assert "log_loss" in model.metadata_.scores["train"]


def test_without_pandas_the_error_names_the_extra(table, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "pip install 'dconnet[cli]'" in fails(capsys, "fit", "table.csv", "--target", "y")


def test_tables_come_from_standard_input_and_go_to_standard_output(table, monkeypatch, capsys):
    run("fit", "numbers.csv", "--target", "y", "-q", *QUICK)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("numbers.csv").read_bytes())))
    run("predict", "model.json", "-")
    assert len(capsys.readouterr().out.splitlines()) == N_ROWS + 1


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("predict model.json numbers.csv >&-", 2, "standard output is closed"),
        ("predict model.json - <&-", 2, "standard input is closed"),
        ("predict model.json numbers.csv > /dev/full", 2, "standard output: No space left"),
        ("predict model.json numbers.csv -o /dev/full", 2, "/dev/full: No space left"),
        ("inspect model.json >&-", 0, ""),
        ("predict model.json none.csv 2>&-", 2, ""),
    ],
)
def test_streams_of_a_shell(command, code, message, table):
    run("fit", "numbers.csv", "--target", "y", "-q", *QUICK)
    ran = subprocess.run(f"{sys.executable} -m dconnet {command}", shell=True, capture_output=True, text=True)
    assert ran.returncode == code
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""


def test_a_full_disk_names_the_file(folder, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match=r"No space left on device: 'table\.csv'"):
        write_table("table.csv", pd.DataFrame({"a": [1]}))
    assert list(folder.iterdir()) == []


def test_separator_encoding_and_decimal_are_options(folder, capsys):
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f}:{2 * a:.3f}".replace(".", ",") for a in rng.normal(size=40)]
    Path("deutsch.csv").write_bytes("\n".join(["größe:y", *rows]).encode("latin-1"))
    dialect = ("--sep", ":", "--encoding", "latin-1", "--decimal", ",")
    run("fit", "deutsch.csv", "--target", "y", "-q", *QUICK, *dialect)
    assert dconnet.load("model.json").metadata_.feature_names == ("größe",)
    assert dconnet.load("model.json").metadata_.scores["train"]["r2"] > 0.9
    assert "--encoding" in fails(capsys, "predict", "model.json", "deutsch.csv")


def test_an_interrupt_keeps_the_network(table, monkeypatch):
    step, left = Descent.step, iter(range(2))

    def interrupt(*arguments):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(Descent, "step", interrupt)
    options = ("--single", "--gamma", "0.01", "--algorithm", "paper", "--n-hidden", "3", "--tol", "0")
    run("fit", "table.csv", "--target", "y", "-q", *options, code=130)
    assert len(predictions("model.json", "table.csv")) == N_ROWS


def test_a_checkpoint_resumes(table, capsys):
    options = ("--n-hidden", "3", "--gamma", "0.05", "--max-epochs", "2", "--checkpoint", "state.npz")
    run("fit", "numbers.csv", "--target", "y", "-q", *options)
    assert Path("state.npz").exists()
    assert "state.npz" in fails(capsys, "fit", "numbers.csv", "--target", "z", "-o", "other.json", *options)


@pytest.mark.slow
def test_sigterm_writes_the_checkpoint(folder):
    """A fit that is terminated resumes to the bits of a fit without interruption."""
    X = np.random.default_rng(0).normal(size=(1000, 4))
    pd.DataFrame(X, columns=list("abcd")).assign(y=np.sin(3 * X).sum(axis=1)).to_csv("waves.csv", index=False)
    fit = [sys.executable, "-m", "dconnet", "fit", "waves.csv", "--target", "y", "--n-hidden", "30", "--gamma", "1e-6"]
    fit += ["--algorithm", "paper", "--tol", "0", "--max-epochs", "1500", "--checkpoint", "state.npz"]
    process = subprocess.Popen(fit, stderr=subprocess.PIPE, text=True)
    while not Path("state.npz").exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)  # some epochs of the 1500
    begun = Path("state.npz").stat().st_mtime_ns
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 143
    assert "resumes from state.npz" in err
    assert Path("state.npz").stat().st_mtime_ns > begun
    assert not Path("model.json").exists()
    subprocess.run(fit, check=True)
    subprocess.run([*fit[:-2], "-o", "whole.json"], check=True)
    resumed, whole = dconnet.load("model.json"), dconnet.load("whole.json")
    np.testing.assert_array_equal(resumed.network_.W, whole.network_.W)


def test_two_whole_numbers_are_classes(folder, capsys):
    pd.DataFrame({"x": np.arange(40.0), "y": np.arange(40) // 20}).to_csv("binary.csv", index=False)
    run("fit", "binary.csv", "--target", "y", *QUICK)
    assert "target y, classification, 2 classes, 8 rows held out\nFor regression" in capsys.readouterr().out
    assert dconnet.load("model.json").classes_.tolist() == [0, 1]
    run("fit", "binary.csv", "--target", "y", "--task", "regression", "-q", "--force", *QUICK)
    assert isinstance(dconnet.load("model.json"), dconnet.DCONRegressor)


# --- compare ---


@pytest.mark.parametrize(("target", "measure"), [("y", "mse"), ("colour", "log_loss")])
def test_compare_prints_a_leader_board(target, measure, table, capsys):
    run("compare", "table.csv", "--target", target, "--drop", "z", "--folds", "2", "--json")
    found = capsys.readouterr()
    assert f"80 rows, 5 features, target {target}" in found.err
    losses = {model["model"]: model[measure] for model in json.loads(found.out)["models"]}
    assert len(losses) == 5
    assert list(losses.values()) == sorted(losses.values())
    assert losses["ensemble"] < losses["constant"]
    y = table[target]
    if target == "y":  # by hand, on the same folds
        folds = deal(N_ROWS, 2, 0)
        expected = np.mean([(y[rows] - y[folds[1 - f]].mean()) ** 2 for f, rows in enumerate(folds)])
        assert losses["constant"] == pytest.approx(expected)


def test_compare_prints_one_line_for_each_model(table, capsys):
    run("compare", "numbers.csv", "--target", "y", "--drop", "z", "--folds", "2", "-q")
    found = capsys.readouterr()
    assert found.err == ""
    assert len(found.out.splitlines()) == 6
    assert "--folds" in fails(capsys, "compare", "numbers.csv", "--target", "y", "--folds", "50")
    assert "one --target" in fails(capsys, "compare", "numbers.csv", "--target", "y", "--target", "z")


# --- errors ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table.csv", "--target", "none"), "no column 'none'"),
        (("table.csv", "--target", "y", "--drop", "y"), "cannot be dropped"),
        (("none.csv", "--target", "y"), "none.csv: No such file"),
        (("table.csv", "--target", "y", "--target", "z"), "one --target"),
        (("table.csv", "--target", "y", "--target", "y", "--single"), "once"),
        (("table.csv", "--target", "y", "--target", "colour", "--single"), "'colour'"),
        (("table.csv", "--target", "a"), "'a', row 4: the value is missing"),
        (("table.csv", "--target", "sold"), "80 different values"),
        (("table.csv", "--target", "colour", "--task", "regression"), "--task classification"),
        (("table.csv", "--target", "y", "--quality", "high", "--single"), "Leave out one of them"),
        (("table.csv", "--target", "y", "--test-fraction", "1"), "below 1"),
        (("table.csv", "--target", "y", "--test-fraction", "0.999"), "leaves none"),
        (("table.csv", "--target", "y", "--gamma", "-1"), "gamma"),
        (("table.csv", "--target", "y", "--n-hidden", "0"), "neither a positive integer nor auto"),
        (("table.csv", "--target", "y", "-o", "no/model.json"), "folder of no/model.json"),
        (("table.csv", "--target", "y", "-o", "-"), "/dev/stdout"),
        (("table.csv", "--target", "y", "-o", "table.csv"), "--force"),
        (("table.csv", "--target", "y", "--sep", "ab"), "one character"),
        (("table.csv",), "--target"),
    ],
)
def test_mistakes_in_fit_are_one_line(arguments, message, table, capsys):
    before = sorted(Path().iterdir())
    assert message in fails(capsys, "fit", *arguments)
    assert sorted(Path().iterdir()) == before


@pytest.mark.filterwarnings("default")
def test_a_target_of_numbers_with_a_typo_is_refused(table, capsys):
    rows = read_table("numbers.csv")
    rows.loc[5, "y"] = "1.2x"
    rows.to_csv("typo.csv", index=False)
    error = fails(capsys, "fit", "typo.csv", "--target", "y")
    assert "row 6" in error
    assert "--task classification" in error
    rows.loc[5, ["y", "a"]] = ["1.2", "1.2x"]
    rows.to_csv("typo.csv", index=False)
    run("fit", "typo.csv", "--target", "y", "-q")
    assert "row 6 holds '1.2x'" in capsys.readouterr().err


def test_mistakes_in_predict_are_one_line(table, capsys):
    run("fit", "numbers.csv", "--target", "y", "-q", *QUICK)
    assert "not a valid model file" in fails(capsys, "predict", "numbers.csv", "numbers.csv")
    assert "no intervals" in fails(capsys, "predict", "model.json", "numbers.csv", "--coverage", "0.9")
    assert "no probabilities" in fails(capsys, "predict", "model.json", "numbers.csv", "--probabilities")
    assert "row 4: the value is missing" in fails(capsys, "predict", "model.json", "table.csv")
    Path("short.csv").write_text("a,b\n1,2\n")
    assert "no column 'big one', 'z'" in fails(capsys, "predict", "model.json", "short.csv")
    assert "--force" in fails(capsys, "predict", "model.json", "numbers.csv", "-o", "numbers.csv")


# --- inspect ---


def test_inspect_shows_the_networks(table, capsys):
    run("fit", "numbers.csv", "--target", "y", "--drop", "z", "-q", *QUICK)
    run("inspect", "model.json")
    out = capsys.readouterr().out
    for words in ("regressor of y with 2 features", "3 neurons", "RegLoss", "strongest features: a"):
        assert words in out
    run("inspect", "model.json", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["features"], found["targets"]) == ("regressor", ["a", "big one"], ["y"])
    assert found["networks"][0]["n_hidden"] == 3
    assert found["scores"]["train"]["n_rows"] == 64


@pytest.mark.parametrize("options", [(), QUICK])
def test_inspect_reports_on_a_table(options, table, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    run("fit", "table.csv", "--target", "y", "--drop", "z", "-q", *options)
    run("inspect", "model.json", "--data", "table.csv", "-o", "report.html")
    out = capsys.readouterr().out
    assert "are the training rows" in out
    assert "The report is in report.html." in out
    assert "<html" in Path("report.html").read_text()
    assert "--force" in fails(capsys, "inspect", "model.json", "--data", "table.csv")
    run("inspect", "model.json", "--data", "table.csv", "--json", "--force")
    assert json.loads(capsys.readouterr().out)["examination"]["is_training_data"]
    assert "--data" in fails(capsys, "inspect", "model.json", "-o", "other.html")


# --- export ---


def test_exports_in_python_and_c(table, capsys):
    run("fit", "numbers.csv", "--target", "y", "--drop", "z", "-q", *QUICK)
    run("export", "model.json", "network.py", "--name", "height")
    source = {}
    exec(Path("network.py").read_text(), source)
    numbers = read_exactly("numbers.csv")[["a", "big one"]]
    expected = dconnet.load("model.json").predict(numbers)
    found = [source["height"](row) for row in numbers.to_numpy().tolist()]
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-12)
    run("export", "model.json", "network.c")
    assert "big one" in Path("network.c").read_text()
    assert "--to" in fails(capsys, "export", "model.json", "network.txt")
    assert "--name" in fails(capsys, "export", "model.json", "network.onnx", "--name", "f")
    assert "--dtype" in fails(capsys, "export", "model.json", "f.py", "--dtype", "float32")
    assert "--force" in fails(capsys, "export", "model.json", "network.c")
    assert "no probabilities" in fails(capsys, "export", "model.json", "f.py", "--probabilities")


def test_exports_of_pipelines_and_ensembles(table, capsys):
    run("fit", "table.csv", "--target", "colour", "-q", *QUICK)
    run("export", "model.json", "network.py", "--probabilities")
    assert "TableEncoder" in capsys.readouterr().err
    source = {}
    exec(Path("network.py").read_text(), source)
    pipeline = dconnet.load("model.json")
    rows = read_table("table.csv")[list(pipeline.metadata_.feature_names)]
    found = [source["predict"](row) for row in pipeline[0].transform(rows).tolist()]
    np.testing.assert_allclose(found, pipeline.predict_proba(rows), rtol=1e-9, atol=1e-12)
    run("fit", "table.csv", "--target", "y", "-q", "--force")
    assert "--single" in fails(capsys, "export", "model.json", "other.py")
    assert "--single" in fails(capsys, "export", "model.json", "other.c", "--dtype", "float32")
    assert "distil" in fails(capsys, "export", "model.json", "other.c")
    run("fit", "numbers.csv", "--target", "y", "-q", "--force")
    run("export", "model.json", "ensemble.c", "--name", "height")
    assert "void height(const double x[3], double y[1])" in Path("ensemble.c").read_text()


@pytest.mark.peers
@pytest.mark.parametrize(("package", "name"), [("onnxruntime", "network.onnx"), ("torch", "network.pt2")])
def test_exports_for_libraries(package, name, table):
    library = pytest.importorskip(package)
    run("fit", "numbers.csv", "--target", "y", "-q", *QUICK)
    run("export", "model.json", name)
    numbers = read_exactly("numbers.csv")[["a", "big one", "z"]]
    if package == "torch":
        found = library.export.load(name).module()(library.tensor(numbers.to_numpy())).detach().numpy()
    else:
        session = library.InferenceSession(name)
        (found,) = session.run(None, {session.get_inputs()[0].name: numbers.to_numpy()})
    np.testing.assert_allclose(np.ravel(found), dconnet.load("model.json").predict(numbers), rtol=1e-9)


# --- the program ---


def test_help_and_version_answer_without_heavy_imports():
    heavy = ("numpy", "scipy", "sklearn", "msgspec", "pandas")
    script = (
        "import sys\nfrom dconnet.cli import main\ntry:\n    main(['fit', '--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    assert "--target" in ran.stdout


def test_no_command_prints_the_help(capsys):
    run(code=2)
    assert "predict" in capsys.readouterr().out
    run("--version")
    assert capsys.readouterr().out.split() == ["dconnet", dconnet.__version__]
