"""Coded features: a column of a table as a place and a share in each row.

A feature stands for one or more columns of the design, which are never stored. In a row, most of these are zero or one:
the place says which are, and the share is the value of the only one that may be something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray

LINEAR, RAMPS, CATEGORY = 0, 1, 2

# Columns with at most so many distinct values can have a knot at each, but with so many rows from one to the next.
FEW_VALUES, MIN_ROWS_APART = 64, 9

Codes = tuple[NDArray[np.intp], FloatArray]  # place and share of each row


class Feature(Protocol):
    """A fitted feature."""

    kind: ClassVar[int]

    @property
    def n_columns(self) -> int:
        """Columns of the design that the feature stands for."""
        ...

    @property
    def n_places(self) -> int:
        """Number of places that a row may have."""
        ...

    def code(self, values: FloatArray) -> Codes:
        """Place and share of each row."""
        ...

    def columns(self, codes: Codes) -> FloatArray:
        """The columns that the codes stand for, of shape (n_rows, n_columns)."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """The standardised values themselves.

    Attributes
    ----------
    center, scale : float
        What is subtracted, and divided by.
    fill : float
        What stands for a missing value.
    """

    center: float
    scale: float
    fill: float = 0.0

    kind: ClassVar[int] = LINEAR
    n_columns: ClassVar[int] = 1
    n_places: ClassVar[int] = 1

    @classmethod
    def of(cls, values: FloatArray) -> Linear:
        """Standardise by mean and standard deviation; the median stands for missing values."""
        fill = _median(values)
        filled = np.where(np.isnan(values), fill, values)
        return cls(float(filled.mean()), float(filled.std()) or 1.0, fill)

    def code(self, values: FloatArray) -> Codes:
        """See `Feature.code`."""
        filled = np.where(np.isnan(values), self.fill, values)
        return np.zeros(len(values), dtype=np.intp), (filled - self.center) / self.scale

    def columns(self, codes: Codes) -> FloatArray:
        """See `Feature.columns`."""
        return codes[1][:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Piecewise linear encoding: in each bin a ramp from zero to one; the outer bins are open and go on linearly.

    Attributes
    ----------
    edges : array of shape (n_bins + 1,)
        The ends of the bins, ascending.
    fill : float
        What stands for a missing value.
    """

    edges: FloatArray
    fill: float = 0.0

    kind: ClassVar[int] = RAMPS

    @property
    def n_columns(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def n_places(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @classmethod
    def of(cls, values: FloatArray, n_bins: int, *, every_value: bool = False) -> Ramps | Linear:
        """Bins between quantiles that are values themselves, or the plain values if there are fewer than two bins.

        Parameters
        ----------
        values : array of shape (n_rows,)
            The column; NaN is a missing value.
        n_bins : int
            Bins between quantiles.
        every_value : bool, default=False
            Whether a column with few distinct values ends a bin at each of them, as far as enough rows lie between.
        """
        known = np.sort(values[~np.isnan(values)])
        edges = _knots(known) if every_value else None
        if edges is None:
            last = np.ceil(np.linspace(0.0, 1.0, n_bins + 1) * len(known)).astype(np.intp) - 1
            edges = np.unique(known[np.maximum(last, 0)]) if len(known) else known
        return cls(edges, _median(values)) if len(edges) > 2 else Linear.of(values)

    def code(self, values: FloatArray) -> Codes:
        """See `Feature.code`."""
        filled = np.where(np.isnan(values), self.fill, values)
        bins = np.clip(np.searchsorted(self.edges, filled, side="right") - 1, 0, self.n_columns - 1)
        return bins, (filled - self.edges[bins]) / (self.edges[bins + 1] - self.edges[bins])

    def columns(self, codes: Codes) -> FloatArray:
        """See `Feature.columns`."""
        bins, shares = codes
        ramps = (np.arange(self.n_columns) < bins[:, None]).astype(np.float64)
        ramps[np.arange(len(bins)), bins] = shares
        return ramps


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a category, each with a column; those from ``n_columns`` on have none.

    Attributes
    ----------
    n_columns : int
        Levels with a column.
    """

    n_columns: int

    kind: ClassVar[int] = CATEGORY

    @property
    def n_places(self) -> int:
        """The levels with a column, and one place for all others."""
        return self.n_columns + 1

    def code(self, values: FloatArray) -> Codes:
        """See `Feature.code`; the values are the numbers of the levels, and NaN where there is none."""
        places = np.where(np.isnan(values), self.n_columns, np.nan_to_num(values)).astype(np.intp)
        return np.minimum(places, self.n_columns), np.zeros(len(values))

    def columns(self, codes: Codes) -> FloatArray:
        """See `Feature.columns`."""
        levels: FloatArray = (codes[0][:, None] == np.arange(self.n_columns)).astype(np.float64)
        return levels


def _knots(ordered: FloatArray) -> FloatArray | None:
    """The distinct values, if they are few, with enough rows from each to the next."""
    distinct, counts = np.unique(ordered, return_counts=True)
    if len(distinct) > FEW_VALUES:
        return None
    apart, kept = max(MIN_ROWS_APART, len(ordered) / 1000), [0]
    for j in range(1, len(distinct)):
        if counts[kept[-1] : j].sum() >= apart:
            kept.append(j)
    return distinct[kept]


def _median(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else 0.0
