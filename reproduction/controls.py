"""Controls for Table 1: another optimiser, other settings of Adam, another DC split, restarts."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reproduction import fits, printed
from reproduction.comparison import PARTS, SHEET_HEADER, SUMMARY, compare
from reproduction.datasets import TABLES, Split
from reproduction.experiment import Experiment, Findings
from reproduction.fits import LABELS, FitSettings
from reproduction.page import Section, Sheet, Table, sheet_of_cells
from reproduction.store import Result
from reproduction.table1 import Cell

METHODS = ("lbfgs", "matched", "long", "last", "net", "restart")
FEW_SPLITS = 5  # for methods that are much slower: Adam with many epochs, and restarts, which need a sweep in Python
SLOW_METHODS = ("long", "last", "restart")

# The improvement of the first method over the second.
PAIRS = (
    ("lbfgs", "adam"),
    ("paper", "lbfgs"),
    ("accelerated", "lbfgs"),
    ("paper", "matched"),
    ("accelerated", "matched"),
    ("long", "adam"),
    ("paper", "long"),
    ("last", "adam"),
    ("paper", "last"),
    ("net", "adam"),
    ("net", "paper"),
    ("restart", "paper"),
)


@dataclass(frozen=True)
class Plan:
    """Which cells to compute; ``few_splits`` is for the slow methods."""

    datasets: tuple[str, ...] = TABLES
    widths: tuple[int, ...] = printed.WIDTHS
    splits: int = 30
    few_splits: int = FEW_SPLITS
    methods: tuple[str, ...] = METHODS


@dataclass(frozen=True)
class Settings(FitSettings):
    """Limits as for Table 1, the number of evaluations of L-BFGS, and that of Adam's epochs without the usual cap."""

    lbfgs_evaluations: int = 10_000
    long_adam_epochs: int = 10_000


def cells(plan: Plan) -> list[Cell]:
    """Return the cells split by split, the narrow networks of all datasets first."""
    grid = itertools.product(plan.widths, range(plan.splits), plan.datasets, plan.methods)
    return [
        Cell(dataset, width, split, method)
        for width, split, dataset, method in grid
        if method not in SLOW_METHODS or split < plan.few_splits
    ]


CHOICES: dict[str, dict[str, Any]] = {"net": {"split": "net"}, "restart": {"restart": True}}


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Tune one method on one split."""
    parts = Split(cell.dataset, cell.split).load(home, settings)
    place = (parts, cell.n_hidden, cell.split)
    if cell.method == "lbfgs":
        return fits.tuned_lbfgs(*place, settings, settings.lbfgs_evaluations)
    if cell.method == "matched":
        return fits.tuned_adam(*place, settings, fits.matched_penalties(parts, settings))
    if cell.method == "long":
        return fits.tuned_adam(*place, replace(settings, adam_epochs=settings.long_adam_epochs))
    if cell.method == "last":
        return fits.tuned_adam(*place, settings, restores_best=False)
    return fits.tuned_dcon(*place, "paper", settings, CHOICES[cell.method])


def show(findings: Findings, section: Section) -> None:
    """Show a row for each pair of methods, and medians for each dataset."""
    results = findings.of("table1").results() | findings.results()
    found = {
        f"{LABELS[ours]} over {LABELS[theirs]}": [compare(results, ours, part, theirs) for part in PARTS]
        for ours, theirs in PAIRS
    }
    rows = [
        [label, pair[0].n_fits, *(text for one in pair for text in one.averages().texts)]
        for label, pair in found.items()
        if pair[0].values
    ]
    header = ("", "fits", *(f"{part}: {name}" for part in PARTS for name in SUMMARY))
    section.parts.append(Table("Improvements over all datasets, widths and splits that both have:", header, rows))
    lines = [line for pair in found.values() for one in pair for line in one.lines()]
    section.sheets = [
        Sheet("controls", SHEET_HEADER, lines),
        sheet_of_cells("controls-errors", findings.results(), PARTS),
    ]


EXPERIMENT = Experiment(
    name="controls",
    title="Controls for Table 1",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS1", "DS4"), (10,), 2, 1),
    settings=Settings(),
    quick_settings=Settings(max_epochs=100, adam_epochs=100, long_adam_epochs=200, lbfgs_evaluations=500),
    cells=cells,
    run=run,
    show=show,
)
