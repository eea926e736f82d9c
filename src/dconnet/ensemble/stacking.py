"""Weights of members, by what they predict out of fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from dconnet._arrays import FloatArray
from dconnet.model.calibration import log_loss, probabilities_of

# How much more the sum of the weights counts than their errors.
HEAVY = 1e4
# Penalties on the weights and the intercepts of classes; without them, classes that can be separated lead astray.
WEIGHT_PENALTY, INTERCEPT_PENALTY = 0.01, 0.001


def convex_weights(predictions: FloatArray, y: FloatArray, sample_weight: FloatArray) -> FloatArray:
    """Weights, not negative and of sum one, whose mean of the predictions has the least squared error.

    Parameters
    ----------
    predictions : array of shape (n_rows, n_members)
        What each member predicts.
    y : array of shape (n_rows,)
        The target.
    sample_weight : array of shape (n_rows,)
        Weights of the rows.

    Returns
    -------
    array of shape (n_members,)

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.ensemble.stacking import convex_weights
    >>> y = np.array([0.0, 1.0, 2.0])
    >>> convex_weights(np.column_stack([y + 1, y - 1, y + 5]), y, np.ones(3)).round(3)
    array([0.5, 0.5, 0. ])
    """
    errors = np.sqrt(sample_weight)[:, None] * (predictions - y[:, None])
    size = np.abs(errors).max()
    if size == 0.0:
        return np.full(errors.shape[1], 1.0 / errors.shape[1])
    triangle = linalg.qr(errors / size, mode="r")[0][: errors.shape[1]]
    heavy = HEAVY * max(np.abs(triangle).max(), 1e-12)
    weights, _ = optimize.nnls(
        np.vstack([triangle, np.full((1, errors.shape[1]), heavy)]), np.append(np.zeros(len(triangle)), heavy)
    )
    total: FloatArray = weights / weights.sum()
    return total


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxStack:
    """Probabilities of classes from the scores of members: ``softmax(Σ_j weights_j scores_jk + intercepts_k)``.

    With a single column of scores there are two classes, and the scores speak for the second.

    Attributes
    ----------
    weights : array of shape (n_members,)
        Not negative, the same for all classes.
    intercepts : array of shape (n_columns,)
    """

    weights: FloatArray
    intercepts: FloatArray

    @classmethod
    def of(cls, scores: FloatArray, classes: NDArray[np.intp], sample_weight: FloatArray) -> SoftmaxStack:
        """The weights and intercepts of least log loss, with a small penalty.

        Parameters
        ----------
        scores : array of shape (n_members, n_rows, n_columns)
        classes : array of int, of shape (n_rows,)
            The class of each row.
        sample_weight : array of shape (n_rows,)
        """
        n_members, _, n_columns = scores.shape
        share = sample_weight / sample_weight.sum()
        penalty = np.repeat([WEIGHT_PENALTY, INTERCEPT_PENALTY], [n_members, n_columns])
        hot = one_hot(classes, n_columns)

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            value, residual = log_loss(_total(scores, theta), hot, share)
            gradient = np.append(np.tensordot(scores, residual, axes=([1, 2], [0, 1])), residual.sum(axis=0))
            return value + float(penalty @ theta**2), gradient + 2.0 * penalty * theta

        start = np.append(np.full(n_members, 1.0 / n_members), np.zeros(n_columns))
        bounds = [(0.0, None)] * n_members + [(None, None)] * n_columns
        theta = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(theta[:n_members], theta[n_members:])

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Probabilities of shape (n_rows, n_classes), for scores as in `of`."""
        return probabilities_of(_total(scores, np.append(self.weights, self.intercepts)))


def _total(scores: FloatArray, theta: FloatArray) -> FloatArray:
    total: FloatArray = np.tensordot(theta[: len(scores)], scores, axes=1) + theta[len(scores) :]
    return total


def one_hot(classes: NDArray[np.intp], n_columns: int) -> FloatArray:
    """One where a column speaks for the class of the row; a single column speaks for the second of two classes."""
    columns = np.array([1]) if n_columns == 1 else np.arange(n_columns)
    hot: FloatArray = (classes[:, None] == columns).astype(np.float64)
    return hot
