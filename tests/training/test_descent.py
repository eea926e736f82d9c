"""The outer loop: monotone descent to block-wise optimality, limits, early stopping, and interrupts."""

import numpy as np
import pytest

from dconnet import Network, Problem, Status
from dconnet.certificates import stationarity
from dconnet.convex.backend import get_backend
from dconnet.training.descent import Descent, Options
from dconnet.training.early_stopping import Validation
from dconnet.training.initialization import xavier
from dconnet.training.observer import Recorder
from dconnet.training.output_layer import solve_output_weights


def make_problem(gamma=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    return Problem(X, np.abs(X[:, 0]) - X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=80), gamma)


def make_descent(problem, *, solver="native", n_hidden=4, seed=0, **options):
    rng = np.random.default_rng(seed)
    start = xavier(problem.X.shape[1], n_hidden, rng)
    return Descent(problem, get_backend(solver), Options(**options), rng), start


@pytest.mark.parametrize("split", ["paper", "net"])
@pytest.mark.parametrize("gamma", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("n_hidden", [1, 5, 12])
def test_regloss_never_rises(split, gamma, n_hidden):
    descent, start = make_descent(make_problem(gamma), split=split, n_hidden=n_hidden, max_epochs=25)
    history = descent.run(start).history
    assert np.all(np.diff(history.objective) <= 1e-13 * history.objective[:-1])
    assert history.total("refused") == 0
    assert history.total("unsolved") == 0


@pytest.mark.parametrize("split", ["paper", "net"])
@pytest.mark.parametrize("gamma", [0.3, 3.0])
def test_converged_network_satisfies_the_conditions_of_every_block(split, gamma):
    problem = make_problem(gamma)
    descent, start = make_descent(problem, split=split, max_epochs=20_000, tol=1e-9)
    solution = descent.run(start)
    assert solution.status is Status.CONVERGED
    blocks = stationarity(problem, solution.network, split)
    assert blocks.neurons.max() < 1e-7
    assert blocks.output_layer < 1e-7


@pytest.mark.parametrize("solver", ["reference", "osqp", "clarabel", "piqp"])
@pytest.mark.parametrize("split", ["paper", "net"])
def test_backends_agree_after_an_epoch(solver, split):
    if solver != "reference":
        pytest.importorskip("qpsolvers")
        pytest.importorskip(solver)
    problem = make_problem(1e-2)
    native, start = make_descent(problem, split=split, max_epochs=1)
    other, _ = make_descent(problem, split=split, max_epochs=1, solver=solver)
    # Both generators have drawn the start and now draw the same order of neurons.
    reached = [descent.run(start).history.objective[-1] for descent in (native, other)]
    assert reached[0] == pytest.approx(reached[1], rel=1e-6)


def test_history_matches_the_definition_of_the_objective():
    problem = make_problem()
    descent, start = make_descent(problem, max_epochs=7)
    solution = descent.run(start)
    assert len(solution.history) == 8  # the start is epoch 0
    assert solution.history.objective[0] == pytest.approx(problem.objective(start), rel=1e-12)
    assert solution.history.objective[-1] == pytest.approx(problem.objective(solution.network), rel=1e-12)
    assert solution.history.mse[-1] == pytest.approx(problem.mse(solution.network), rel=1e-10)
    assert np.isnan(solution.history.step_norm[0])
    assert solution.history.to_frame().shape[0] == 8


def test_without_time_there_are_the_best_output_weights_of_the_start(monkeypatch):
    problem = make_problem()
    descent, start = make_descent(problem, max_seconds=1e-9)
    monkeypatch.setattr(descent, "prepare", lambda state: pytest.fail("nothing is prepared for steps"))
    solution = descent.run(start)
    assert solution.status is Status.TIME_LIMIT
    assert solution.n_epochs == 0
    assert len(solution.history) == 2
    np.testing.assert_allclose(solution.network.W, start.W, rtol=1e-10, atol=1e-14)
    white = problem.whitened
    best = solve_output_weights(white.Q, white.whiten(start), white.y, white.gamma)
    np.testing.assert_allclose(solution.network.alpha, best, rtol=1e-10)


def test_time_limit_ends_between_neurons_and_keeps_the_network(monkeypatch):
    problem = make_problem()
    descent, start = make_descent(problem, max_seconds=3600.0)
    seconds = iter([3600.0, 0.0, 0.0, 0.0])  # there was time to begin, and none for a neuron
    monkeypatch.setattr(descent, "seconds_left", lambda: next(seconds))
    solution = descent.run(start)
    assert solution.status is Status.TIME_LIMIT
    assert solution.n_epochs == 0
    np.testing.assert_allclose(solution.network.parameters, start.parameters, rtol=1e-10, atol=1e-14)


def test_the_output_layer_is_left_alone_when_time_is_over(monkeypatch):
    descent, start = make_descent(make_problem(), max_seconds=3600.0)
    seconds = iter([3600.0, 3600.0, 0.0, 0.0])  # enough for all neurons
    monkeypatch.setattr(descent, "seconds_left", lambda: next(seconds))
    solution = descent.run(start)
    assert (solution.status, solution.n_epochs) == (Status.TIME_LIMIT, 0)
    np.testing.assert_array_equal(solution.network.alpha, start.alpha)
    assert solution.history.objective[-1] < solution.history.objective[0]


class InterruptingSolver:
    """A backend that is interrupted in the middle of an epoch."""

    def __init__(self, after):
        self.left = after

    def prepare(self, design):
        self.inner = get_backend("native").prepare(design)
        self.design = design
        return self

    def solve(self, programme, start=None):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.inner.solve(programme, start)


def test_an_interrupt_returns_the_network_reached():
    problem = make_problem()
    rng = np.random.default_rng(0)
    start = xavier(3, 4, rng)
    solution = Descent(problem, InterruptingSolver(after=30), Options(), rng).run(start)
    assert solution.status is Status.INTERRUPTED
    assert problem.objective(solution.network) < problem.objective(start)
    assert solution.history.objective[-1] == pytest.approx(problem.objective(solution.network), rel=1e-12)


def test_early_stopping_restores_the_best_network_whole():
    problem = make_problem(1e-5)
    rng = np.random.default_rng(7)
    X_val = rng.normal(size=(15, 3))
    y_val = rng.normal(size=15)  # pure noise: fitting on makes it worse
    validation = Validation(X_val, y_val, np.ones(15), patience=3)
    descent, start = make_descent(problem, n_hidden=8)
    solution = descent.run(start, validation=validation)
    assert solution.status is Status.EARLY_STOPPED
    recorded = solution.history.validation_mse
    assert len(recorded) == recorded.argmin() + 1 + 3
    assert validation.mse(solution.network) == recorded.min()


def test_a_recorder_sees_the_start_and_every_epoch():
    problem, recorder = make_problem(), Recorder()
    descent, start = make_descent(problem, max_epochs=4)
    solution = descent.run(start, observer=recorder)
    objectives = [problem.objective(network) for network in recorder.networks]
    np.testing.assert_allclose(objectives, solution.history.objective, rtol=1e-12)


def test_rank_deficient_design_reaches_the_loss_of_its_full_rank_part():
    """A duplicated column changes the weights but not what the network can do."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.abs(X[:, 0]) + X[:, 1]
    start = xavier(2, 4, rng)
    doubled = Network(np.column_stack([start.W[:, 0], start.W[:, 1] / 2, start.W[:, 1] / 2]), start.b, start.alpha)
    reached = []
    for problem, begin in [(Problem(X, y, 0.1), start), (Problem(X[:, [0, 1, 1]], y, 0.1), doubled)]:
        descent = Descent(problem, get_backend("native"), Options(max_epochs=20), np.random.default_rng(5))
        reached.append(descent.run(begin))
    assert reached[0].history.objective[-1] == pytest.approx(reached[1].history.objective[-1], rel=1e-8)
    W = reached[1].network.W
    np.testing.assert_allclose(W[:, 1], W[:, 2], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "both"}, "split must be one of"),
        ({"max_epochs": 0}, "max_epochs must be a positive integer"),
        ({"max_epochs": 1.5}, "max_epochs must be a positive integer"),
        ({"max_seconds": 0.0}, "max_seconds must be positive"),
        ({"max_seconds": float("nan")}, "max_seconds must be positive"),
        ({"max_dca_iter": 0}, "max_dca_iter must be a positive integer"),
        ({"tol": -1.0}, "tol must be a finite number"),
        ({"tol": float("nan")}, "tol must be a finite number"),
        ({"patience": 0}, "patience must be a positive integer or None"),
        ({"patience": "long"}, "patience must be a positive integer or None"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Options(**options)
