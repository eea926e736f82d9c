"""Stored results: one file per cell while a run is under way, one packed file per experiment afterwards.

A cell is a frozen dataclass whose fields identify one computation: dataset, width, split, method. The settings of an
experiment (limits, grids) apply to all its cells; a folder holds the results of one set of settings only.
"""

from __future__ import annotations

import json
import subprocess
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from dconnet import __version__
from dconnet._files import write_atomically
from reproduction.processes import work_through

Result = dict[str, Any]
Record = dict[str, Any]  # one line of a packed file: the cell, its result and the build that computed it


@cache
def build_name() -> str:
    """Return the commit of the source tree, marked "with changes" if the package or its kernel was edited since."""

    def git(*arguments: str) -> str:
        folder = Path(__file__).parent
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "../src", "../native", ".")
    except (OSError, subprocess.CalledProcessError):
        return f"dconnet {__version__}"
    return f"{commit} with changes" if changed else commit


def key_of(cell: Any) -> str:
    """Return the file name of a cell, without its ending: all fields and their values."""
    return _key(asdict(cell))


def _key(values: Record) -> str:
    def text(value: object) -> str:
        return "-".join(f"{part:g}" for part in value) if isinstance(value, (tuple, list)) else str(value)

    return "_".join(f"{name}={text(value)}" for name, value in values.items())


def to_json_types(value: Any) -> Any:
    """Return a dataclass or container as JSON would give it back."""
    return json.loads(json.dumps(asdict(value) if is_dataclass(value) and not isinstance(value, type) else value))


def round_floats(value: Any, digits: int = 6) -> Any:
    """Round the floats anywhere in lists and dictionaries to a number of significant digits."""
    if isinstance(value, dict):
        return {name: round_floats(inner, digits) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [round_floats(inner, digits) for inner in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


@dataclass(frozen=True)
class Store:
    """The results of one experiment.

    Single cells are files in ``folder / name``; `pack` moves them into ``folder / name.jsonl``. Both are read together.
    A cell that is in both counts once, with its single file.
    """

    folder: Path
    name: str

    @property
    def cells(self) -> Path:
        """The folder with the files of single cells."""
        return self.folder / self.name

    @property
    def packed(self) -> Path:
        """The file of packed cells: a line with the settings, then one line per cell."""
        return self.folder / f"{self.name}.jsonl"

    def path(self, cell: Any) -> Path:
        """Return the file of a cell."""
        return self.cells / f"{key_of(cell)}.json"

    def settings(self) -> Record | None:
        """Return the settings of the stored results; None without results."""
        found: Record
        if self.packed.exists():
            with self.packed.open(encoding="utf-8") as file:
                found = json.loads(file.readline())["settings"]
        elif (self.cells / "settings.json").exists():
            found = json.loads((self.cells / "settings.json").read_text(encoding="utf-8"))
        else:
            return None
        return found

    def claim(self, settings: Any) -> None:
        """Create the folder of the cells, or raise ValueError if it holds results of other settings."""
        wanted, found = to_json_types(settings), self.settings()
        if found is not None and found != wanted:
            different = [name for name in wanted | found if wanted.get(name) != found.get(name)]
            listed = ", ".join(f"{name} was {found.get(name)} and is {wanted.get(name)}" for name in different)
            raise ValueError(
                f"{self.folder} holds results of {self.name} with other settings: {listed}. Choose another folder by "
                "--results, or delete these results."
            )
        self.cells.mkdir(parents=True, exist_ok=True)
        if not (self.cells / "settings.json").exists():
            with write_atomically(self.cells / "settings.json") as file:
                json.dump(wanted, file)

    def write(self, cell: Any, result: Result) -> None:
        """Store the result of a cell, rounded to six digits."""
        with write_atomically(self.path(cell)) as file:
            json.dump({"cell": to_json_types(cell), "result": round_floats(result), "build": build_name()}, file)

    def records(self) -> dict[str, Record]:
        """Return all stored records by the keys of their cells; warn about files that cannot be read."""
        found = {}
        if self.packed.exists():
            lines = self.packed.read_text(encoding="utf-8").splitlines()
            found = {_key(record["cell"]): record for record in map(json.loads, lines[1:])}
        for path in sorted(self.cells.glob("*=*.json")):
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                if not isinstance(record, dict) or not {"cell", "result", "build"} <= record.keys():
                    raise ValueError("not a result")
            except (ValueError, OSError) as error:
                warnings.warn(f"{path} cannot be read ({error}): its cell will be computed again.", stacklevel=2)
            else:
                found[path.name.removesuffix(".json")] = record
        return found

    def missing(self, cells: Iterable[Any]) -> list[Any]:
        """Return the cells without a stored result."""
        found = self.records()
        return [cell for cell in cells if key_of(cell) not in found]

    def results(self, cell_type: type) -> dict[Any, Result]:
        """Return the stored results by their cells."""
        found = {}
        for record in self.records().values():
            values = {f.name: record["cell"][f.name] for f in fields(cell_type)}
            cell = cell_type(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
            found[cell] = record["result"]
        return found

    def count_builds(self) -> Counter[str]:
        """Return the number of cells that each build of the package computed."""
        return Counter(record["build"] for record in self.records().values())

    def compute(
        self,
        cells: Iterable[Any],
        run: Callable[[Any], Result],
        n_jobs: int,
        console: Console,
        redo: Callable[[Result], bool] | None = None,
    ) -> list[str]:
        """Compute and store the cells without a result in parallel processes; return one line per failure.

        ``redo`` selects stored results that are computed again.
        """
        found = self.records()
        waiting = [
            cell
            for cell in cells
            if (record := found.get(key_of(cell))) is None or (redo is not None and redo(record["result"]))
        ]
        work = partial(_compute_cell, run=run, store=self, overwrite=redo is not None)
        return work_through(work, waiting, n_jobs, console, self.name)

    def pack(self) -> None:
        """Move all cells into one file."""
        records, settings = self.records(), self.settings()
        if not records:
            return
        with write_atomically(self.packed) as file:
            file.write(json.dumps({"settings": settings}) + "\n")
            for key in sorted(records):
                file.write(json.dumps(records[key]) + "\n")
        if self.cells.exists():
            for path in self.cells.glob("*.json"):
                path.unlink()
            self.cells.rmdir()


def _compute_cell(cell: Any, run: Callable[[Any], Result], store: Store, overwrite: bool) -> None:
    from sklearn.exceptions import ConvergenceWarning

    if store.path(cell).exists() and not overwrite:
        return  # a run in another process has computed this cell meanwhile
    began = time.perf_counter()
    with warnings.catch_warnings(), scratch_file(store.path(cell).with_suffix(".checkpoint")) as scratch:
        # Epoch limits are part of the settings, and the results record where a limit was reached.
        warnings.simplefilter("ignore", ConvergenceWarning)
        store.write(cell, run(cell) | {"cell_seconds": time.perf_counter() - began})
        scratch.unlink(missing_ok=True)


_SCRATCH: ContextVar[Path | None] = ContextVar("scratch file", default=None)


@contextmanager
def scratch_file(path: Path) -> Iterator[Path]:
    """Offer a checkpoint file to the cell computed inside the block."""
    token = _SCRATCH.set(path)
    try:
        yield path
    finally:
        _SCRATCH.reset(token)


def checkpoint() -> Path | None:
    """Return the checkpoint file of the cell that is being computed; None outside of a run."""
    return _SCRATCH.get()
