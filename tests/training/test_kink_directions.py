"""The choice of the tangent at kinks: both sweeps and all numbers of threads agree on it."""

import numpy as np
import pytest

from dconnet import Problem
from dconnet._native import Team
from dconnet.convex.backend import get_backend
from dconnet.training.dc import NeuronProblem
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.sweep import NativeSweep, PythonSweep

N_HIDDEN = 5


def make_problem(n_rows=200, n_features=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    y = np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n_rows)
    return Problem(X, y, gamma=0.01)


def run_sweeps(white, sweep, n_sweeps=2):
    start = xavier(white.rank - 1, N_HIDDEN, np.random.default_rng(1))
    V, alpha = white.whiten(start), start.alpha
    rng = np.random.default_rng(2)
    losses = [white.regloss(V, alpha)]
    for _ in range(n_sweeps):
        sweep.run(V, alpha, rng.permutation(N_HIDDEN), np.inf, rng.standard_normal(V.shape))
        losses.append(white.regloss(V, alpha))
    return V, losses


@pytest.mark.parametrize("split", ["paper", "net"])
@pytest.mark.parametrize(("n_rows", "n_features"), [(200, 4), (9000, 6)])  # over all rows, and over those near kinks
def test_compiled_sweep_agrees_with_the_python_sweep(split, n_rows, n_features):
    white = make_problem(n_rows, n_features).whitened
    native = get_backend("native")
    expected, losses = run_sweeps(white, PythonSweep(white, native.prepare(white.Q), split, 50))
    found, _ = run_sweeps(white, NativeSweep(white, native, N_HIDDEN, split, 50))
    shared, _ = run_sweeps(white, NativeSweep(white, native, N_HIDDEN, split, 50, Team(2)))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    assert np.array_equal(found, shared)
    assert np.all(np.diff(losses) <= 0.0)


def test_rows_at_their_kinks_follow_the_direction():
    design = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [-1.0, 0.0]])
    beta = np.ones(4)
    direction = np.array([0.0, 1.0])
    neuron = NeuronProblem(design, beta, beta, 1.0, 0.1, kink_direction=direction)
    v = np.array([1.0, 0.0])  # the second and the third row are at their kinks
    assert neuron.not_negative(v, design @ v).tolist() == [True, True, False, False]
    assert neuron.not_negative(-v, -design @ v).tolist() == [False, True, False, True]
    zero = np.zeros(2)  # where all rows are at their kinks
    assert neuron.not_negative(zero, zero[[0, 0, 0, 0]])[1:3].tolist() == [True, False]
    plain = NeuronProblem(design, beta, beta, 1.0, 0.1)
    assert plain.not_negative(v, design @ v).tolist() == [True, True, True, False]


def test_random_kinks_never_raise_the_loss_and_repeat_by_the_seed():
    problem = make_problem(150, 3)

    def fit(seed):
        options = Options(split="paper", kinks="random", max_epochs=30)
        rng = np.random.default_rng(seed)
        return Descent(problem, get_backend("native"), options, rng).run(xavier(3, N_HIDDEN, rng))

    first, again = fit(0), fit(0)
    assert np.all(np.diff(first.history.objective) <= 0.0)
    assert np.array_equal(first.network.W, again.network.W)
    with pytest.raises(ValueError, match="kinks must be one of"):
        Options(kinks="none")
