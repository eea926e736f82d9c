"""The alpha subproblem: the output weights are a ridge regression on the hidden layer."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray


def solve_output_weights(hidden: FloatArray, y: FloatArray, gamma: float) -> FloatArray:
    """Minimise ``|y - hidden @ alpha|² + gamma |alpha|²`` over alpha.

    The thin singular value decomposition solves (ΣᵀΣ + gamma I) alpha = Σᵀy without forming ΣᵀΣ, which would square
    its condition number; it works in min(n_rows, n_hidden) dimensions, so on the smaller of the two Gram forms.

    Parameters
    ----------
    hidden : array of shape (n_rows, n_hidden)
        Σ, the activations of the hidden layer.
    y : array of shape (n_rows,)
        Targets.
    gamma : float
        Strength of the regularisation, positive.

    Returns
    -------
    array of shape (n_hidden,)
    """
    alpha = np.zeros(hidden.shape[1])
    alive = hidden.any(axis=0)  # a dead neuron's weight is zero, and not the rounding of a decomposition
    left, singular, right = linalg.svd(hidden[:, alive], full_matrices=False, check_finite=False)
    with np.errstate(divide="ignore"):
        shrinkage = 1.0 / (singular + gamma / singular)  # s / (s² + gamma), without the square of s
    alpha[alive] = right.T @ (shrinkage * (left.T @ y))
    return alpha
