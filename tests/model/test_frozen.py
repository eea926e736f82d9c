"""Arrays of networks and problems are read-only, in copies and after unpickling as well."""

import copy
import pickle

import numpy as np
import pytest

from dconnet import Network, Problem


def make_network():
    return Network(W=[[1.0, 2.0]], b=[0.5], alpha=[2.0])


def make_problem(shrinkage=0.0):
    X = np.random.default_rng(0).normal(size=(12, 2))
    problem = Problem(X, np.abs(X[:, 0]), 0.1, shrinkage=shrinkage)
    assert problem.whitened.whitening.rank == 3  # fills the cache, which is copied with the problem
    return problem


def arrays(value):
    """All arrays of an object and of those within it, by name."""
    names = vars(value) if hasattr(value, "__dict__") else value.__dataclass_fields__
    for name in names:
        inner = getattr(value, name)
        if isinstance(inner, np.ndarray):
            yield name, inner
        elif hasattr(inner, "__dataclass_fields__"):
            yield from ((f"{name}.{deeper}", array) for deeper, array in arrays(inner))


COPIES = {
    "itself": lambda value: value,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("make", [make_network, make_problem, lambda: make_problem(0.5).whitened])
def test_arrays_stay_read_only_and_equal(make, duplicate):
    original = make()
    found = dict(arrays(duplicate(original)))
    assert found.keys() == dict(arrays(original)).keys()
    for name, array in arrays(original):
        assert not found[name].flags.writeable, name
        np.testing.assert_array_equal(found[name], array)


def test_a_copy_of_a_problem_trains_like_it():
    problem, network = make_problem(), make_network()
    duplicate = copy.deepcopy(problem)
    assert duplicate.objective(network) == problem.objective(network)
    np.testing.assert_array_equal(duplicate.whitened.whiten(network), problem.whitened.whiten(network))
    assert duplicate.with_targets(-problem.y).whitening is duplicate.whitening


def test_freezing_leaves_the_arrays_of_the_caller_alone():
    X, y = np.ones((3, 1)), np.ones(3)
    problem = Problem(X, y, 1.0, copy=False)
    assert np.shares_memory(problem.X, X)
    assert X.flags.writeable
    assert not problem.X.flags.writeable


def test_finiteness_need_not_be_checked_twice():
    problem = Problem([[np.inf], [1.0]], [1.0, 2.0], 1.0, check_finite=False)
    assert np.isinf(problem.X[0, 0])
