"""The best lengths of neurons whose directions are given: a lasso, in which useless neurons vanish.

A neuron of direction u, sign s and length c adds ``c s σ(Q u)`` to the output for the penalty ``2 gamma c``. With the
outputs of all directions as the columns of A, the best lengths minimise ``|y - A c|² + 2 gamma Σ c`` over c ≥ 0. With
``AᵀA = R Rᵀ`` this is ``|Rᵀc - b|²`` up to a constant, where ``R b = Aᵀy - gamma``: nonnegative least squares.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize

from dconnet._arrays import FloatArray

# Ridges on the diagonal of the Gram matrix, as fractions of its largest entry, tried until it is positive definite.
RIDGES = (1e-13, 1e-11, 1e-9)
# Steps of the active-set method for each neuron.
STEPS = 10
# Passes of block descent over new neurons.
PASSES = 20


def solve_lengths(A: FloatArray, y: FloatArray, gamma: float) -> FloatArray | None:
    """Return the c ≥ 0 that minimises ``|y - A c|² + 2 gamma Σ c``, or None if rounding prevents a solution.

    The columns of A (n_rows, n) are the outputs ``s σ(Q u)`` of the directions.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.training.lasso import solve_lengths
    >>> solve_lengths(np.eye(3), np.array([3.0, 0.5, -1.0]), 1.0).round(9).tolist()
    [2.0, 0.0, 0.0]
    """
    gram = A.T @ A
    diagonal = np.diag_indices(len(gram))
    plain = gram[diagonal].copy()
    for ridge in RIDGES:
        gram[diagonal] = plain + ridge * float(np.max(plain, initial=0.0))
        try:
            root = linalg.cholesky(gram, lower=True, check_finite=False)
            break
        except linalg.LinAlgError:
            continue
    else:
        return None
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
