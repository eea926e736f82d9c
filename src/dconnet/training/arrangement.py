"""The largest ``|rᵀ σ(Q v)|`` over the unit sphere, and the lower bounds on RegLoss that follow from it.

The largest value is exact up to rank three, with proved bounds up to rank six. The sphere is cut by the hyperplanes
q_jᵀv = 0 into cells, on each of which ``rᵀ σ(Qv) = aᵀv`` is linear with a = Σ r_j q_j over the active rows. A maximiser
lies either inside a cell, where it is a / |a|, or inside one of its faces, where it is the projection of a to the span
of the face, normalised. In two dimensions the faces are points on a circle; in three they are arcs of great circles and
the points where these cross. All of them are visited: one circle by sorting the points on it, a sphere by one such
circle for every row. The kernel does so for one output.

With several outputs the residual has a column for each, and ``|Rᵀ σ(Qv)|`` is the root of a quadratic form ``vᵀ A Aᵀ
v`` on each cell, with A = Σ q_j r_jᵀ. On the unit sphere of a subspace, a quadratic form has no local maxima but the
eigenvectors of its largest eigenvalue. If these fill more than a line, some of them lie on the boundary of the face.
The same faces are visited, with such an eigenvector instead of the normalised projection, and the answer is exact.

The lower bounds are dual values. For every λ with ``|λᵀ σ(Q v)| ≤ gamma`` for all v of length one, ``m · RegLoss ≥ 2
λᵀy - |λ|²`` for every network of every width. Scaling makes any vector feasible if its largest ``|λᵀ σ(Q v)|`` is
known. Points between two feasible points are feasible, so the bounds of several residuals can be combined, and the
bound never falls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from dconnet import _native
from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet.model.problem import WhitenedProblem

# Largest rank whose cells are enumerated.
MAX_RANK = 3
# Rows up to which a sphere is enumerated; the work grows with their square. With several outputs, each cell has a small
# eigenvalue problem.
MAX_ROWS = 2000
MAX_ROWS_OF_SEVERAL = 300
# Largest rank for branch and bound over cones.
MAX_CONE_RANK = 6
# Cones in the queue at once, of some hundred bytes each.
MOST_WAITING = 1_000_000
# Relative difference of bound and best value at which branch and bound ends.
RELATIVE_GAP = 1e-4

# Angles within this distance of the end of an arc belong to it.
ANGLE = 1e-12


def can_enumerate(Q: FloatArray, n_outputs: int = 1) -> bool:
    """Return whether enumeration is possible and affordable for this design."""
    max_rows = MAX_ROWS if n_outputs == 1 else MAX_ROWS_OF_SEVERAL
    return Q.shape[1] < MAX_RANK or (Q.shape[1] == MAX_RANK and len(Q) <= max_rows)


def largest_correlation(Q: FloatArray, r: FloatArray) -> tuple[float, FloatArray]:
    """Return the largest ``|rᵀ σ(Q v)|`` with ``|v| = 1``, and a v that attains it.

    The design Q (n_rows, rank) has rank one to three and need not be orthonormal. The residual r has shape (n_rows,) or
    (n_rows, n_outputs).
    """
    values, directions = candidates(Q, r)
    best = directions[int(np.argmax(values))]
    return float(_values(Q, r, best[None, :])[0]), best


def candidates(Q: FloatArray, r: FloatArray, floor: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Return large values ``|rᵀ σ(Q v)|`` and their directions v (n, rank) of length one.

    The largest value of all is among them, unless it is below the floor; smaller values are skipped to save time.
    """
    if Q.shape[1] == 1:
        directions = np.array([[1.0], [-1.0]])
        values = _values(Q, r, directions)
    elif Q.shape[1] == 2:
        arcs = Arcs.of(Q, _weighted(Q, r))
        values, directions = _on_circle(arcs.begin, arcs.sums)
    elif Q.shape[1] == 3 and r.ndim == 2:
        best, v = _best_on_sphere(Q, r)
        values, directions = np.array([best]), v[None, :]
    elif Q.shape[1] == 3:
        values, directions = np.empty(len(Q)), np.empty((len(Q), 3))
        _native.search_sphere(np.ascontiguousarray(Q), np.ascontiguousarray(r), floor, values, directions)
    else:
        raise ValueError(f"The cells are enumerated for designs of rank one to three, not {Q.shape[1]}.")
    kept = (values >= floor) | (values == np.max(values))
    return values[kept], directions[kept]


def rounding(Q: FloatArray, r: FloatArray) -> float:
    """Return a bound on the rounding error of the largest value, a sum over all rows.

    Rows and angles that differ by rounding alone may be sorted in the wrong order. That moves a direction by rounding,
    and the value by at most ``Σ |r_j| |q_j|`` times as much, like the errors of the sums.
    """
    lengths = np.linalg.norm(Q, axis=1)
    sizes = np.abs(r) if r.ndim == 1 else np.linalg.norm(r, axis=1)
    return float(4.0 * len(Q) * np.finfo(np.float64).eps * (sizes @ lengths))


def can_search(Q: FloatArray, n_outputs: int = 1) -> bool:
    """Return whether `search_cones` supports this design."""
    return n_outputs == 1 and 2 <= Q.shape[1] <= MAX_CONE_RANK


def search_cones(
    Q: FloatArray,
    r: FloatArray,
    directions: FloatArray,
    *,
    max_parts: int | None = None,
    max_seconds: float | None = None,
    relative_gap: float = RELATIVE_GAP,
) -> tuple[float, FloatArray]:
    """Return a proved upper bound on ``|rᵀ σ(Q v)|`` over v of length one, and the best v found.

    Branch and bound over cones of directions, for designs of rank two to six. The bound exceeds the largest value by at
    most ``relative_gap``, unless ``max_parts`` parts of the sphere or ``max_seconds`` end the search before. Good
    ``directions`` (n, rank) to begin with make it faster.
    """
    search = _native.ConeSearch(np.ascontiguousarray(Q), np.ascontiguousarray(r))
    for v in directions:
        search.try_point(np.ascontiguousarray(v))
    n_parts = np.iinfo(np.intp).max if max_parts is None else max_parts
    seconds = np.inf if max_seconds is None else max_seconds
    search.run(relative_gap, 0.0, n_parts, MOST_WAITING, seconds)
    return float(search.bound) + rounding(Q, r), np.array(search.point)


def _values(Q: FloatArray, r: FloatArray, V: FloatArray) -> FloatArray:
    products = np.maximum(V @ Q.T, 0.0) @ r
    return np.asarray(np.abs(products) if r.ndim == 1 else np.linalg.norm(products, axis=1))


def _weighted(Q: FloatArray, r: FloatArray) -> FloatArray:
    """Return ``r_j q_j`` of every row; with several outputs ``q_j r_jᵀ``, of shape (n_rows, rank, n_outputs)."""
    return r[:, None] * Q if r.ndim == 1 else Q[:, :, None] * r[:, None, :]


def _best_on_sphere(Q: FloatArray, r: FloatArray) -> tuple[float, FloatArray]:
    """Search the sphere circle by circle, for any number of outputs; the kernel does the same for one output."""
    best = 0.0, np.eye(3)[0]
    weighted = _weighted(Q, r)
    lengths = np.linalg.norm(Q, axis=1)
    for normal in Q[lengths > 0.0]:
        plane = linalg.null_space(normal[None, :])  # (3, 2)
        points = Q @ plane
        crossing = np.linalg.norm(points, axis=1) > ANGLE * lengths
        arcs = Arcs.of(points[crossing], weighted[crossing])
        projected = arcs.sums @ plane if arcs.sums.ndim == 2 else plane.T @ arcs.sums
        values, directions = _on_circle(arcs.begin, projected)
        best = _choose_better(best, values, directions @ plane.T)
        neighbours = arcs.outward(Q[crossing])
        # Rows along the normal itself are active on one side of the circle and not on the other.
        for sign in (1.0, -1.0):
            beside = weighted[~crossing & (sign * (Q @ normal) > 0.0)].sum(axis=0)
            V = _inner_maximisers(arcs.sums + beside, sign * normal, neighbours, best[0])
            best = _choose_better(best, _values(Q, r, V), V)
    return best


def _choose_better(
    best: tuple[float, FloatArray], values: FloatArray, directions: FloatArray
) -> tuple[float, FloatArray]:
    if len(values) == 0 or np.max(values) <= best[0]:
        return best
    first = int(np.argmax(values))
    return float(values[first]), directions[first]


def _inner_maximisers(
    gradients: FloatArray, inward: FloatArray, neighbours: tuple[FloatArray, FloatArray], value: float
) -> FloatArray:
    """Return the directions ±a / |a| (n, 3) that may lie inside their cells, with values |a| above ``value``.

    ``gradients`` are a, or A, of the cell beside each arc. ``inward`` points from the circle of the arcs to the side of
    the cells. ``neighbours`` are the rows that bound the arcs at both ends, pointing away from the cell.
    """
    steepest, promising = gradients, np.ones(len(gradients), dtype=bool)
    if gradients.ndim == 3:
        # The largest singular value is at most the Frobenius norm: many cells need no decomposition.
        promising = np.linalg.norm(gradients, axis=(1, 2)) > value
        steepest = np.zeros(gradients.shape[:2])
        steepest[promising] = _steepest(gradients[promising])
    # Of both directions, at most one lies on the side of the cell.
    inside = steepest * np.sign(steepest @ inward)[:, None]
    lengths = np.linalg.norm(inside, axis=1)
    promising &= lengths > max(value * (1.0 + ANGLE), 0.0)
    for outward in neighbours:
        promising &= np.sum(inside * outward, axis=1) <= ANGLE * lengths
    return np.asarray(inside[promising] / lengths[promising, None])


@dataclass(frozen=True, slots=True, eq=False)
class Arcs:
    """The arcs of a circle on which the same points have a positive product with (cos t, sin t)."""

    begin: FloatArray  # (n_arcs,), angles where the arcs begin, ascending; each ends where the next begins
    sums: FloatArray  # (n_arcs, n, ...), sums of the vectors or matrices of points with a positive product on the arc
    point: IndexArray  # (n_arcs,), the point whose product changes its sign where the arc begins
    sign: FloatArray  # (n_arcs,), the sign of that product on the arc

    @classmethod
    def of(cls, points: FloatArray, vectors: FloatArray) -> Arcs:
        """Sort the two angles of every point at which its product is zero."""
        phase = np.arctan2(points[:, 1], points[:, 0])
        on, off = ((phase + turn + np.pi) % (2.0 * np.pi) - np.pi for turn in (-np.pi / 2.0, np.pi / 2.0))
        events = np.concatenate([on, off])
        order = np.argsort(events, kind="stable")
        sign = np.where(order < len(points), 1.0, -1.0)
        point = order % len(points)
        active_before_all = vectors[off < on].sum(axis=0)
        signs = sign.reshape(-1, *[1] * (vectors.ndim - 1))
        sums = active_before_all + np.cumsum(signs * vectors[point], axis=0)
        return cls(events[order], sums, point, sign)

    def outward(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rows that bound each arc at its start and end, with the sign of a negative product on the arc."""
        begin = -self.sign[:, None] * rows[self.point]
        return begin, -np.roll(begin, -1, axis=0)  # at the end, a point changes to its sign on the next arc


def _on_circle(angles: FloatArray, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return values and directions of all candidates on a circle: the ends of the arcs and the inner maximisers."""
    ends = _directions(angles)
    if sums.ndim == 2:
        at_ends = np.abs(np.sum(sums * ends, axis=1))
    else:
        at_ends = np.linalg.norm(np.einsum("nd...,nd->n...", sums, ends), axis=1)
        sums = _steepest(sums)
    lengths = np.diff(angles, append=angles[0] + 2.0 * np.pi) if len(angles) else angles
    steepest = np.arctan2(sums[:, 1], sums[:, 0])
    up, down = _is_within(steepest, angles, lengths), _is_within(steepest + np.pi, angles, lengths)
    inner = np.concatenate([steepest[up], steepest[down] + np.pi])
    sizes = np.linalg.norm(sums, axis=1)
    return np.concatenate([at_ends, sizes[up], sizes[down]]), np.vstack([ends, _directions(inner)])


def _steepest(matrices: FloatArray) -> FloatArray:
    """Return for each matrix A the maximiser v of ``|Aᵀv|``, scaled to that length; it replaces a of one output."""
    squares, directions = np.linalg.eigh(matrices @ np.swapaxes(matrices, 1, 2))
    lengths = np.sqrt(np.maximum(squares[:, -1], 0.0))
    return np.asarray(lengths[:, None] * directions[:, :, -1])


def _is_within(angle: FloatArray, begin: FloatArray, length: FloatArray) -> BoolArray:
    return np.asarray((angle - begin + ANGLE) % (2.0 * np.pi) <= length + 2.0 * ANGLE)


def _directions(angles: FloatArray) -> FloatArray:
    return np.column_stack([np.cos(angles), np.sin(angles)])


@dataclass(frozen=True, slots=True, eq=False)
class DualPoint:
    """A feasible point of the dual problem: ``multipliers`` is λ of the module docstring, of the shape of y."""

    problem: WhitenedProblem
    multipliers: FloatArray

    @classmethod
    def zero(cls, problem: WhitenedProblem) -> DualPoint:
        """Return the point that is feasible for every problem."""
        return cls(problem, np.zeros_like(problem.y))

    @classmethod
    def of_residual(cls, problem: WhitenedProblem, residual: FloatArray, largest: float) -> DualPoint:
        """Return the best feasible multiple of a residual whose largest ``|rᵀ σ(Q v)|`` is at most ``largest``."""
        square, product = float(np.vdot(residual, residual)), float(np.vdot(residual, problem.y))
        if square == 0.0 or product <= 0.0:
            return cls.zero(problem)
        multiple = min(product / square, problem.gamma / largest if largest > 0.0 else np.inf)
        return cls(problem, multiple * residual)

    @property
    def bound(self) -> float:
        """The lower bound on RegLoss."""
        own, y = self.multipliers, self.problem.y
        value = 2.0 * float(np.vdot(own, y)) - float(np.vdot(own, own))
        return (value + self.problem.scatter) / self.problem.total_weight

    def combine(self, other: DualPoint) -> DualPoint:
        """Return the best point between this one and another."""
        difference = other.multipliers - self.multipliers
        square = float(np.vdot(difference, difference))
        if square == 0.0:
            return self
        share = float(np.clip(np.vdot(self.problem.y - self.multipliers, difference) / square, 0.0, 1.0))
        found = DualPoint(self.problem, self.multipliers + share * difference)
        return found if found.bound > self.bound else self
