"""Subgradients of a neuron with rows at its kink, the test of local optimality, and restarts of the DCA.

The DCA has converged at v if its tangent of h, with all rows at their kinks active, is also a subgradient of g. The
point is a local minimiser of O = g - h if all subgradients of h are: ∂h(v) ⊆ ∂g(v). The paper tests this by the largest
distance of a subgradient y of h from ∂g(v), which is zero exactly if the inclusion holds. By duality the distance is
the largest ``<y, d> - g'(v; d)`` over the directions d of length one, and the largest ``<y, d>`` over ∂h(v) is
h'(v; d). The largest distance is therefore the steepest descent of O at v,

    max over |d| ≤ 1 of -O'(v; d),    O'(v; d) = <smooth, d> + Σ_j c_j σ(<q_j, d>)    (sum over the rows at the kink),

in which only the net slopes c = beta^g - beta^h appear: the answer does not depend on the split. The distance is convex
in y, so its maximum lies at a tangent where every row is either active or not. Only rows with c_j < 0, at a concave
kink, need both choices. For each tangent, a least-squares problem over a box gives the distance. A restart continues
the DCA from a tangent of h that leads down from a fixed point that is no local minimiser.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import lsq_linear

from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet.convex.native import Native, as_columns
from dconnet.convex.programme import Programme, Solver
from dconnet.model.problem import WhitenedProblem
from dconnet.training.dc import KINK_TOLERANCE, DCAOutcome, NeuronProblem, dca

# In certificates, a row is at the kink if its preactivation is below this fraction of the neuron's largest one.
KINK_WIDTH = 1e-6

# A slope below this fraction of the terms of its sum counts as zero.
FLAT = 1e-8

# Rows at concave kinks up to which all tangents of h are tried.
MAX_CHOICES = 8
# Otherwise: rows that are flipped one by one, and random directions with their steps of descent.
MAX_FLIPS = 32
DIRECTIONS, STEPS = 16, 30

# Relative curvature that makes a least-squares problem strictly convex without changing its solution noticeably.
TRACE = 1e-12

# Restarts for one neuron in one visit; the next epoch may continue.
RESTARTS = 10


def at_kink(z: FloatArray, width: float) -> BoolArray:
    """Return the rows whose preactivation is zero, up to this fraction of the largest one."""
    return np.asarray(np.abs(z) <= width * float(np.max(np.abs(z))))


@dataclass(frozen=True, slots=True, eq=False)
class Steepest:
    """The steepest descent of O at a point."""

    dca: float  # distance from ∂g of the tangent of h that the DCA takes; zero if the DCA has converged
    worst: float  # largest distance from ∂g of the tangents that were tried
    direction: FloatArray  # (rank,), its direction of descent, of length ``worst``
    complete: bool  # whether all tangents were tried, or a shorter search was enough


@dataclass(frozen=True, slots=True, eq=False)
class Kinks:
    """Subgradients of ``F = g - h`` in the weights of one neuron.

    They have the form ``smooth + rowsᵀ (share · beta_g - tangent · beta_h)``. Each share in [0, 1] selects a
    subgradient of g; each tangent, zero or one, an extreme subgradient of h.
    """

    smooth: FloatArray  # (rank,), contribution of the penalty and of rows away from their kinks
    rows: FloatArray  # (n_kinked, rank), rows of the design at their kinks
    beta_g: FloatArray  # (n_kinked,), their slopes in g
    beta_h: FloatArray  # (n_kinked,), and in h
    size: float  # norm of the slopes in the sum, the scale of rounding

    @classmethod
    def at(cls, neuron: NeuronProblem, v: FloatArray, z: FloatArray, width: float) -> Kinks:
        """Find the kinks of a neuron with weights ``v`` and preactivations ``z``; see `at_kink` for the width."""
        kinked = at_kink(z, width)
        bends = neuron.beta_g - neuron.beta_h
        slope = np.where((z > 0.0) & ~kinked, bends, 0.0) + 2.0 * neuron.curvature * np.maximum(z, 0.0)
        pull = 2.0 * neuron.gamma * v
        size = np.linalg.norm(slope) + np.linalg.norm(bends[kinked]) + np.linalg.norm(pull)
        kinked &= (neuron.beta_g > 0.0) | (neuron.beta_h > 0.0)
        smooth = neuron.design.T @ slope + pull
        return cls(smooth, neuron.design[kinked], neuron.beta_g[kinked], neuron.beta_h[kinked], float(size))

    def net(self) -> Kinks:
        """Return the kinks with net slopes, without rows whose net slope is rounding."""
        bends = self.beta_g - self.beta_h
        steepness = np.abs(bends) * np.linalg.norm(self.rows, axis=1)
        bent = steepness * len(bends) > FLAT * self.size
        beta_g, beta_h = np.maximum(bends[bent], 0.0), np.maximum(-bends[bent], 0.0)
        return replace(self, rows=self.rows[bent], beta_g=beta_g, beta_h=beta_h)

    def in_coordinates(self, matrix: FloatArray) -> Kinks:
        """Multiply the subgradients by a matrix."""
        return replace(self, smooth=matrix @ self.smooth, rows=self.rows @ matrix.T)

    @property
    def open(self) -> BoolArray:
        """Kinked rows at which h has more than one tangent."""
        return self.beta_h > 0.0

    def tangents(self) -> Iterator[FloatArray]:
        """Yield tangents of h at the kinked rows, first that of the DCA, with all rows active.

        Then follow all others if they are few. Otherwise: those of directions in which O may descend, the one without
        active rows, and those with one inactive row.
        """
        count = int(np.count_nonzero(self.open))
        if self.all_tangents_tried:
            yield from (self._tangent(choice) for choice in product((1.0, 0.0), repeat=count))
        else:
            yield np.ones(len(self.rows))
            rows = self.rows[self.open]
            yield from (self._tangent(rows @ direction > 0.0) for direction in self._directions_across_concave_kinks())
            yield self._tangent(rows @ self._direction_by_descent() > 0.0)
            yield self._tangent(np.zeros(count))
            yield from (self._tangent(1.0 - row) for row in np.eye(min(count, MAX_FLIPS), count))

    def _tangent(self, choice: ArrayLike) -> FloatArray:
        tangent = np.ones(len(self.rows))
        tangent[self.open] = choice
        return tangent

    @property
    def all_tangents_tried(self) -> bool:
        """Whether `tangents` leaves none out."""
        return int(np.count_nonzero(self.open)) <= MAX_CHOICES

    def steepest(self, enough: float = np.inf) -> Steepest:
        """Find the steepest descent of O over the tangents, up to the first that descends by more than ``enough``."""
        distances: list[float] = []
        direction = np.zeros_like(self.smooth)
        for tangent in self.tangents():
            shortest = self.subgradient(self.slopes(tangent))
            distances.append(float(np.linalg.norm(shortest)))
            if distances[-1] >= max(distances):
                direction = -shortest
            if distances[-1] > enough:
                break
        return Steepest(distances[0], max(distances), direction, self.all_tangents_tried or distances[-1] > enough)

    def along(self, directions: FloatArray) -> FloatArray:
        """Return O' along directions of shape (rank,) or (rank, n)."""
        slopes: FloatArray = self.smooth @ directions
        return slopes + (self.beta_g - self.beta_h) @ np.maximum(self.rows @ directions, 0.0)

    def _directions_across_concave_kinks(self) -> Iterator[FloatArray]:
        """Yield both orientations of a direction that keeps all convex kinks and leaves a concave one, if it exists.

        Convex kinks have no slope along it, and concave ones a negative slope: the slopes of both orientations have a
        negative sum. There is none if the rows of all concave kinks lie in the span of those of the convex ones.
        """
        across = self.rows[self.open].T  # (rank, concave kinks)
        norms = np.linalg.norm(across, axis=0)
        convex = self.rows[~self.open]
        if len(convex):
            _, singular, basis = np.linalg.svd(convex, full_matrices=False)
            basis = basis[singular > 1e-10 * singular[0]]
            across = across - basis.T @ (basis @ across)
        lengths = np.linalg.norm(across, axis=0)
        farthest = int(np.argmax(lengths / np.where(norms > 0.0, norms, 1.0)))
        if lengths[farthest] > FLAT * norms[farthest]:
            yield across[:, farthest]
            yield -across[:, farthest]

    def _direction_by_descent(self) -> FloatArray:
        """Return the steepest direction of a descent on the sphere from seeded random starts."""
        bends = (self.beta_g - self.beta_h)[:, None]
        directions = np.random.default_rng(0).standard_normal((len(self.smooth), DIRECTIONS))
        directions /= np.linalg.norm(directions, axis=0)
        best = directions
        for _ in range(STEPS):
            gradients = self.smooth[:, None] + self.rows.T @ (bends * (self.rows @ directions > 0.0))
            lengths = np.linalg.norm(gradients, axis=0)
            directions = np.where(lengths > 0.0, -gradients / np.where(lengths > 0.0, lengths, 1.0), directions)
            best = np.where(self.along(directions) < self.along(best), directions, best)
        return np.asarray(best[:, np.argmin(self.along(best))])

    def slopes(self, tangent: FloatArray) -> FloatArray:
        """Return the slopes ``share · beta_g - tangent · beta_h`` of the kinked rows with the shortest subgradient."""
        fixed = self.smooth - self.rows.T @ (tangent * self.beta_h)
        slopes: FloatArray = -tangent * self.beta_h
        rising = self.beta_g > 0.0
        if rising.any():
            columns = self.rows[rising].T * self.beta_g[rising]
            slopes[rising] += self.beta_g[rising] * _shares(columns, -fixed)
        return slopes

    def subgradient(self, slopes: FloatArray) -> FloatArray:
        """Return the subgradient with these slopes at the kinked rows."""
        return self.smooth + self.rows.T @ slopes

    def are_limiting(self, slopes: FloatArray) -> bool:
        """Return whether these slopes are proved to give a limiting subgradient of F.

        At a convex kink any slope between zero and the net slope of the row does. At a concave kink it must be one of
        these two, and the rows must be independent, so that a small step can put each row on either side.
        """
        net = self.beta_g - self.beta_h
        noise = 1e-9 * float(np.max(self.beta_g + self.beta_h, initial=0.0))
        concave = net < -noise
        between = (slopes >= np.minimum(net, 0.0) - noise) & (slopes <= np.maximum(net, 0.0) + noise)
        at_an_end = np.minimum(np.abs(slopes), np.abs(slopes - net)) <= noise
        if not np.all(np.where(concave, at_an_end, between)):
            return False
        n_rows, rank = self.rows.shape
        return not concave.any() or (n_rows <= rank and int(np.linalg.matrix_rank(self.rows)) == n_rows)


def _shares(columns: FloatArray, target: FloatArray) -> FloatArray:
    """Return the numbers in [0, 1] for which the combination of the columns is closest to the target."""
    if columns.shape[1] <= 4 * columns.shape[0]:
        shares = lsq_linear(columns, target, bounds=(0.0, 1.0), method="bvls", tol=1e-14).x
        return np.clip(shares, 0.0, 1.0)  # removes rounding
    # Many columns, as at a dead neuron, where all rows are kinked.
    unit = float(np.max(np.abs(columns)))
    if columns.shape[1] * unit <= TRACE * float(np.max(np.abs(target))):
        # The columns are negligible compared with the target: each helps fully or not at all.
        return np.where(target @ columns > 0.0, 1.0, 0.0)
    # The dual of min |v|² / 2 - <target, v> + Σ_j max(<c_j, v>, 0), a programme of the DCA with a tiny curvature.
    columns, target = columns / unit, target / unit
    curvature = TRACE / float(np.sum(columns**2))
    programme = Programme(np.ascontiguousarray(columns.T), target, np.ones(columns.shape[1]), curvature, 0.5)
    return np.clip(Native().prepare(programme.design).solve(programme).multipliers, 0.0, 1.0)


def kinks_of(white: WhitenedProblem, V: FloatArray, alpha: FloatArray, split: str) -> Iterator[Kinks]:
    """Return the kinks of every neuron of a network with these weights."""
    if split == "net":  # as `Kinks.at`, but in two passes over the rows, leaf by leaf
        band = KINK_WIDTH * white.merge_leaves(largest_preactivations, np.maximum, V)
        return white.merge_leaves(NetKinks.of, NetKinks.merge, V, alpha, band).of_neurons(V, white.gamma)
    Z = white.preactivations(V)
    neurons = (NeuronProblem.of(white, np.maximum(Z, 0.0), alpha, unit, split) for unit in range(len(V)))
    return (Kinks.at(neuron, v, z, KINK_WIDTH) for neuron, v, z in zip(neurons, V, Z.T, strict=True))


def largest_preactivations(Q: FloatArray, y: FloatArray, V: FloatArray) -> FloatArray:
    """Return the largest ``|q_j v_l|`` of every neuron, for `WhitenedProblem.merge_leaves`."""
    return np.asarray(np.max(np.abs(V @ Q.T), axis=1, initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class NetKinks:
    """Contribution of some rows to the kinks of every neuron, with the net split."""

    smooth: FloatArray  # (n_hidden, rank), contribution of rows away from their kinks to the subgradients
    squares: FloatArray  # (n_hidden,), sums of the squared slopes of these rows
    kinked_squares: FloatArray  # (n_hidden,), and of the rows at their kinks
    neurons: IndexArray  # (n_kinked,), neuron of each row at a kink
    rows: FloatArray  # (n_kinked, rank), its row of the design
    slopes: FloatArray  # (n_kinked,), its net slope

    @classmethod
    def of(cls, Q: FloatArray, y: FloatArray, V: FloatArray, alpha: FloatArray, band: FloatArray) -> NetKinks:
        """Find the kinks of rows with targets y; rows within the band of a neuron are at its kink."""
        weights = as_columns(alpha)  # (n_hidden, n_outputs)
        curvature = np.sum(weights**2, axis=1)
        Z = V @ Q.T  # (n_hidden, n)
        active = np.maximum(Z, 0.0)
        bends = -2.0 * (weights @ (as_columns(y) - active.T @ weights).T + curvature[:, None] * active)
        kinked = np.abs(Z) <= band[:, None]
        slope = np.where((Z > 0.0) & ~kinked, bends, 0.0) + 2.0 * curvature[:, None] * active
        neuron, row = np.nonzero(kinked & (bends != 0.0))
        bend = bends[neuron, row]
        kinked_squares = np.bincount(neuron, bend**2, minlength=len(V)).astype(np.float64)
        return cls(slope @ Q, np.einsum("ij,ij->i", slope, slope), kinked_squares, neuron, Q[row], bend)

    def merge(self, other: NetKinks) -> NetKinks:
        """Return the contribution of these rows followed by others."""
        return NetKinks(
            self.smooth + other.smooth,
            self.squares + other.squares,
            self.kinked_squares + other.kinked_squares,
            np.concatenate([self.neurons, other.neurons]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.slopes, other.slopes]),
        )

    def of_neurons(self, V: FloatArray, gamma: float) -> Iterator[Kinks]:
        """Yield the kinks of every neuron, if these are all rows."""
        pull = 2.0 * gamma * V
        smooth = pull + self.smooth
        size = np.sqrt(self.squares) + np.sqrt(self.kinked_squares) + np.linalg.norm(pull, axis=1)
        for unit in range(len(V)):  # lazily, since all rows are kinked at a dead neuron with an output weight
            own = self.neurons == unit
            rising, falling = np.maximum(self.slopes[own], 0.0), np.maximum(-self.slopes[own], 0.0)
            yield Kinks(smooth[unit], self.rows[own], rising, falling, float(size[unit]))


class Verdict(Enum):
    """Classification of a fixed point of the DCA."""

    LOCAL_MINIMUM = "All subgradients of h are subgradients of g: the point is a local minimiser of the subproblem."
    DESCENDS = "A subgradient of h is not one of g: the objective descends from here."
    NONE_FOUND = "No subgradient of h outside those of g was found, but there are too many to try them all."


def examine(neuron: NeuronProblem, v: FloatArray) -> tuple[Verdict, FloatArray | None]:
    """Test ∂h(v) ⊆ ∂g(v) at a fixed point of the DCA; return the verdict, and a direction of descent of O.

    Slopes count as zero below 1e-8, relative to the terms that they are the sum of.
    """
    kinks = Kinks.at(neuron, v, neuron.design @ v, KINK_TOLERANCE)
    if not kinks.open.any():
        return Verdict.LOCAL_MINIMUM, None  # the subgradient of h is unique, and is that of the DCA
    kinks = kinks.net()
    flat = FLAT * kinks.size
    found = kinks.steepest(enough=flat)
    if found.worst <= flat:
        return (Verdict.LOCAL_MINIMUM if found.complete else Verdict.NONE_FOUND), None
    direction = found.direction / found.worst
    return (Verdict.DESCENDS, direction) if kinks.along(direction) < -flat else (Verdict.NONE_FOUND, None)


def better_tangent(neuron: NeuronProblem, v: FloatArray) -> BoolArray | None:
    """Return the active rows of a tangent of h that leads down from a fixed point of the DCA; None if none was found.

    It is the tangent a small step along a direction of descent d. Its slope y is the subgradient of h with the largest
    ``<y, d>``, which exceeds g'(v; d) and therefore ``<x, d>`` of every subgradient x of g.
    """
    _, direction = examine(neuron, v)
    if direction is None:
        return None
    z = neuron.design @ v
    return np.where(at_kink(z, KINK_TOLERANCE), neuron.design @ direction > 0.0, z > 0.0)


def dca_with_restarts(
    neuron: NeuronProblem, v: FloatArray, solver: Solver, max_iter: int, *, inexact: bool = False
) -> DCAOutcome:
    """Run the DCA, and repeat it from better tangents while these lower the objective by more than rounding.

    An inexact DCA is completed by an exact one, since only its fixed point shows which rows are at their kinks.
    """
    outcome = dca(neuron, v, solver, max_iter, inexact=inexact)
    if inexact:
        outcome = _join(outcome, dca(neuron, outcome.v, solver, max_iter), use_second=True)
    while outcome.converged and outcome.restarts < RESTARTS:
        tangent = better_tangent(neuron, outcome.v)
        if tangent is None:
            break
        again = dca(neuron, outcome.v, solver, max_iter, tangent=tangent)
        z, before = neuron.design @ again.v, neuron.design @ outcome.v
        rounding = neuron.rounding(z) + neuron.rounding(before)
        escaped = neuron.value(again.v, z) < neuron.value(outcome.v, before) - rounding
        outcome = replace(_join(outcome, again, escaped), restarts=outcome.restarts + escaped)
        if not escaped:
            break
    return outcome


def _join(first: DCAOutcome, second: DCAOutcome, use_second: bool) -> DCAOutcome:
    """Return the result of one run with the counts of both."""
    return replace(
        second if use_second else first,
        programmes=first.programmes + second.programmes,
        iterations=first.iterations + second.iterations,
        refused=first.refused + second.refused,
        unsolved=first.unsolved + second.unsolved,
    )
