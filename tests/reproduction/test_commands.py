"""The command line ``python -m reproduction``, and the plans of the experiments."""

import json
from dataclasses import replace

import pytest

from reproduction import commands
from reproduction.experiment import NAMES, get_experiment
from reproduction.page import Picture
from reproduction.store import Store, build_name
from shared_data import HOME, needs_data


@pytest.fixture
def invoke(capsys, monkeypatch):
    monkeypatch.setattr(Picture, "save", lambda self, folder: None)

    def run(*arguments, code=0):
        capsys.readouterr()
        assert commands.main(list(map(str, arguments))) == code
        return capsys.readouterr()

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table1", "--set", "splitz=3"], "no setting 'splitz'"),
        (["table1", "--set", "splits=three"], "value in JSON"),
        (["table1", "--set", 'scaler_fit="test"'], "scaler_fit must be"),
        (["baselines", "--set", 'datasets=["DS0"]'], "no dataset 'DS0'"),
        (["render"], "no folder"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, message, invoke):
    assert message in invoke(*arguments, "--results", tmp_path / "r", "--data-home", tmp_path, code=2).err


def test_missing_data_is_one_clear_message(tmp_path, monkeypatch, invoke):
    def offline(url):
        raise OSError("no network")

    monkeypatch.setattr("reproduction.datasets.files._fetch", offline)
    result = invoke("baselines", "--quick", "--results", tmp_path / "r", "--data-home", tmp_path, code=2)
    assert "machine.data is not in" in result.err
    assert "--data-home or DCONNET_DATA" in result.err


@needs_data
def test_baselines_from_end_to_end(tmp_path, invoke):
    results = tmp_path / "results"
    arguments = ["baselines", "--results", results, "--data-home", HOME, "--jobs", 2]
    few = ["--set", 'datasets=["DS1"]', "--set", "splits=2", "--set", 'models=["linear", "ridge"]']
    invoke(*arguments, *few)
    assert len(list((results / "baselines").glob("*=*"))) == 4
    assert "4 of 4 cells are there" in invoke(*arguments, *few, "--pack").err
    assert len(Store(results, "baselines").records()) == 4
    header = json.loads((results / "baselines.jsonl").read_text().splitlines()[0])
    assert header["settings"]["building_lags"] == [4]
    assert "4 of the 2160 cells" in (tmp_path / "results.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_consistent_plan(name):
    experiment = get_experiment(name)
    assert experiment.name == name
    complete, quick = (experiment.cells(experiment.defaults(flag)[0]) for flag in (False, True))
    assert len(set(complete)) == len(complete) > len(quick) == len(set(quick)) > 0
    assert all(isinstance(cell, experiment.cell_type) for cell in complete)


def test_plans_are_those_of_the_paper():
    table1, controls, mnist = map(get_experiment, ("table1", "controls", "mnist"))
    assert len(table1.cells(table1.plan)) == 9 * 3 * 30 * 3  # datasets, widths, splits; Adam and both algorithms
    cells = controls.cells(controls.plan)
    assert {cell.split for cell in cells if cell.method == "restart"} == set(range(5))
    assert {cell.split for cell in cells if cell.method == "lbfgs"} == set(range(30))
    cells = mnist.cells(mnist.plan)
    assert {cell.method for cell in cells if cell.side == 28} == {"accelerated", "shrinkage"}
    assert {cell.parameters[0] for cell in cells if cell.method == "paper"} == {1e-2, 1e-3, 1e-4, 1e-5}


def test_a_section_reports_missing_cells_and_changed_settings(tmp_path):
    experiment = get_experiment("proximal")
    assert experiment.section(tmp_path).parts == ["Not computed: none of its 5 cells is there."]
    store = Store(tmp_path, "proximal")
    store.claim(replace(experiment.settings, step=0.5))
    for q in (2, 6, 7):
        store.write(experiment.cell_type(min(q, 6)), {"expected": 2 * q - 1, "mean": 1.0, "std": 0.1})
    status = experiment.section(tmp_path).parts[0]
    assert status.startswith("2 of the 5 cells of the complete experiment are there.")
    assert "step 0.5 instead of 0.1" in status
    assert f"{build_name()} (2)" in status
