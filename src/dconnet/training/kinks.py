"""The rows at the kink of a neuron: the subgradients that they allow, and whether the neuron is a local minimiser.

A DCA stands still at v when the tangent of h that it takes there, the one with all rows at their kink active, is a
subgradient of g, too. The point is a local minimiser of O = g - h if all subgradients of h are: ∂h(v) ⊆ ∂g(v). The
paper tests it by the largest distance of a subgradient y of h from ∂g(v), which is zero exactly if the inclusion holds.
By duality the distance is the largest ``<y, d> - g'(v; d)`` over the directions d of length one, and the largest
``<y, d>`` over ∂h(v) is h'(v; d). The whole is therefore the steepest descent that O has at v,

    max over |d| ≤ 1 of -O'(v; d),    O'(v; d) = <smooth, d> + Σ_j c_j σ(<q_j, d>)    (sum over the rows at the kink),

in which only the net slopes c = beta^g - beta^h appear: the answer does not depend on the split. The distance is convex
in y, so that its maximum lies at a tangent where every row is either active or not; and only rows with c_j < 0, at a
concave kink, need both. For each such tangent, a least-squares problem over a box finds the distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import lsq_linear

from dconnet._arrays import BoolArray, FloatArray
from dconnet.convex.native import Native, by_output
from dconnet.convex.programme import Programme
from dconnet.model.problem import WhitenedProblem
from dconnet.model.rows import blocks
from dconnet.training.dc import NeuronProblem

# Certificates count rows as being at the kink whose preactivation is below this fraction of the neuron's largest one.
KINK_WIDTH = 1e-6

# A slope that is less than this fraction of the slopes it is the sum of counts as zero.
FLAT = 1e-8

# All tangents of h are tried if no more than this many rows leave a choice.
MAX_CHOICES = 8
# Otherwise, no more than this many rows are tried one by one, and so many directions are followed for so many steps.
MAX_FLIPS = 32
DIRECTIONS, STEPS = 16, 30

# Relative to what is minimised: too little to matter, and enough for the solver.
TRACE = 1e-12


def at_kink(z: FloatArray, width: float) -> BoolArray:
    """Rows whose preactivation is zero, up to this fraction of the largest one."""
    return np.asarray(np.abs(z) <= width * float(np.max(np.abs(z))))


@dataclass(frozen=True, slots=True, eq=False)
class Steepest:
    """How steeply O descends from a point.

    Attributes
    ----------
    dca : float
        Distance from ∂g of the tangent of h that the DCA takes; zero if the DCA stands still.
    worst : float
        Largest distance from ∂g of any tangent that was tried.
    direction : array of shape (rank,)
        The direction of descent that belongs to it, of length ``worst``.
    complete : bool
        Whether all tangents were tried, or a shorter search was enough.
    """

    dca: float
    worst: float
    direction: FloatArray
    complete: bool


@dataclass(frozen=True, slots=True, eq=False)
class Kinks:
    """Subgradients of ``F = g - h`` in the weights of one neuron.

    They have the form ``smooth + rowsᵀ (share · beta_g - tangent · beta_h)``. Each share, in [0, 1], picks a
    subgradient of g; each tangent, zero or one, an extreme one of h.

    Attributes
    ----------
    smooth : array of shape (rank,)
        What the penalty and the rows away from their kinks contribute.
    rows : array of shape (n_kinked, rank)
        Rows of the design at their kink.
    beta_g, beta_h : arrays of shape (n_kinked,)
        Their slopes in g and h.
    size : float
        Length of the slopes that add up, the unit in which they are told from rounding.
    """

    smooth: FloatArray
    rows: FloatArray
    beta_g: FloatArray
    beta_h: FloatArray
    size: float

    @classmethod
    def at(cls, neuron: NeuronProblem, v: FloatArray, z: FloatArray, width: float) -> Kinks:
        """Those of a neuron with weights ``v`` and preactivations ``z``; see `at_kink` for the width."""
        kinked = at_kink(z, width)
        bends = neuron.beta_g - neuron.beta_h
        slope = np.where((z > 0.0) & ~kinked, bends, 0.0) + 2.0 * neuron.curvature * np.maximum(z, 0.0)
        pull = 2.0 * neuron.gamma * v
        size = np.linalg.norm(slope) + np.linalg.norm(bends[kinked]) + np.linalg.norm(pull)
        kinked &= (neuron.beta_g > 0.0) | (neuron.beta_h > 0.0)
        smooth = neuron.design.T @ slope + pull
        return cls(smooth, neuron.design[kinked], neuron.beta_g[kinked], neuron.beta_h[kinked], float(size))

    def net(self) -> Kinks:
        """The same with the net slopes, but for rows whose net slope is rounding."""
        bends = self.beta_g - self.beta_h
        steepness = np.abs(bends) * np.linalg.norm(self.rows, axis=1)
        bent = steepness * len(bends) > FLAT * self.size
        beta_g, beta_h = np.maximum(bends[bent], 0.0), np.maximum(-bends[bent], 0.0)
        return replace(self, rows=self.rows[bent], beta_g=beta_g, beta_h=beta_h)

    def in_coordinates(self, matrix: FloatArray) -> Kinks:
        """The same subgradients multiplied by a matrix."""
        return replace(self, smooth=matrix @ self.smooth, rows=self.rows @ matrix.T)

    @property
    def open(self) -> BoolArray:
        """Kinked rows at which h has more than one tangent."""
        return self.beta_h > 0.0

    @property
    def independent(self) -> bool:
        """Whether the kinked rows are linearly independent."""
        return len(self.rows) <= self.rows.shape[1] and int(np.linalg.matrix_rank(self.rows)) == len(self.rows)

    def tangents(self) -> Iterator[FloatArray]:
        """The tangents of h at the kinked rows: first the one that the DCA takes, with all of them active.

        Then all others if they are few. Otherwise those of directions in which O may descend, the one with none active
        and those with one row inactive.
        """
        count = int(np.count_nonzero(self.open))
        if self.all_tangents_tried:
            yield from (self._filled(choice) for choice in product((1.0, 0.0), repeat=count))
        else:
            yield np.ones(len(self.rows))
            yield from (self._filled((self.rows[self.open] @ d > 0.0).astype(float)) for d in self._promising())
            yield self._filled(np.zeros(count))
            yield from (self._filled(1.0 - row) for row in np.eye(min(count, MAX_FLIPS), count))

    def _filled(self, choice: ArrayLike) -> FloatArray:
        tangent = np.ones(len(self.rows))
        tangent[self.open] = choice
        return tangent

    @property
    def all_tangents_tried(self) -> bool:
        """Whether `tangents` leaves none out."""
        return int(np.count_nonzero(self.open)) <= MAX_CHOICES

    def steepest(self, enough: float = np.inf) -> Steepest:
        """The steepest descent of O over all tangents, or over the first that descends by more than is ``enough``."""
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
        """O' along directions of shape (rank,) or (rank, n)."""
        slopes: FloatArray = self.smooth @ directions
        return slopes + (self.beta_g - self.beta_h) @ np.maximum(self.rows @ directions, 0.0)

    def _promising(self) -> Iterator[FloatArray]:
        """Directions in which O may descend."""
        yield from self._across_convex_kinks()
        yield self._followed()

    def _across_convex_kinks(self) -> Iterator[FloatArray]:
        """Both ways of a direction that keeps all convex kinks and leaves a concave one, if there is any.

        The convex kinks cost nothing along it and the concave ones gain: the slopes of both ways add up to less than
        zero. There is none if every concave kink has its row in the span of those of the convex ones.
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

    def _followed(self) -> FloatArray:
        """The steepest of the directions met while seeded ones are followed downhill on the sphere."""
        bends = (self.beta_g - self.beta_h)[:, None]
        directions = np.random.default_rng(0).standard_normal((len(self.smooth), DIRECTIONS))
        directions /= np.linalg.norm(directions, axis=0)
        best = directions
        for _ in range(STEPS):
            gradients = self.smooth[:, None] + self.rows.T @ (bends * (self.rows @ directions > 0.0))
            lengths = np.linalg.norm(gradients, axis=0)
            directions = np.where(lengths > 0.0, -gradients / np.where(lengths > 0.0, lengths, 1.0), directions)
            best = np.where(self.along(directions) < self.along(best), directions, best)
        steepest: FloatArray = best[:, np.argmin(self.along(best))]
        return steepest

    def slopes(self, tangent: FloatArray) -> FloatArray:
        """Slopes of the kinked rows, ``share · beta_g - tangent · beta_h``, for which the subgradient is shortest."""
        fixed = self.smooth - self.rows.T @ (tangent * self.beta_h)
        slopes: FloatArray = -tangent * self.beta_h
        rising = self.beta_g > 0.0
        if rising.any():
            columns = self.rows[rising].T * self.beta_g[rising]
            slopes[rising] += self.beta_g[rising] * _shares(columns, -fixed)
        return slopes

    def subgradient(self, slopes: FloatArray) -> FloatArray:
        """The subgradient with these slopes at the kinked rows."""
        return self.smooth + self.rows.T @ slopes

    def are_limiting(self, slopes: FloatArray) -> bool:
        """Whether these slopes are proved to give a limiting subgradient of F.

        At a convex kink any slope between zero and the net slope of the row does. At a concave kink it is one of these
        two, and the rows must be independent, so that a step nearby can put each on the side that belongs to it.
        """
        net = self.beta_g - self.beta_h
        noise = 1e-9 * float(np.max(self.beta_g + self.beta_h, initial=0.0))
        concave = net < -noise
        between = (slopes >= np.minimum(net, 0.0) - noise) & (slopes <= np.maximum(net, 0.0) + noise)
        at_an_end = np.minimum(np.abs(slopes), np.abs(slopes - net)) <= noise
        return bool(np.all(np.where(concave, at_an_end, between))) and (not concave.any() or self.independent)


def _shares(columns: FloatArray, target: FloatArray) -> FloatArray:
    """Numbers in [0, 1] for which the combination of the columns is closest to the target."""
    many = columns.shape[1] > 4 * columns.shape[0]  # as at a dead neuron, where all rows are kinked
    found = _shares_of_many(columns, target) if many else _shares_of_few(columns, target)
    return np.clip(found, 0.0, 1.0)  # of rounding


def _shares_of_few(columns: FloatArray, target: FloatArray) -> FloatArray:
    shares: FloatArray = lsq_linear(columns, target, bounds=(0.0, 1.0), method="bvls", tol=1e-14).x
    return shares


def _shares_of_many(columns: FloatArray, target: FloatArray) -> FloatArray:
    # The dual of min |v|² / 2 - <target, v> + Σ_j max(<c_j, v>, 0), which is a programme like those of the DCA but for
    # its curvature; a trace of one stands in for it.
    unit = float(np.max(np.abs(columns)))
    if columns.shape[1] * unit <= TRACE * float(np.max(np.abs(target))):
        # Columns that cannot make up for the target at all: each goes as far as it helps.
        return np.where(target @ columns > 0.0, 1.0, 0.0)
    columns, target = columns / unit, target / unit
    curvature = TRACE / float(np.sum(columns**2))
    programme = Programme(np.ascontiguousarray(columns.T), target, np.ones(columns.shape[1]), curvature, 0.5)
    return Native().prepare(programme.design).solve(programme).multipliers


def kinks_of(white: WhitenedProblem, V: FloatArray, alpha: FloatArray, split: str) -> Iterator[Kinks]:
    """The kinks of every neuron of a network with these weights, one after the other."""
    if split == "net":
        return _net_kinks(white, V, alpha)
    Z = white.preactivations(V)
    neurons = (NeuronProblem.of(white, np.maximum(Z, 0.0), alpha, unit, split) for unit in range(len(V)))
    return (Kinks.at(neuron, v, z, KINK_WIDTH) for neuron, v, z in zip(neurons, V, Z.T, strict=True))


def _net_kinks(white: WhitenedProblem, V: FloatArray, alpha: FloatArray) -> Iterator[Kinks]:
    """The same for the net split, as `Kinks.at` has them, but in two passes over the rows, block by block."""
    y = by_output(white.y)
    largest = np.max([largest_preactivations(white.Q[rows], V) for rows in blocks(len(y))], axis=0)
    passes = [NetKinks.of(white.Q[rows], y[rows], V, alpha, KINK_WIDTH * largest) for rows in blocks(len(y))]
    return kinks_of_passes(passes, V, white.gamma)


def largest_preactivations(Q: FloatArray, V: FloatArray) -> FloatArray:
    """The largest ``|q_j v_l|`` of every neuron."""
    largest: FloatArray = np.max(np.abs(V @ Q.T), axis=1, initial=0.0)
    return largest


@dataclass(frozen=True, slots=True, eq=False)
class NetKinks:
    """What some rows tell about the kinks of every neuron, with the net split.

    Attributes
    ----------
    smooth : array of shape (n_hidden, rank)
        What the rows away from their kinks contribute to the subgradients.
    squares, kinked_squares : arrays of shape (n_hidden,)
        Sums of the squared slopes of these rows, and of those at their kinks.
    neurons, rows, slopes : arrays of shape (n_kinked,), (n_kinked, rank) and (n_kinked,)
        Neuron, row of the design and net slope of what is at a kink.
    """

    smooth: FloatArray
    squares: FloatArray
    kinked_squares: FloatArray
    neurons: NDArray[np.intp]
    rows: FloatArray
    slopes: FloatArray

    @classmethod
    def of(cls, Q: FloatArray, y: FloatArray, V: FloatArray, alpha: FloatArray, band: FloatArray) -> NetKinks:
        """Those of rows with targets y (n, n_outputs), of which those within the band of a neuron are at its kink.

        The slopes of all neurons follow from the residual of the whole network.
        """
        weights = by_output(alpha)  # (n_hidden, n_outputs)
        curvature = np.sum(weights**2, axis=1)
        Z = V @ Q.T  # (n_hidden, n)
        active = np.maximum(Z, 0.0)
        bends = -2.0 * (weights @ (y - active.T @ weights).T + curvature[:, None] * active)
        kinked = np.abs(Z) <= band[:, None]
        slope = np.where((Z > 0.0) & ~kinked, bends, 0.0) + 2.0 * curvature[:, None] * active
        neuron, row = np.nonzero(kinked & (bends != 0.0))
        bend = bends[neuron, row]
        kinked_squares = np.bincount(neuron, bend**2, minlength=len(V)).astype(np.float64)
        return cls(slope @ Q, np.einsum("ij,ij->i", slope, slope), kinked_squares, neuron, Q[row], bend)


def kinks_of_passes(passes: Sequence[NetKinks], V: FloatArray, gamma: float) -> Iterator[Kinks]:
    """The kinks of every neuron, from what all rows tell."""
    pull = 2.0 * gamma * V
    smooth = pull + sum(part.smooth for part in passes)
    squares, kinked_squares = (sum(getattr(part, name) for part in passes) for name in ("squares", "kinked_squares"))
    size = np.sqrt(squares) + np.sqrt(kinked_squares) + np.linalg.norm(pull, axis=1)
    for unit in range(len(V)):  # one by one: at a dead neuron with an output weight, all rows are kinked
        own = [part.neurons == unit for part in passes]
        rows = np.concatenate([part.rows[here] for part, here in zip(passes, own, strict=True)])
        slopes = np.concatenate([part.slopes[here] for part, here in zip(passes, own, strict=True)])
        yield Kinks(smooth[unit], rows, np.maximum(slopes, 0.0), np.maximum(-slopes, 0.0), float(size[unit]))
