"""Tables of ratios: on the terminal, and as files of Markdown and CSV."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dconnet._files import write_atomically

OUTPUT = Path(__file__).parents[1] / "benchmark-output"


@dataclass
class Report:
    """A table that grows line by line.

    Attributes
    ----------
    title : str
        What is compared, and in which unit.
    header : tuple of str
        Names of the columns.
    notes : list of str
        Sentences below the table.
    """

    title: str
    header: tuple[str, ...]
    lines: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Append a line, and show it at once: some of them take minutes."""
        self.lines.append(tuple(str(cell) for cell in cells))
        print(" | ".join(self.lines[-1]), file=sys.stderr, flush=True)

    def table(self) -> Table:
        """The table for the terminal; lines with the same first cell stand together."""
        table = Table(*self.header, title=self.title, caption="\n".join(self.notes), caption_justify="left")
        for index, line in enumerate(self.lines):
            following = self.lines[index + 1 : index + 2]
            table.add_row(*line, end_section=any(other[0] != line[0] for other in following))
        return table

    def markdown(self) -> str:
        """The same as Markdown."""
        ruler = ("---",) * len(self.header)
        rows = "".join(f"| {' | '.join(line)} |\n" for line in [self.header, ruler, *self.lines])
        return f"# {self.title}\n\n{rows}" + "".join(f"\n{note}\n" for note in self.notes)

    def publish(self, name: str, console: Console, folder: Path = OUTPUT) -> None:
        """Print the table, and replace the files of that name, each in one stroke: for readers, and for programs."""
        console.print(self.table())
        folder.mkdir(parents=True, exist_ok=True)
        with write_atomically(folder / f"{name}.md") as file:
            file.write(self.markdown())
        with write_atomically(folder / f"{name}.csv") as file:
            csv.writer(file, lineterminator="\n").writerows([self.header, *self.lines])


def make_console() -> Console:
    """The terminal, or a page wide enough for the tables."""
    return Console(width=None if sys.stdout.isatty() else 140)


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean of ratios, in which two and a half cancel."""
    return float(np.exp(np.mean(np.log(ratios))))


def ratio(seconds: float, unit: float) -> str:
    """How many times as long as the unit."""
    return f"{seconds / unit:.3g}"


def duration(seconds: float) -> str:
    """A time for the reader's orientation."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def accuracy(gap: float) -> str:
    """A gap in scientific notation; rounding below zero is zero."""
    return f"{max(gap, 0.0):.0e}"
