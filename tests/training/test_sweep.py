"""The compiled sweep agrees with the sweep in Python."""

from dataclasses import replace

import numpy as np
import pytest

from dconnet.convex.programme import get_backend
from dconnet.model.problem import Problem
from dconnet.training.dc import NeuronProblem, dca
from dconnet.training.initialization import xavier
from dconnet.training.sweep import PythonSweep, make_sweep
from problems import whitened_setting

# Enough rows for programmes over rows near their kinks alone, and for several leaves shared by threads.
MANY_ROWS = {"n_rows": 17_000, "n_columns": 5, "n_hidden": 3}


SETTINGS = [
    {"seed": 0},
    {"seed": 1},
    MANY_ROWS,
    {"n_rows": 9_000, "n_columns": 40, "n_hidden": 2},  # with repeated checks of rows far from their kinks
]


@pytest.mark.parametrize("has_directions", [False, True], ids=["active", "directions"])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_both_sweeps_agree(setting, has_directions):
    problem, V, alpha = whitened_setting(**setting)
    rng, native = np.random.default_rng(0), get_backend("native")
    V_python, order, before = V.copy(), rng.permutation(len(V)), problem.regloss(V, alpha)
    directions = rng.standard_normal(V.shape) if has_directions else None
    tally = make_sweep(problem, native, len(V), "paper", max_dca_iter=6).run(V, alpha, order, np.inf, directions)
    backend = native if len(problem.Q) > 1000 else get_backend("reference")
    PythonSweep(problem, backend, "paper", max_dca_iter=6).run(V_python, alpha, order, np.inf, directions)
    np.testing.assert_allclose(V, V_python, atol=1e-8 * np.abs(V_python).max())
    assert problem.regloss(V, alpha) < before
    assert (tally.visited, tally.refused, tally.unsolved) == (len(V), 0, 0)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_walk_ends_where_the_dca_of_the_specification_stays(setting, backend):
    """With the net split, the path is free, but not its end: a fixed point of the DCA without walks."""
    problem, V, alpha = whitened_setting(**setting)
    if backend == "reference" and len(problem.Q) > 10_000:
        pytest.skip("slow")
    solver = get_backend("native").prepare(problem.Q)
    for last in range(len(V)):  # the problem of the neuron that is visited last is still the same afterwards
        before, order = problem.regloss(V, alpha), np.roll(np.arange(len(V)), -1 - last)
        tally = make_sweep(problem, get_backend(backend), len(V), "net", max_dca_iter=50).run(V, alpha, order, np.inf)
        assert problem.regloss(V, alpha) <= before
        assert (tally.visited, tally.refused, tally.unsolved) == (len(V), 0, 0)
        assert tally.programmes <= 2 * len(V)  # the walks have left nothing to do
        hidden = np.maximum(problem.preactivations(V), 0.0)
        end = dca(NeuronProblem.of(problem, hidden, alpha, last, "net"), V[last], solver, max_iter=50)
        np.testing.assert_allclose(end.v, V[last], atol=1e-8 * np.abs(V).max())


@pytest.mark.parametrize("n_outputs", [2, 4, 5, 9])  # less than, equal to and more than blocks of four
def test_both_sweeps_agree_on_several_outputs(n_outputs):
    rng = np.random.default_rng(n_outputs)
    X = rng.normal(size=(90, 4))
    Y = np.abs(X @ rng.normal(size=(4, n_outputs))) + 0.1 * rng.normal(size=(90, n_outputs))
    problem, alpha = Problem(X, Y, 0.05).whitened, 0.5 * rng.normal(size=(5, n_outputs))
    ends = [problem.whiten(xavier(4, 5, rng, n_outputs))] * 2
    for k, backend in enumerate(("native", "reference")):
        ends[k] = ends[k].copy()
        make_sweep(problem, get_backend(backend), 5, "paper", max_dca_iter=50).run(ends[k], alpha, np.arange(5), np.inf)
    np.testing.assert_allclose(*ends, atol=1e-8 * np.abs(ends[1]).max())


def test_weights_of_zero():
    """Every positive output is too large: the best weights are zero, where all rows are at their kinks."""
    problem, V, alpha = whitened_setting(**MANY_ROWS)
    problem = replace(problem, y=-np.abs(problem.y) - 1.0)
    sweep = make_sweep(problem, get_backend("native"), len(V), "net", max_dca_iter=50)
    assert sweep.run(V, np.abs(alpha), np.arange(len(V)), np.inf).unsolved == 0
    assert not V.any()


def test_many_copies_of_a_few_rows():
    """They are at their kinks together, so that programmes over the rows near their kinks are not enough."""
    problem, V, alpha = whitened_setting(**MANY_ROWS)
    few_rows = np.random.default_rng(0).integers(-1, 2, size=problem.Q.shape).astype(float)
    problem = replace(problem, whitening=replace(problem.whitening, Q=np.linalg.qr(few_rows)[0]))
    before = problem.regloss(V, alpha)
    sweep = make_sweep(problem, get_backend("native"), len(V), "net", max_dca_iter=50)
    assert sweep.run(V, alpha, np.arange(len(V)), np.inf).unsolved == 0
    assert problem.regloss(V, alpha) < before


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_no_time_no_change(backend):
    problem, V, alpha = whitened_setting()
    before = V.copy()
    assert make_sweep(problem, get_backend(backend), 5, "net", 50).run(V, alpha, np.arange(5), 0.0).visited == 0
    np.testing.assert_array_equal(V, before)
