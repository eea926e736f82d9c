"""The subgradients of one neuron's block: what its kinked rows leave open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import lsq_linear

from dconnet._arrays import BoolArray, FloatArray
from dconnet.convex.native import Native
from dconnet.convex.programme import Programme
from dconnet.model.network import Network
from dconnet.model.problem import WhitenedProblem
from dconnet.training.dc import SPLITS

# Rows whose preactivation is below this fraction of the neuron's largest one count as being at the kink.
KINK_WIDTH = 1e-6

# All tangents of h are tried if no more than this many rows leave a choice.
MAX_CHOICES = 8
# Otherwise, no more than this many rows are tried one by one.
MAX_FLIPS = 32

# Relative to what is minimised: too little to matter, and enough for the solver.
TRACE = 1e-12


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
    """

    smooth: FloatArray
    rows: FloatArray
    beta_g: FloatArray
    beta_h: FloatArray

    @classmethod
    def of(
        cls, white: WhitenedProblem, v: FloatArray, z: FloatArray, alpha: float, betas: tuple[FloatArray, FloatArray]
    ) -> Kinks:
        """Those of a neuron with weights ``v``, preactivations ``z`` and the slopes of a split."""
        beta_g, beta_h = betas
        width = KINK_WIDTH * float(np.max(np.abs(z)))
        kinked = np.abs(z) <= width
        slope = np.where(z > width, beta_g - beta_h, 0.0) + 2.0 * alpha**2 * np.maximum(z, 0.0)
        smooth = white.Q.T @ slope + 2.0 * white.gamma * v
        kinked &= (beta_g > 0.0) | (beta_h > 0.0)
        return cls(smooth, white.Q[kinked], beta_g[kinked], beta_h[kinked])

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

        Then all others if they are few, or else the one with none active and those with one row inactive.
        """
        count = int(np.count_nonzero(self.open))
        yield np.ones(len(self.rows))
        if self.all_tangents_tried:
            yield from (self._filled(choice) for choice in product((0.0, 1.0), repeat=count))
        else:
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


def kinks_of(white: WhitenedProblem, network: Network, split: str) -> Iterator[Kinks]:
    """The kinks of every neuron, one after the other."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {sorted(SPLITS)}, got {split!r}.")
    V = white.whiten(network)
    Z = white.preactivations(V)
    hidden = np.maximum(Z, 0.0)
    for unit, (v, z) in enumerate(zip(V, Z.T, strict=True)):
        betas = SPLITS[split](white.y, hidden, network.alpha, unit)
        yield Kinks.of(white, v, z, float(network.alpha[unit]), betas)


def output_gradient(white: WhitenedProblem, network: Network) -> FloatArray:
    """Gradient of ``m · RegLoss`` in the output weights, of shape (n_hidden,)."""
    hidden = np.maximum(white.preactivations(white.whiten(network)), 0.0)
    gradient: FloatArray = 2.0 * (white.gamma * network.alpha - hidden.T @ (white.y - hidden @ network.alpha))
    return gradient
