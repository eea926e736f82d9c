"""What the benchmarks share: options of the command line, stored cells, and tables of results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as ConsoleTable

from dconnet._files import write_atomically
from reproduction.page import Sheet, Table
from reproduction.store import Result, Store

OUTPUT = Path(__file__).parents[1] / "benchmark-output"


CONSOLE = Console(width=None if sys.stdout.isatty() else 140)  # a file is wide enough for the tables


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every benchmark that stores its cells."""
    parser.add_argument("--results", type=Path, default=OUTPUT, help="folder of stored cells and tables")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes, at most the number of free cores")
    parser.add_argument("--report", action="store_true", help="show stored results, compute nothing")
    parser.add_argument("--pack", action="store_true", help="move the stored cells into one file")


def compute_cells(
    store: Store,
    cells: Iterable[Any],
    run: Callable[[Any], Result],
    options: argparse.Namespace,
    redo: Callable[[Result], bool] | None = None,
    settings: Any = None,
) -> None:
    """Compute the missing cells unless --report is given, and pack them if --pack is; exit on failures."""
    if not options.report:
        store.claim(settings or {})
        try:
            failures = store.compute(cells, run, options.jobs, CONSOLE, redo)
        except KeyboardInterrupt:
            sys.exit("Interrupted. Results so far are stored; run the same command to continue.")
        if failures:
            sys.exit("\n".join(f"Failed: {failure}" for failure in failures))
    if options.pack:
        store.pack()


def build_warnings(store: Store) -> list[str]:
    """Return a warning if several builds computed the stored cells."""
    n_builds = len(store.count_builds())
    return [f"{n_builds} builds of the package computed these cells."] if n_builds > 1 else []


@dataclass
class Report:
    """A table with a title above and notes below."""

    title: str
    header: tuple[str, ...]
    lines: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Append a line and print it at once, because some lines take minutes."""
        self.lines.append(tuple(str(cell) for cell in cells))
        print(" | ".join(self.lines[-1]), file=sys.stderr, flush=True)

    def publish(self, name: str, folder: Path = OUTPUT) -> None:
        """Print the table, and write it as Markdown and CSV."""
        table = ConsoleTable(*self.header, title=self.title, caption="\n".join(self.notes), caption_justify="left")
        for index, line in enumerate(self.lines):
            following = self.lines[index + 1 : index + 2]
            table.add_row(*line, end_section=any(other[0] != line[0] for other in following))
        CONSOLE.print(table)
        folder.mkdir(parents=True, exist_ok=True)
        with write_atomically(folder / f"{name}.md") as file:
            file.write("\n\n".join([Table(f"# {self.title}", self.header, self.lines).markdown(), *self.notes]) + "\n")
        Sheet(name, self.header, self.lines).save(folder)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))


def format_seconds(seconds: float) -> str:
    """Return a time with its unit."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"
