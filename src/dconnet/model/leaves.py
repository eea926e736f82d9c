"""Rows in leaves of fixed size, whose sums are made two by two: the same to the last bit, whoever holds which leaves.

The sums of leaves 2i and 2i + 1 are added, then those of such pairs, and so on. A block of 2^k leaves that begins at a
multiple of 2^k so has a sum of its own. Those who hold some of the leaves, as the workers of a cluster do, tell the
sums of their largest blocks, and what these add up to is what one machine would have found. The kernel does the same
(``native/leaves.hpp``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Generic, TypeVar

T = TypeVar("T")

# Rows of a leaf, as in the kernel.
LEAF = 4096


@dataclass(frozen=True, slots=True)
class Block(Generic[T]):
    """What ``2**level`` leaves from ``first`` on add up to."""

    first: int
    level: int
    value: T


@dataclass(slots=True)
class LeafTree(Generic[T]):
    """Merges blocks of leaves that come in their order.

    Parameters
    ----------
    merge : callable
        From what two neighbouring blocks add up to, to what both do.

    Examples
    --------
    >>> from dconnet.model.leaves import LeafTree
    >>> tree = LeafTree(lambda left, right: f"({left}{right})")
    >>> for leaf, name in enumerate("abcde"):
    ...     tree.add(leaf, 0, name)
    >>> tree.total()
    '(((ab)(cd))e)'
    """

    merge: Callable[[T, T], T]
    _told: list[Block[T]] = field(default_factory=list)
    _waiting: dict[int, Block[T]] = field(
        default_factory=dict
    )  # by level: those that wait for the block to their right

    def add(self, first: int, level: int, value: T) -> None:
        """Add the next block."""
        while first >> level & 1:
            left = self._waiting.pop(level, None)
            if left is None:  # somebody else holds the leaves to the left
                self._told.append(Block(first, level, value))
                return
            first, level, value = left.first, level + 1, self.merge(left.value, value)
        self._waiting[level] = Block(first, level, value)

    @property
    def blocks(self) -> list[Block[T]]:
        """The largest blocks of what was added."""
        return self._told + sorted(self._waiting.values(), key=lambda block: block.first)

    def total(self) -> T:
        """What all leaves add up to, the first of which has number zero."""
        if self._told or not self._waiting:
            raise ValueError("The sum over all leaves needs all of them.")
        values = [block.value for block in reversed(self.blocks)]
        return reduce(lambda right, left: self.merge(left, right), values)


def leaves(n_rows: int) -> Iterator[slice]:
    """The rows of each leaf."""
    for first in range(0, n_rows, LEAF):
        yield slice(first, min(first + LEAF, n_rows))


def tree_of(parts: Iterable[T], merge: Callable[[T, T], T], first: int = 0) -> LeafTree[T]:
    """The tree of what leaves have, one after the other, the first of which has this number."""
    tree: LeafTree[T] = LeafTree(merge)
    for leaf, part in enumerate(parts, first):
        tree.add(leaf, 0, part)
    return tree
