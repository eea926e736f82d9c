"""Table 1: improvement of DCON over Adam in mean squared error, and the same for the accelerated algorithm."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from reproduction import printed
from reproduction.comparison import PARTS, SHEET_HEADER, SUMMARY, Comparison, Results, compare, median_table, select
from reproduction.datasets import TABLES, Split
from reproduction.experiment import Experiment, Findings
from reproduction.fits import ALGORITHMS, LABELS, FitSettings, tuned_adam, tuned_dcon
from reproduction.page import MISSING, Section, Sheet, Table, number
from reproduction.store import Result


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
    """Return the cells split by split, so that an interrupted run leaves complete splits."""
    grid = itertools.product(range(plan.splits), plan.datasets, plan.widths, plan.methods)
    return [Cell(dataset, width, split, method) for split, dataset, width, method in grid]


def run(cell: Cell, settings: FitSettings, home: Path) -> Result:
    """Tune one method on one split."""
    parts = Split(cell.dataset, cell.split).load(home, settings)
    if cell.method == "adam":
        return tuned_adam(parts, cell.n_hidden, cell.split, settings)
    return tuned_dcon(parts, cell.n_hidden, cell.split, cell.method, settings)


def show(findings: Findings, section: Section) -> None:
    """Show both parts of the table for the algorithm of the paper and for the accelerated one."""
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
    for algorithm in ALGORITHMS:
        columns = {
            f"{one.part}, N={n}": partial(one.median, n_hidden=n)
            for one in comparisons
            if one.algorithm == algorithm
            for n in printed.WIDTHS
        }
        caption = "Medians of the improvement over Adam, over the splits:"
        section.parts.append(median_table(caption, columns, LABELS[algorithm]))
    section.parts.append(_overall(comparisons))
    section.sheets = [
        Sheet("table1", SHEET_HEADER, [line for one in comparisons for line in one.lines()]),
        Sheet("table1-errors", ("dataset", "n_hidden", "method", "splits", *PARTS), list(_mean_errors(results))),
    ]


def _overall(comparisons: list[Comparison]) -> Table:
    rows = [[LABELS[one.algorithm], one.part, *one.averages().texts] for one in comparisons]
    for k, part in enumerate(PARTS):
        mean = float(np.mean([pair[0] for pair in printed.IMPROVEMENTS["adam"][printed.AVERAGE][k]]))
        rows.append(["printed", part, number(mean), *[MISSING] * 3])
    caption = (
        "Averages over all datasets and widths. A mean of ratios is ruled by the few largest, and the accelerated "
        "algorithm has some of hundreds; «ahead» counts the combinations whose median is above zero:"
    )
    return Table(caption, ("", "data", *SUMMARY), rows)


def _mean_errors(results: Results) -> Iterator[list[object]]:
    fits = {method: select(results, method) for method in EXPERIMENT.plan.methods}
    for dataset, n, method in itertools.product(TABLES, printed.WIDTHS, fits):
        found = [result for place, result in fits[method].items() if place[:2] == (dataset, n)]
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
    run=run,
    show=show,
)
