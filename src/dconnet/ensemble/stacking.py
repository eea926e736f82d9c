"""Weights of the members of an ensemble, by their out-of-fold predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from dconnet._arrays import FloatArray
from dconnet.model.targets import log_loss

# Weight of the constraint that the weights sum to one, relative to the errors.
SUM_WEIGHT = 1e4
# The weights of a regression are drawn to the prior as if this many rows of the best member's error asked for it.
PRIOR_ROWS = 3.0
# Penalties on the distance of the weights of a classification from the prior, and on intercepts. Without them, the
# weights of separable classes would grow without bound.
WEIGHT_PENALTY, INTERCEPT_PENALTY = 0.003, 0.001


def fit_convex_weights(
    predictions: FloatArray, y: FloatArray, sample_weight: FloatArray, prior: FloatArray
) -> FloatArray:
    """Return nonnegative weights of sum one whose mean prediction has the least squared error.

    With few rows, the weights are drawn to a prior.

    Parameters
    ----------
    predictions : array of shape (n_rows, n_members)
        Predictions of each member.
    y : array of shape (n_rows,)
        Target.
    sample_weight : array of shape (n_rows,)
        Weights of the rows.
    prior : array of shape (n_members,)
        Nonnegative weights of sum one.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.ensemble.stacking import fit_convex_weights
    >>> y = np.array([0.0, 1.0, 2.0])
    >>> predictions = np.column_stack([y + 1, y - 1, y + 5])
    >>> fit_convex_weights(predictions, y, np.ones(3), prior=np.array([0.5, 0.5, 0.0])).round(3)
    array([0.5, 0.5, 0. ])
    """
    errors = np.sqrt(sample_weight)[:, None] * (predictions - y[:, None])
    size = np.abs(errors).max()
    if size == 0.0:
        return np.full(errors.shape[1], 1.0 / errors.shape[1])
    errors /= size
    triangle = linalg.qr(errors, mode="r")[0][: errors.shape[1]]
    pull = np.sqrt(PRIOR_ROWS / sample_weight.sum() * np.min(np.sum(errors**2, axis=0)))
    heavy = SUM_WEIGHT * max(np.abs(triangle).max(), 1e-12)
    weights, _ = optimize.nnls(
        np.vstack([triangle, pull * np.eye(len(prior)), np.full((1, len(prior)), heavy)]),
        np.concatenate([np.zeros(len(triangle)), pull * prior, [heavy]]),
    )
    total: FloatArray = weights / weights.sum()
    return total


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxStack:
    """Class probabilities ``softmax(Σ_j weights_j scores_jk + intercepts_k)`` from the scores of members j.

    A single column of scores holds the log-odds of the second of two classes.

    Attributes
    ----------
    weights : array of shape (n_members,)
        Nonnegative, the same for all classes.
    intercepts : array of shape (n_columns,)
    """

    weights: FloatArray
    intercepts: FloatArray

    @classmethod
    def of(
        cls, scores: FloatArray, classes: NDArray[np.intp], sample_weight: FloatArray, prior: FloatArray
    ) -> SoftmaxStack:
        """Fit weights and intercepts of least log loss, with a small penalty.

        Parameters
        ----------
        scores : array of shape (n_members, n_rows, n_columns)
        classes : array of int, of shape (n_rows,)
            The class of each row.
        sample_weight : array of shape (n_rows,)
        prior : array of shape (n_members,)
            Weights with the penalty zero.
        """
        n_members, _, n_columns = scores.shape
        share = sample_weight / sample_weight.sum()
        penalty = np.repeat([WEIGHT_PENALTY, INTERCEPT_PENALTY], [n_members, n_columns])
        start = np.append(prior, np.zeros(n_columns))
        hot = one_hot(classes, n_columns)

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            total = np.tensordot(theta[:n_members], scores, axes=1) + theta[n_members:]
            value, residual = log_loss(total, hot, share)
            gradient = np.append(np.tensordot(scores, residual, axes=([1, 2], [0, 1])), residual.sum(axis=0))
            return value + float(penalty @ (theta - start) ** 2), gradient + 2.0 * penalty * (theta - start)

        bounds = [(0.0, None)] * n_members + [(None, None)] * n_columns
        theta = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(theta[:n_members], theta[n_members:])


def one_hot(classes: NDArray[np.intp], n_columns: int) -> FloatArray:
    """Return indicators of the classes, of shape (n_rows, n_columns); a single column indicates the second class."""
    columns = np.array([1]) if n_columns == 1 else np.arange(n_columns)
    hot: FloatArray = (classes[:, None] == columns).astype(np.float64)
    return hot
