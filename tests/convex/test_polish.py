"""The polish: exact from a nearby pair, never worse than what it was given."""

import numpy as np
import pytest

from dconnet.convex.reference import Reference, polish
from problems import catalogue
from tolerances import KKT

ORDINARY = {name: case.programme for name, case in catalogue().items() if not case.extreme}


def solve(programme):
    solution = Reference().prepare(programme.design).solve(programme)
    return solution.v, solution.multipliers


def disturb(pair, size):
    """The pair with errors of that size, relative to its largest entries."""
    rng = np.random.default_rng(0)
    v, multipliers = (values + size * np.max(np.abs(values)) * rng.standard_normal(len(values)) for values in pair)
    return v, multipliers


@pytest.mark.parametrize("n_kinked", [0, 3, 6, 20])
def test_small_errors_are_removed(n_kinked):
    case = catalogue()[f"known solution, {n_kinked} kinked rows"]
    pair = disturb((case.solution, case.multipliers), 1e-7)
    assert case.programme.kkt_residual(*polish(case.programme, *pair)) <= KKT


@pytest.mark.parametrize("case", ORDINARY)
@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0])
def test_polish_is_never_worse_than_none(case, size):
    programme = ORDINARY[case]
    pair = disturb(solve(programme), size)
    before = [values.copy() for values in pair]
    assert programme.kkt_residual(*polish(programme, *pair)) <= programme.kkt_residual(*pair)
    assert all(np.array_equal(old, new) for old, new in zip(before, pair, strict=True))
