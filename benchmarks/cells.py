"""Results that outlive their run: one file for each cell of a grid, computed by several processes.

A cell is a frozen dataclass whose fields say all that its result depends on. Its file is written in one stroke, so that
a run that was killed goes on where it stopped, and no cell is computed twice.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from dconnet._files import write_atomically
from report import OUTPUT
from reproduction.processes import work_through
from reproduction.store import build_name, key_of

Result = dict[str, Any]
Work = Callable[[Any], Result]


@dataclass(frozen=True)
class Store:
    """A folder of results, one file a cell."""

    folder: Path

    def path(self, cell: Any) -> Path:
        """The file of a cell, named by all its fields."""
        return self.folder / f"{key_of(cell)}.json"

    def read(self, cell: Any) -> Result | None:
        """The result of a cell; None if it has not been computed."""
        try:
            result: Result = json.loads(self.path(cell).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return result

    def fill(self, cell: Any, work: Work) -> None:
        """Compute the result of a cell and keep it."""
        result = work(cell) | {"build": build_name()}
        with write_atomically(self.path(cell)) as file:
            json.dump(result, file)

    def pack(self, cells: Iterable[Any], path: Path) -> None:
        """Write all cells that are there into one file, a line each, for keeping."""
        found = [(cell, self.read(cell)) for cell in cells]
        with write_atomically(path) as file:
            for cell, result in found:
                if result is not None:
                    file.write(json.dumps({"cell": asdict(cell), "result": result}) + "\n")

    def compute(self, cells: Iterable[Any], work: Work, jobs: int, console: Console) -> None:
        """Fill all cells that are not there; those that fail are told at the end, and end the programme."""
        self.folder.mkdir(parents=True, exist_ok=True)
        waiting = [cell for cell in cells if not self.path(cell).exists()]
        try:
            failures = work_through(partial(self.fill, work=work), waiting, jobs, console)
        except KeyboardInterrupt:
            sys.exit("Interrupted. What was computed is kept; the same command goes on from there.")
        if failures:
            sys.exit("\n".join(f"failed: {failure}" for failure in failures))


def add_run_options(parser: argparse.ArgumentParser, name: str) -> None:
    """The options of every benchmark that keeps its cells."""
    parser.add_argument("--results", type=Path, default=OUTPUT / name, help="folder for the cells and the tables")
    parser.add_argument("--jobs", type=int, default=1, help="processes; no more than there are free cores")
    parser.add_argument("--report", action="store_true", help="compute nothing, only show what is there")


def add_pack_option(parser: argparse.ArgumentParser) -> None:
    """The option of those whose raw results stand beside their tables in the documentation."""
    parser.add_argument("--pack", type=Path, metavar="FILE", help="file to collect the cells in, a line each")


def builds(results: Iterable[Result]) -> list[str]:
    """A sentence of warning where results of several builds are mixed, else none."""
    number = len({result["build"] for result in results})
    warning = f"These cells were computed by {number} builds of the package: delete those of the old ones."
    return [warning] if number > 1 else []
