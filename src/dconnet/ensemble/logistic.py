"""Ridge logistic regression on the activations of a network, by Newton's method."""

from __future__ import annotations

import numpy as np
from scipy import linalg, special

from dconnet._arrays import FloatArray

MAX_STEPS = 12


def ridge_logistic(
    H: FloatArray, hot: FloatArray, weight: FloatArray, penalty: float, start: FloatArray | None = None
) -> FloatArray:
    """Coefficients and intercept of least weighted log loss plus ``penalty |coefficients|² / 2``.

    Parameters
    ----------
    H : array of shape (n_rows, n_columns)
        Standardised columns.
    hot : array of shape (n_rows,)
        One in the rows of the class, zero in all others.
    weight : array of shape (n_rows,)
        Weights of the rows.
    penalty : float
        Strength of the penalty, positive.
    start : array of shape (n_columns + 1,), optional
        Where to begin.

    Returns
    -------
    array of shape (n_columns + 1,)
        The coefficients, and then the intercept, which has hardly any penalty.
    """
    M = np.column_stack([H, np.ones(len(H))])
    ridge = np.append(np.full(H.shape[1], penalty), 1e-6 * weight.sum())
    theta = np.zeros(M.shape[1]) if start is None else start
    value = _value(M, hot, weight, ridge, theta)
    for _ in range(MAX_STEPS):
        p = special.expit(M @ theta)
        gradient = M.T @ (weight * (p - hot)) + ridge * theta
        hessian = M.T @ ((weight * p * (1.0 - p))[:, None] * M)
        hessian[np.diag_indices_from(hessian)] += ridge
        step = linalg.solve(hessian, gradient, assume_a="pos")
        decrease = float(gradient @ step)
        theta, value, moved = _descend(M, hot, weight, ridge, theta, value, step)
        if not moved or decrease <= 1e-6 * max(value, 1e-12):
            break
    return theta


def _value(M: FloatArray, hot: FloatArray, weight: FloatArray, ridge: FloatArray, theta: FloatArray) -> float:
    z = M @ theta
    return float(weight @ (np.logaddexp(0.0, z) - hot * z) + 0.5 * ridge @ theta**2)


def _descend(
    M: FloatArray,
    hot: FloatArray,
    weight: FloatArray,
    ridge: FloatArray,
    theta: FloatArray,
    value: float,
    step: FloatArray,
) -> tuple[FloatArray, float, bool]:
    """The first of ever shorter steps that lowers the value."""
    for length in (1.0, 0.5, 0.25, 0.0625):
        trial = theta - length * step
        reached = _value(M, hot, weight, ridge, trial)
        if reached < value:
            return trial, reached, True
    return theta, value, False
