"""Coordinates of a design: whitened, and standardised columns.

Whitening makes every design orthonormal, well scaled and of full rank. With M = [X 1] = Q R and v_l = R u_l, the
preactivations of neuron l are z_l = M u_l = Q v_l and the data-weighted penalty ``|M u_l|²`` is just ``|v_l|²``.
All convex programmes of the algorithm are solved in these coordinates.

A penalty ``|M u_l|² + |P u_l|²`` has the same form: with M stacked upon P instead of M, it is ``|v_l|²``, and
z_l = Q v_l holds for the rows of Q that belong to M. Their columns are no longer orthonormal, but ``|Q v| ≤ |v|``.

Starts are drawn, and designs factorised, in standardised columns. RegLoss is invariant under invertible maps of [X 1].
A network of the standardised columns is therefore also a network of the data, and no standardised copy of the data is
needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray, Frozen, padded_zeros
from dconnet.model.network import Network
from dconnet.model.rows import leaf_triangle, leaves, merge_triangles, tree_of

# Directions of M (columns scaled to one) whose singular value is below this fraction of the largest are
# taken as dependent. Weights along them could not be mapped back to u with more than five digits.
RANK_TOLERANCE = 1e-11

# Two inverse maps are the same if the preactivations of weights of length one differ by less than this.
SAME = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Whitening(Frozen):
    """A rank-revealing factorisation of the design, ``M = Q to_white``.

    With ``to_white`` as R of the text, ``v = to_white @ u``, and ``u = from_white @ v`` has the least norm of all u
    with ``M u = Q v``.
    """

    Q: FloatArray  # (n_samples, rank), orthonormal basis of the columns of M; with a penalty, rows of such a basis
    to_white: FloatArray  # (rank, n_columns)
    from_white: FloatArray  # (n_columns, rank), its pseudo-inverse

    @property
    def rank(self) -> int:
        """Number of independent directions of M."""
        return int(self.Q.shape[1])

    @property
    def singular_values(self) -> FloatArray:
        """Positive singular values of M, descending, of shape (rank,)."""
        return linalg.svdvals(self.to_white, check_finite=False)

    @classmethod
    def of(cls, M: FloatArray, penalty: FloatArray | None = None) -> Whitening:
        """Factorise the design ``M``, of shape (n_samples, n_columns), with the ``penalty`` below it."""
        return cls.of_blocks(len(M), lambda rows: M[rows], penalty)

    @classmethod
    def of_blocks(
        cls, n_rows: int, block: Callable[[slice], FloatArray], penalty: FloatArray | None = None
    ) -> Whitening:
        """Factorise the design M, whose rows ``block`` returns slice by slice, with the rows P of the ``penalty``."""
        M = padded_zeros(n_rows, block(slice(0, 0)).shape[1])
        for rows in leaves(n_rows):
            M[rows] = block(rows)
        scale = column_scale(np.max([np.max(np.abs(M[rows]), axis=0) for rows in leaves(n_rows)], axis=0), penalty)
        triangles = (leaf_triangle(lambda rows: M[rows] / scale, rows, len(scale)) for rows in leaves(n_rows))
        basis = Basis.of(tree_of(triangles, merge_triangles).total(), scale, penalty)
        Q = M if basis.rank == len(scale) else padded_zeros(n_rows, basis.rank)

        def rough_gram(rows: slice) -> FloatArray:
            Q[rows] = basis.rough(M[rows])
            return gram(Q[rows])

        correction = basis.correction(tree_of(map(rough_gram, leaves(n_rows)), np.add).total())
        for rows in leaves(n_rows):
            Q[rows] = apply_correction(Q[rows], correction)
        return cls(Q, *basis.maps(correction))


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """The independent directions of a design whose columns were scaled, from the triangle of its QR factorisation.

    Rows of the design become rows of Q in two steps: `rough`, and then `apply_correction`, which removes the rounding
    of the first step by the Gram matrix of all rough rows. Each worker of a cluster applies both to its own rows.
    """

    triangle: FloatArray  # (≤ n_columns, n_columns), of the scaled design with the penalty below it
    scale: FloatArray  # (n_columns,), divisors of the columns
    penalty: FloatArray  # (n_penalties, n_columns), of the scaled columns
    singular: FloatArray  # (rank,), singular values of the triangle
    right: FloatArray  # (rank, n_columns), its right singular vectors

    @classmethod
    def of(cls, triangle: FloatArray, scale: FloatArray, penalty: FloatArray | None = None) -> Basis:
        """Find the independent directions of the scaled design with this triangle."""
        P = np.empty((0, len(scale))) if penalty is None else penalty / scale
        if len(P):
            triangle = merge_triangles(triangle, P)
        _, singular, right = linalg.svd(triangle, full_matrices=False, check_finite=False)
        rank = int(np.count_nonzero(singular > RANK_TOLERANCE * singular[0]))
        return cls(triangle, scale, P, singular[:rank], right[:rank])

    @property
    def rank(self) -> int:
        """Number of independent directions."""
        return len(self.singular)

    @property
    def directions(self) -> FloatArray:
        """Directions of shape (n_columns, rank) that make the scaled design nearly orthonormal."""
        return np.asarray(self.right.T / self.singular)

    def rough(self, M: FloatArray) -> FloatArray:
        """Return the rows of Q, up to the rounding of the smallest directions."""
        return np.asarray((M / self.scale) @ self.directions)

    def correction(self, rough_gram: FloatArray) -> FloatArray:
        """Return the Cholesky factor, close to the identity, that removes the rounding of the rough rows."""
        P = self.penalty @ self.directions
        return np.asarray(linalg.cholesky(rough_gram + P.T @ P, check_finite=False))

    def maps(self, correction: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``to_white`` and ``from_white`` of `Whitening`."""
        to_white: FloatArray = correction @ (self.singular[:, None] * self.right * self.scale)
        from_white = apply_correction(self.directions, correction) / self.scale[:, None]
        if self.rank == len(self.scale):
            return to_white, from_white
        return to_white, _minimum_norm_inverse(self.triangle * self.scale, to_white, from_white)


def apply_correction(rough: FloatArray, correction: FloatArray) -> FloatArray:
    """Multiply rows by the inverse of the correction."""
    return np.asarray(linalg.solve_triangular(correction, rough.T, trans="T", check_finite=False).T)


def gram(rows: FloatArray) -> FloatArray:
    """Return the Gram matrix of the columns."""
    return np.asarray(rows.T @ rows)


def column_scale(largest: FloatArray, penalty: FloatArray | None = None) -> FloatArray:
    """Return powers of two close to the largest entry of each column; division by them is exact."""
    if penalty is not None:
        # Scaled by M alone, the penalty on a column of tiny entries would make all others look dependent.
        largest = np.maximum(largest, np.max(np.abs(penalty), axis=0))
    _, exponent = np.frexp(largest)
    return np.asarray(np.ldexp(1.0, exponent))


def _minimum_norm_inverse(R: FloatArray, to_white: FloatArray, right_inverse: FloatArray) -> FloatArray:
    """Return the pseudo-inverse of ``to_white``, its right inverse with the shortest columns, if it is accurate.

    It uses directions that were taken as dependent. Where columns of M differ much in scale these may matter; then the
    preactivations, compared by the triangle R of M, differ, and the given right inverse is returned.
    """
    row_space, triangle = linalg.qr(to_white.T, mode="economic", check_finite=False)
    with np.errstate(all="ignore"):
        pseudo_inverse: FloatArray = row_space @ linalg.pinv(triangle.T, check_finite=False)
        error = np.max(np.abs(R @ (pseudo_inverse - right_inverse)))
    return pseudo_inverse if error < SAME else right_inverse


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates(Frozen):
    """Standardised columns ``(x - mean) / scale`` of the inputs."""

    mean: FloatArray  # (n_features,), weighted mean of each column
    scale: FloatArray  # (n_features,), weighted standard deviation; one for a constant column

    @classmethod
    def of(cls, X: FloatArray, weight: FloatArray) -> Coordinates:
        """Standardise these rows; the order of the rows does not matter, and weights count like copies."""
        moments = np.array([mean_and_spread(column, weight) for column in X.T])
        return cls(moments[:, 0], np.where(moments[:, 1] > 0.0, moments[:, 1], 1.0))

    def standardise(self, X: FloatArray) -> FloatArray:
        """Return the rows in these coordinates."""
        return (X - self.mean) / self.scale

    def in_units_of_data(self, network: Network) -> Network:
        """Convert a network of the standardised inputs to one of the inputs themselves."""
        W = network.W / self.scale
        return Network(W, network.b - W @ self.mean, network.alpha, network.intercept)

    def undo(self, whitening: Whitening) -> Whitening:
        """Convert the factorisation of the standardised design to that of [X 1]."""
        of_weights, of_intercept = whitening.to_white[:, :-1], whitening.to_white[:, -1:]
        to_white = np.column_stack([of_weights * self.scale + of_intercept * self.mean, of_intercept])
        weights = whitening.from_white[:-1] / self.scale[:, None]
        from_white = np.vstack([weights, whitening.from_white[-1] - self.mean @ weights])
        return replace(whitening, to_white=to_white, from_white=from_white)


def mean_and_spread(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted mean and standard deviation; their bits do not depend on the order of the rows."""
    values, weight = _distinct(values[weight > 0.0], weight[weight > 0.0])
    low, unit = values[0], values[-1] - values[0]
    if unit == 0.0:
        return float(low), 0.0
    if not np.isfinite(unit):
        raise ValueError("The range of a column overflows. Scale its values down.")
    # In units of the largest difference, no square overflows or vanishes.
    shares = weight / weight.sum()
    mean = low + unit * float(shares @ ((values - low) / unit))
    return float(mean), float(unit * np.sqrt(shares @ ((values - mean) / unit) ** 2))


def _distinct(values: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, ascending, and the sums of their weights."""
    if weight.min() == weight.max():
        values = np.sort(values)  # much faster than lexsort
    else:
        order = np.lexsort((weight, values))
        values, weight = values[order], weight[order]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return values[starts], np.add.reduceat(weight, starts)
