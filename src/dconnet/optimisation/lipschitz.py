"""The Lipschitz constant of a network on a box: the steepest of its linear pieces."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, LinearConstraint, milp

from dconnet._arrays import FloatArray, Frozen
from dconnet.model.network import Network
from dconnet.optimisation.programme import build_region, build_target
from dconnet.optimisation.search import OptimumStatus, relative_gap

# The order of the dual norm, which measures gradients, for the norm that measures distances.
DUAL = {1: np.inf, 2: 2, np.inf: 1}
# Pieces with a smaller inscribed ball, in a box of side one, count as empty: two neurons that bend in the same place
# leave such pieces between them, whose gradients the network does not have.
RADIUS = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Steepest(Frozen):
    """The steepest linear piece of a network.

    Attributes
    ----------
    value : float
        Length of the gradient of the steepest piece found: a lower bound on the Lipschitz constant.
    bound : float
        An upper bound on it.
    gap : float
        ``(bound - value) / value``; zero if the constant is known exactly.
    x, gradient : arrays of shape (n_features,)
        A point in the interior of that piece, and the gradient there.
    status : OptimumStatus
        OPTIMAL or TIME_LIMIT.
    nodes : int
        Parts of the box that were searched.
    seconds : float
        Wall time.
    """

    value: float
    bound: float
    gap: float
    x: FloatArray
    gradient: FloatArray
    status: OptimumStatus
    nodes: int
    seconds: float


def lipschitz_constant(
    network: Any,
    bounds: Any,
    norm: float = 2,
    *,
    output: int | None = None,
    weights: ArrayLike | None = None,
    rel_gap: float = 1e-9,
    max_seconds: float | None = None,
) -> Steepest:
    """Return the least K with ``|f(x) - f(x')| <= K ‖x - x'‖`` for all points of a box.

    It is the largest length, in the dual norm, of a gradient ``Σ_l active alpha_l w_l`` over the linear pieces of the
    network that have an interior in the box. They are found by branch and bound over the signs of the neurons; a
    linear programme for the largest ball in a part decides whether it has an interior.

    Parameters
    ----------
    network, output, weights
        As for `optimise`.
    bounds : sequence of pairs (lower, upper), or scipy.optimize.Bounds
        The box.
    norm : {1, 2, numpy.inf}, default=2
        The norm that measures distances of inputs.
    rel_gap : float, default=1e-9
        Stop when the bound is above the value by no more than this share.
    max_seconds : float or None, default=None
        Maximum wall time; the bound holds in any case.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.optimisation import lipschitz_constant
    >>> network = Network(W=[[3.0, 4.0], [1.0, 0.0]], b=[0.0, -5.0], alpha=[1.0, 9.0])
    >>> lipschitz_constant(network, [(-1, 1), (-1, 1)]).value  # the second neuron is never active there
    5.0
    """
    began = time.perf_counter()
    if norm not in DUAL:
        raise ValueError(f"norm must be 1, 2 or numpy.inf, got {norm!r}.")
    target = build_target(network, output, weights)
    region = build_region(target.n_features, bounds)
    if not (region.high > region.low).all():
        raise ValueError("The box must have an interior: every upper bound must be above its lower bound.")
    return _Search(target, region.low, region.high, DUAL[norm]).run(rel_gap, max_seconds, began)


class _Search:
    """Best-first search over the signs of the neurons, those with the largest parts of the gradient first."""

    def __init__(self, network: Network, low: FloatArray, high: FloatArray, dual: float) -> None:
        self.low, self.span, self.dual = low, high - low, dual
        W, b = network.W * self.span, network.W @ low + network.b
        size = np.abs(W).sum(axis=1)
        bends = (size > 0.0) & (network.alpha != 0.0)
        least, most = np.minimum(W, 0.0).sum(axis=1) + b, np.maximum(W, 0.0).sum(axis=1) + b
        parts = network.alpha[:, None] * network.W
        self.always: FloatArray = parts[bends & (least >= 0.0)].sum(axis=0)
        open_ = np.flatnonzero(bends & (least < 0.0) & (most > 0.0))
        order = open_[np.argsort(-np.linalg.norm(parts[open_], ord=dual, axis=1), kind="stable")]
        self.parts = parts[order]
        length = np.linalg.norm(W[order], axis=1)
        self.W, self.b = W[order] / length[:, None], b[order] / length
        # Row k: the most and the least that the neurons from the k-th on can add to the gradient.
        rest = np.zeros((1, len(low)))
        self.up = np.vstack([np.cumsum(np.maximum(self.parts, 0.0)[::-1], axis=0)[::-1], rest])
        self.down = np.vstack([np.cumsum(np.minimum(self.parts, 0.0)[::-1], axis=0)[::-1], rest])

    def length(self, gradient: FloatArray) -> float:
        return float(np.linalg.norm(gradient, ord=self.dual))

    def bound(self, gradient: FloatArray, depth: int) -> float:
        """Return an upper bound on the length of all gradients with the first signs given."""
        farthest = np.maximum(np.abs(gradient + self.up[depth]), np.abs(gradient + self.down[depth]))
        return self.length(farthest)

    def inner_point(self, signs: tuple[float, ...]) -> FloatArray | None:
        """Return the centre of the largest ball in the part with these signs, or None if it has no interior."""
        n, k = len(self.span), len(signs)
        sign = np.array(signs)
        rows = np.hstack([sign[:, None] * self.W[:k], -np.ones((k, 1))])
        walls = np.vstack([np.hstack([np.eye(n), -np.ones((n, 1))]), np.hstack([-np.eye(n), -np.ones((n, 1))])])
        least = np.concatenate([-sign * self.b[:k], np.zeros(n), -np.ones(n)])
        constraints = LinearConstraint(np.vstack([rows, walls]), least, np.inf)
        found = milp(np.append(np.zeros(n), -1.0), bounds=Bounds(0.0, 1.0), constraints=constraints)
        return None if found.x is None or found.x[n] <= RADIUS else np.asarray(found.x[:n])

    def gradient_at(self, point: FloatArray) -> FloatArray:
        """Return the gradient of the piece that contains a point."""
        return np.asarray(self.always + (self.W @ point + self.b > 0.0) @ self.parts)

    def run(self, rel_gap: float, max_seconds: float | None, began: float) -> Steepest:
        centre = self.inner_point(())
        assert centre is not None
        best, gradient = centre, self.gradient_at(centre)
        value, closed, nodes, ticket = self.length(gradient), 0.0, 1, count()
        heap: list[tuple[float, int, tuple[float, ...], FloatArray]] = []
        heapq.heappush(heap, (-self.bound(self.always, 0), next(ticket), (), self.always))
        status = OptimumStatus.OPTIMAL
        while heap and -heap[0][0] > value * (1.0 + rel_gap):
            if max_seconds is not None and time.perf_counter() - began > max_seconds:
                status = OptimumStatus.TIME_LIMIT
                break
            _, _, signs, fixed = heapq.heappop(heap)
            for sign in (1.0, -1.0):
                longer, depth = (*signs, sign), len(signs) + 1
                total = fixed + self.parts[depth - 1] if sign > 0.0 else fixed
                limit = self.bound(total, depth)
                if limit <= value * (1.0 + rel_gap):
                    closed = max(closed, limit)
                    continue
                nodes += 1
                point = self.inner_point(longer)
                if point is None:
                    continue
                found = total if depth == len(self.parts) else self.gradient_at(point)
                if self.length(found) > value:
                    value, best, gradient = self.length(found), point, found
                if depth < len(self.parts):
                    heapq.heappush(heap, (-limit, next(ticket), longer, total))
        bound = max(value, closed, -heap[0][0] if heap else 0.0)
        seconds = time.perf_counter() - began
        gap = relative_gap(value, bound)
        return Steepest(value, bound, gap, self.low + self.span * best, gradient, status, nodes, seconds)
