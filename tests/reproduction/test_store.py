"""Results are kept whole, counted once, found again, and never mixed with those of other settings."""

import json
from dataclasses import dataclass

import pytest

from reproduction.store import Store, key_of


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


def test_names_tell_cells_apart():
    assert len({key_of(cell) for cell in CELLS}) == 3
    assert key_of(CELLS[0]) == "dataset=DS1_gamma=1e-05_parameters=0.5-64"


def test_results_come_back_with_their_cells(store):
    assert store.missing(CELLS) == CELLS
    store.write(CELLS[1], {"mse": 0.123456789, "curve": [1.0, 2], "status": "CONVERGED"})
    assert store.missing(CELLS) == [CELLS[0], CELLS[2]]
    assert store.results(Cell) == {CELLS[1]: {"mse": 0.123457, "curve": [1.0, 2], "status": "CONVERGED"}}


def test_a_cell_counts_once_even_if_it_is_written_twice_or_packed(store):
    store.write(CELLS[0], {"mse": 1.0})
    store.write(CELLS[0], {"mse": 1.0})
    store.pack()
    store.claim(Settings())
    store.write(CELLS[0], {"mse": 2.0})
    store.write(CELLS[2], {"mse": 3.0})
    assert store.results(Cell) == {CELLS[0]: {"mse": 2.0}, CELLS[2]: {"mse": 3.0}}
    store.pack()
    assert store.results(Cell) == {CELLS[0]: {"mse": 2.0}, CELLS[2]: {"mse": 3.0}}
    assert not store.cells.exists()
    store.pack()  # what is packed already stays
    assert store.missing(CELLS) == [CELLS[1]]
    assert len(store.packed.read_text().splitlines()) == 3


@pytest.mark.parametrize("content", ["", '{"cell": {"data', "[1, 2]", '{"cell": {}}'])
def test_a_corrupted_file_is_told_and_computed_again(store, content):
    store.write(CELLS[0], {"mse": 1.0})
    store.path(CELLS[1]).write_text(content)
    with pytest.warns(UserWarning, match="computed again"):
        assert store.missing(CELLS[:2]) == [CELLS[1]]
    store.write(CELLS[1], {"mse": 2.0})
    assert store.missing(CELLS[:2]) == []


def test_files_of_a_killed_run_do_not_count(store):
    store.path(CELLS[0]).with_name(f".{store.path(CELLS[0]).name}.1234.tmp").write_text('{"cell"')
    assert store.missing(CELLS) == CELLS
    store.write(CELLS[0], {"mse": 1.0})
    assert len(store.records()) == 1


@pytest.mark.parametrize("packed", [False, True])
def test_other_settings_are_refused(store, packed):
    store.write(CELLS[0], {"mse": 1.0})
    if packed:
        store.pack()
    store.claim(Settings())
    with pytest.raises(ValueError, match=r"max_epochs was 10 and is 20.*--results"):
        store.claim(Settings(max_epochs=20))
    assert store.settings() == {"max_epochs": 10, "gammas": [0.1, 0.2]}


def test_packing_nothing_leaves_nothing(tmp_path):
    store = Store(tmp_path, "table")
    store.pack()
    assert list(tmp_path.iterdir()) == []
    assert store.settings() is None


def test_builds_are_counted(store):
    store.write(CELLS[0], {})
    record = json.loads(store.path(CELLS[0]).read_text())
    store.path(CELLS[1]).write_text(json.dumps(record | {"build": "another"}))
    assert store.count_builds() == 2
