"""Results that outlive their run: one file a cell, written in one stroke, and packed into one file for keeping.

A cell is a frozen dataclass that says what was computed: dataset, width, split, method. How it was computed (limits,
grids) are the settings of the experiment, of which a folder knows only one set, so that cells are always comparable.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dconnet import __version__
from dconnet._files import write_atomically

Result = dict[str, Any]
Record = dict[str, Any]  # the fields of a cell and its result, as they stand in a file

PACKED = ".jsonl"


@cache
def build_name() -> str:
    """Return the commit that computes results, with a mark if files of the package or its kernel have changed since."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
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
    """The name of a cell: all its fields, in a form that suits a file.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from reproduction.store import key_of
    >>> @dataclass(frozen=True)
    ... class Cell:
    ...     dataset: str
    ...     gamma: float
    >>> key_of(Cell("DS1", 0.01))
    'dataset=DS1_gamma=0.01'
    """
    return _key(asdict(cell))


def _key(named: Record) -> str:
    return "_".join(f"{name}={_in_name(value)}" for name, value in named.items())


def _in_name(value: object) -> str:
    return "-".join(f"{part:g}" for part in value) if isinstance(value, (tuple, list)) else str(value)


def plain(value: Any) -> Any:
    """A dataclass as JSON gives it back."""
    return json.loads(json.dumps(asdict(value) if is_dataclass(value) and not isinstance(value, type) else value))


def rounded(value: Any, digits: int = 6) -> Any:
    """Floats anywhere in lists and dictionaries, to as many significant digits.

    Examples
    --------
    >>> from reproduction.store import rounded
    >>> rounded({"mse": [0.123456789, 1]})
    {'mse': [0.123457, 1]}
    """
    if isinstance(value, dict):
        return {name: rounded(inner, digits) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner, digits) for inner in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


@dataclass(frozen=True)
class Store:
    """The results of one experiment in a folder.

    Cells that are being computed stand in a folder of the experiment's name; ``pack`` moves them into one file beside
    it. Both are read together, and a cell that stands in both counts once.

    Attributes
    ----------
    folder : Path
        Where the results of all experiments are.
    name : str
        The experiment.
    """

    folder: Path
    name: str

    @property
    def cells(self) -> Path:
        """The folder of the files of single cells."""
        return self.folder / self.name

    @property
    def packed(self) -> Path:
        """The file of all packed cells: a line with the settings, then a line a cell."""
        return self.folder / f"{self.name}{PACKED}"

    def path(self, cell: Any) -> Path:
        """The file of a cell."""
        return self.cells / f"{key_of(cell)}.json"

    def settings(self) -> Record | None:
        """The settings of the results that are there; None if there are none."""
        if self.packed.exists():
            with self.packed.open(encoding="utf-8") as file:
                found: Record = json.loads(file.readline())["settings"]
            return found
        try:
            found = json.loads((self.cells / "settings.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found

    def claim(self, settings: Any) -> None:
        """Begin, or go on with, results of these settings.

        Raises
        ------
        ValueError
            If the folder holds results of other settings.
        """
        wanted, found = plain(settings), self.settings()
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
        """Keep the result of a cell."""
        with write_atomically(self.path(cell)) as file:
            json.dump({"cell": plain(cell), "result": rounded(result), "build": build_name()}, file)

    def records(self) -> dict[str, Record]:
        """All cells that are there, by their names. A file that cannot be read counts as absent."""
        found = {}
        if self.packed.exists():
            lines = self.packed.read_text(encoding="utf-8").splitlines()
            found = {_key(record["cell"]): record for record in map(json.loads, lines[1:])}
        for path in sorted(self.cells.glob("*=*.json")):
            record = _read(path)
            if record is not None:
                found[path.name.removesuffix(".json")] = record
        return found

    def missing(self, cells: Iterable[Any]) -> list[Any]:
        """Those cells whose result is not there."""
        found = self.records()
        return [cell for cell in cells if key_of(cell) not in found]

    def results(self, cell_type: type) -> dict[Any, Result]:
        """The results by their cells."""
        found = {}
        for record in self.records().values():
            values = {f.name: record["cell"][f.name] for f in fields(cell_type)}
            cell = cell_type(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
            found[cell] = record["result"]
        return found

    def builds(self) -> int:
        """How many builds of the package computed these results."""
        return len({record["build"] for record in self.records().values()})

    def pack(self) -> None:
        """Move all cells into one file."""
        records, settings = self.records(), self.settings()
        if not records:
            return
        with write_atomically(self.packed) as file:
            file.write(json.dumps({"settings": settings}) + "\n")
            for key in sorted(records):
                file.write(json.dumps(records[key]) + "\n")
        if self.cells.exists():  # otherwise all of them were packed before
            for path in self.cells.glob("*.json"):
                path.unlink()
            self.cells.rmdir()


def _read(path: Path) -> Record | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        warnings.warn(f"{path} cannot be read ({error}): its cell will be computed again.", stacklevel=3)
        return None
    if not isinstance(record, dict) or not {"cell", "result", "build"} <= record.keys():
        warnings.warn(f"{path} is not a result: its cell will be computed again.", stacklevel=3)
        return None
    return record
