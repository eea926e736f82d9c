"""Rows of coded features, and the whitening of the design that they represent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dconnet import _native
from dconnet._arrays import BoolArray, FloatArray
from dconnet.encoding.features import Feature
from dconnet.model.rows import blocks

# Directions whose squared length is a smaller fraction of the largest count as linearly dependent.
DEPENDENT = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class CodedDesign:
    """Rows of coded features, which represent a design with a column for each ramp and level, and an intercept."""

    features: tuple[Feature, ...]  # linear ones first, then ramps, then categories
    places: NDArray[np.uint32]  # (n_rows, n_features), numbered consecutively over the features
    shares: NDArray[np.float32]  # (n_rows, n_features)

    @classmethod
    def of(
        cls, features: Sequence[Feature], columns: Sequence[FloatArray], *, n_rows: int | None = None
    ) -> CodedDesign:
        """Code columns, one for each feature; ``n_rows`` is needed if there are none."""
        order = sorted(range(len(features)), key=lambda f: features[f].kind)
        n_rows = len(columns[0]) if n_rows is None else n_rows
        places = np.empty((n_rows, len(order)), dtype=np.uint32)
        shares = np.empty((n_rows, len(order)), dtype=np.float32)
        first = 0
        for position, f in enumerate(order):
            place, shares[:, position] = features[f].code(columns[f])
            places[:, position] = place + first
            first += features[f].n_places
        return cls(tuple(features[f] for f in order), places, shares)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def n_columns(self) -> int:
        """Number of columns of the design, without the intercept."""
        return sum(feature.n_columns for feature in self.features)

    def kernel_arguments(self) -> dict[str, NDArray[Any]]:
        """Return the rows and the layout of the features as the kernel takes them."""
        return {
            "kinds": np.array([feature.kind for feature in self.features], dtype=np.uintp),
            "columns": np.array([feature.n_columns for feature in self.features], dtype=np.uintp),
            "n_places": np.array([feature.n_places for feature in self.features], dtype=np.uintp),
            "places": np.ascontiguousarray(self.places),
            "shares": np.ascontiguousarray(self.shares),
        }

    def rows(self, chosen: NDArray[np.intp]) -> CodedDesign:
        """Return some of the rows."""
        return CodedDesign(self.features, self.places[chosen], self.shares[chosen])

    def dense(self, rows: slice) -> FloatArray:
        """Return some rows of the design, the intercept last, of shape (n, n_columns + 1)."""
        parts, first = [], 0
        for position, feature in enumerate(self.features):
            place = self.places[rows, position].astype(np.intp) - first
            parts.append(feature.columns((place, self.shares[rows, position].astype(np.float64))))
            first += feature.n_places
        return np.column_stack([*parts, np.ones(len(self.places[rows]))])

    def gram(self, weight: FloatArray) -> FloatArray:
        """Return ``MᵀSM`` with sample weights S, of shape (n_columns + 1, n_columns + 1)."""
        total = np.zeros((self.n_columns + 1,) * 2)
        for rows in blocks(len(self)):
            M = self.dense(rows)
            total += M.T @ (weight[rows, None] * M)
        return total

    def predict(self, U: FloatArray, alpha: FloatArray) -> FloatArray:
        """Return outputs of networks, of shape (n_rows, n_networks).

        The hidden weights U have shape (n_networks, n_columns + 1, n_hidden), the intercept last, and the output
        weights alpha shape (n_networks, n_hidden).
        """
        outputs = np.empty((len(self), len(U)))
        _native.predict(
            **self.kernel_arguments(),
            U=np.ascontiguousarray(U, dtype=np.float64),
            alpha=np.ascontiguousarray(alpha, dtype=np.float64),
            outputs=outputs,
        )
        return outputs

    def hidden(self, U: FloatArray) -> FloatArray:
        """Return hidden activations (n_rows, n_hidden) of a network with weights U (n_columns + 1, n_hidden)."""
        activations = np.empty((len(self), U.shape[1]))
        for rows in blocks(len(self)):
            np.maximum(self.dense(rows) @ U, 0.0, out=activations[rows])
        return activations


@dataclass(frozen=True, slots=True, eq=False)
class Standardisation:
    """Mean and scale of the columns of a design."""

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, gram: FloatArray, gentle: BoolArray | None = None) -> Standardisation:
        """Compute mean and scale from a Gram matrix whose last column is the intercept; constant columns get scale 1.

        The scale of ``gentle`` columns is the square root of half their standard deviation. For a level, this is at
        most 0.5, and rare levels are shrunk more.
        """
        total = gram[-1, -1]
        mean = gram[-1, :-1] / total
        variance = np.diag(gram)[:-1] / total - mean**2
        scale = np.sqrt(np.where(variance > DEPENDENT, variance, 1.0))
        return cls(mean, scale if gentle is None else np.where(gentle, np.sqrt(scale / 2.0), scale))

    def from_white(self, gram: FloatArray, shrinkage: float) -> FloatArray:
        """Return B such that weights ``u = B v`` of the raw columns have the penalty ``|v|²``.

        The penalty is ``|M u|² + shrinkage m |w|²``, with w the weights of the standardised columns, as in `Problem`.
        ``gram`` is the Gram matrix of the training rows; B has shape (n_columns + 1, rank).
        """
        # The standardised design is M Tᵀ.
        T = np.diag(np.append(1.0 / self.scale, 1.0))
        T[:-1, -1] = -self.mean / self.scale
        standard = T @ gram @ T.T
        standard[np.diag_indices(len(standard) - 1)] += shrinkage * gram[-1, -1]
        try:
            R = linalg.cholesky(standard, check_finite=False)
            if np.min(np.diag(R)) ** 2 > DEPENDENT * np.max(np.diag(standard)):
                return T.T @ linalg.solve_triangular(R, np.eye(len(R)), check_finite=False)
        except linalg.LinAlgError:
            pass
        values, vectors = linalg.eigh(standard, check_finite=False)
        kept = values > DEPENDENT * values[-1]
        basis: FloatArray = T.T @ (vectors[:, kept] / np.sqrt(values[kept]))
        return basis
