"""Checks of estimators, and their outputs by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from dconnet.estimators import DCONClassifier, DCONRegressor


def check_is_dcon(estimator: object) -> None:
    """Raise a TypeError unless the estimator has a single hidden layer."""
    if not isinstance(estimator, (DCONRegressor, DCONClassifier)):
        raise TypeError(
            f"A DCONRegressor or DCONClassifier is needed, not a {type(estimator).__name__}. For a pipeline, pass the "
            "last step and its inputs: pipeline[-1] and pipeline[:-1].transform(X)."
        )


def select_outputs(estimator: Any, classes: Sequence[object] | None) -> list[int]:
    """Return the positions of the outputs for some classes, or of all outputs; two classes have one output."""
    check_is_dcon(estimator)
    check_is_fitted(estimator)
    if classes is None:
        return list(range(estimator.targets_.n_columns))
    if not is_classifier(estimator):
        raise ValueError("classes can be chosen for a classifier only; this is a regressor.")
    known = estimator.classes_.tolist()
    if len(classes) == 0 or any(label not in known for label in classes):
        raise ValueError(f"classes must be some of {known}, got {list(classes)}.")
    return [0] if len(known) == 2 else [known.index(label) for label in classes]
