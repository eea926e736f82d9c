"""Tables as the estimators take them, checked by scikit-learn's rules."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from dconnet._text import printable
from dconnet.encoding.columns import RawColumn, find_invalid_row, raw_columns


class MixedColumnWarning(UserWarning):
    """A column in which most cells are numbers or dates is read as text, because some cells are neither."""


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
                stacklevel=5,
            )


def check_table(estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
    """Return a DataFrame as it is and anything else as a checked array; set or compare the names of the columns."""
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise TypeError("X is a lazy table. Call its method collect() first.")
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
    n_columns = len(raw_columns(X))
    if len(X) < 1 or n_columns < 1:
        raise ValueError(f"X has {len(X)} row(s) and {n_columns} column(s). Give at least one of each.")
    return X
