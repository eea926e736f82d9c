"""Table 1: improvement of DCON over Adam in mean squared error, and the same for the accelerated algorithm."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import printed
from reproduction.datasets import TABLES, Split
from reproduction.experiment import Experiment, Findings
from reproduction.fits import ALGORITHMS, LABELS, FitSettings, tuned_adam, tuned_dcon
from reproduction.page import MISSING, Section, Sheet, Table, mean_and_spread, number, with_spread
from reproduction.store import Result

PARTS = ("training", "test")


@dataclass(frozen=True, order=True)
class Cell:
    """One method on one split."""

    dataset: str
    n_hidden: int
    split: int
    method: str


@dataclass(frozen=True)
class Plan:
    """Which cells to compute."""

    datasets: tuple[str, ...] = TABLES
    widths: tuple[int, ...] = printed.WIDTHS
    splits: int = 30
    methods: tuple[str, ...] = ("adam", *ALGORITHMS)


def cells(plan: Plan) -> list[Cell]:
    """All methods of a split one after the other, so that a run that is stopped leaves complete splits."""
    grid = itertools.product(range(plan.splits), plan.datasets, plan.widths, plan.methods)
    return [Cell(dataset, width, split, method) for split, dataset, width, method in grid]


def run(cell: Cell, settings: FitSettings, home: Path) -> Result:
    """Tune one method on one split."""
    parts = Split(cell.dataset, cell.split).load(home, settings)
    if cell.method == "adam":
        return tuned_adam(parts, cell.n_hidden, cell.split, settings)
    return tuned_dcon(parts, cell.n_hidden, cell.split, cell.method, settings)


Results = dict[Any, Result]


def improvements(ours: dict[int, Result], theirs: dict[int, Result], part: str) -> list[float]:
    """Error of the others over ours, minus one, on the splits that both have."""
    return [theirs[split][part] / ours[split][part] - 1.0 for split in sorted(ours.keys() & theirs.keys())]


def by_split(results: Results, dataset: str, n_hidden: int, method: str) -> dict[int, Result]:
    """The results of one method."""
    return {
        cell.split: result
        for cell, result in results.items()
        if (cell.dataset, cell.n_hidden, cell.method) == (dataset, n_hidden, method)
    }


@dataclass(frozen=True)
class Averages:
    """Improvements over many combinations of dataset and width.

    Attributes
    ----------
    mean : float
        Mean of the means over the splits, as in the paper; the few largest ratios rule it.
    geometric : float
        The same with geometric means of the ratios of errors, in which two and a half cancel.
    median : float
        Median of the medians over the splits.
    ahead, combinations : int
        Combinations whose median is above zero, and all of them.
    """

    mean: float
    geometric: float
    median: float
    ahead: int
    combinations: int

    @property
    def texts(self) -> list[str]:
        """The figures of a line of a table."""
        return [
            *map(number, (self.mean, self.geometric, self.median)),
            f"{self.ahead} of {self.combinations}" if self.combinations else MISSING,
        ]


AVERAGES_HEADER = ("mean", "geometric", "median", "ahead")


def averages(improvements: Sequence[Sequence[float]]) -> Averages:
    """Summaries of the improvements of some combinations, for each of which the splits are given."""
    if not improvements:
        return Averages(float("nan"), float("nan"), float("nan"), 0, 0)
    medians = [float(np.median(values)) for values in improvements]
    return Averages(
        mean=float(np.mean([np.mean(values) for values in improvements])),
        geometric=float(np.expm1(np.mean([np.mean(np.log1p(values)) for values in improvements]))),
        median=float(np.median(medians)),
        ahead=sum(median > 0.0 for median in medians),
        combinations=len(improvements),
    )


@dataclass(frozen=True)
class Comparison:
    """Improvements of one algorithm over one baseline: for every dataset and width those of all splits."""

    baseline: str
    algorithm: str
    part: str
    values: dict[tuple[str, int], list[float]]

    @property
    def rows(self) -> Iterator[list[str]]:
        """Lines of a table: ours and the printed ones side by side, and ways to average them last."""
        for dataset in (*TABLES, printed.AVERAGE):
            pairs = zip(printed.WIDTHS, self._printed(dataset), strict=True)
            yield [dataset, *(text for n, pair in pairs for text in (with_spread(self.summary(dataset, n)), pair))]
        for name in ("geometric", "median"):
            figures = [number(getattr(self.averages(n), name)) for n in printed.WIDTHS]
            yield [name, *(text for figure in figures for text in (figure, MISSING))]

    def summary(self, dataset: str, n_hidden: int) -> tuple[float, float]:
        """Mean and standard deviation over the splits; the average is that over the datasets that are there."""
        if dataset != printed.AVERAGE:
            return mean_and_spread(self.values.get((dataset, n_hidden), []))
        found = [pair for name in TABLES if np.isfinite((pair := self.summary(name, n_hidden))[0])]
        if not found:
            return float("nan"), float("nan")
        mean, spread = np.mean(found, axis=0)
        return float(mean), float(spread)

    def averages(self, n_hidden: int | None = None) -> Averages:
        """Summaries over all datasets that are there, for one width or all."""
        return averages([values for (_, n), values in self.values.items() if n_hidden in (None, n)])

    def median(self, dataset: str, n_hidden: int) -> float:
        """Median over the splits."""
        found = self.values.get((dataset, n_hidden))
        return float(np.median(found)) if found else float("nan")

    def over_widths(self, dataset: str) -> float:
        """Median over all widths and splits."""
        found = [value for n in printed.WIDTHS for value in self.values.get((dataset, n), [])]
        return float(np.median(found)) if found else float("nan")

    def _printed(self, dataset: str) -> list[str]:
        table = printed.IMPROVEMENTS.get(self.baseline)
        columns = () if table is None else table[dataset][PARTS.index(self.part)]
        return [with_spread(pair) for pair in columns] or [MISSING] * len(printed.WIDTHS)

    def table(self, title: str) -> Table:
        """The table with the printed numbers beside ours."""
        header = ["", *(text for n in printed.WIDTHS for text in (f"N={n}", "printed"))]
        return Table(f"{title}, {self.part} data:", header, list(self.rows))

    def lines(self) -> Iterator[list[object]]:
        """Lines of a sheet."""
        for (dataset, n), values in self.values.items():
            found = averages([values])
            figures = (*mean_and_spread(values), found.geometric, found.median)
            yield [self.baseline, self.algorithm, self.part, dataset, n, len(values), *figures]


SHEET_HEADER = ("baseline", "algorithm", "part", "dataset", "n_hidden", "splits", "mean", "std", "geometric", "median")


def compare(results: Results, algorithm: str, part: str, baseline: str = "adam") -> Comparison:
    """Improvements of one method over another, on the splits that both have."""
    values = {
        (dataset, n): improvements(
            by_split(results, dataset, n, algorithm), by_split(results, dataset, n, baseline), part
        )
        for dataset, n in itertools.product(TABLES, printed.WIDTHS)
    }
    return Comparison(baseline, algorithm, part, {key: value for key, value in values.items() if value})


def show(findings: Findings, section: Section) -> None:
    """Both tables, for the algorithm of the paper and for the accelerated one."""
    results = findings.results()
    section.parts.append(
        "The improvement is the MSE of Adam over that of DCON, minus one: 0.1 is 10 % in favour of DCON. Mean and, in "
        "brackets, standard deviation over the splits. The rows «geometric» and «median» summarise the datasets in "
        "another way than the paper's average: by the geometric mean of the ratios over all splits, minus one, and by "
        "the median of the medians over the splits."
    )
    comparisons = [compare(results, algorithm, part) for algorithm in ALGORITHMS for part in PARTS]
    names = {"paper": "Algorithm 1", "accelerated": "The accelerated algorithm"}
    section.parts += [one.table(f"{names[one.algorithm]} over Adam") for one in comparisons if one.values]
    section.parts += [_medians(comparisons, algorithm) for algorithm in ALGORITHMS] + [_overall(comparisons)]
    section.sheets = [
        Sheet("table1", SHEET_HEADER, [line for one in comparisons for line in one.lines()]),
        Sheet("table1-errors", ("dataset", "n_hidden", "method", "splits", *PARTS), list(_mean_errors(results))),
    ]


def _medians(comparisons: list[Comparison], algorithm: str) -> Table:
    columns = [(one, n) for one in comparisons if one.algorithm == algorithm for n in printed.WIDTHS]
    rows = [[dataset, *(number(one.median(dataset, n)) for one, n in columns)] for dataset in TABLES]
    header = [LABELS[algorithm], *(f"{one.part}, N={n}" for one, n in columns)]
    return Table("Medians of the improvement over Adam, over the splits:", header, rows)


def _overall(comparisons: list[Comparison]) -> Table:
    rows = [[LABELS[one.algorithm], one.part, *one.averages().texts] for one in comparisons]
    rows += [["printed", part, number(_printed_overall(part)), *[MISSING] * 3] for part in PARTS]
    caption = (
        "Averages over all datasets and widths. A mean of ratios is ruled by the few largest, and the accelerated "
        "algorithm has some of hundreds; «ahead» counts the combinations whose median is above zero:"
    )
    return Table(caption, ("", "data", *AVERAGES_HEADER), rows)


def _printed_overall(part: str) -> float:
    return float(np.mean([pair[0] for pair in printed.IMPROVEMENTS["adam"][printed.AVERAGE][PARTS.index(part)]]))


def _mean_errors(results: Results) -> Iterator[list[object]]:
    for dataset, n, method in itertools.product(TABLES, printed.WIDTHS, EXPERIMENT.plan.methods):
        found = by_split(results, dataset, n, method).values()
        if found:
            yield [dataset, n, method, len(found), *(float(np.mean([one[part] for one in found])) for part in PARTS)]


EXPERIMENT = Experiment(
    name="table1",
    title="Table 1: DCON against Adam",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS1", "DS4", "DS7"), (10,), 3),
    settings=FitSettings(),
    quick_settings=FitSettings(max_epochs=200, accelerated_epochs=50, adam_epochs=200),
    cells=cells,
    datasets=lambda plan: plan.datasets,
    run=run,
    show=show,
)
