"""Search for the most useful new neurons, and their best lengths.

A new neuron with a direction v of length one lowers RegLoss exactly if ``|rᵀ σ(Q v)|`` exceeds gamma. The search climbs
from many starts, so the true maximum may be larger. With several outputs, the residual r has a column for each, and
``|rᵀ σ(Q v)|`` is the length of a vector.

The lengths of neurons with given directions are a lasso, in which useless neurons vanish. A neuron of direction u, sign
s and length c adds ``c s σ(Q u)`` to the output for the penalty ``2 gamma c``. With the outputs of all directions as
the columns of A, the best lengths minimise ``|y - A c|² + 2 gamma Σ c`` over c ≥ 0. With ``AᵀA = R Rᵀ`` this is
``|Rᵀc - b|²`` up to a constant, where ``R b = Aᵀy - gamma``: nonnegative least squares.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg, optimize

from dconnet._arrays import FloatArray
from dconnet.convex.native import Native
from dconnet.convex.programme import Programme, Solver
from dconnet.training.newton import factorise

# Numbers in the largest temporary of the search.
BATCH = 2_000_000
MAX_STEPS = 50
# A climb ends with a step whose relative gain is at most this.
GAIN = 1e-6
# A polish ends with a step whose relative gain is at most this.
POLISH_GAIN = 1e-12
# Directions that are polished for each sign, and the entries of the design above which there are fewer.
POLISHED = 8
POLISHED_ENTRIES = 500_000

# Ridges on the diagonal of the Gram matrix, as fractions of its largest entry, tried until it is positive definite.
RIDGES = (1e-13, 1e-11, 1e-9)
# Steps of the active-set method for each neuron.
STEPS = 10
# Passes of block descent over new neurons.
PASSES = 20


def random_starts(V: FloatArray, n_starts: int, rng: np.random.Generator) -> FloatArray:
    """Return starts of the search: random directions, and those of the neurons ``V``."""
    return _normalise(np.vstack([rng.standard_normal((n_starts, V.shape[1])), V]))


def climb(
    Q: FloatArray,
    r: FloatArray,
    starts: FloatArray,
    n_polished: int = POLISHED,
    proceed: Callable[[], bool] = lambda: True,
) -> tuple[FloatArray, FloatArray]:
    """Climb from every start; return the values ``|rᵀ σ(Q v)|`` and the directions v that are reached.

    For each sign, the best ``n_polished`` directions (fewer for large designs) are polished. The search ends once
    ``proceed``, called before each step, returns False.
    """
    solver = Native().prepare(Q)
    polish = _polish_several if r.ndim == 2 else _polish
    n_polished = max(1, min(n_polished, n_polished * POLISHED_ENTRIES // Q.size))
    size = max(1, BATCH // len(Q))
    parts = []
    for w in [r] if r.ndim == 2 else [r, -r]:
        batches = [_ascend(Q, w, starts[first : first + size], proceed) for first in range(0, len(starts), size)]
        values, V = np.concatenate([values for values, _ in batches]), np.vstack([V for _, V in batches])
        for place in np.argsort(-values)[:n_polished]:
            if not proceed():
                break
            values[place], V[place] = polish(solver, Q, w, V[place], proceed)
        parts.append((values, V))
    return np.concatenate([values for values, _ in parts]), np.vstack([V for _, V in parts])


def select_different(
    values: FloatArray, directions: FloatArray, groups: FloatArray, n_selected: int, angle: float
) -> list[int]:
    """Return the indices of the largest values whose directions differ by ``angle`` from others of their group."""
    selected: list[int] = []
    for place in np.argsort(-values).tolist():
        if len(selected) >= n_selected:
            break
        near = directions[selected] @ directions[place] > np.cos(angle)
        if not np.any(near & (groups[selected] == groups[place])):
            selected.append(place)
    return selected


def _ascend(Q: FloatArray, w: FloatArray, V: FloatArray, proceed: Callable[[], bool]) -> tuple[FloatArray, FloatArray]:
    """Repeat ``v ← normalise(Qᵀ (w where Qv > 0))`` from every start while it improves; return the best points.

    With several outputs, w of each start is ``R Rᵀ σ(Qv)``, normalised: the step follows the gradient of
    ``|Rᵀ σ(Qv)|``.
    """
    best, places = np.full(len(V), -np.finfo(np.float64).max), V.copy()
    climbing = np.arange(len(V))
    for _ in range(MAX_STEPS):
        Z = V @ Q.T
        products = np.maximum(Z, 0.0) @ w
        values = products if w.ndim == 1 else np.linalg.norm(products, axis=1)
        better = values > best[climbing] + GAIN * np.abs(best[climbing])
        if not better.any():
            break
        pull = w if w.ndim == 1 else (_normalise(products) @ w.T)[better]
        climbing = climbing[better]
        best[climbing], places[climbing] = values[better], V[better]
        if not proceed():
            break
        V = _normalise(((Z[better] > 0.0) * pull) @ Q)
    return best, places


def _polish(
    solver: Solver, Q: FloatArray, w: FloatArray, v: FloatArray, proceed: Callable[[], bool]
) -> tuple[float, FloatArray]:
    """Climb on by the DCA until it finds no better direction.

    Each step replaces the convex part of ``wᵀ σ(Qv)`` by its tangent. The rest, to be maximised on the sphere, is
    concave and homogeneous, and the minimiser of ``|v|² / 2`` minus it points to its maximum. Unlike the gradient, this
    finds maxima that lie in the kinks of rows with a negative w_j.
    """
    rising, falling = np.maximum(w, 0.0), np.maximum(-w, 0.0)
    value = float(w @ np.maximum(Q @ v, 0.0))
    for _ in range(MAX_STEPS):
        if not proceed():
            break
        tangent = Q.T @ (rising * (Q @ v >= 0.0))
        step = solver.solve(Programme(Q, tangent, falling, curvature=1e-9, gamma=0.5)).v
        length = float(np.linalg.norm(step))
        if length == 0.0:
            break
        new_value = float(w @ np.maximum(Q @ step, 0.0)) / length
        if not new_value > value * (1.0 + POLISH_GAIN):
            break
        value, v = new_value, step / length
    return value, v


def _polish_several(
    solver: Solver, Q: FloatArray, R: FloatArray, v: FloatArray, proceed: Callable[[], bool]
) -> tuple[float, FloatArray]:
    """Polish with several outputs: repeat `_polish` for ``w = R b``, with b the direction of ``Rᵀ σ(Qv)``.

    The length of that vector is its product with b, and at least its product with any other direction.
    """
    value, b = _length_and_direction(Q, R, v)
    for _ in range(MAX_STEPS):
        _, better = _polish(solver, Q, R @ b, v, proceed)
        new_value, new_b = _length_and_direction(Q, R, better)
        if not new_value > value * (1.0 + POLISH_GAIN):
            break
        value, v, b = new_value, better, new_b
    return value, v


def _length_and_direction(Q: FloatArray, R: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
    product = R.T @ np.maximum(Q @ v, 0.0)
    length = float(np.linalg.norm(product))
    return length, product / length if length > 0.0 else product


def _normalise(V: FloatArray) -> FloatArray:
    """Scale rows to length one; rows of zeros stay zero."""
    lengths = np.linalg.norm(V, axis=1, keepdims=True)
    return np.asarray(V / np.where(lengths > 0.0, lengths, 1.0))


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
