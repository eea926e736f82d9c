"""Screening: the fields of a wide or noisy table that are associated with the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dconnet._arrays import FloatArray
from dconnet.encoding.schema import FieldTable
from dconnet.model.rows import blocks

# Share of fields without an association among those that are chosen, on average (Benjamini and Hochberg).
FALSE_SHARE = 0.1
# Rows of a test, at most; evenly spaced.
MAX_ROWS = 20_000
# Fields of a block, whose ranks are computed at once.
BLOCK = 256
# Seconds that p values take for each value of a table, and the largest share of the remaining time that they may take.
SECONDS_PER_VALUE, TIME_SHARE = 3e-7, 0.25


@dataclass(frozen=True, slots=True)
class Screening:
    """Which fields a family uses: at most ``n_fields``, and if it is strict, only those with an association."""

    n_fields: int
    is_strict: bool = False

    def choose(self, p_values: FloatArray) -> NDArray[np.intp]:
        """Return the fields with the smallest p values, ascending in their numbers; at least one."""
        order = np.argsort(p_values, kind="stable")[: self.n_fields]
        if self.is_strict:
            passed = np.flatnonzero(p_values[order] <= FALSE_SHARE * np.arange(1, len(order) + 1) / len(p_values))
            order = order[: passed[-1] + 1 if len(passed) else 1]
        return np.sort(order)


def has_time_for_screening(table: FieldTable, seconds_left: float) -> bool:
    """Return whether `compute_p_values`, which cannot be interrupted by the clock, leaves most of the time."""
    n_values = len(table.fields) * min(len(table), MAX_ROWS)
    return SECONDS_PER_VALUE * n_values < TIME_SHARE * seconds_left


def compute_p_values(table: FieldTable, columns: FloatArray) -> FloatArray:
    """Return the p value of the association of each field with the target, corrected for the tests of one field.

    A number is tested by its rank correlation with the columns of the target, and that of its distance from the median;
    a category by the variance between its levels.

    Parameters
    ----------
    table : FieldTable
    columns : array of shape (n_rows, n_columns)
        The target, or indicators of the classes.
    """
    some = slice(None, None, -(-len(table) // MAX_ROWS))
    table, columns = table.rows(some), columns[some]
    n_rows, n_columns = columns.shape
    targets = _standardise(stats.rankdata(columns, axis=0))
    p_values = np.ones(len(table.fields))
    numbers = [j for j, field in enumerate(table.fields) if not field.is_category]
    for part in blocks(len(numbers), BLOCK):
        chosen = numbers[part]
        X = np.column_stack([table.values[j] for j in chosen])
        X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
        squares = np.zeros((len(chosen), n_columns))
        for values in (X, np.abs(X - np.median(X, axis=0))):
            correlations = _standardise(stats.rankdata(values, axis=0)).T @ targets / n_rows
            squares = np.maximum(squares, correlations**2)
        p_values[chosen] = 2.0 * _test(squares.max(axis=1), 1, n_rows)
    for j, field in enumerate(table.fields):
        if field.is_category:
            codes = np.where(np.isnan(table.values[j]), field.n_levels, table.values[j]).astype(np.intp)
            sums = np.stack([np.bincount(codes, own, field.n_levels + 1) for own in targets.T])
            counts = np.maximum(np.bincount(codes, minlength=field.n_levels + 1), 1)
            n_used = int(np.count_nonzero(np.bincount(codes)))
            p_values[j] = _test(np.array((sums**2 / counts).sum(axis=1).max() / n_rows), max(n_used - 1, 1), n_rows)
    corrected: FloatArray = np.minimum(n_columns * p_values, 1.0)
    return corrected


def _standardise(values: FloatArray) -> FloatArray:
    centered = values - values.mean(axis=0)
    scale = centered.std(axis=0)
    standard: FloatArray = centered / np.where(scale > 0.0, scale, 1.0)
    return standard


def _test(explained: FloatArray, n_effects: int, n_rows: int) -> FloatArray:
    """Return the p values of shares of the variance that are explained by some number of effects."""
    rest = max(n_rows - n_effects - 1, 1)
    ratio = explained / np.maximum(1.0 - explained, 1e-12) * rest / n_effects
    p_values: FloatArray = stats.f.sf(ratio, n_effects, rest)
    return p_values
