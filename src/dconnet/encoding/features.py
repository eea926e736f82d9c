"""Coded features: a field as a place and a share in each row.

A feature represents one or more columns of the design without storing them. In a row, at most one of these columns is
neither zero nor one. The place determines the zeros and ones, and the share is the value of the remaining column.

All features have the same members: ``n_columns`` of the design, ``n_places`` that differ, ``code``, which returns place
and share of each row, and ``columns``, which returns the columns of the design for these codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray

LINEAR, RAMPS, CATEGORY = 0, 1, 2

# Fields with at most FEW_VALUES distinct values can have a knot at each, with at least MIN_ROWS_APART rows in between.
FEW_VALUES, MIN_ROWS_APART = 64, 9
# Bound on shares, because they are stored in single precision and outputs of networks must stay finite.
MAX_SHARE = 1e30

Codes = tuple[NDArray[np.intp], FloatArray]  # place and share of each row


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
        levels: FloatArray = (codes[0][:, None] == np.arange(self.n_columns)).astype(np.float64)
        return levels


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
