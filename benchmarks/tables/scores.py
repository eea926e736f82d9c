"""How good predictions are."""

from __future__ import annotations

import numpy as np

# Probabilities nearer to zero or one than this, of any method, count as this far: one row must not decide.
LEAST_PROBABILITY = 1e-6


def loss(y: np.ndarray, predicted: np.ndarray) -> float:
    """Mean squared error of numbers, logarithmic loss of probabilities of shape (n_rows, n_classes)."""
    return log_loss(y, predicted) if predicted.ndim == 2 else float(np.mean((y - predicted) ** 2))


def log_loss(y: np.ndarray, probabilities: np.ndarray) -> float:
    """Mean of minus the logarithm of what was given to the class that came."""
    sums = probabilities.sum(axis=1)
    of_class = probabilities[np.arange(len(y)), y] / sums
    return float(-np.mean(np.log(np.clip(of_class, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY))))


def scores(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """All figures; ``loss`` is the one that ranks.

    Regression: the mean squared error over the variance of the target in these rows, which is one minus R², and the
    mean absolute error. Classification: the logarithmic loss, the share of wrong classes, and the area under the curve
    of one class against the others, averaged over classes.
    """
    if not np.all(np.isfinite(predicted)):
        raise ValueError("Some predictions are not finite.")
    if predicted.ndim == 1:
        return {"loss": loss(y, predicted) / float(np.var(y)), "mae": float(np.mean(np.abs(y - predicted)))}
    return {
        "loss": loss(y, predicted),
        "wrong": float(np.mean(predicted.argmax(axis=1) != y)),
        "auc": auc(y, predicted),
    }


def auc(y: np.ndarray, probabilities: np.ndarray) -> float:
    """Area under the curve, the mean over classes."""
    from sklearn.metrics import roc_auc_score

    classes = range(probabilities.shape[1]) if probabilities.shape[1] > 2 else (1,)
    return float(np.mean([roc_auc_score(y == label, probabilities[:, label]) for label in classes]))
