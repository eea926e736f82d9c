"""Coded features: a design with many columns, stored as a place and a share for each field and row.

A feature represents one or more columns of the design without storing them. In a row, at most one of these columns is
neither zero nor one. The place determines the zeros and ones, and the share is the value of the remaining column.

All features have the same members: ``n_columns`` of the design, ``n_places`` that differ, ``code``, which returns place
and share of each row, and ``columns``, which returns the columns of the design for these codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dconnet import _native
from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet.model.rows import blocks

LINEAR, RAMPS, CATEGORY = 0, 1, 2

# Fields with at most FEW_VALUES distinct values can have a knot at each, with at least MIN_ROWS_APART rows in between.
FEW_VALUES, MIN_ROWS_APART = 64, 9
# Bound on shares, because they are stored in single precision and outputs of networks must stay finite.
MAX_SHARE = 1e30

Codes = tuple[IndexArray, FloatArray]  # place and share of each row

# Directions whose squared length is a smaller fraction of the largest count as linearly dependent.
DEPENDENT = 1e-12


@dataclass(frozen=True, slots=True)
class Linear:
    """Standardised values: ``(value - center) / scale``, with ``fill`` for missing values."""

    center: float
    scale: float
    fill: float = 0.0

    kind: ClassVar[int] = LINEAR
    n_columns: ClassVar[int] = 1
    n_places: ClassVar[int] = 1

    @classmethod
    def of(cls, values: FloatArray) -> Linear:
        """Standardise by mean and standard deviation, with the median for missing values."""
        fill = _median(values)
        filled = np.where(np.isnan(values), fill, values)
        # Divide by a power of two, which rounds nothing, so that squares are finite.
        unit = np.ldexp(1.0, int(np.frexp(np.abs(filled).max(initial=0.0))[1]) - 1)
        filled = filled / unit
        return cls(float(unit * filled.mean()), float(unit * filled.std()) or 1.0, fill)

    def code(self, values: FloatArray) -> Codes:
        """Return place and share of each row."""
        filled = np.where(np.isnan(values), self.fill, values)
        return np.zeros(len(values), dtype=np.intp), _share(filled - self.center, self.scale)

    def columns(self, codes: Codes) -> FloatArray:
        """Return the columns of the design."""
        return codes[1][:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Piecewise linear encoding: a ramp from zero to one in each bin; the outer ramps continue beyond their bins.

    ``edges`` are the ends of the bins, ascending, of shape (n_bins + 1,); ``fill`` replaces missing values.
    """

    edges: FloatArray
    fill: float = 0.0

    kind: ClassVar[int] = RAMPS

    @property
    def n_columns(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    n_places = n_columns

    @classmethod
    def of(cls, values: FloatArray, n_bins: int, *, every_value: bool = False) -> Ramps | Linear:
        """Fit bins between quantiles, or return a linear feature if there are fewer than two bins.

        With ``every_value``, the distinct values are the ends of the bins if they are few; see `FEW_VALUES`.
        """
        known = np.sort(values[~np.isnan(values)])
        edges = _knots(known) if every_value else None
        if edges is None:
            last = np.ceil(np.linspace(0.0, 1.0, n_bins + 1) * len(known)).astype(np.intp) - 1
            edges = np.unique(known[np.maximum(last, 0)]) if len(known) else known
        return cls(edges, _median(values)) if len(edges) > 2 else Linear.of(values)

    def code(self, values: FloatArray) -> Codes:
        """Return place and share of each row."""
        filled = np.where(np.isnan(values), self.fill, values)
        bins = np.clip(np.searchsorted(self.edges, filled, side="right") - 1, 0, self.n_columns - 1)
        return bins, _share(filled - self.edges[bins], self.edges[bins + 1] - self.edges[bins])

    def columns(self, codes: Codes) -> FloatArray:
        """Return the columns of the design."""
        bins, shares = codes
        ramps = (np.arange(self.n_columns) < bins[:, None]).astype(np.float64)
        ramps[np.arange(len(bins)), bins] = shares
        return ramps


@dataclass(frozen=True, slots=True)
class Levels:
    """Indicators of the first ``n_columns`` levels of a category; other levels have no column."""

    n_columns: int

    kind: ClassVar[int] = CATEGORY

    @property
    def n_places(self) -> int:
        """One for each level with a column, and one for all others."""
        return self.n_columns + 1

    def code(self, values: FloatArray) -> Codes:
        """Return place and share of each row; values are numbers of levels, or NaN for unknown levels."""
        places = np.where(np.isnan(values), self.n_columns, np.nan_to_num(values)).astype(np.intp)
        return np.minimum(places, self.n_columns), np.zeros(len(values))

    def columns(self, codes: Codes) -> FloatArray:
        """Return the columns of the design."""
        return (codes[0][:, None] == np.arange(self.n_columns)).astype(np.float64)


Feature = Linear | Ramps | Levels


def _knots(ordered: FloatArray) -> FloatArray | None:
    """Return distinct values with enough rows between them; None if there are too many distinct values."""
    distinct, counts = np.unique(ordered, return_counts=True)
    if len(distinct) > FEW_VALUES:
        return None
    apart, kept = max(MIN_ROWS_APART, len(ordered) / 1000), [0]
    for j in range(1, len(distinct)):
        if counts[kept[-1] : j].sum() >= apart:
            kept.append(j)
    return distinct[kept]


def _share(distance: FloatArray, width: FloatArray | float) -> FloatArray:
    with np.errstate(over="ignore"):
        share: FloatArray = np.clip(distance / width, -MAX_SHARE, MAX_SHARE)
    return share


def _median(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else 0.0


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
        layout = _layout(self.features)
        return layout | {"places": np.ascontiguousarray(self.places), "shares": np.ascontiguousarray(self.shares)}

    def rows(self, chosen: NDArray[np.intp] | slice) -> CodedDesign:
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
            M = np.sqrt(weight[rows, None]) * self.dense(rows)
            total += M.T @ M  # NumPy computes half of a symmetric product
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
        """Return hidden activations (n_networks, n_hidden, n_rows); U has the shape that `predict` takes."""
        activations = np.empty((len(U), U.shape[2], len(self)))
        for rows in blocks(len(self)):
            np.maximum(U.transpose(0, 2, 1) @ self.dense(rows).T, 0.0, out=activations[:, :, rows])
        return activations


@lru_cache(maxsize=16)
def _layout(features: tuple[Feature, ...]) -> dict[str, NDArray[np.uintp]]:
    """Return kind, columns and places of each feature; cached, because importances predict once for each column."""
    return {
        "kinds": np.array([feature.kind for feature in features], dtype=np.uintp),
        "columns": np.array([feature.n_columns for feature in features], dtype=np.uintp),
        "n_places": np.array([feature.n_places for feature in features], dtype=np.uintp),
    }


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
        return T.T @ (vectors[:, kept] / np.sqrt(values[kept]))
