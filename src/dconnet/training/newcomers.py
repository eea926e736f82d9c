"""The most useful new neurons: directions v of length one in which ``|rᵀ σ(Q v)|`` is large.

A new neuron lowers RegLoss exactly if this exceeds gamma. The search climbs from many starts; the true maximum may be
larger than what it finds. With several outputs, r has a column for each, and the length of a vector is meant.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.backend import Solver
from dconnet.convex.native import Native
from dconnet.convex.programme import Programme

# Numbers that one batch of the search may hold.
BATCH = 2_000_000
MAX_STEPS = 50
# A climb ends with a step that gains no more than this share.
GAIN = 1e-6
# Directions that are climbed to the end, for either sign, and entries of the design up to which there are so many.
POLISHED = 8
POLISHED_ENTRIES = 500_000


def random_starts(V: FloatArray, n_starts: int, rng: np.random.Generator) -> FloatArray:
    """Directions to begin the search from: random ones, and those of the network's own neurons."""
    return _normalised(np.vstack([rng.standard_normal((n_starts, V.shape[1])), V]))


def climbed(
    Q: FloatArray,
    r: FloatArray,
    starts: FloatArray,
    polished: int = POLISHED,
    proceed: Callable[[], bool] = lambda: True,
) -> tuple[FloatArray, FloatArray]:
    """Values ``|rᵀ σ(Q v)|`` and directions v where climbs from the starts end, the best of them to the last digit.

    ``polished`` is the number of these for either sign, fewer for large designs, and while ``proceed`` says so.
    """
    solver = Native().prepare(Q)
    parts = []
    for w in [r] if r.ndim == 2 else [r, -r]:
        values, V = _ascended(Q, w, starts)
        for place in np.argsort(-values)[: _n_polished(Q, polished)]:
            if not proceed():
                break
            polish = _polished_for_several if r.ndim == 2 else _polished
            values[place], V[place] = polish(solver, Q, w, V[place])
        parts.append((values, V))
    return np.concatenate([values for values, _ in parts]), np.vstack([V for _, V in parts])


def most_different(
    values: FloatArray, directions: FloatArray, groups: FloatArray, most: int, angle: float
) -> list[int]:
    """The places of the largest values whose directions differ from each other by an angle, unless their groups do."""
    chosen: list[int] = []
    for place in np.argsort(-values).tolist():
        if len(chosen) >= most:
            break
        near = directions[chosen] @ directions[place] > np.cos(angle)
        if not np.any(near & (groups[chosen] == groups[place])):
            chosen.append(place)
    return chosen


def _n_polished(Q: FloatArray, most: int) -> int:
    """Number of directions to climb to the end."""
    return max(1, min(most, most * POLISHED_ENTRIES // Q.size))


def _polished_for_several(solver: Solver, Q: FloatArray, R: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
    """Climb on with several outputs: `_polished` for ``w = R b``, with b the direction of ``Rᵀ σ(Qv)``, and again.

    The length of that vector is its product with b, and not less than its product with any other direction.
    """
    value, b = _length_and_direction(Q, R, v)
    for _ in range(MAX_STEPS):
        _, better = _polished(solver, Q, R @ b, v)
        new_value, new_b = _length_and_direction(Q, R, better)
        if not new_value > value * (1.0 + 1e-12):
            break
        value, v, b = new_value, better, new_b
    return value, v


def _length_and_direction(Q: FloatArray, R: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
    product = R.T @ np.maximum(Q @ v, 0.0)
    length = float(np.linalg.norm(product))
    return length, product / length if length > 0.0 else product


def _ascended(Q: FloatArray, w: FloatArray, starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values and places after ``v ← normalise(Qᵀ (w where Qv > 0))`` from every start, a batch at a time.

    With several outputs, w of each start is ``R Rᵀ σ(Qv)``, normalised: the step follows the gradient of ``|Rᵀ
    σ(Qv)|``.
    """
    size = max(1, BATCH // len(Q))
    batches = [_ascend(Q, w, starts[first : first + size]) for first in range(0, len(starts), size)]
    return np.concatenate([values for values, _ in batches]), np.vstack([V for _, V in batches])


def _ascend(Q: FloatArray, w: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Repeat the step from every start until it improves no more; the best place of each is kept."""
    best, places = np.full(len(V), -np.finfo(np.float64).max), V.copy()
    climbing = np.arange(len(V))
    for _ in range(MAX_STEPS):
        Z = V @ Q.T
        values, pull = _values_and_pull(Z, w)
        better = values > best[climbing] + GAIN * np.abs(best[climbing])
        if not better.any():
            break
        climbing = climbing[better]
        best[climbing], places[climbing] = values[better], V[better]
        Z = Z[better]
        V = _normalised(((Z > 0.0) * (pull if w.ndim == 1 else pull[better])) @ Q)
    return best, places


def _values_and_pull(Z: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The value at each row of preactivations, and what each of their entries pulls with."""
    products = np.maximum(Z, 0.0) @ w
    if w.ndim == 1:
        return products, w
    return np.linalg.norm(products, axis=1), _normalised(products) @ w.T


def _polished(solver: Solver, Q: FloatArray, w: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
    """Climb on to a place from which the DCA finds no better one.

    Each step replaces the convex part of ``wᵀ σ(Qv)`` by its tangent. What is left to maximise on the sphere is concave
    and homogeneous, and the minimiser of ``|v|² / 2`` minus it points to its maximum. Unlike the gradient, this
    finds maxima that lie in the kinks of rows with a negative w_j.
    """
    rising, falling = np.maximum(w, 0.0), np.maximum(-w, 0.0)
    value = float(w @ np.maximum(Q @ v, 0.0))
    for _ in range(MAX_STEPS):
        tangent = Q.T @ (rising * (Q @ v >= 0.0))
        step = solver.solve(Programme(Q, tangent, falling, curvature=1e-9, gamma=0.5)).v
        length = float(np.linalg.norm(step))
        if length == 0.0:
            break
        new_value = float(w @ np.maximum(Q @ step, 0.0)) / length
        if not new_value > value * (1.0 + 1e-12):
            break
        value, v = new_value, step / length
    return value, v


def _normalised(V: FloatArray) -> FloatArray:
    """Rows of length one; a row of zeros stays."""
    lengths = np.linalg.norm(V, axis=1, keepdims=True)
    normalised: FloatArray = V / np.where(lengths > 0.0, lengths, 1.0)
    return normalised
