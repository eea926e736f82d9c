"""Ridge logistic regression on the activations of a network, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._threads import check_stop
from dconnet.model.rows import QR_ROWS, blocks

MAX_STEPS = 12
# The first steps use every fourth row if at least this number of them are in the class, and as many in others.
MIN_ROWS = 50
# Fractions of a Newton step that are tried until the objective decreases.
STEP_LENGTHS = (1.0, 0.5, 0.25, 0.0625)
# The last step is expected to decrease the objective by at most this share. The next one would gain much
# less, because the method converges quadratically.
TOLERANCE = 1e-4


def fit_ridge_logistic(
    H: FloatArray,
    hot: FloatArray,
    weight: FloatArray,
    penalty: float,
    is_over: Callable[[], bool] = lambda: False,
) -> FloatArray:
    """Minimise the weighted log loss plus ``penalty |coefficients|² / 2``.

    Parameters
    ----------
    H : array of shape (n_columns, n_rows)
        Standardised columns.
    hot : array of shape (n_rows,)
        One in the rows of the class, zero in all others.
    weight : array of shape (n_rows,)
        Sample weights.
    penalty : float
        Positive.
    is_over : callable, optional
        Called before each step; no other step is taken once it returns True.

    Returns
    -------
    array of shape (n_columns + 1,)
        The coefficients, and then the intercept, which has a tiny penalty.
    """
    M = np.vstack([H, np.ones(len(hot))])
    ridge = np.append(np.full(len(H), penalty), 1e-6 * weight.sum())

    def evaluate(theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective, and the probability of the class in each row."""
        z = theta @ M
        small = np.exp(-np.abs(z))
        losses = np.maximum(z, 0.0) + np.log1p(small) - hot * z
        return float(weight @ losses + 0.5 * ridge @ theta**2), np.where(z < 0.0, small, 1.0) / (1.0 + small)

    theta = np.zeros(len(M))
    some = slice(None, None, 4)
    known = hot[some][weight[some] > 0.0]
    if min(known.sum(), np.sum(1.0 - known)) >= MIN_ROWS:
        theta = fit_ridge_logistic(H[:, some], hot[some], weight[some], penalty / 4.0, is_over)
    value, p = evaluate(theta)
    for _ in range(MAX_STEPS):
        check_stop()
        if is_over():
            return theta
        gradient = M @ (weight * (p - hot)) + ridge * theta
        curvature, hessian = weight * p * (1.0 - p), np.diag(ridge)
        for rows in blocks(len(hot), QR_ROWS):  # short ones: the temporaries stay in the nearest cache
            hessian += (M[:, rows] * curvature[rows]) @ M[:, rows].T
        step = np.linalg.solve(hessian, gradient)
        for length in STEP_LENGTHS:
            trial = theta - length * step
            reached, probabilities = evaluate(trial)
            if reached < value:
                theta, value, p = trial, reached, probabilities
                break
        else:
            return theta
        if float(gradient @ step) <= TOLERANCE * max(value, 1e-12):
            return theta
    return theta
