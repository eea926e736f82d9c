"""Which inputs matter: permutation importance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.inspection.plotting.network import input_strengths
from dconnet.persistence.model_file import SavedModel, Score

# Limits on the work: with more features, the strongest are chosen by their weights; with more rows, some are drawn.
MAX_FEATURES = 20
MAX_ROWS = 1000
REPEATS = 5


@dataclass(frozen=True, slots=True)
class Influence:
    """How much worse the predictions get if one feature is shuffled.

    Attributes
    ----------
    feature : int
        Column of the feature.
    rise : float
        Mean increase of the error: the root mean squared error of a regressor, the share of wrong predictions of a
        classifier.
    spread : float
        Standard deviation of the increase over the shuffles.
    share : float
        The increase as a part of the largest one, between zero and one.
    """

    feature: int
    rise: float
    spread: float
    share: float


def influences(model: SavedModel, X: FloatArray, y: NDArray[Any]) -> list[Influence]:
    """Return the permutation importance of the features, the largest first."""
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(y))[:MAX_ROWS])
    X, y = X[rows], y[rows]
    features = np.argsort(-input_strengths(model.networks, model.feature_scaling.apply(X)), kind="stable")[
        :MAX_FEATURES
    ]
    with np.errstate(over="ignore", invalid="ignore"):
        error = _error(model, X, y)
        rises = np.array([[_error_shuffled(model, X, y, i, rng) - error for _ in range(REPEATS)] for i in features])
        means, spreads = np.nan_to_num(rises.mean(axis=1)), np.nan_to_num(rises.std(axis=1))
    shares = np.clip(means, 0.0, None) / max(means.max(), np.finfo(float).tiny)
    order = np.argsort(-means, kind="stable")
    return [Influence(int(features[i]), float(means[i]), float(spreads[i]), float(shares[i])) for i in order]


def _error_shuffled(model: SavedModel, X: FloatArray, y: NDArray[Any], feature: int, rng: np.random.Generator) -> float:
    shuffled = X.copy()
    shuffled[:, feature] = rng.permutation(shuffled[:, feature])
    return _error(model, shuffled, y)


def _error(model: SavedModel, X: FloatArray, y: NDArray[Any]) -> float:
    score = Score.of(model, X, y)
    if score.accuracy is not None:
        return 1.0 - score.accuracy
    return np.nan if score.mse is None else score.mse**0.5
