"""Scores of predictions."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

MIN_PROBABILITY = 1e-6  # probabilities are clipped to [1e-6, 1 - 1e-6], so that no single row decides


def loss(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the mean squared error of numbers, or the log loss of probabilities (n_rows, n_classes)."""
    if predicted.ndim == 1:
        return float(np.mean((y - predicted) ** 2))
    of_class = predicted[np.arange(len(y)), y] / predicted.sum(axis=1)
    return float(-np.mean(np.log(np.clip(of_class, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY))))


def compute_scores(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Return all scores; ``loss`` ranks the methods.

    Regression: the mean squared error over the variance of the target, which is 1 - R², and the mean absolute error.
    Classification: log loss, share of wrong classes, and the area under the ROC curve, averaged over classes.
    """
    if not np.all(np.isfinite(predicted)):
        raise ValueError("Some predictions are not finite.")
    if predicted.ndim == 1:
        return {"loss": loss(y, predicted) / float(np.var(y)), "mae": float(np.mean(np.abs(y - predicted)))}
    classes = range(predicted.shape[1]) if predicted.shape[1] > 2 else (1,)
    auc = float(np.mean([roc_auc_score(y == label, predicted[:, label]) for label in classes]))
    return {"loss": loss(y, predicted), "wrong": float(np.mean(predicted.argmax(axis=1) != y)), "auc": auc}
