"""Tables as the estimators take them, checked by scikit-learn's rules."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from dconnet.encoding.columns import raw_columns


def checked_table(estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
    """The table itself if it is a DataFrame, or an array that scikit-learn has checked; names and number noted."""
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
