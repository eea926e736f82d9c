"""Synthetic rows between the rows of a table, on which a small network learns the predictions of a large model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dconnet.encoding.coder import Coder, Coding
from dconnet.encoding.schema import FieldTable

# A row is mixed with one of this many nearest neighbours.
N_NEIGHBOURS = 5


def interpolate_rows(table: FieldTable, n_rows: int, rng: np.random.Generator) -> FieldTable:
    """Return random rows between rows of a table and their nearest neighbours.

    Numbers lie between those of the two rows; categories and missing values are those of one of them. The table must
    have at least two rows.
    """
    from sklearn.neighbors import NearestNeighbors

    first = rng.integers(len(table), size=n_rows)
    points = Coder.of(Coding(), table).code(table).dense(slice(None))[:, :-1]
    n_neighbours = min(N_NEIGHBOURS, len(table) - 1)
    near = NearestNeighbors(n_neighbors=n_neighbours).fit(points).kneighbors(return_distance=False)
    second = near[first, rng.integers(n_neighbours, size=n_rows)]
    share = rng.uniform(size=n_rows)
    values = []
    for field, own in zip(table.fields, table.values, strict=True):
        a, b = own[first], own[second]
        if field.is_category:
            values.append(np.where(rng.uniform(size=n_rows) < 0.5, a, b))
        else:
            mixed = a + share * (b - a)
            values.append(np.where(np.isnan(mixed), np.where(share < 0.5, a, b), mixed))
    return replace(table, values=tuple(values), n_rows=n_rows)
