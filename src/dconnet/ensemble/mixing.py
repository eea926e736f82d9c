"""New rows between those of a table, on which a small network can learn what a large model says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import Coder, Coding
from dconnet.encoding.schema import FieldTable

# A row is mixed with one of this many neighbours.
N_NEIGHBOURS = 5


def mixed_rows(table: FieldTable, n_rows: int, rng: np.random.Generator) -> FieldTable:
    """Rows on the way from a row to one of its neighbours.

    Numbers are somewhere between those of the two; categories and gaps are those of one or the other.

    Parameters
    ----------
    table : FieldTable
        Two rows or more.
    n_rows : int
        How many rows to make.
    rng : numpy.random.Generator

    Returns
    -------
    FieldTable
    """
    first = rng.integers(len(table), size=n_rows)
    second = _neighbours(table, first, rng)
    share = rng.uniform(size=n_rows)
    values = tuple(
        _either(own[first], own[second], rng) if field.is_category else _between(own[first], own[second], share)
        for field, own in zip(table.fields, table.values, strict=True)
    )
    return replace(table, values=values, n_rows=n_rows)


def _neighbours(table: FieldTable, rows: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """A near row for each of these."""
    from sklearn.neighbors import NearestNeighbors

    design = Coder.of(Coding(), table).code(table)
    points = design.dense(slice(None))[:, :-1]
    n_neighbours = min(N_NEIGHBOURS, len(table) - 1)
    near = NearestNeighbors(n_neighbors=n_neighbours).fit(points).kneighbors(return_distance=False)
    chosen: NDArray[np.intp] = near[rows, rng.integers(n_neighbours, size=len(rows))]
    return chosen


def _either(first: FloatArray, second: FloatArray, rng: np.random.Generator) -> FloatArray:
    return np.where(rng.uniform(size=len(first)) < 0.5, first, second)


def _between(first: FloatArray, second: FloatArray, share: FloatArray) -> FloatArray:
    mixed = first + share * (second - first)
    return np.where(np.isnan(mixed), np.where(share < 0.5, first, second), mixed)
