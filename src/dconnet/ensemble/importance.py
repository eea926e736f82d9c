"""Importance of each column: the loss of out-of-fold accuracy when the column is shuffled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.design import CodedDesign
from dconnet.encoding.schema import FieldTable
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.prediction import Ensemble

# Rows of all folds together, at most about.
MAX_ROWS = 1_000
# After the time limit of a fit: at most MAX_ROWS_WHEN_CUT rows, and fewer if the networks of all outputs would receive
# more than VALUES_WHEN_CUT values, about 0.1 seconds; but at least MIN_ROWS_WHEN_CUT.
MAX_ROWS_WHEN_CUT, VALUES_WHEN_CUT, MIN_ROWS_WHEN_CUT = 200, 4_000_000, 20


def compute_importances(
    ensemble: Ensemble, data: TrainingSet, n_table_columns: int, *, is_cut: bool = False
) -> FloatArray:
    """Return the share of each column in the increase of the error when columns are shuffled.

    Each row is predicted by the networks that were not trained on it. The shares are nonnegative and sum to one, or all
    are zero if no column helps.

    Parameters
    ----------
    ensemble : Ensemble
    data : TrainingSet
    n_table_columns : int
        Number of columns of the table that the fields came from.
    is_cut : bool, default=False
        Whether the time of the fit is over, so that fewer rows are shuffled.
    """
    columns = sorted({int(j) for fit in ensemble.fits for own in fit.folds for j in own.sources(data.table.fields)})
    max_rows = MAX_ROWS
    if is_cut:
        affordable = VALUES_WHEN_CUT // max(1, len(columns) ** 2 * data.columns.shape[1])
        max_rows = int(np.clip(affordable, MIN_ROWS_WHEN_CUT, MAX_ROWS_WHEN_CUT))
    share = min(1.0, max_rows / sum(map(len, data.folds)))
    parts = []
    for fold in data.folds:
        number = max(1, int(np.ceil(share * len(fold))))
        parts.append(fold[np.arange(number) * len(fold) // number])  # evenly spaced, because tables are often sorted
    rows, rng = np.concatenate(parts), np.random.default_rng(data.seed)
    predictions = [
        _predict_shuffled(ensemble.select_fold(fold), data.table.rows(part), columns, rng)
        for fold, part in enumerate(parts)
    ]
    errors = [data.error(np.concatenate(of_parts), rows) for of_parts in zip(*predictions, strict=True)]
    increases = np.zeros(n_table_columns)
    increases[columns] = np.maximum(np.array(errors[1:]) - errors[0], 0.0)
    return increases / (increases.sum() or 1.0)


def _predict_shuffled(
    ensemble: Ensemble, table: FieldTable, columns: list[int], rng: np.random.Generator
) -> list[FloatArray]:
    """Return the predictions of an ensemble of one fold for the rows, and with each of the columns shuffled."""
    fits = [fit.folds[0] for fit in ensemble.fits]
    coded = [fit.code(table) for fit in fits]
    sources = [fit.sources(table.fields) for fit in fits]
    predictions = [ensemble.predict_coded(coded)]
    for column in columns:
        order = rng.permutation(len(table))
        shuffled = [
            _shuffle_features(rows, np.flatnonzero(own == column), order)
            for rows, own in zip(coded, sources, strict=True)
        ]
        predictions.append(ensemble.predict_coded(shuffled))
    return predictions


def _shuffle_features(
    coded: CodedDesign | FloatArray, features: NDArray[np.intp], order: NDArray[np.intp]
) -> CodedDesign | FloatArray:
    if isinstance(coded, CodedDesign):
        places, shares = (_shuffle_columns(array, features, order) for array in (coded.places, coded.shares))
        return replace(coded, places=places, shares=shares)
    return _shuffle_columns(coded, features, order)


def _shuffle_columns(array: NDArray[Any], columns: NDArray[np.intp], order: NDArray[np.intp]) -> NDArray[Any]:
    shuffled = array.copy()
    shuffled[:, columns] = array[np.ix_(order, columns)]
    return shuffled
