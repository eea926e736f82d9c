"""A network as a piecewise linear function: active neurons, hinges and exact partial dependence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import BoolArray, FloatArray, IndexArray, frozen_copy
from dconnet.model.network import Network

# A neuron whose contribution is below this fraction of the whole is dead: it adds less than 1e-8 to the mean square. In
# trained networks, contributions are usually far above or far below it.
DEAD_SHARE = 1e-4


def active_neurons(
    network: Network,
    X: ArrayLike | None = None,
    *,
    sample_weight: FloatArray | None = None,
    whole: float | None = None,
    share: float = DEAD_SHARE,
    scale: FloatArray | None = None,
) -> BoolArray:
    """Return which neurons contribute to the output, of shape (n_hidden,); the others are dead.

    The contribution of a neuron is the root mean square of ``alpha_l max(<w_l, x> + b_l, 0)`` over the rows of ``X``;
    with several outputs, of the length of this vector. Without rows, and for inputs of order one, it is ``|alpha_l|``
    times the norm of ``(w_l, b_l)``, or zero if the neuron is never positive.

    A neuron is dead up to the fraction ``share`` of ``whole``, such as the root mean square of the targets; by default,
    ``whole`` is the largest contribution. ``scale`` (n_outputs,) is the unit of each of several outputs.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.model.piecewise import active_neurons
    >>> network = Network(W=[[1.0], [2.0], [0.0]], b=[0.0, 1.0, -1.0], alpha=[1.0, 0.0, 1.0])
    >>> active_neurons(network)
    array([ True, False, False])
    >>> active_neurons(network, [[-2.0], [-1.0]])  # the first neuron is not positive at these rows
    array([False, False, False])
    """
    if X is None:
        ever_positive = network.W.any(axis=1) | (network.b > 0.0)
        size = np.where(ever_positive, np.linalg.norm(np.column_stack([network.W, network.b]), axis=1), 0.0)
    else:
        size = np.sqrt(np.average(network.hidden(X) ** 2, axis=0, weights=sample_weight))
    parts = output_strengths(network.alpha if scale is None else network.alpha / scale) * size
    return parts > share * (np.max(parts) if whole is None else whole)


def output_strengths(alpha: FloatArray) -> FloatArray:
    """Return ``|alpha_l|`` of each neuron, of shape (n_hidden,); with several outputs the length of the vector."""
    return np.asarray(np.abs(alpha) if alpha.ndim == 1 else np.linalg.norm(alpha, axis=1))


def refuse_several_outputs(network: Network, what: str) -> None:
    """Raise ValueError for a network with several outputs; ``what`` names the function that needs one output."""
    if network.alpha.ndim == 2:
        raise ValueError(
            f"{what} needs a network with one output, but this one has {network.n_outputs}. Pass network.of_output(k)."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Hinges:
    """Places where a network bends: points of a line, or segments in a rectangle."""

    neurons: IndexArray  # (n_hinges,), the neuron of each hinge
    places: FloatArray  # (n_hinges,), points; with two inputs (n_hinges, 2, 2), as ``places[i, end, coordinate]``
    bends: FloatArray  # (n_hinges,), change of slope ``alpha_l |w_l|``: positive where the function bends upwards


def hinges(network: Network, low: ArrayLike, high: ArrayLike) -> Hinges:
    """Return the hinges of a network of one or two inputs within the box from ``low`` to ``high``.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.model.piecewise import hinges
    >>> hinges(Network(W=[[2.0], [1.0]], b=[-1.0, 9.0], alpha=[1.0, 1.0]), [-1.0], [1.0]).places
    array([0.5])
    """
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if network.n_features not in (1, 2):
        raise ValueError(f"Hinges are defined for networks with one or two inputs, not {network.n_features}.")
    refuse_several_outputs(network, "The bend at a hinge")
    corners = np.array(list(product(*zip(low, high, strict=True))))
    bending = np.flatnonzero(active_neurons(network, corners) & network.W.any(axis=1))
    # In a box of side one, the clipping does not depend on the units of the inputs.
    slopes = network.W[bending] * (high - low)
    values_at_low = network.W[bending] @ low + network.b[bending]
    clip = _root if network.n_features == 1 else _segment
    found = [clip(w, c) for w, c in zip(slopes, values_at_low, strict=True)]
    inside = np.array([place is not None for place in found], dtype=bool)
    shape = (-1,) if network.n_features == 1 else (-1, 2, 2)
    places = np.array([place for place in found if place is not None], dtype=np.float64).reshape(shape)
    neurons = bending[inside]
    bends = network.alpha[neurons] * np.linalg.norm(network.W[neurons], axis=1)
    return Hinges(neurons, low + places * (high - low), bends)


def _root(slope: FloatArray, value: float) -> float | None:
    """Return the zero in [0, 1] of the line ``value + slope t``, if there is one."""
    root = -value / slope[0] if abs(value) <= abs(slope[0]) else -1.0
    return root if 0.0 <= root <= 1.0 else None


def _segment(normal: FloatArray, value: float) -> FloatArray | None:
    """Return the ends of the segment of the unit square on which ``normal · t + value`` is zero, if there is one."""
    length = float(np.linalg.norm(normal))
    across = normal / length
    along = np.array([-across[1], across[0]])
    foot = -value / length * across
    first, last = -np.inf, np.inf
    for start, step in zip(foot, along, strict=True):
        if step == 0.0:
            if not 0.0 <= start <= 1.0:
                return None
            continue
        ends = sorted((-start / step, (1.0 - start) / step))
        first, last = max(first, ends[0]), min(last, ends[1])
    return np.array([foot + first * along, foot + last * along]) if first < last else None


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A partial dependence: points of a polygon."""

    points: FloatArray  # values of the feature, ascending
    values: FloatArray  # mean prediction at each point
    through_breakpoints: bool  # whether the points include all bends, so that the polygon is exact


def partial_dependence(network: Network, X: ArrayLike, feature: int, *, max_points: int = 4000) -> Curve:
    """Return the mean prediction over the rows of ``X`` as a function of one feature, over the range of its values.

    The mean over m rows of a network with N neurons is piecewise linear with at most m N bends, at

        t = -(Σ_{i≠k} w_li x_ji + b_l) / w_lk.

    All bends become points of the curve, unless there are more than ``max_points``; then the points are equally spaced.
    The values are exact in both cases: sorted bends and cumulative sums give them without a loop over the rows.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.model.piecewise import partial_dependence
    >>> network = Network(W=[[1.0, 1.0]], b=[0.0], alpha=[1.0])
    >>> curve = partial_dependence(network, [[-2.0, 0.0], [2.0, -1.0]], feature=0)
    >>> curve.points
    array([-2.,  0.,  1.,  2.])
    >>> curve.values
    array([0. , 0. , 0.5, 1.5])
    """
    refuse_several_outputs(network, "A partial dependence")
    X = frozen_copy(X, name="X", ndim=2, copy=False)
    if not 0 <= feature < network.n_features:
        raise ValueError(f"feature must be from 0 to {network.n_features - 1}, got {feature}.")
    if max_points < 2:
        raise ValueError(f"max_points must be at least 2, got {max_points}.")
    others = np.array(network.W)
    others[:, feature] = 0.0
    rest = Network(others, network.b, network.alpha).preactivations(X)  # (n_samples, n_hidden)
    slopes = network.W[:, feature]
    # All neurons whose contribution exceeds rounding add bends, so that the polygon is exact.
    bending = active_neurons(network, X, share=float(np.finfo(float).eps)) & (slopes != 0.0)
    low, high = X[:, feature].min(), X[:, feature].max()
    with np.errstate(over="ignore"):  # a bend at infinity is out of the range
        zeros = (0.0 - rest[:, bending]) / slopes[bending]
    points = np.unique(np.concatenate([[low, high], zeros[(zeros > low) & (zeros < high)]]))
    through_breakpoints = len(points) <= max_points
    if not through_breakpoints:
        points = np.linspace(points[0], points[-1], max_points)
    values = np.full(len(points), network.intercept)
    for alpha, slope, column in zip(network.alpha, slopes, rest.T, strict=True):
        values += alpha * _mean_activation(points, slope, column)
    return Curve(points, values, through_breakpoints)


def _mean_activation(points: FloatArray, slope: float, rest: FloatArray) -> FloatArray:
    """Return ``mean_j max(slope t + rest_j, 0)`` at every point t, in O((n_points + n_rows) log n_rows)."""
    # In descending order, the rows that are active at t come first.
    ordered = np.sort(rest)[::-1]
    n_active = np.searchsorted(-ordered, slope * points, side="left")
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    return np.asarray((slope * points * n_active + sums[n_active]) / len(rest))
