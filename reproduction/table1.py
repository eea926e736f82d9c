"""Table 1: improvement of DCON over Adam in mean squared error, and the same for the accelerated algorithm."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from reproduction import printed
from reproduction.comparison import PARTS, SHEET_HEADER, SUMMARY, Comparison, compare, median_table
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
    section.sheets = [Sheet("table1", SHEET_HEADER, [line for one in comparisons for line in one.lines()])]


def _overall(comparisons: list[Comparison]) -> Table:
    rows = [[LABELS[one.algorithm], one.part, *one.averages().texts] for one in comparisons]
    for k, part in enumerate(PARTS):
        mean = float(np.mean([pair[0] for pair in printed.IMPROVEMENTS["adam"][printed.AVERAGE][k]]))
        rows.append(["printed", part, number(mean), *[MISSING] * 3])
    return Table("Averages over all datasets and widths:", ("", "data", *SUMMARY), rows)


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
