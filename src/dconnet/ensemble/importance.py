"""How much a stack relies on each column: what it loses out of fold when the column is shuffled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.columns import Table
from dconnet.ensemble.fold_fits import Training
from dconnet.ensemble.stack import Stack

# Rows of which each fold uses at most its share.
MAX_ROWS = 2_000

# Outputs (n_rows, n_columns) in some rows to their error.
Error = Callable[[FloatArray, NDArray[np.intp]], float]


def column_importances(stack: Stack, training: Training, n_table_columns: int, error: Error) -> FloatArray:
    """Share of each column in what the stack gains from all of them.

    Parameters
    ----------
    stack : Stack
    training : Training
        The rows of the training; in each, the networks of its own fold are asked.
    n_table_columns : int
        Columns of the table that the fields came from.
    error : callable
        The error of outputs in some rows.

    Returns
    -------
    array of shape (n_table_columns,)
        Not negative, of sum one, or all zero if no column helps.
    """
    share = min(1.0, MAX_ROWS / len(training.table))
    parts = [rows[: max(1, int(np.ceil(share * len(rows))))] for rows in training.folds]
    rows = np.concatenate(parts)
    rng = np.random.default_rng(training.seed)
    base = error(_outputs(stack, training.table, parts), rows)
    gains = np.zeros(n_table_columns)
    for column in sorted({field.column for field in training.table.fields}):
        shuffled = _shuffled(training.table, column, rng)
        gains[column] = max(error(_outputs(stack, shuffled, parts), rows) - base, 0.0)
    return gains / (gains.sum() or 1.0)


def _shuffled(table: Table, column: int, rng: np.random.Generator) -> Table:
    """The table with the fields of one column in another order of the rows."""
    order = rng.permutation(len(table))
    pairs = zip(table.fields, table.values, strict=True)
    return replace(table, values=tuple(v[order] if field.column == column else v for field, v in pairs))


def _outputs(stack: Stack, table: Table, parts: list[NDArray[np.intp]]) -> FloatArray:
    """What the stack says in the rows of each fold, by the networks that do not know them."""
    return np.concatenate([stack.of_fold(fold).outputs(table.rows(rows)) for fold, rows in enumerate(parts)])
