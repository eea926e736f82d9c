"""Controls for Table 1: what changes with another optimiser, comparable penalties, another split, or restarts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduction import fits, printed
from reproduction.datasets import TABLES, Split
from reproduction.experiment import Experiment, Findings
from reproduction.fits import LABELS, FitSettings
from reproduction.page import Section, Sheet, Table, number
from reproduction.store import Result
from reproduction.table1 import (
    AVERAGES_HEADER,
    PARTS,
    SHEET_HEADER,
    Cell,
    Comparison,
    Results,
    compare,
)

# Restarts take a sweep in Python, and so much longer: they are for few splits.
METHODS = ("lbfgs", "matched", "net", "restart")
FEW_SPLITS = 5

# Who is compared with whom: a control on the left or on the right of its counterpart.
PAIRS = (
    ("lbfgs", "adam"),
    ("paper", "lbfgs"),
    ("accelerated", "lbfgs"),
    ("paper", "matched"),
    ("accelerated", "matched"),
    ("net", "adam"),
    ("net", "paper"),
    ("restart", "paper"),
)


@dataclass(frozen=True)
class Plan:
    """Which cells to compute; ``few_splits`` is for the methods with restarts."""

    datasets: tuple[str, ...] = TABLES
    widths: tuple[int, ...] = printed.WIDTHS
    splits: int = 30
    few_splits: int = FEW_SPLITS
    methods: tuple[str, ...] = METHODS


@dataclass(frozen=True)
class Settings(FitSettings):
    """Limits as for Table 1.

    Attributes
    ----------
    lbfgs_evaluations : int
        Limit on the evaluations of L-BFGS.
    """

    lbfgs_evaluations: int = 10_000


def cells(plan: Plan) -> list[Cell]:
    """All methods of a split one after the other, the narrow networks of all datasets first."""
    grid = itertools.product(plan.widths, range(plan.splits), plan.datasets, plan.methods)
    return [
        Cell(dataset, width, split, method)
        for width, split, dataset, method in grid
        if method != "restart" or split < plan.few_splits
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
    return fits.tuned_dcon(*place, "paper", settings, CHOICES[cell.method])


def show(findings: Findings, section: Section) -> None:
    """A line for each pair of methods, and medians for each dataset."""
    results = findings.of("table1").results() | findings.results()
    comparisons = {
        (ours, theirs, part): compare(results, ours, part, theirs) for ours, theirs in PAIRS for part in PARTS
    }
    section.parts += [
        "Who is ahead depends on more than the optimiser. L-BFGS is one run of SciPy's L-BFGS-B on the same RegLoss, "
        "from the same start and with the same grid of gamma as DCON. Adam with matched penalties has gamma over the "
        "root of the number of rows for DCON's four gammas in the place of its own two penalties. The net split is a "
        "smaller decomposition into convex parts than the paper's, and restarts are the paper's own procedure "
        "(Appendix B) where the DCA stops at a point that is no local minimum; both are Algorithm 1 otherwise. All "
        "else is as in Table 1, with whose cells these are compared.",
        _summary(comparisons),
        *(_medians(comparisons, part) for part in PARTS),
    ]
    section.sheets = [
        Sheet("controls", SHEET_HEADER, [line for one in comparisons.values() for line in one.lines()]),
        Sheet("controls-errors", ("dataset", "n_hidden", "split", "method", *PARTS), list(_errors(findings.results()))),
    ]


Comparisons = dict[tuple[str, str, str], Comparison]


def _summary(comparisons: Comparisons) -> Table:
    rows = []
    for ours, theirs in PAIRS:
        pair = [comparisons[ours, theirs, part] for part in PARTS]
        splits = sum(len(values) for values in pair[0].values.values())
        if splits:
            figures = (text for one in pair for text in one.averages().texts)
            rows.append([f"{LABELS[ours]} over {LABELS[theirs]}", splits, *figures])
    caption = (
        "Improvements over all datasets, widths and splits that both have: the error of the second over that of the "
        "first, minus one, averaged as for Table 1:"
    )
    return Table(caption, ("", "fits", *(f"{part}: {name}" for part in PARTS for name in AVERAGES_HEADER)), rows)


def _medians(comparisons: Comparisons, part: str) -> Table:
    columns = [pair for pair in PAIRS if comparisons[(*pair, part)].values]
    rows = [
        [dataset, *(number(comparisons[(*pair, part)].over_widths(dataset)) for pair in columns)] for dataset in TABLES
    ]
    header = ("", *(f"{LABELS[ours]} over {LABELS[theirs]}" for ours, theirs in columns))
    return Table(f"The median over all widths and splits, {part} data:", header, rows)


def _errors(results: Results) -> Iterator[list[object]]:
    for cell in sorted(results):
        yield [cell.dataset, cell.n_hidden, cell.split, cell.method, *(results[cell][part] for part in PARTS)]


EXPERIMENT = Experiment(
    name="controls",
    title="Controls for Table 1",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS1", "DS4"), (10,), 2, 1),
    settings=Settings(),
    quick_settings=Settings(max_epochs=100, adam_epochs=100, lbfgs_evaluations=500),
    cells=cells,
    datasets=lambda plan: plan.datasets,
    run=run,
    show=show,
)
