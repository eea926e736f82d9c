"""Results are stored whole, counted once, found again, and never mixed with those of other settings."""

import os
from dataclasses import dataclass

import pytest
from rich.console import Console

from dconnet_test_workers import write_thread_limits
from reproduction import store as store_module
from reproduction.processes import work_through
from reproduction.store import Store, key_of

QUIET = Console(quiet=True)


@dataclass(frozen=True)
class Cell:
    dataset: str
    gamma: float
    parameters: tuple[float, ...] = (0.5, 64)


@dataclass(frozen=True)
class Settings:
    max_epochs: int = 10
    gammas: tuple[float, ...] = (0.1, 0.2)


CELLS = [Cell("DS1", 1e-5), Cell("DS1", 0.1), Cell("DS2", 1e4, (1.0,))]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results", "table")
    store.claim(Settings())
    return store


def test_results_are_found_by_their_cells(store):
    assert key_of(CELLS[0]) == "dataset=DS1_gamma=1e-05_parameters=0.5-64"
    assert store.missing(CELLS) == CELLS
    store.write(CELLS[1], {"mse": 0.123456789, "curve": [1.0, 2], "status": "CONVERGED"})
    assert store.missing(CELLS) == [CELLS[0], CELLS[2]]
    assert store.results(Cell) == {CELLS[1]: {"mse": 0.123457, "curve": [1.0, 2], "status": "CONVERGED"}}


def test_a_cell_counts_once_if_it_is_packed_and_written_again(store):
    Store(store.folder, "empty").pack()
    assert not (store.folder / "empty.jsonl").exists()
    store.write(CELLS[0], {"mse": 1.0})
    store.pack()
    store.claim(Settings())
    store.write(CELLS[0], {"mse": 2.0})
    store.write(CELLS[2], {"mse": 3.0})
    for _ in range(3):  # not packed, packed, packed again
        assert store.results(Cell) == {CELLS[0]: {"mse": 2.0}, CELLS[2]: {"mse": 3.0}}
        store.pack()
    assert not store.cells.exists()
    assert len(store.packed.read_text().splitlines()) == 3


@pytest.mark.parametrize("content", ["", '{"cell": {"data', "[1, 2]", '{"cell": {}}'])
def test_a_corrupted_file_is_reported_and_computed_again(store, content):
    store.write(CELLS[0], {"mse": 1.0})
    store.path(CELLS[1]).write_text(content)
    store.path(CELLS[2]).with_name(f".{store.path(CELLS[2]).name}.1234.tmp").write_text('{"cell"')  # of a killed run
    with pytest.warns(UserWarning, match="computed again"):
        assert store.missing(CELLS) == CELLS[1:]


@pytest.mark.parametrize("packed", [False, True])
def test_other_settings_are_refused(store, packed):
    store.write(CELLS[0], {"mse": 1.0})
    if packed:
        store.pack()
    store.claim(Settings())
    with pytest.raises(ValueError, match=r"max_epochs was 10 and is 20.*--results"):
        store.claim(Settings(max_epochs=20))
    assert store.settings() == {"max_epochs": 10, "gammas": [0.1, 0.2]}


def test_an_interrupted_run_continues_and_computes_no_cell_twice(store, monkeypatch):
    computed, limit = [], [2]

    def run(cell):
        computed.append(cell)
        return {"mse": float(len(computed))}

    def work_here(work, items, n_jobs, console, title):
        for item in items:
            if limit[0] == 0:
                raise KeyboardInterrupt
            limit[0] -= 1
            work(item)
        return []

    monkeypatch.setattr(store_module, "work_through", work_here)
    with pytest.raises(KeyboardInterrupt):
        store.compute(CELLS, run, 1, QUIET)
    limit[0] = 10
    for _ in range(2):
        assert store.compute(CELLS, run, 1, QUIET) == []
    assert computed == CELLS
    store.pack()
    store.claim(Settings())
    store.compute(CELLS, run, 1, QUIET, redo=lambda result: result["mse"] == 2.0)
    assert computed == [*CELLS, CELLS[1]]
    assert [store.results(Cell)[cell]["mse"] for cell in CELLS] == [1.0, 4.0, 3.0]


def test_processes_have_one_thread_and_failures_are_returned(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert work_through(write_thread_limits, [], 2, QUIET) == []
    good = [tmp_path / "a", tmp_path / "b"]
    (failure,) = work_through(write_thread_limits, [*good, tmp_path / "unlucky"], 2, QUIET)
    assert [path.read_text() for path in good] == ["1 1 1"] * 2
    assert "unlucky: ValueError: an unlucky item" in failure
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
