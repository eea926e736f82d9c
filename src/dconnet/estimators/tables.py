"""Tables and targets as the auto estimators and `TableEncoder` take them, checked by scikit-learn's rules."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dconnet._arrays import FloatArray, refuse_masked
from dconnet._text import printable
from dconnet.encoding.columns import RawColumn, find_invalid_row, read_columns
from dconnet.estimators.data import refuse_several_columns, refuse_unusable_labels

# Targets beyond this, or that differ by less than its inverse, have squares that overflow or underflow.
LARGEST_TARGET = 1e120


class MixedColumnWarning(UserWarning):
    """A column in which most cells are numbers or dates is read as text, because some cells are neither."""


class TakesTables:
    """Mixin of estimators whose input may hold text, categories and missing values."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def warn_mixed_columns(raws: Sequence[RawColumn]) -> None:
    """Warn of columns that a few cells of text keep from being numbers or dates."""
    for raw in raws:
        row = find_invalid_row(raw)
        if row is not None:
            cell = printable(repr(raw.values[row]))[:60]
            warnings.warn(
                f"Column {printable(raw.name)!r} of X is read as text: most of its cells are numbers or dates, but row "
                f"{row + 1} holds {cell}. Correct the cell, or replace it with NaN if the value is missing.",
                MixedColumnWarning,
                stacklevel=3,
            )


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
    validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    raws = read_columns(X)
    if len(X) < 1 or len(raws) < 1:
        raise ValueError(f"X has {len(X)} row(s) and {len(raws)} column(s). Give at least one of each.")
    return raws


def check_target(y: ArrayLike, name: str) -> FloatArray:
    """Return the target of the regressor of this name as numbers that are finite and not too large."""
    refuse_several_columns(y, name)
    refuse_masked(y, "y")
    target = column_or_1d(y, warn=True)
    if target.dtype.kind in "mM":
        raise ValueError("y holds dates or times. Convert them to numbers, for example days since the first of them.")
    numbers: FloatArray = check_array(
        target, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y"
    )
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
