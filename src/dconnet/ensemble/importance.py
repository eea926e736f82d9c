"""How much an ensemble relies on each column: what it loses out of fold when the column is shuffled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet.encoding.design import CodedDesign
from dconnet.encoding.schema import FieldTable
from dconnet.ensemble.ensemble import Ensemble
from dconnet.ensemble.fold_fits import Training

# Rows of which each fold uses at most its share.
MAX_ROWS = 1_000


def column_importances(ensemble: Ensemble, training: Training, n_table_columns: int) -> FloatArray:
    """Share of each column in what the ensemble gains from all of them.

    Parameters
    ----------
    ensemble : Ensemble
    training : Training
        The rows of the training; in each, the networks of its own fold are asked.
    n_table_columns : int
        Columns of the table that the fields came from.

    Returns
    -------
    array of shape (n_table_columns,)
        Not negative, of sum one, or all zero if no column helps.
    """
    share = min(1.0, MAX_ROWS / len(training.table))
    parts = [_evenly(rows, max(1, int(np.ceil(share * len(rows))))) for rows in training.folds]
    rows, rng = np.concatenate(parts), np.random.default_rng(training.seed)
    columns = sorted({field.column for field in training.table.fields})
    outputs = [
        _outputs(ensemble.of_fold(fold), training.table.rows(part), columns, rng) for fold, part in enumerate(parts)
    ]
    errors = [training.error(np.concatenate(of_parts), rows) for of_parts in zip(*outputs, strict=True)]
    gains = np.zeros(n_table_columns)
    gains[columns] = np.maximum(np.array(errors[1:]) - errors[0], 0.0)
    return gains / (gains.sum() or 1.0)


def _evenly(rows: NDArray[np.intp], number: int) -> NDArray[np.intp]:
    """So many of the rows, from the first to the last: tables are often sorted."""
    return rows[np.arange(number) * len(rows) // number]


def _outputs(ensemble: Ensemble, table: FieldTable, columns: list[int], rng: np.random.Generator) -> list[FloatArray]:
    """What an ensemble of one fold says in rows as they are, and then with one column after the other shuffled."""
    coders = [fit.folds[0].coder for fit in ensemble.fits]
    designs = [coder.code(table) for coder in coders]
    outputs = [ensemble.outputs_of(designs)]
    for column in columns:
        order = rng.permutation(len(table))
        shuffled = [
            _shuffled(design, coder.sources(table.fields) == column, order)
            for design, coder in zip(designs, coders, strict=True)
        ]
        outputs.append(ensemble.outputs_of(shuffled))
    return outputs


def _shuffled(design: CodedDesign, chosen: BoolArray, order: NDArray[np.intp]) -> CodedDesign:
    """The design with some of its features in another order of the rows."""
    places, shares = design.places.copy(), design.shares.copy()
    places[:, chosen] = places[order][:, chosen]
    shares[:, chosen] = shares[order][:, chosen]
    return replace(design, places=places, shares=shares)
