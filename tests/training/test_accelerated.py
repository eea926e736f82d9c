"""The accelerated algorithm: descent, guarantees, hops, revival, and the same network for the same seed."""

import threading

import numpy as np
import pytest

from dconnet import Network, Problem, Status, _native
from dconnet.certificates import stationarity
from dconnet.convex.backend import get_backend
from dconnet.convex.native import by_output, padded
from dconnet.training.accelerated import EVALUATION, AcceleratedDescent, Moves
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.newton import newton_work
from dconnet.training.observer import Observer


def make_problem(gamma=0.05, seed=0, n_rows=80):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return Problem(X, np.abs(X[:, 0]) - X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n_rows), gamma)


def run(problem, *, start=None, n_hidden=6, seed=0, moves=None, solver="native", **options):
    rng = np.random.default_rng(seed)
    start = xavier(problem.X.shape[1], n_hidden, rng) if start is None else start
    descent = AcceleratedDescent(problem, get_backend(solver), Options(split="net", **options), rng, moves)
    return descent.run(start)


@pytest.mark.parametrize("n_rows", [1, 5, 63, 64, 131])
@pytest.mark.parametrize("n_hidden", [1, 4, 9])
def test_objective_and_gradient_of_the_kernel(n_rows, n_hidden):
    rng = np.random.default_rng(n_rows)
    Q, y, gamma = rng.normal(size=(n_rows, 6)), rng.normal(size=n_rows), 0.3
    V, alpha = rng.normal(size=(n_hidden, 6)), rng.normal(size=n_hidden)
    kernel = _native.Objective(padded(Q), 6, by_output(y), gamma, n_hidden)

    def value(V, alpha):
        penalty = gamma * (np.sum(V**2) + alpha @ alpha)
        return np.sum((y - np.maximum(Q @ V.T, 0.0) @ alpha) ** 2) + penalty

    slope_V, slope_alpha = np.empty_like(V), np.empty_like(alpha)
    assert kernel.gradient(V, by_output(alpha), slope_V, by_output(slope_alpha)) == pytest.approx(
        value(V, alpha), rel=1e-13
    )
    step = 1e-6
    for _ in range(5):
        dV, da = rng.normal(size=V.shape), rng.normal(size=n_hidden)
        difference = (value(V + step * dV, alpha + step * da) - value(V - step * dV, alpha - step * da)) / (2 * step)
        assert np.sum(slope_V * dV) + slope_alpha @ da == pytest.approx(difference, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("gamma", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("n_hidden", [1, 5, 12])
def test_regloss_never_rises(gamma, n_hidden):
    history = run(make_problem(gamma), n_hidden=n_hidden, max_epochs=40).history
    assert np.all(np.diff(history.objective) <= 0.0)
    assert history.total("refused") == 0
    assert history.total("unsolved") == 0


@pytest.mark.parametrize(
    "moves",
    [
        Moves(race=False),
        Moves(burst=False),
        Moves(hop="restart"),
        Moves(hop="none"),
        Moves(sweep=False),
        Moves(extrapolate=False),
        Moves(balance=False),
        Moves(revive=False),
        Moves(newton=False),
    ],
    ids=str,
)
def test_regloss_never_rises_with_any_part_switched_off(moves):
    history = run(make_problem(1e-2), moves=moves, max_epochs=15).history
    assert np.all(np.diff(history.objective) <= 0.0)


@pytest.mark.parametrize("gamma", [0.3, 3.0])
def test_converged_network_satisfies_the_conditions_of_every_block(gamma):
    problem = make_problem(gamma)
    solution = run(problem, max_epochs=20_000, tol=1e-13)
    assert solution.status is Status.CONVERGED
    assert stationarity(problem, solution.network).norm < 1e-5


def test_ends_lower_than_the_paper_algorithm():
    problem = make_problem(1e-3)
    start = xavier(3, 8, np.random.default_rng(1))
    paper = Descent(problem, get_backend("native"), Options(max_epochs=200), np.random.default_rng(0)).run(start)
    assert run(problem, start=start).history.objective[-1] < paper.history.objective[-1]


def test_same_seed_same_network_to_the_bit_in_any_thread():
    problem = make_problem(1e-3)
    expected = run(problem, max_epochs=8).network.parameters
    reached = []
    threads = [
        threading.Thread(target=lambda: reached.append(run(problem, max_epochs=8).network.parameters)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reached) == 4
    for parameters in reached:
        np.testing.assert_array_equal(parameters, expected)


def test_order_of_the_rows_and_copies_of_them_change_nothing():
    problem = make_problem(1e-2)
    shuffled = np.random.default_rng(3).permutation(len(problem.y))
    times = np.random.default_rng(4).integers(1, 4, size=len(problem.y))
    X, y = problem.X, problem.y
    weighted = Problem(X[shuffled], y[shuffled], 1e-2, times[shuffled].astype(float))
    repeated = Problem(np.repeat(X, times, axis=0), np.repeat(y, times), 1e-2)
    reached = [run(problem, max_epochs=8).network.parameters for problem in (weighted, repeated)]
    np.testing.assert_array_equal(*reached)


def test_dead_neurons_are_revived():
    problem = make_problem(1e-2)
    start = xavier(3, 6, np.random.default_rng(0))
    dead = Network(start.W, start.b, start.alpha * [1, 0, 0, 1, 0, 1])
    solution = run(problem, start=dead, moves=Moves(race=False, hop="none", burst=False), max_epochs=1)
    assert solution.history.total("revived") == 3
    assert np.all(solution.network.alpha != 0.0)


def test_a_neuron_without_use_is_counted():
    problem = make_problem(gamma=1e4)  # no neuron is worth its penalty
    solution = run(problem, max_epochs=20)
    assert solution.history.epochs[-1].barren == 6
    assert solution.history.total("revived") == 0
    np.testing.assert_allclose(solution.network.alpha, 0.0, atol=1e-9)


def test_no_sign_collapse():
    """Positive targets and negative output weights: the plain algorithm never gets above zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    problem = Problem(X, 1.0 + np.abs(X[:, 0]), 1e-3)
    start = xavier(2, 4, rng)
    collapsed = Network(start.W, start.b, -np.abs(start.alpha))
    for moves in (Moves(), Moves(race=False)):
        solution = run(problem, start=collapsed, moves=moves, max_epochs=30)
        assert solution.history.mse[-1] < 0.05 * problem.zero_objective


def test_time_budget_truncates():
    solution = run(make_problem(1e-3, n_rows=3000), n_hidden=20, max_epochs=None, patience=None, max_seconds=0.2)
    assert solution.status is Status.TIME_LIMIT
    assert solution.history.objective[-1] < solution.history.objective[0]


def test_interrupt_returns_what_was_reached():
    problem = make_problem(1e-3)
    rng = np.random.default_rng(0)
    descent = AcceleratedDescent(problem, get_backend("native"), Options(split="net"), rng)

    class Interrupt(Observer):
        def end_epoch(self, state):
            if state.n_epochs == 2:
                raise KeyboardInterrupt

    solution = descent.run(xavier(3, 6, rng), observer=Interrupt())
    assert solution.status is Status.INTERRUPTED
    assert problem.objective(solution.network) == pytest.approx(solution.history.objective[-1], rel=1e-12)


@pytest.mark.parametrize("rounds_a_step", [0.01, 4.5])
def test_work_that_newton_steps_leave_over_does_not_pile_up(rounds_a_step, monkeypatch):
    """However many rounds were in vain, the next takes the work of one round, or a single step."""
    problem, rng = make_problem(), np.random.default_rng(0)
    descent = AcceleratedDescent(problem, get_backend("native"), Options(split="net"), rng)
    state = descent.init(xavier(3, 6, rng))
    descent.budget = newton_work(problem.whitened, 6) / (rounds_a_step * EVALUATION * problem.whitened.Q.size * 6)
    taken, works = [], False
    monkeypatch.setattr(descent, "newton_step", lambda state, width: taken.append(width) or works)
    counts = []
    for _ in range(50):
        descent.newton(state)
        counts.append(len(taken))
        taken.clear()
    assert counts[0] >= 1  # one is tried at once
    assert sum(counts) <= 50 / rounds_a_step + 1.0
    works = True
    descent.newton(state)
    assert len(taken) <= max(1.0, 1.0 / rounds_a_step)
    assert len(taken) == pytest.approx(1.0 / rounds_a_step, abs=1.0)  # of rounding


# --- samples of the rows ---


@pytest.fixture(scope="module")
def many_rows():
    X = np.random.default_rng(0).normal(size=(12_000, 10))
    return Problem(X, np.sin(X[:, 0] + X[:, 1]) + np.abs(X[:, 2]), 0.1)


@pytest.mark.parametrize(
    ("limits", "n_samples"),
    [
        ({}, 0),
        ({"max_evaluations": 100}, 35),
        ({"max_evaluations": 250}, 88),
        ({"max_evaluations": 251}, 0),
        (
            {"max_seconds": 0.02},
            29,
        ),  # 5e9 multiplications a second, and 2 for each of 12,000 x 10 entries and 5 neurons
        ({"max_seconds": 60.0}, 0),
        ({"max_seconds": 60.0, "max_evaluations": 100}, 35),
    ],
)
def test_limits_bound_the_work_on_samples(many_rows, limits, n_samples):
    rng = np.random.default_rng(0)
    descent = AcceleratedDescent(many_rows, get_backend("native"), Options(split="net", **limits), rng)
    state = Descent.init(descent, xavier(10, 5, rng))
    assert descent.problem.Q.shape == (12_000, 11)
    assert descent.sample_evaluations(state) == pytest.approx(n_samples, abs=3)
    descent.moves = Moves(samples=False)
    assert descent.sample_evaluations(state) == 0


# --- few evaluations of a large design ---


def test_few_evaluations_of_a_large_design_end_with_the_output_weights(many_rows):
    solution = run(many_rows, n_hidden=5, moves=Moves(balance=False, newton=False), max_evaluations=40)
    history = solution.history
    assert 40 <= history.total("evaluations") <= 45
    assert history.total("programmes") == 0
    assert solution.n_epochs == 1
    assert solution.status is Status.EVALUATION_LIMIT
    assert np.all(np.diff(history.objective) <= 0)
    white, network = many_rows.whitened, solution.network
    hidden = np.maximum(white.preactivations(white.whiten(network)), 0.0)
    gradient = hidden.T @ (hidden @ network.alpha - white.y) + white.gamma * network.alpha
    assert np.linalg.norm(gradient) <= 1e-9 * np.linalg.norm(hidden.T @ white.y)
