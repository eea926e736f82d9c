"""Groups of equal rows, and sums over leaves whose bits do not depend on the workers that hold them."""

from operator import add

import numpy as np
import pytest

from dconnet.model.rows import Groups, LeafTree, tree_of


@pytest.mark.parametrize("n_values", [2, 3, 1000])
def test_groups_contain_exactly_the_equal_rows(n_values):
    rng = np.random.default_rng(n_values)
    X = rng.integers(n_values, size=(200, 3)).astype(float)
    kept = np.flatnonzero(rng.random(200) < 0.8)
    groups = Groups.of(X, kept)
    assert sorted(groups.order) == sorted(kept)
    members = np.split(groups.order, groups.starts[1:])
    assert all(len(np.unique(X[rows], axis=0)) == 1 for rows in members)
    assert len(members) == len(np.unique(X[kept], axis=0))
    np.testing.assert_array_equal(groups.sums(np.ones(len(kept))), [len(rows) for rows in members])
    np.testing.assert_array_equal(X[groups.first], [X[rows[0]] for rows in members])


def sum_of(parts):
    """Sum recursively, split at the largest power of two."""
    if len(parts) == 1:
        return parts[0]
    half = 1 << (len(parts) - 1).bit_length() - 1
    return sum_of(parts[:half]) + sum_of(parts[half:])


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_several_workers_add_up_to_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=int(rng.integers(2, 60)))
    assert tree_of(parts, add).total() == sum_of(parts)
    cuts = np.sort(rng.integers(0, len(parts) + 1, size=4))  # some workers have no rows
    whole = LeafTree(add)
    for first, end in zip([0, *cuts], [*cuts, len(parts)], strict=True):
        for block in tree_of(parts[first:end], add, first).blocks:
            assert block.first % 2**block.level == 0
            assert block.value == sum_of(parts[block.first : block.first + 2**block.level])
            whole.add(block.first, block.level, block.value)
    assert whole.total() == sum_of(parts)
    with pytest.raises(ValueError, match="needs all of them"):
        tree_of(parts, add, first=3).total()
