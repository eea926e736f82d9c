"""Table 1 with scalers that learn from the training rows alone, and not from all rows before the split."""

from __future__ import annotations

from dataclasses import replace

from reproduction import table1
from reproduction.datasets import TABLES
from reproduction.experiment import Findings
from reproduction.fits import ALGORITHMS, LABELS, FitSettings
from reproduction.page import Section, Sheet, Table, number
from reproduction.table1 import AVERAGES_HEADER, PARTS, SHEET_HEADER, Comparison, Results, compare

SCALERS = ("all rows", "training rows")


def show(findings: Findings, section: Section) -> None:
    """The improvements over Adam with both scalers, on the same splits."""
    found = findings.results()
    results = dict(zip(SCALERS, (_same_cells(findings.of("table1").results(), found), found), strict=True))
    comparisons = {
        (scaler, algorithm, part): compare(results[scaler], algorithm, part)
        for algorithm in ALGORITHMS
        for part in PARTS
        for scaler in SCALERS
    }
    section.parts += [
        "In the order in which the paper tells it, features and target are scaled first and the rows are divided "
        "afterwards, so that the scalers have seen the test rows. Here they learn from the training rows alone; all "
        "else is as in Table 1, whose cells for the same splits stand beside.",
        _summary(comparisons),
        *(_medians(comparisons, part) for part in PARTS),
    ]
    lines = [[scaler, *line] for (scaler, _, _), one in comparisons.items() for line in one.lines()]
    section.sheets = [Sheet("scalers", ("scaler", *SHEET_HEADER), lines)]


def _same_cells(results: Results, wanted: Results) -> Results:
    return {cell: result for cell, result in results.items() if cell in wanted}


Comparisons = dict[tuple[str, str, str], Comparison]


def _summary(comparisons: Comparisons) -> Table:
    rows = [
        [LABELS[algorithm], part, scaler, sum(map(len, one.values.values())), *one.averages().texts]
        for (scaler, algorithm, part), one in comparisons.items()
    ]
    caption = "Improvement over Adam, averaged as for Table 1 over the same datasets, widths and splits:"
    return Table(caption, ("", "data", "scalers learn from", "fits", *AVERAGES_HEADER), rows)


def _medians(comparisons: Comparisons, part: str) -> Table:
    columns = [(algorithm, scaler) for algorithm in ALGORITHMS for scaler in SCALERS]
    rows = [
        [dataset, *(number(comparisons[scaler, algorithm, part].over_widths(dataset)) for algorithm, scaler in columns)]
        for dataset in TABLES
    ]
    header = ("", *(f"{LABELS[algorithm]}, {scaler}" for algorithm, scaler in columns))
    return Table(f"Median of the improvement over Adam over widths and splits, {part} data:", header, rows)


def _of_training_rows(settings: FitSettings) -> FitSettings:
    return replace(settings, scaler_fit="training")


EXPERIMENT = replace(
    table1.EXPERIMENT,
    name="scalers",
    title="Table 1 with scalers of the training rows",
    settings=_of_training_rows(table1.EXPERIMENT.settings),
    quick_settings=_of_training_rows(table1.EXPERIMENT.quick_settings),
    show=show,
)
