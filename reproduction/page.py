"""Sections of tables and pictures: Markdown for the page, CSV and PNG files beside it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet._files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MISSING = "–"


@dataclass(frozen=True)
class Table:
    """A table of texts for the page, with a caption above it."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def markdown(self) -> str:
        """Return the table as Markdown, with the caption above it."""
        ruler = ["---", *["--:"] * (len(self.header) - 1)]
        lines = [self.header, ruler, *self.rows]
        return f"{self.caption}\n\n" + "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


@dataclass(frozen=True)
class Sheet:
    """A table of figures for a CSV file."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def save(self, folder: Path) -> None:
        """Write the file."""
        with write_atomically(folder / f"{self.name}.csv") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.header)
            writer.writerows(self.rows)


@dataclass(frozen=True)
class Picture:
    """A figure, drawn when it is saved."""

    name: str
    caption: str
    draw: Callable[[Figure], None]
    size: tuple[float, float] = (9.0, 4.0)  # inches

    def save(self, folder: Path) -> None:
        """Draw, and write the PNG file."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("Pictures need matplotlib: pip install 'dconnet[plot]'") from error

        figure = Figure(figsize=self.size, layout="tight")
        FigureCanvasAgg(figure)
        self.draw(figure)
        figure.savefig(folder / f"{self.name}.png", dpi=80, metadata={"Software": None})


@dataclass
class Section:
    """One experiment on the page: texts, tables and pictures in their order, and sheets beside them."""

    title: str
    parts: list[str | Table | Picture] = field(default_factory=list)
    sheets: list[Sheet] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Write pictures and CSV files."""
        for part in self.parts:
            if isinstance(part, Picture):
                part.save(folder)
        for sheet in self.sheets:
            sheet.save(folder)

    def markdown(self, folder: str) -> str:
        """Return the section as Markdown; ``folder`` precedes the names of pictures and sheets in links."""
        texts = [f"## {self.title}"]
        for part in self.parts:
            if isinstance(part, Picture):
                texts.append(f"![{part.caption}]({folder}{part.name}.png)\n\n*{part.caption}*")
            elif part:
                texts.append(part.markdown() if isinstance(part, Table) else part)
        if self.sheets:
            links = ", ".join(f"[{sheet.name}.csv]({folder}{sheet.name}.csv)" for sheet in self.sheets)
            texts.append(f"All figures: {links}.")
        return "\n\n".join(texts)


def sheet_of_cells(name: str, results: Mapping[Any, Mapping[str, Any]], figures: Sequence[str]) -> Sheet:
    """Return a sheet with the fields of every cell and some figures of its result, None where one is missing."""
    cells = sorted(results)
    header = [each.name for each in fields(cells[0])] if cells else []
    rows = [[*astuple(cell), *(results[cell].get(figure) for figure in figures)] for cell in cells]
    return Sheet(name, [*header, *figures], rows)


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with fixed digits; a dash for None and NaN."""
    return MISSING if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def significant(value: float, digits: int = 3) -> str:
    """Return a number to some significant digits, never with an exponent.

    Examples
    --------
    >>> from reproduction.page import significant
    >>> significant(1911.3), significant(0.01584)
    ('1910', '0.0158')
    """
    return np.format_float_positional(value, precision=digits, unique=False, fractional=False, trim="-")


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation; NaN with too few values."""
    if not len(values):
        return float("nan"), float("nan")
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def with_spread(pair: tuple[float, float]) -> str:
    """Return the mean with the standard deviation in brackets."""
    mean, spread = pair
    if not np.isfinite(mean):
        return MISSING
    return f"{mean:.2f} ({spread:.2f})" if np.isfinite(spread) else f"{mean:.2f}"
