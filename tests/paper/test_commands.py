"""``dconnet reproduce`` and ``dconnet datasets`` on the command line."""

import json

import pytest
from typer.testing import CliRunner

from dconnet.cli import app
from dconnet.paper import commands
from dconnet.paper.commands import Order
from dconnet.paper.experiment import NAMES, get_experiment
from dconnet.paper.page import Picture
from dconnet.paper.store import Store
from shared_data import HOME, needs_data


def invoke(*arguments, code=0):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    return result


def test_the_help_names_every_experiment():
    text = " ".join(invoke("reproduce", "--help").output.split())
    assert all(name in text for name in NAMES)


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    monkeypatch.setattr(Picture, "save", lambda self, folder: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table2"], "no experiment 'table2'"),
        (["table1", "--set", "splitz=3"], "no setting 'splitz'"),
        (["table1", "--set", "splits=three"], "value in JSON"),
        (["table1", "--set", 'scaler_fit="test"'], "scaler_fit must be"),
        (["baselines", "--set", 'datasets=["DS0"]'], "no dataset 'DS0'"),
    ],
)
def test_wrong_orders(tmp_path, arguments, message):
    result = invoke("reproduce", *arguments, "--results", tmp_path / "r", "--data-home", tmp_path, code=2)
    assert message in result.stderr


def test_missing_data_is_one_clear_message(tmp_path, monkeypatch):
    def offline(url):
        raise OSError("no network")

    monkeypatch.setattr("dconnet.paper.datasets.files._fetch", offline)
    result = invoke("reproduce", "baselines", "--quick", "--results", tmp_path / "r", "--data-home", tmp_path, code=2)
    assert "machine.data is not in" in result.stderr
    assert "--data-home or DCONNET_DATA" in result.stderr


def test_rendering_nothing(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    invoke("reproduce", "render", "--results", folder)
    assert (folder / "reproduction.md").read_text().count("Not computed") == len(NAMES)


def test_rendering_without_a_folder(tmp_path):
    assert "no folder" in invoke("reproduce", "render", "--results", tmp_path / "r", code=2).stderr


def test_changes_are_read_as_json():
    experiment = get_experiment("table1")
    changes = commands._changes(["splits=10", 'datasets=["DS1", "DS2"]', "tol=1e-3"], [experiment])
    assert changes == {"splits": 10, "datasets": ("DS1", "DS2"), "tol": 1e-3}


def test_quick_results_stand_apart(tmp_path):
    assert Order("all", quick=True, results=tmp_path).folder != Order("all", results=tmp_path).folder


@needs_data
def test_baselines_from_end_to_end(tmp_path):
    arguments = ["reproduce", "baselines", "--results", tmp_path, "--data-home", HOME, "--jobs", 2]
    few = ["--set", 'datasets=["DS1"]', "--set", "splits=2", "--set", 'models=["linear", "ridge"]']
    invoke(*arguments, *few)
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "baselines").glob("*=*")}
    assert len(cells) == 4
    again = invoke(*arguments, *few, "--pack")
    assert "4 of 4 cells are there" in again.stderr
    assert len(Store(tmp_path, "baselines").records()) == 4
    header = json.loads((tmp_path / "baselines.jsonl").read_text().splitlines()[0])
    assert header["settings"]["building_lags"] == [4]
    assert "4 of the 2160 cells" in (tmp_path / "reproduction.md").read_text()


@needs_data
def test_datasets_are_listed_where_they_are(tmp_path):
    lines = invoke("datasets", "--data-home", HOME).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*(f"DS{k}" for k in range(1, 10)), "MNIST"]
    assert "372" in lines[6]
    assert "DS6_residential_building" in lines[6]


def test_datasets_that_are_missing_say_so(tmp_path):
    lines = invoke("datasets", "--data-home", tmp_path).stdout.splitlines()
    assert all(line.endswith("missing") for line in lines[1:])
    assert len(lines) == 11
