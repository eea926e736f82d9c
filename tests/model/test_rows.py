"""Rows sorted and grouped by their inputs."""

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.model.rows import Groups


@pytest.mark.parametrize("n_values", [2, 3, 1000])
def test_groups_hold_exactly_the_equal_rows(n_values):
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


def test_groups_of_a_single_row():
    groups = Groups.of(np.ones((1, 2)), np.array([0]))
    assert groups.first.tolist() == [0]


def test_targets_of_equal_inputs_keep_the_objective():
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(60, 2)).astype(float)
    problem = Problem(X, rng.normal(size=60), 0.1, rng.uniform(0.5, 2.0, size=60))
    network = Network(rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=4))
    white = problem.whitened
    V = white.whiten(network)
    assert len(white.y) == 9
    assert white.scatter > 0.0
    assert white.regloss(V, network.alpha) == pytest.approx(problem.objective(network), rel=1e-12)
