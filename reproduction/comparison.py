"""Improvements of one method over another on the nine tables: tables with the printed numbers, and summaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reproduction import printed
from reproduction.datasets import TABLES
from reproduction.page import MISSING, Table, mean_and_spread, number, with_spread
from reproduction.store import Result

PARTS = ("training", "test")
SUMMARY = ("mean", "geometric", "median", "ahead")
SHEET_HEADER = ("baseline", "algorithm", "part", "dataset", "n_hidden", "splits", "mean", "std", "geometric", "median")

Results = dict[Any, Result]
Fits = dict[tuple[str, int, int], Result]  # by dataset, number of neurons and split


def select(results: Results, method: str) -> Fits:
    """Return the results of one method of Table 1."""
    return {(c.dataset, c.n_hidden, c.split): result for c, result in results.items() if c.method == method}


@dataclass(frozen=True)
class Averages:
    """Averages of the improvements over several combinations of dataset and width.

    Attributes
    ----------
    mean : float
        Mean of the means over the splits, as in the paper; the few largest ratios dominate it.
    geometric : float
        Geometric mean of the ratios of errors, minus one.
    median : float
        Median of the medians over the splits.
    ahead, combinations : int
        The number of combinations with a median above zero, and of all combinations.
    """

    mean: float
    geometric: float
    median: float
    ahead: int
    combinations: int

    @classmethod
    def of(cls, improvements: Sequence[Sequence[float]]) -> Averages:
        """Average the improvements of some combinations, each a sequence over the splits."""
        if not improvements:
            return cls(float("nan"), float("nan"), float("nan"), 0, 0)
        medians = [float(np.median(values)) for values in improvements]
        return cls(
            mean=float(np.mean([np.mean(values) for values in improvements])),
            geometric=float(np.expm1(np.mean([np.mean(np.log1p(values)) for values in improvements]))),
            median=float(np.median(medians)),
            ahead=sum(median > 0.0 for median in medians),
            combinations=len(improvements),
        )

    @property
    def texts(self) -> list[str]:
        """The cells of a table with the header `SUMMARY`."""
        ahead = f"{self.ahead} of {self.combinations}" if self.combinations else MISSING
        return [*map(number, (self.mean, self.geometric, self.median)), ahead]


@dataclass(frozen=True)
class Comparison:
    """Improvements of an algorithm over a baseline: for every dataset and width those of all splits."""

    baseline: str
    algorithm: str
    part: str
    values: dict[tuple[str, int], list[float]]

    @classmethod
    def of(cls, ours: Fits, theirs: Fits, baseline: str, algorithm: str, part: str) -> Comparison:
        """Return the error of the baseline over that of the algorithm, minus one, on the splits that both have."""
        values: dict[tuple[str, int], list[float]] = {(name, n): [] for name in TABLES for n in printed.WIDTHS}
        for dataset, n, split in sorted(ours.keys() & theirs.keys()):
            ratio = theirs[dataset, n, split][part] / ours[dataset, n, split][part]
            values[dataset, n].append(ratio - 1.0)
        return cls(baseline, algorithm, part, {place: found for place, found in values.items() if found})

    @property
    def n_fits(self) -> int:
        """The number of pairs."""
        return sum(map(len, self.values.values()))

    def summary(self, dataset: str, n_hidden: int) -> tuple[float, float]:
        """Return mean and standard deviation over the splits; "Average" averages the datasets that are there."""
        if dataset != printed.AVERAGE:
            return mean_and_spread(self.values.get((dataset, n_hidden), []))
        found = [pair for name in TABLES if np.isfinite((pair := self.summary(name, n_hidden))[0])]
        mean, spread = np.mean(found, axis=0) if found else (float("nan"), float("nan"))
        return float(mean), float(spread)

    def averages(self, n_hidden: int | None = None) -> Averages:
        """Average over all datasets that are there, for one width or all."""
        return Averages.of([values for (_, n), values in self.values.items() if n_hidden in (None, n)])

    def median(self, dataset: str, n_hidden: int | None = None) -> float:
        """Return the median over the splits, for one width or all."""
        found = [
            v for (name, n), values in self.values.items() if name == dataset and n_hidden in (None, n) for v in values
        ]
        return float(np.median(found)) if found else float("nan")

    @property
    def rows(self) -> Iterator[list[str]]:
        """Rows of a table: our improvements beside the printed ones, with averages at the end."""
        columns = printed.IMPROVEMENTS.get(self.baseline)
        for dataset in (*TABLES, printed.AVERAGE):
            theirs = [MISSING] * len(printed.WIDTHS)
            if columns is not None:
                theirs = [with_spread(pair) for pair in columns[dataset][PARTS.index(self.part)]]
            pairs = zip(printed.WIDTHS, theirs, strict=True)
            yield [dataset, *(text for n, other in pairs for text in (with_spread(self.summary(dataset, n)), other))]
        for name in ("geometric", "median"):
            figures = [number(getattr(self.averages(n), name)) for n in printed.WIDTHS]
            yield [name, *(text for figure in figures for text in (figure, MISSING))]

    def table(self, title: str) -> Table:
        """Return the table with the printed numbers beside ours."""
        header = ["", *(text for n in printed.WIDTHS for text in (f"N={n}", "printed"))]
        return Table(f"{title}, {self.part} data:", header, list(self.rows))

    def lines(self) -> Iterator[list[object]]:
        """Yield the lines of a sheet with the header `SHEET_HEADER`."""
        for (dataset, n), values in self.values.items():
            found = Averages.of([values])
            figures = (*mean_and_spread(values), found.geometric, found.median)
            yield [self.baseline, self.algorithm, self.part, dataset, n, len(values), *figures]


def compare(results: Results, algorithm: str, part: str, baseline: str = "adam") -> Comparison:
    """Compare two methods of Table 1."""
    return Comparison.of(select(results, algorithm), select(results, baseline), baseline, algorithm, part)


def median_table(caption: str, columns: Mapping[str, Callable[[str], float]], first: str = "") -> Table:
    """Return a table with a row for each dataset; each column is a function of the dataset."""
    rows = [[dataset, *(number(column(dataset)) for column in columns.values())] for dataset in TABLES]
    return Table(caption, (first, *columns), rows)
