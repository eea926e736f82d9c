"""Importance of each column: the loss of out-of-fold accuracy when the column is shuffled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet.encoding.design import CodedDesign
from dconnet.encoding.schema import FieldTable
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.prediction import Ensemble

# Rows of all folds together, at most about.
MAX_ROWS = 1_000


def compute_importances(ensemble: Ensemble, data: TrainingSet, n_table_columns: int) -> FloatArray:
    """Return the share of each column in the increase of the error when columns are shuffled.

    Each row is predicted by the networks that were not trained on it. The shares are nonnegative and sum to one, or all
    are zero if no column helps.

    Parameters
    ----------
    ensemble : Ensemble
    data : TrainingSet
    n_table_columns : int
        Number of columns of the table that the fields came from.
    """
    share = min(1.0, MAX_ROWS / len(data.table))
    parts = []
    for fold in data.folds:
        number = max(1, int(np.ceil(share * len(fold))))
        parts.append(fold[np.arange(number) * len(fold) // number])  # evenly spaced, because tables are often sorted
    rows, rng = np.concatenate(parts), np.random.default_rng(data.seed)
    columns = sorted({field.column for field in data.table.fields})
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
    coders = [fit.folds[0].coder for fit in ensemble.fits]
    designs = [coder.code(table) for coder in coders]
    predictions = [ensemble.predict_designs(designs)]
    for column in columns:
        order = rng.permutation(len(table))
        shuffled = [
            _shuffle_features(design, coder.sources(table.fields) == column, order)
            for design, coder in zip(designs, coders, strict=True)
        ]
        predictions.append(ensemble.predict_designs(shuffled))
    return predictions


def _shuffle_features(design: CodedDesign, chosen: BoolArray, order: NDArray[np.intp]) -> CodedDesign:
    places, shares = design.places.copy(), design.shares.copy()
    places[:, chosen] = places[order][:, chosen]
    shares[:, chosen] = shares[order][:, chosen]
    return replace(design, places=places, shares=shares)
