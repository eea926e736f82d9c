"""Work on long matrices in blocks of rows, so that no temporary is as long as the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import numpy as np
from scipy.linalg import lapack

from dconnet._arrays import BoolArray, FloatArray

ROWS = 8192

# QR factorisations of longer blocks are spread over the threads of the BLAS, which for few columns makes them slower.
QR_ROWS = 512

# Masks of triangles with as many columns are kept.
FEW_COLUMNS = 64

# Room for work a column with which LAPACK factorises wide blocks fast.
WORK = 64


def blocks(n_rows: int, size: int = ROWS) -> Iterator[slice]:
    """Slices that cover the rows one after the other."""
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def qr_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices that suit `triangle_of`."""
    return blocks(n_rows, max(QR_ROWS, 4 * n_columns))


def triangle_of(parts: Iterable[FloatArray]) -> FloatArray:
    """R of the QR factorisation of the matrix whose blocks of rows are given, of shape (≤ n_columns, n_columns)."""
    triangle: FloatArray = np.empty((0, 0))
    for part in parts:
        stacked = np.vstack([triangle, part]) if triangle.size else part
        # LAPACK itself: for few columns the functions around it take longer than the factorisation.
        factor = lapack.dgeqrf(stacked, lwork=WORK * stacked.shape[1], overwrite_a=True)[0]
        triangle = _upper_triangle(factor[: min(factor.shape)])
    return triangle


def _upper_triangle(matrix: FloatArray) -> FloatArray:
    """``np.triu``, which for few columns takes nearly as long as their factorisation."""
    if matrix.shape[1] > FEW_COLUMNS:
        return np.triu(matrix)
    return np.where(_on_or_above_diagonal(*matrix.shape), matrix, 0.0)


@lru_cache(maxsize=64)
def _on_or_above_diagonal(n_rows: int, n_columns: int) -> BoolArray:
    return np.triu(np.ones((n_rows, n_columns), dtype=bool))


def leaf_triangle(block: Callable[[slice], FloatArray], leaf: slice, n_columns: int) -> FloatArray:
    """R of the rows of one leaf, some of which ``block`` gives."""
    parts = qr_blocks(leaf.stop - leaf.start, n_columns)
    return triangle_of(block(slice(leaf.start + rows.start, leaf.start + rows.stop)) for rows in parts)


def joined_triangle(above: FloatArray, below: FloatArray) -> FloatArray:
    """R of two matrices, one below the other, of which the R of each may stand for it."""
    return triangle_of([above, below])
