"""The best lengths of neurons whose directions are given: a lasso, in which useless neurons vanish.

A neuron of direction u, sign s and length c adds ``c s σ(Q u)`` to the output for the penalty ``2 gamma c``. With the
outputs of all directions as the columns of A, the best lengths minimise ``|y - A c|² + 2 gamma Σ c`` over c ≥ 0. With
``AᵀA = R Rᵀ`` this is ``|Rᵀc - b|²`` up to a constant, where ``R b = Aᵀy - gamma``: nonnegative least squares.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize

from dconnet._arrays import FloatArray
from dconnet.training.newton import factorise

# Ridges on the diagonal of the Gram matrix, as fractions of its largest entry, tried until it is positive definite.
RIDGES = (1e-13, 1e-11, 1e-9)
# Steps of the active-set method for each neuron.
STEPS = 10
# Passes of block descent over new neurons.
PASSES = 20


def solve_lengths(A: FloatArray, y: FloatArray, gamma: float) -> FloatArray | None:
    """Return the c ≥ 0 that minimises ``|y - A c|² + 2 gamma Σ c``, or None if rounding prevents a solution.

    The columns of A (n_rows, n) are the outputs ``s σ(Q u)`` of the directions.
    """
    factor = factorise(A.T @ A, RIDGES, lower=True)
    if factor is None:
        return None
    root = np.asfortranarray(np.tril(factor[0]))  # column by column, as LAPACK returns it
    aim = linalg.solve_triangular(root, A.T @ y - gamma, lower=True, check_finite=False)
    try:
        return np.asarray(optimize.nnls(root.T, aim, maxiter=STEPS * len(aim))[0])
    except RuntimeError:  # too many steps
        return None


def solve_output_vectors(activations: FloatArray, residual: FloatArray, gamma: float) -> FloatArray:
    """Return the output weights of new neurons with directions of length one, by block descent on a group lasso.

    The columns of ``activations`` (n_rows, n_new) are ``σ(Q v)`` of each direction; ``residual`` (n_rows,) or
    (n_rows, n_outputs) is approximated.
    """
    squares = np.sum(activations**2, axis=0)
    outputs = np.zeros((activations.shape[1], *residual.shape[1:]))
    left = residual.copy()
    for _ in range(PASSES):
        for unit, column in enumerate(activations.T):
            product = column @ left + squares[unit] * outputs[unit]
            size = float(np.linalg.norm(product))
            new = max(size - gamma, 0.0) / (squares[unit] * size) * product if size > 0.0 else 0.0 * product
            left -= np.multiply.outer(column, new - outputs[unit])
            outputs[unit] = new
    return outputs
