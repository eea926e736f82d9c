"""Ridge logistic regression on the activations of a network, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg, special

from dconnet._arrays import FloatArray
from dconnet._threads import check_stop

MAX_STEPS = 12
# Fractions of a Newton step that are tried until the objective decreases.
STEP_LENGTHS = (1.0, 0.5, 0.25, 0.0625)


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
    H : array of shape (n_rows, n_columns)
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
    M = np.column_stack([H, np.ones(len(H))])
    ridge = np.append(np.full(H.shape[1], penalty), 1e-6 * weight.sum())

    def objective(theta: FloatArray) -> float:
        z = M @ theta
        return float(weight @ (np.logaddexp(0.0, z) - hot * z) + 0.5 * ridge @ theta**2)

    theta = np.zeros(M.shape[1])
    value = objective(theta)
    for _ in range(MAX_STEPS):
        check_stop()
        if is_over():
            return theta
        p = special.expit(M @ theta)
        gradient = M.T @ (weight * (p - hot)) + ridge * theta
        hessian = M.T @ ((weight * p * (1.0 - p))[:, None] * M)
        hessian[np.diag_indices_from(hessian)] += ridge
        step = linalg.cho_solve(linalg.cho_factor(hessian), gradient)
        for length in STEP_LENGTHS:
            trial = theta - length * step
            reached = objective(trial)
            if reached < value:
                theta, value = trial, reached
                break
        else:
            return theta
        if float(gradient @ step) <= 1e-6 * max(value, 1e-12):
            return theta
    return theta
