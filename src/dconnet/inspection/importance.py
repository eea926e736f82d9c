"""How much each feature contributes to the quality of the predictions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from dconnet._arrays import FloatArray
from dconnet.inspection.plotting.network import input_strengths
from dconnet.model.network import Network

# Limits on the work: features with the largest weights, rows drawn at random, shuffles of each feature.
MAX_FEATURES, MAX_ROWS, N_SHUFFLES = 20, 1000, 5


@dataclass(frozen=True, slots=True)
class Importance:
    """The importance of one feature.

    The value is the mean increase of the error when the feature is shuffled: of the root mean squared error (with
    several targets in their standard deviations) or of the share of wrong classes. For auto estimators, it is the entry
    of ``feature_importances_``.
    """

    feature: int  # position in the table
    value: float
    spread: float  # standard deviation over the shuffles; NaN for auto estimators
    share: float  # the value as a share of the largest one, between 0 and 1


def shuffle_features(
    model: Any, networks: Sequence[Network], X: FloatArray, y: NDArray[Any], sources: NDArray[np.intp]
) -> tuple[Importance, ...]:
    """Return the permutation importance of the features, largest first.

    The weights of ``networks``, those of the first hidden layer of the model, select features if there are many.
    ``sources`` are the features of the inputs ``X`` (n_rows, n_inputs). All inputs of a feature are shuffled together,
    because no row has two levels of a category.
    """
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(y))[:MAX_ROWS])
    X, y = X[rows], y[rows]
    totals = np.bincount(sources, weights=input_strengths(networks, X))
    features = np.array([j for j in np.argsort(-totals, kind="stable") if np.any(sources == j)][:MAX_FEATURES], int)
    increases, error = np.zeros((len(features), N_SHUFFLES)), _error(model, X, y)
    for i, feature in enumerate(features):
        own = sources == feature
        for k in range(N_SHUFFLES):
            shuffled = X.copy()
            shuffled[:, own] = X[rng.permutation(len(X))][:, own]
            increases[i, k] = _error(model, shuffled, y) - error
    return rank_features(increases.mean(axis=1), increases.std(axis=1), features)


def rank_features(
    values: FloatArray, spreads: FloatArray | None = None, features: NDArray[np.intp] | None = None
) -> tuple[Importance, ...]:
    """Return an importance for each feature, largest first; by default, the values belong to all features in order."""
    largest = max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    features = np.arange(len(values)) if features is None else features
    spreads = np.full(len(values), np.nan) if spreads is None else spreads
    return tuple(
        Importance(int(features[i]), float(values[i]), float(spreads[i]), max(float(values[i]) / largest, 0.0))
        for i in np.argsort(-values, kind="stable")
    )


def _error(model: Any, X: FloatArray, y: NDArray[Any]) -> float:
    """Return the root mean squared error, in standard deviations of several targets, or the share of wrong classes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        predictions = model.predict(X)
    if is_classifier(model):
        return float(np.mean(predictions != y))
    units = np.maximum(y.std(axis=0), np.finfo(float).tiny) if y.ndim == 2 else 1.0
    return float(np.sqrt(np.mean(((predictions - y) / units) ** 2)))
