"""The command line ``python -m reproduction``."""

import json

import pytest

from reproduction import commands
from reproduction.commands import main
from reproduction.experiment import NAMES, get_experiment
from reproduction.page import Picture
from reproduction.store import Store
from shared_data import HOME, needs_data


@pytest.fixture
def invoke(capsys):
    def run(*arguments, code=0):
        capsys.readouterr()
        assert main(list(map(str, arguments))) == code
        return capsys.readouterr()

    return run


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    monkeypatch.setattr(Picture, "save", lambda self, folder: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table1", "--set", "splitz=3"], "no setting 'splitz'"),
        (["table1", "--set", "splits=three"], "value in JSON"),
        (["table1", "--set", 'scaler_fit="test"'], "scaler_fit must be"),
        (["baselines", "--set", 'datasets=["DS0"]'], "no dataset 'DS0'"),
    ],
)
def test_wrong_orders(tmp_path, arguments, message, invoke):
    result = invoke(*arguments, "--results", tmp_path / "r", "--data-home", tmp_path, code=2)
    assert message in result.err


def test_missing_data_is_one_clear_message(tmp_path, monkeypatch, invoke):
    def offline(url):
        raise OSError("no network")

    monkeypatch.setattr("reproduction.datasets.files._fetch", offline)
    result = invoke("baselines", "--quick", "--results", tmp_path / "r", "--data-home", tmp_path, code=2)
    assert "machine.data is not in" in result.err
    assert "--data-home or DCONNET_DATA" in result.err


def test_rendering_nothing(tmp_path, invoke):
    folder = tmp_path / "results"
    folder.mkdir()
    invoke("render", "--results", folder)
    assert (folder / "reproduction.md").read_text().count("Not computed") == len(NAMES)


def test_rendering_without_a_folder(tmp_path, invoke):
    assert "no folder" in invoke("render", "--results", tmp_path / "r", code=2).err


def test_changes_are_read_as_json():
    experiment = get_experiment("table1")
    changes = commands.parse_changes(["splits=10", 'datasets=["DS1", "DS2"]', "tol=1e-3"], [experiment])
    assert changes == {"splits": 10, "datasets": ("DS1", "DS2"), "tol": 1e-3}


@needs_data
def test_baselines_from_end_to_end(tmp_path, invoke):
    arguments = ["baselines", "--results", tmp_path, "--data-home", HOME, "--jobs", 2]
    few = ["--set", 'datasets=["DS1"]', "--set", "splits=2", "--set", 'models=["linear", "ridge"]']
    invoke(*arguments, *few)
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "baselines").glob("*=*")}
    assert len(cells) == 4
    again = invoke(*arguments, *few, "--pack")
    assert "4 of 4 cells are there" in again.err
    assert len(Store(tmp_path, "baselines").records()) == 4
    header = json.loads((tmp_path / "baselines.jsonl").read_text().splitlines()[0])
    assert header["settings"]["building_lags"] == [4]
    assert "4 of the 2160 cells" in (tmp_path / "reproduction.md").read_text()


@needs_data
def test_datasets_are_listed_where_they_are(tmp_path, invoke):
    lines = invoke("datasets", "--data-home", HOME).out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*(f"DS{k}" for k in range(1, 10)), "MNIST"]
    assert "372" in lines[6]
    assert "DS6_residential_building" in lines[6]


def test_datasets_that_are_missing_say_so(tmp_path, invoke):
    lines = invoke("datasets", "--data-home", tmp_path).out.splitlines()
    assert all(line.endswith("missing") for line in lines[1:])
    assert len(lines) == 11
