"""The outer loop: monotone descent to block-wise optimality, limits, early stopping, and interrupts."""

import numpy as np
import pytest

from dconnet import PaperAlgorithm, Status
from dconnet.certificates import stationarity
from dconnet.convex.programme import get_backend
from dconnet.convex.reference import Reference
from dconnet.training.clock import Clock
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.sweep import PythonSweep, solve_output_weights
from problems import assert_descent, make_problem


def make_descent(problem, *, solver="native", n_hidden=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    start = xavier(problem.X.shape[1], n_hidden, rng)
    return Descent(problem, get_backend(solver), Options(**options), rng), start


@pytest.mark.parametrize("split", ["paper", "net"])
@pytest.mark.parametrize("gamma", [1e-4, 1.0])
@pytest.mark.parametrize("n_hidden", [1, 12])
def test_regloss_never_rises(split, gamma, n_hidden):
    descent, start = make_descent(make_problem(gamma), split=split, n_hidden=n_hidden, max_epochs=15)
    assert_descent(descent.run(start).history)


@pytest.mark.parametrize("split", ["paper", "net"])
def test_a_converged_network_satisfies_the_conditions_of_every_block(split):
    problem = make_problem(0.3)
    descent, start = make_descent(problem, split=split, max_epochs=20_000, tol=1e-9)
    solution = descent.run(start)
    assert solution.status is Status.CONVERGED
    blocks = stationarity(problem, solution.network, split)
    assert max(blocks.neurons.max(), blocks.output_layer) < 1e-7


@pytest.mark.parametrize("split", ["paper", "net"])
def test_backends_agree_after_an_epoch(split):
    problem, reached = make_problem(1e-2), []
    for solver in ("native", "reference"):
        descent, start = make_descent(problem, split=split, max_epochs=1, solver=solver)
        reached.append(descent.run(start).history.objective[-1])
    assert reached[0] == pytest.approx(reached[1], rel=1e-6)


def test_a_sweep_cut_by_a_limit_ends_with_the_output_layer(monkeypatch):
    problem = make_problem()
    descent, start = make_descent(problem, max_seconds=100.0)
    real = PythonSweep.run

    def run_half(self, V, alpha, order, seconds, kinks=None):
        descent.clock = Clock(1e-9)
        return real(self, V, alpha, order[:2], 100.0, kinks)

    monkeypatch.setattr(PythonSweep, "run", run_half)
    descent.backend = Reference()
    solution = descent.run(start)
    assert (solution.status, solution.n_epochs) == (Status.TIME_LIMIT, 0)
    white = problem.whitened
    V = white.whiten(solution.network)
    assert np.linalg.norm(V - white.whiten(start)) > 0.1
    best = solve_output_weights(white, V)
    np.testing.assert_allclose(solution.network.alpha, best, rtol=1e-8)


def test_an_interrupt_within_an_epoch_returns_the_network_reached(monkeypatch):
    problem = make_problem()
    descent, start = make_descent(problem, solver="reference")
    real, left = Reference.solve, iter(range(30))

    def solve(self, *args):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(Reference, "solve", solve)
    solution = descent.run(start)
    assert solution.status is Status.INTERRUPTED
    assert problem.objective(solution.network) < problem.objective(start)
    assert solution.history.objective[-1] == pytest.approx(problem.objective(solution.network), rel=1e-12)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("split", "both"),
        ("kinks", "none"),
        ("solver", 3),
        ("max_dca_iter", 0),
        ("max_dca_iter", 1.5),
        ("restart", "no"),
        ("inexact", 1),
    ],
)
def test_invalid_settings_of_algorithm_1_are_named(option, value):
    with pytest.raises(ValueError, match=f"{option} must be"):
        PaperAlgorithm(**{option: value})
