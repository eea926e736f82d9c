"""Rows of long matrices: groups of equal rows, blocks, and sums whose bits are the same on one or several machines.

Rows are split into leaves of 4096. The sums of leaves 2i and 2i + 1 are added, then those of such pairs, and so on. A
run of ``2**k`` leaves that begins at a multiple of ``2**k`` therefore has a sum of its own. Each worker of a cluster
sends the sums of its largest runs, and these add up to the bits of a single machine. The kernel sums in the same order
(``native/leaves.hpp``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Generic, TypeVar

import numpy as np
from scipy.linalg import lapack

from dconnet._arrays import BoolArray, FloatArray, Frozen, IndexArray

T = TypeVar("T")

# Rows of a leaf, as in the kernel.
LEAF = 4096

# Rows of a block: temporaries of this length stay in the cache.
ROWS = 8192

# Rows of a block for QR. The BLAS spreads longer blocks over its threads, which is slower for few columns.
QR_ROWS = 512

# Columns up to which the mask of an upper triangle is cached.
FEW_COLUMNS = 64

# Numbers of workspace for each column that let LAPACK factorise wide blocks fast.
WORK = 64


@dataclass(frozen=True, slots=True, eq=False)
class Groups(Frozen):
    """Rows sorted by their inputs and grouped where these are equal, so that order and copies do not matter."""

    order: IndexArray  # (n_rows,), the rows in sorted order
    starts: IndexArray  # (n_groups,), where in ``order`` each group begins

    @classmethod
    def of(cls, X: FloatArray, selected: IndexArray) -> Groups:
        """Group the selected rows of ``X``."""
        values = X[selected, 0]
        order = np.argsort(values, kind="stable")
        if not np.any(values[order][1:] == values[order][:-1]):  # the first column distinguishes all rows
            return cls(selected[order], np.arange(len(selected)))
        order = selected[np.lexsort([X[selected, k] for k in range(X.shape[1] - 1, -1, -1)])]
        differs = np.ones(len(order), dtype=bool)
        for rows in blocks(len(order) - 1):
            here, next_ = order[rows], order[rows.start + 1 : rows.stop + 1]
            differs[rows.start + 1 : rows.stop + 1] = np.any(X[here] != X[next_], axis=1)
        return cls(order, np.flatnonzero(differs))

    @property
    def first(self) -> IndexArray:
        """One row of each group."""
        return self.order[self.starts]

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum values that are in sorted order over each group."""
        return np.add.reduceat(values, self.starts)

    def repeat(self, values: FloatArray) -> FloatArray:
        """Repeat the value of each group for all its rows, in sorted order."""
        return np.repeat(values, np.diff(self.starts, append=len(self.order)), axis=0)


def blocks(n_rows: int, size: int = ROWS) -> Iterator[slice]:
    """Yield slices that cover the rows, so that no temporary is as long as the data."""
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))


def leaves(n_rows: int) -> Iterator[slice]:
    """Yield the rows of each leaf."""
    return blocks(n_rows, LEAF)


@dataclass(frozen=True, slots=True)
class Block(Generic[T]):
    """The sum over ``2**level`` leaves from ``first`` on."""

    first: int
    level: int
    value: T


@dataclass(slots=True)
class LeafTree(Generic[T]):
    """Merges blocks of leaves that arrive in their order; ``merge`` combines two neighbours.

    Examples
    --------
    >>> from dconnet.model.rows import LeafTree
    >>> tree = LeafTree(lambda left, right: f"({left}{right})")
    >>> for leaf, name in enumerate("abcde"):
    ...     tree.add(leaf, 0, name)
    >>> tree.total()
    '(((ab)(cd))e)'
    """

    merge: Callable[[T, T], T]
    _without_left: list[Block[T]] = field(default_factory=list)  # blocks whose left neighbour is on another machine
    _pending: dict[int, Block[T]] = field(default_factory=dict)  # by level: blocks that wait for their right neighbour

    def add(self, first: int, level: int, value: T) -> None:
        """Add the next block."""
        while first >> level & 1:
            left = self._pending.pop(level, None)
            if left is None:
                self._without_left.append(Block(first, level, value))
                return
            first, level, value = left.first, level + 1, self.merge(left.value, value)
        self._pending[level] = Block(first, level, value)

    @property
    def blocks(self) -> list[Block[T]]:
        """The largest blocks of the leaves that were added."""
        return self._without_left + sorted(self._pending.values(), key=lambda block: block.first)

    def total(self) -> T:
        """Return the sum over all leaves; raise ValueError if the first ones were not added."""
        if self._without_left or not self._pending:
            raise ValueError("The sum over all leaves needs all of them.")
        values = [block.value for block in reversed(self.blocks)]
        return reduce(lambda right, left: self.merge(left, right), values)


def tree_of(parts: Iterable[T], merge: Callable[[T, T], T], first: int = 0) -> LeafTree[T]:
    """Build the tree of consecutive leaves from number ``first`` on."""
    tree: LeafTree[T] = LeafTree(merge)
    for leaf, part in enumerate(parts, first):
        tree.add(leaf, 0, part)
    return tree


def qr_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices of a size that suits `triangle_of`."""
    return blocks(n_rows, max(QR_ROWS, 4 * n_columns))


def triangle_of(parts: Iterable[FloatArray]) -> FloatArray:
    """Return R of the QR factorisation of the stacked parts, of shape (≤ n_columns, n_columns)."""
    triangle: FloatArray = np.empty((0, 0))
    for part in parts:
        stacked = np.vstack([triangle, part]) if triangle.size else part
        # LAPACK and a cached mask: for few columns, their wrappers in SciPy and NumPy take longer than the work itself.
        factor = lapack.dgeqrf(stacked, lwork=WORK * stacked.shape[1], overwrite_a=True)[0]
        top = factor[: min(factor.shape)]
        triangle = np.triu(top) if top.shape[1] > FEW_COLUMNS else np.where(_triangle_mask(*top.shape), top, 0.0)
    return triangle


@lru_cache(maxsize=64)
def _triangle_mask(n_rows: int, n_columns: int) -> BoolArray:
    return np.triu(np.ones((n_rows, n_columns), dtype=bool))


def leaf_triangle(block: Callable[[slice], FloatArray], leaf: slice, n_columns: int) -> FloatArray:
    """Return R of the rows of one leaf, which ``block`` provides slice by slice."""
    parts = qr_blocks(leaf.stop - leaf.start, n_columns)
    return triangle_of(block(slice(leaf.start + rows.start, leaf.start + rows.stop)) for rows in parts)


def merge_triangles(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return R of two matrices one below the other; either may be replaced by its own R."""
    return triangle_of([above, below])
