"""Sorted rows, equal ones together, so that training depends neither on their order nor on copies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray, Frozen
from dconnet.model.blocks import blocks


@dataclass(frozen=True, slots=True, eq=False)
class Groups(Frozen):
    """Rows sorted by their inputs and grouped where these are equal.

    Attributes
    ----------
    order : array of int, of shape (n_rows,)
        The rows in sorted order.
    starts : array of int, of shape (n_groups,)
        Where in ``order`` each group begins.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, X: FloatArray, kept: NDArray[np.intp]) -> Groups:
        """Group those rows of ``X`` that are kept."""
        values = X[kept, 0]
        order = np.argsort(values, kind="stable")
        if not _has_ties(values[order]):  # the first column alone tells all rows apart
            return cls(kept[order], np.arange(len(kept)))
        order = kept[np.lexsort([X[kept, k] for k in range(X.shape[1] - 1, -1, -1)])]
        differs = np.ones(len(order), dtype=bool)
        for rows in blocks(len(order) - 1):
            here, next_ = order[rows], order[rows.start + 1 : rows.stop + 1]
            differs[rows.start + 1 : rows.stop + 1] = np.any(X[here] != X[next_], axis=1)
        return cls(order, np.flatnonzero(differs))

    @property
    def first(self) -> NDArray[np.intp]:
        """One row of each group."""
        return self.order[self.starts]

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum over each group of values that are in sorted order."""
        return np.add.reduceat(values, self.starts)

    def spread_out(self, values: FloatArray) -> FloatArray:
        """A value of each group for each of its rows, in sorted order."""
        return np.repeat(values, np.diff(self.starts, append=len(self.order)), axis=0)


def _has_ties(values: FloatArray) -> bool:
    same: BoolArray = values[1:] == values[:-1]
    return bool(same.any())
