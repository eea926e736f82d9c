"""Tables as the estimators take them, checked by scikit-learn's rules."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from dconnet._text import printable
from dconnet.encoding.columns import RawColumn, raw_columns, slip_of


class SlipWarning(UserWarning):
    """A column of numbers is taken as text, for a slip in few of its rows."""


def warn_of_slips(raws: Sequence[RawColumn]) -> None:
    """Warn of columns that a few texts keep from being numbers."""
    for raw in raws:
        slip = slip_of(raw)
        if slip is not None:
            warnings.warn(
                f"Column {printable(raw.name)!r} of X is taken as text: most of its values are numbers, but not "
                f"{printable(repr(slip))[:60]}. Put NaN in its place if it is a slip or stands for a missing value.",
                SlipWarning,
                stacklevel=5,
            )


def checked_table(estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
    """The table itself if it is a DataFrame, or an array that scikit-learn has checked; names and number noted."""
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise TypeError("X is a lazy table: call its method collect() first.")
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
    if len(X) < 1 or len(raw_columns(X)) < 1:
        raise ValueError(f"X has {len(X)} row(s) and {len(raw_columns(X))} column(s): nothing to work with.")
    return X
