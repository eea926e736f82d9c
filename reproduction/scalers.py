"""Table 1 with scalers that learn from the training rows alone, and not from all rows before the split."""

from __future__ import annotations

import itertools
from dataclasses import replace

from reproduction import table1
from reproduction.comparison import PARTS, SHEET_HEADER, SUMMARY, compare, median_table
from reproduction.experiment import Findings
from reproduction.fits import ALGORITHMS, LABELS
from reproduction.page import Section, Sheet, Table

SCALERS = ("all rows", "training rows")


def show(findings: Findings, section: Section) -> None:
    """Show the improvements over Adam with both scalers, on the same splits."""
    found = findings.results()
    same = {cell: result for cell, result in findings.of("table1").results().items() if cell in found}
    results = dict(zip(SCALERS, (same, found), strict=True))
    comparisons = {
        (algorithm, part, scaler): compare(results[scaler], algorithm, part)
        for algorithm, part, scaler in itertools.product(ALGORITHMS, PARTS, SCALERS)
    }
    rows = [
        [LABELS[algorithm], part, scaler, one.n_fits, *one.averages().texts]
        for (algorithm, part, scaler), one in comparisons.items()
    ]
    caption = "Improvement over Adam, averaged as for Table 1 over the same datasets, widths and splits:"
    section.parts += [
        "In the order in which the paper tells it, features and target are scaled first and the rows are divided "
        "afterwards, so that the scalers have seen the test rows. Here they learn from the training rows alone; all "
        "else is as in Table 1, whose cells for the same splits stand beside.",
        Table(caption, ("", "data", "scalers learn from", "fits", *SUMMARY), rows),
    ]
    for part in PARTS:
        columns = {
            f"{LABELS[algorithm]}, {scaler}": comparisons[algorithm, part, scaler].median
            for algorithm, scaler in itertools.product(ALGORITHMS, SCALERS)
        }
        caption = f"Median of the improvement over Adam over widths and splits, {part} data:"
        section.parts.append(median_table(caption, columns))
    lines = [[scaler, *line] for (_, _, scaler), one in comparisons.items() for line in one.lines()]
    section.sheets = [Sheet("scalers", ("scaler", *SHEET_HEADER), lines)]


EXPERIMENT = replace(
    table1.EXPERIMENT,
    name="scalers",
    title="Table 1 with scalers of the training rows",
    settings=replace(table1.EXPERIMENT.settings, scaler_fit="training"),
    quick_settings=replace(table1.EXPERIMENT.quick_settings, scaler_fit="training"),
    show=show,
)
