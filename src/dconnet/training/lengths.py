"""The best lengths of neurons whose directions are given: a lasso, in which all that are of no use vanish at once.

A neuron of direction u, sign s and length c adds ``c s σ(Q u)`` to the output for the penalty ``2 gamma c``. With the
outputs of all directions as the columns of A, the best lengths minimise ``|y - A c|² + 2 gamma Σ c`` over c ≥ 0. With
``AᵀA = R Rᵀ`` this is ``|Rᵀc - b|²`` but for a constant, where ``R b = Aᵀy - gamma``: nonnegative least squares.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize

from dconnet._arrays import FloatArray

# What is added to the diagonal of the Gram matrix, as shares of its largest entry, until it is positive definite:
# outputs may depend on each other.
RIDGES = (1e-13, 1e-11, 1e-9)
# Steps of the active set method, for each neuron.
STEPS = 10


def best_lengths(A: FloatArray, y: FloatArray, gamma: float) -> FloatArray | None:
    """The lengths c ≥ 0 that minimise ``|y - A c|² + 2 gamma Σ c``, or None if rounding keeps them from being found.

    Parameters
    ----------
    A : array of shape (n_rows, n)
        Outputs ``s σ(Q u)`` of the directions.
    y : array of shape (n_rows,)
        The targets.
    gamma : float
        The penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.training.lengths import best_lengths
    >>> best_lengths(np.eye(3), np.array([3.0, 0.5, -1.0]), 1.0).round(9).tolist()
    [2.0, 0.0, 0.0]
    """
    root = _root(A.T @ A)
    if root is None:
        return None
    aim = linalg.solve_triangular(root, A.T @ y - gamma, lower=True, check_finite=False)
    try:
        found: FloatArray = optimize.nnls(root.T, aim, maxiter=STEPS * len(aim))[0]
    except RuntimeError:  # too many steps
        return None
    return found


def _root(gram: FloatArray) -> FloatArray | None:
    """The lower triangle R with ``R Rᵀ = gram``, but for a ridge; None if there is none."""
    diagonal = np.diag_indices(len(gram))
    plain = gram[diagonal].copy()
    for ridge in RIDGES:
        gram[diagonal] = plain + ridge * float(np.max(plain, initial=0.0))
        try:
            root: FloatArray = linalg.cholesky(gram, lower=True, check_finite=False)
        except linalg.LinAlgError:
            continue
        return root
    return None
