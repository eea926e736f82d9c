"""Work on long matrices a block of rows at a time, so that no temporary is as long as the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray

ROWS = 8192


def blocks(n_rows: int) -> Iterator[slice]:
    """Slices that cover the rows one after the other."""
    for first in range(0, n_rows, ROWS):
        yield slice(first, min(first + ROWS, n_rows))


def triangle_of(parts: Iterable[FloatArray]) -> FloatArray:
    """R of the QR factorisation of the matrix whose blocks of rows are given, of shape (≤ n_columns, n_columns)."""
    triangle: FloatArray = np.empty((0, 0))
    for part in parts:
        stacked = np.vstack([triangle, part]) if triangle.size else part
        factor = linalg.qr(stacked, mode="r", overwrite_a=True, check_finite=False)[0]
        triangle = np.asarray(factor[: min(factor.shape)], dtype=np.float64)
    return triangle
