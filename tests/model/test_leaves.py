"""Sums over leaves are the same to the last bit, whoever holds which of them."""

import numpy as np
import pytest

from dconnet.model.leaves import LeafTree, leaves, tree_of


def plus(left, right):
    return left + right


def sum_of(parts):
    """The sum over leaves, which halves at the largest power of two."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    return sum_of(parts[:half]) + sum_of(parts[half:])


@pytest.mark.parametrize("n_leaves", [1, 2, 3, 7, 8, 21, 64, 100])
def test_the_sum_over_all_leaves_is_made_two_by_two(n_leaves):
    parts = np.random.default_rng(n_leaves).normal(size=n_leaves)
    assert tree_of(parts, plus).total() == sum_of(parts)


@pytest.mark.parametrize("seed", range(20))
def test_those_who_hold_some_of_the_leaves_tell_blocks_of_which_the_sum_is_made(seed):
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=int(rng.integers(2, 60)))
    cuts = np.sort(rng.integers(0, len(parts) + 1, size=4))  # some hold nothing
    whole = LeafTree(plus)
    for first, end in zip([0, *cuts], [*cuts, len(parts)], strict=True):
        for block in tree_of(parts[first:end], plus, first).blocks:
            assert block.first % 2**block.level == 0
            assert block.value == sum_of(parts[block.first : block.first + 2**block.level])
            whole.add(block.first, block.level, block.value)
    assert whole.total() == sum_of(parts)


def test_a_sum_without_the_first_leaves_is_refused():
    with pytest.raises(ValueError, match="needs all of them"):
        tree_of([1.0, 2.0], plus, first=3).total()
    with pytest.raises(ValueError, match="needs all of them"):
        LeafTree(plus).total()


def test_leaves_cover_the_rows():
    assert [(rows.start, rows.stop) for rows in leaves(9000)] == [(0, 4096), (4096, 8192), (8192, 9000)]
    assert list(leaves(0)) == []
