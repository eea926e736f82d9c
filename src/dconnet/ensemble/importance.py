"""How much a stack relies on each column: what it loses out of fold when the column is shuffled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet.encoding.columns import Table
from dconnet.encoding.design import CodedDesign
from dconnet.ensemble.fold_fits import Training
from dconnet.ensemble.stack import Stack

# Rows of which each fold uses at most its share.
MAX_ROWS = 1_000

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
    rows, rng = np.concatenate(parts), np.random.default_rng(training.seed)
    columns = sorted({field.column for field in training.table.fields})
    outputs = [
        _outputs(stack.of_fold(fold), training.table.rows(part), columns, rng) for fold, part in enumerate(parts)
    ]
    errors = [error(np.concatenate(of_parts), rows) for of_parts in zip(*outputs, strict=True)]
    gains = np.zeros(n_table_columns)
    gains[columns] = np.maximum(np.array(errors[1:]) - errors[0], 0.0)
    return gains / (gains.sum() or 1.0)


def _outputs(stack: Stack, table: Table, columns: list[int], rng: np.random.Generator) -> list[FloatArray]:
    """What a stack of one fold says in rows as they are, and then with one column after the other shuffled."""
    coders = [fit.folds[0].coder for fit in stack.fits]
    designs = [coder.code(table) for coder in coders]
    outputs = [stack.outputs_of(designs)]
    for column in columns:
        order = rng.permutation(len(table))
        shuffled = [
            _shuffled(design, coder.sources(table.fields) == column, order)
            for design, coder in zip(designs, coders, strict=True)
        ]
        outputs.append(stack.outputs_of(shuffled))
    return outputs


def _shuffled(design: CodedDesign, chosen: BoolArray, order: NDArray[np.intp]) -> CodedDesign:
    """The design with some of its features in another order of the rows."""
    places, shares = design.places.copy(), design.shares.copy()
    places[:, chosen] = places[order][:, chosen]
    shares[:, chosen] = shares[order][:, chosen]
    return replace(design, places=places, shares=shares)
