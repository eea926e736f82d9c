"""The compiled sweep agrees with the sweep in Python, and its bits do not depend on threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dconnet import DCONRegressor
from dconnet._native import Team
from dconnet.convex.backend import get_backend
from dconnet.training.dc import SPLITS
from dconnet.training.sweep import NativeSweep, PythonSweep, make_sweep
from problems import whitened_setting


def swept(backend, split, order, seconds=np.inf, seed=0):
    problem, V, alpha = whitened_setting(seed=seed)
    sweep = make_sweep(problem, get_backend(backend), len(alpha), split, max_dca_iter=50)
    tally = sweep.run(V, alpha, np.asarray(order), seconds)
    return V, tally


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("seed", range(3))
def test_both_sweeps_agree(split, seed):
    order = np.random.default_rng(seed).permutation(5)
    V, tally = swept("native", split, order, seed=seed)
    V_python, tally_python = swept("reference", split, order, seed=seed)
    np.testing.assert_allclose(V, V_python, atol=1e-8 * np.abs(V_python).max())
    assert tally.programmes == tally_python.programmes
    assert (tally.visited, tally.refused, tally.unsolved) == (5, 0, 0)


# Enough rows for programmes over rows near their kinks alone, and for several leaves shared by threads.
MANY_ROWS = {"n_rows": 17_000, "n_columns": 5, "n_hidden": 3}


@pytest.mark.parametrize("split", SPLITS)
def test_both_sweeps_agree_on_many_rows(split):
    problem, V, alpha = whitened_setting(**MANY_ROWS)
    V_python, order = V.copy(), np.arange(3)
    tally = make_sweep(problem, get_backend("native"), 3, split, max_dca_iter=50).run(V, alpha, order, np.inf)
    solver = get_backend("native").prepare(problem.Q)
    tally_python = PythonSweep(problem, solver, split, max_dca_iter=50).run(V_python, alpha, order, np.inf)
    np.testing.assert_allclose(V, V_python, atol=1e-8 * np.abs(V_python).max())
    assert tally.programmes == tally_python.programmes
    assert (tally.visited, tally.refused, tally.unsolved) == (3, 0, 0)


def test_both_sweeps_agree_on_many_columns():
    # Many columns make the solver stop repeatedly to check rows far from their kinks.
    problem, V, alpha = whitened_setting(n_rows=9_000, n_columns=60, n_hidden=2)
    V_python, order = V.copy(), np.arange(2)
    tally = make_sweep(problem, get_backend("native"), 2, "paper", max_dca_iter=6).run(V, alpha, order, np.inf)
    solver = get_backend("native").prepare(problem.Q)
    tally_python = PythonSweep(problem, solver, "paper", max_dca_iter=6).run(V_python, alpha, order, np.inf)
    assert tally.iterations > 48 * tally.programmes
    np.testing.assert_allclose(V, V_python, atol=1e-8 * np.abs(V_python).max())
    assert (tally.programmes, tally.unsolved) == (tally_python.programmes, 0)


@pytest.mark.parametrize("split", SPLITS)
def test_bits_do_not_depend_on_the_number_of_threads(split):
    ends = []
    for size in (1, 2, 7):
        problem, V, alpha = whitened_setting(**MANY_ROWS)
        sweep = make_sweep(problem, get_backend("native"), 3, split, max_dca_iter=50, team=Team(size))
        sweep.run(V, alpha, np.arange(3), np.inf)
        ends.append(V.tobytes())
    assert len(set(ends)) == 1


@pytest.mark.parametrize("n_rows", [150, 17_000])
def test_a_sweep_keeps_no_state(n_rows):
    problem, V, alpha = whitened_setting(**MANY_ROWS | {"n_rows": n_rows})
    V_fresh, order = V.copy(), np.arange(3)
    sweep = make_sweep(problem, get_backend("native"), 3, "net", max_dca_iter=50)
    for _ in range(3):
        sweep.run(V, alpha, order, np.inf)
        make_sweep(problem, get_backend("native"), 3, "net", max_dca_iter=50).run(V_fresh, alpha, order, np.inf)
        np.testing.assert_array_equal(V, V_fresh)


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_no_time_no_change(backend):
    V, tally = swept(backend, "net", range(5), seconds=0.0)
    _, V_before, _ = whitened_setting()
    assert tally.visited == 0
    np.testing.assert_array_equal(V, V_before)


def test_only_plain_native_sweeps_are_compiled():
    problem, _, alpha = whitened_setting()
    assert isinstance(make_sweep(problem, get_backend("native"), len(alpha), "net", 5), NativeSweep)
    for backend, options in [("reference", {}), ("native", {"restart": True}), ("native", {"inexact": True})]:
        assert isinstance(make_sweep(problem, get_backend(backend), len(alpha), "net", 5, **options), PythonSweep)


def test_kernel_refuses_arrays_that_do_not_fit():
    problem, V, alpha = whitened_setting()
    sweep = make_sweep(problem, get_backend("native"), len(alpha), "net", 5)
    order = np.arange(5)
    with pytest.raises(ValueError, match=r"alpha must have the shape \(5, 1\), got \(3, 1\)"):
        sweep.run(V, alpha[:3], order, np.inf)
    with pytest.raises(ValueError, match=r"V must have the shape"):
        sweep.run(V[:, :2].copy(), alpha, order, np.inf)
    with pytest.raises(TypeError, match="incompatible function arguments"):  # the kernel must not write to a copy
        sweep.run(np.asfortranarray(V), alpha, order, np.inf)
    with pytest.raises(ValueError, match="does not exist"):
        sweep.run(V, alpha, order + 1, np.inf)


def test_fits_in_parallel_threads_are_the_same_to_the_bit():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 5))
    y = np.abs(X[:, 0]) + X[:, 1] * X[:, 2]

    def fit(seed):
        model = DCONRegressor(6, gamma=0.05, tol=1e-3, random_state=seed).fit(X, y)
        return model.network_.parameters

    alone = [fit(seed) for seed in range(4)]
    with ThreadPoolExecutor(max_workers=4) as threads:
        together = list(threads.map(fit, list(range(4)) * 2))
    for expected, got in zip(alone * 2, together, strict=True):
        np.testing.assert_array_equal(got, expected)
