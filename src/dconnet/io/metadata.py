"""Metadata of a model file: names, scores, version and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dconnet import __version__


@dataclass(frozen=True, slots=True)
class Metadata:
    """Names, scores and origin of a model, as ``metadata_`` of the estimator that `dconnet.load` returns.

    Attributes
    ----------
    feature_names : tuple of str
        Columns of the table that the model takes, in their order.
    target_names : tuple of str
        Columns that the model predicts.
    scores : mapping of str to mapping of str to float
        Measures by part of the data, for example ``{"test": {"n_rows": 50, "r2": 0.9, "mse": 0.1}}``.
    version : str
        The version of dconnet that saved the model.
    created : str
        When the model was saved first, in UTC, such as "2026-01-31T12:00:00Z"; empty if it was never saved.
    description : str
        A text of your own.
    """

    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    version: str = __version__
    created: str = ""
    description: str = ""


def metadata_of(estimator: Any) -> Metadata:
    """Return ``metadata_`` of a fitted estimator, or metadata with the names that the estimator has seen in `fit`.

    Features without names are called x0, x1, ... and a target without a name y; several targets are y0, y1, ...
    """
    if hasattr(estimator, "metadata_"):
        metadata: Metadata = estimator.metadata_
        return metadata
    first, last = (estimator[0], estimator[-1]) if hasattr(estimator, "steps") else (estimator, estimator)
    features = getattr(first, "feature_names_in_", [f"x{j}" for j in range(first.n_features_in_)])
    targets = getattr(last, "target_names_in_", None)
    if targets is None:
        n_targets = getattr(getattr(last, "targets_", None), "n_targets", 1)
        targets = ["y"] if n_targets == 1 else [f"y{k}" for k in range(n_targets)]
    return Metadata(tuple(map(str, features)), tuple(map(str, targets)))
