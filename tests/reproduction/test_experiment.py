"""Runs that stop go on where they stopped, and compute no cell twice."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from dconnet_test_workers import write_thread_limits
from reproduction import experiment as runner
from reproduction import store as stored
from reproduction.experiment import NAMES, Experiment, Findings, apply_changes, compute, get_experiment
from reproduction.processes import work_through
from reproduction.store import Store

QUIET = Console(quiet=True)


@dataclass(frozen=True, order=True)
class Cell:
    number: int


@dataclass(frozen=True)
class Plan:
    count: int = 4


@dataclass(frozen=True)
class Settings:
    factor: int = 2
    log: str = ""


def run(cell, settings, home):
    with Path(settings.log).open("a") as file:
        file.write(f"{cell.number}\n")
    return {"product": cell.number * settings.factor}


EXPERIMENT = Experiment(
    name="made_up",
    title="Made up",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(1),
    settings=Settings(),
    quick_settings=Settings(),
    cells=lambda plan: [Cell(number) for number in range(plan.count)],
    datasets=lambda plan: (),
    run=run,
    show=lambda findings, section: section.parts.append(f"{len(findings.results())} results"),
)


def run_here(cell, name, settings, home):
    """Compute a cell of an experiment that is not in the registry."""
    return EXPERIMENT.run(cell, settings, home)


@pytest.fixture
def in_this_process(monkeypatch):
    """Work through the cells without further processes, up to a limit, as if Ctrl-C came then."""
    limit = {"cells": 10**6}

    def worked(work, items, jobs, console, title):
        for item in items:
            if limit["cells"] == 0:
                raise KeyboardInterrupt
            limit["cells"] -= 1
            work(item)
        return []

    monkeypatch.setattr(stored, "work_through", worked)
    monkeypatch.setattr(runner, "run_cell", run_here)
    return limit


def settings_in(folder, **changes):
    return Settings(log=str(folder / "log"), **changes)


def test_an_interrupted_run_goes_on_and_computes_no_cell_twice(tmp_path, in_this_process):
    settings = settings_in(tmp_path)
    in_this_process["cells"] = 3
    with pytest.raises(KeyboardInterrupt):
        compute(EXPERIMENT, Plan(5), settings, tmp_path, tmp_path, 1, QUIET)
    in_this_process["cells"] = 10**6
    for plan in (Plan(5), Plan(5), Plan(7)):
        assert compute(EXPERIMENT, plan, settings, tmp_path, tmp_path, 1, QUIET) == []
    assert (tmp_path / "log").read_text().split() == [str(number) for number in range(7)]
    results = Store(tmp_path, "made_up").results(Cell)
    assert {cell.number: result["product"] for cell, result in results.items()} == {k: 2 * k for k in range(7)}


def test_other_settings_need_another_folder(tmp_path, in_this_process):
    compute(EXPERIMENT, Plan(1), settings_in(tmp_path), tmp_path, tmp_path, 1, QUIET)
    with pytest.raises(ValueError, match="factor was 2 and is 3"):
        compute(EXPERIMENT, Plan(1), settings_in(tmp_path, factor=3), tmp_path, tmp_path, 1, QUIET)


def test_a_section_says_what_is_missing_and_what_was_changed(tmp_path, in_this_process):
    empty = EXPERIMENT.section(tmp_path)
    assert empty.title == "Made up"
    assert empty.parts == ["Not computed: none of its 4 cells is there."]
    compute(EXPERIMENT, Plan(3), settings_in(tmp_path, factor=3), tmp_path, tmp_path, 1, QUIET)
    counted, reduced, shown = EXPERIMENT.section(tmp_path).parts
    assert counted == "3 of the 4 cells of the complete experiment are there."
    assert "factor 3 in the place of 2" in reduced
    assert shown == "3 results"
    compute(EXPERIMENT, Plan(6), settings_in(tmp_path, factor=3), tmp_path, tmp_path, 1, QUIET)
    assert "2 further cells are there." in EXPERIMENT.section(tmp_path).parts


def test_results_from_before_a_setting_existed_are_shown_with_its_default(tmp_path, in_this_process):
    compute(EXPERIMENT, Plan(1), settings_in(tmp_path, factor=3), tmp_path, tmp_path, 1, QUIET)
    path = tmp_path / "made_up" / "settings.json"
    path.write_text(json.dumps({"log": json.loads(path.read_text())["log"]}))
    assert Findings(tmp_path, EXPERIMENT).settings["factor"] == 2


def test_processes_have_one_thread_and_failures_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    good = [tmp_path / "a", tmp_path / "b"]
    failures = work_through(write_thread_limits, [*good, tmp_path / "unlucky"], 2, QUIET)
    assert [path.read_text() for path in good] == ["1 1 1"] * 2
    assert len(failures) == 1
    assert "unlucky: ValueError: an unlucky item" in failures[0]
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_nothing_to_do_starts_no_process():
    assert work_through(write_thread_limits, [], 2, QUIET) == []


RUN = """
import signal
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
from rich.console import Console
from slow_work import slow
from reproduction.processes import work_through
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests without it
    try:
        work_through(slow, [Path({folder!r}) / str(k) for k in range(200)], 2, Console(quiet=True))
    except KeyboardInterrupt:
        sys.exit(130)
"""

REPOSITORY = str(Path(__file__).parents[2])
PATH = os.pathsep.join(filter(None, [REPOSITORY, os.environ.get("PYTHONPATH")]))


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_keeps_whole_files_and_leaves_no_process(tmp_path, signal_sent):
    (tmp_path / "slow_work.py").write_text(
        "import os, time\n"
        "from dconnet._files import write_atomically\n"
        "def slow(path):\n"
        "    try: time.sleep(0.05 if int(path.name) < 6 else 3600)\n"
        "    except KeyboardInterrupt: pass  # as a fit that keeps what it has reached\n"
        "    with write_atomically(path) as file: file.write(str(os.getpid()))\n"
    )
    folder = tmp_path / "cells"
    folder.mkdir()
    script = tmp_path / "run.py"
    script.write_text(RUN.format(here=str(tmp_path), folder=str(folder)))
    process = subprocess.Popen([sys.executable, script], start_new_session=True, env=os.environ | {"PYTHONPATH": PATH})
    while len(list(folder.glob("[0-9]*"))) < 3:
        time.sleep(0.02)
        assert process.poll() is None
    if signal_sent == signal.SIGINT:
        os.killpg(process.pid, signal_sent)  # as a terminal does, to the workers too
    else:
        process.send_signal(signal_sent)
    assert process.wait(60) == (130 if signal_sent == signal.SIGINT else -signal_sent)
    workers = {int(path.read_text()) for path in folder.glob("[0-9]*")}
    assert 3 <= len(list(folder.glob("[0-9]*"))) <= 6
    for _ in range(500):
        if not any(map(is_running, workers)):
            break
        time.sleep(0.02)
    else:
        pytest.fail("a worker outlived its parent")


def test_every_experiment_has_a_sound_plan():
    for name in NAMES:
        experiment = get_experiment(name)
        assert experiment.name == name
        complete, quick = (experiment.cells(experiment.defaults(flag)[0]) for flag in (False, True))
        assert len(set(complete)) == len(complete) > len(quick) == len(set(quick)) > 0
        assert all(isinstance(cell, experiment.cell_type) for cell in complete)


def test_the_plan_of_table_1_is_that_of_the_paper():
    cells = get_experiment("table1").cells(get_experiment("table1").plan)
    assert len(cells) == 9 * 3 * 30 * 3  # datasets, widths, splits; Adam and both algorithms


def test_changes_reach_only_what_knows_them():
    assert apply_changes(Plan(), {"count": 2, "factor": 5}) == Plan(2)
