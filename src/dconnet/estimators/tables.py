"""Tables and targets as the auto estimators and `TableEncoder` take them, checked by scikit-learn's rules."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dconnet._arrays import FloatArray, refuse_masked
from dconnet._text import count, printable
from dconnet.encoding.columns import RawColumn, as_labels, find_invalid_row, read_columns
from dconnet.encoding.schema import CategoryColumn, DateColumn, DroppedColumn, NumberColumn, Schema
from dconnet.estimators.data import refuse_several_columns, refuse_unusable_labels

# Targets beyond this, or that differ by less than its inverse, have squares that overflow or underflow.
LARGEST_TARGET = 1e120


class ColumnWarning(UserWarning):
    """A column is dropped although it may hold information, or read in a way that may not be intended."""


class TakesTables:
    """Mixin of estimators whose input may hold text, categories and missing values."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def warn_about_columns(schema: Schema, raws: Sequence[RawColumn]) -> None:
    """Warn of columns that are dropped, that a few cells keep from being numbers or dates, or that are ambiguous."""
    notes = []
    for column, raw in zip(schema.columns, raws, strict=True):
        subject = f"Column {printable(raw.name)!r} of X"
        row = find_invalid_row(raw) if isinstance(column, (CategoryColumn, DroppedColumn)) else None
        if row is not None and column.kind in ("category", "text"):
            notes.append(
                f"{subject} is read as text: most of its cells are numbers or dates, but row {row + 1} holds "
                f"{printable(repr(raw.values[row]))[:60]}. Correct the cell, or replace it with NaN if the value is "
                "missing."
            )
        if isinstance(column, DroppedColumn) and column.kind == "text":
            example = printable(repr(as_labels(raw.rows(slice(1)))[0]))[:60]
            notes.append(
                f"{subject} is dropped: {column.reason}, such as {example}. Extract numbers, dates or categories from "
                "it, or leave it out."
            )
        if isinstance(column, (NumberColumn, DateColumn)) and column.format.is_assumed:
            notes.append(f"{subject}: {column.format.explain_assumption(raw.values.tolist())}")
    for note in notes:
        warnings.warn(note, ColumnWarning, stacklevel=3)


def check_table(estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool) -> list[RawColumn]:
    """Check a table and return its columns; set their names, or compare them with the names of the training."""
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise TypeError("X is a lazy table. Call its method collect() first.")
    refuse_masked(X, "X")
    if not hasattr(X, "columns") or hasattr(X, "toarray"):
        X = check_array(
            X,
            dtype=None,
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
            estimator=estimator,
            input_name="X",
        )
    repeated = [
        name for name, n in Counter(map(str, getattr(X, "column_names", getattr(X, "columns", ())))).items() if n > 1
    ]
    if repeated:
        raise ValueError(f"X has several columns named {printable(repeated[0])!r}. Give each column its own name.")
    validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    raws = read_columns(X)
    if len(X) < 1 or len(raws) < 1:
        raise ValueError(f"X has {count(len(X), 'row')} and {count(len(raws), 'column')}. Give at least one of each.")
    return raws


def check_target(y: ArrayLike, name: str) -> FloatArray:
    """Return the target of the regressor of this name as numbers that are finite and not too large."""
    refuse_several_columns(y, name)
    refuse_masked(y, "y")
    target = column_or_1d(y, warn=True)
    if target.dtype.kind in "mM":
        raise ValueError("y holds dates or times. Convert them to numbers, for example days since the first of them.")
    try:
        numbers: FloatArray = check_array(
            target, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y"
        )
    except ValueError as error:
        if target.dtype.kind in "OUST" and "could not convert" in str(error):
            classifier = name.replace("Regressor", "Classifier")
            raise ValueError(
                f"y is not a number everywhere ({error}). Correct it, or use {classifier} if the values are classes."
            ) from error
        raise
    _refuse_gaps(numbers)
    if np.abs(numbers).max() > LARGEST_TARGET or 0.0 < np.ptp(numbers) < 1.0 / LARGEST_TARGET:
        raise ValueError(
            f"y has values up to {np.abs(numbers).max():.1e} that differ by up to {np.ptp(numbers):.1e}, whose squares "
            "cannot be computed. Measure y in another unit."
        )
    return numbers


def check_labels(y: Any, name: str) -> NDArray[Any]:
    """Return the class labels for the classifier of this name; refuse missing labels and numbers of a regression."""
    refuse_several_columns(y, name)
    refuse_unusable_labels(y)
    if hasattr(y, "isna") and getattr(y, "dtype", np.dtype(object)).kind in "biu" and not y.isna().any():
        y = y.to_numpy(dtype=getattr(y.dtype, "numpy_dtype", y.dtype))  # nullable columns would become floats
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        _refuse_gaps(labels)
        check_array(labels, ensure_2d=False, input_name="y")
    check_classification_targets(labels)
    return labels


def _refuse_gaps(target: FloatArray) -> None:
    n_gaps = int(np.isnan(target).sum())
    if n_gaps:
        raise ValueError(
            f"y is missing (Input y contains NaN) in {n_gaps} of {len(target)} rows. "
            "Drop these rows: known = ~np.isnan(y), and fit(X[known], y[known])."
        )
