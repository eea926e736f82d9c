"""Which inputs matter: permutation importance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.inspection.plotting.network import input_strengths
from dconnet.io.model_file import SavedModel, Score

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
        Column of the feature: of the table, if it was encoded for the networks.
    inputs : tuple of int
        The inputs of the networks that came from it, the strongest first.
    rise : float
        Mean increase of the error: the root mean squared error of a regressor, of several targets in standard
        deviations of each, or the share of wrong predictions of a classifier.
    spread : float
        Standard deviation of the increase over the shuffles.
    share : float
        The increase as a part of the largest one, between zero and one.
    """

    feature: int
    inputs: tuple[int, ...]
    rise: float
    spread: float
    share: float


def influences(
    model: SavedModel, X: FloatArray, y: NDArray[Any], sources: NDArray[np.intp] | None = None
) -> list[Influence]:
    """Return the permutation importance of the features, the largest first.

    Parameters
    ----------
    model : SavedModel
        The networks.
    X, y : arrays of shape (n_rows, n_inputs) and (n_rows,) or (n_rows, n_targets)
        What they see of the rows, and what was observed.
    sources : array of int, of shape (n_inputs,), optional
        The feature from which each input came; by default, every input is one. Inputs of one feature are shuffled
        together, since no row has two levels of a category, or a date on two weekdays.
    """
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(y))[:MAX_ROWS])
    X, y = X[rows], y[rows]
    groups = _groups(input_strengths(model.networks, model.feature_scaling.apply(X)), sources)
    with np.errstate(over="ignore", invalid="ignore"):
        error = _error(model, X, y)
        rises = np.array(
            [[_error_shuffled(model, X, y, own, rng) - error for _ in range(REPEATS)] for _, own in groups]
        )
        means, spreads = np.nan_to_num(rises.mean(axis=1)), np.nan_to_num(rises.std(axis=1))
    shares = np.clip(means, 0.0, None) / max(means.max(), np.finfo(float).tiny)
    order = np.argsort(-means, kind="stable")
    return [Influence(groups[i][0], groups[i][1], float(means[i]), float(spreads[i]), float(shares[i])) for i in order]


def _groups(strengths: FloatArray, sources: NDArray[np.intp] | None) -> list[tuple[int, tuple[int, ...]]]:
    """The strongest features, and the inputs that came from each, the strongest first."""
    sources = np.arange(len(strengths)) if sources is None else sources
    total = np.bincount(sources, weights=strengths)
    ranked = np.argsort(-strengths, kind="stable")
    features = [int(j) for j in np.argsort(-total, kind="stable") if np.any(sources == j)][:MAX_FEATURES]
    return [(j, tuple(int(i) for i in ranked[sources[ranked] == j])) for j in features]


def _error_shuffled(
    model: SavedModel, X: FloatArray, y: NDArray[Any], inputs: tuple[int, ...], rng: np.random.Generator
) -> float:
    shuffled, order = X.copy(), rng.permutation(len(X))
    shuffled[:, inputs] = X[order][:, inputs]
    return _error(model, shuffled, y)


def _error(model: SavedModel, X: FloatArray, y: NDArray[Any]) -> float:
    score = Score.of(model, X, y)
    if score.accuracy is not None:
        return 1.0 - score.accuracy
    if score.each:  # 1 - R² is the mean of the squared errors in units of the variances
        return np.nan if score.r2 is None else (1.0 - score.r2) ** 0.5
    return np.nan if score.mse is None else score.mse**0.5
