"""The accelerated algorithm: descent, guarantees, hops, revival, and the same network for the same seed."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dconnet import Network, Problem, Status
from dconnet.certificates import stationarity
from dconnet.convex.programme import get_backend
from dconnet.training.accelerated import AcceleratedDescent, Moves
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.sweep import solve_output_weights
from problems import assert_descent, make_problem


def run(problem, *, start=None, n_hidden=6, seed=0, moves=None, solver="native", **options):
    rng = np.random.default_rng(seed)
    start = xavier(problem.X.shape[1], n_hidden, rng) if start is None else start
    descent = AcceleratedDescent(problem, get_backend(solver), Options(split="net", **options), rng, moves)
    return descent.run(start)


@pytest.mark.parametrize("gamma", [1e-4, 1.0])
@pytest.mark.parametrize("n_hidden", [1, 12])
def test_regloss_never_rises(gamma, n_hidden):
    assert_descent(run(make_problem(gamma), n_hidden=n_hidden, max_epochs=40).history)


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
    with ThreadPoolExecutor(4) as threads:
        for parameters in threads.map(lambda _: run(problem, max_epochs=8).network.parameters, range(4)):
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


@pytest.fixture(scope="module")
def many_rows():
    X = np.random.default_rng(0).normal(size=(12_000, 10))
    return Problem(X, np.sin(X[:, 0] + X[:, 1]) + np.abs(X[:, 2]), 0.1)


def test_few_evaluations_of_a_large_design_end_with_the_best_output_weights(many_rows):
    solution = run(many_rows, n_hidden=5, max_evaluations=40)
    assert 40 <= solution.history.total("evaluations") <= 45
    assert solution.status is Status.EVALUATION_LIMIT
    assert_descent(solution.history)
    white = many_rows.whitened
    V = white.whiten(solution.network)
    best = white.regloss(V, solve_output_weights(white, V))
    assert best == pytest.approx(solution.objective, rel=1e-5)  # the neurons are balanced after the last step


@pytest.mark.parametrize(
    ("part", "value"),
    [("hop", "restart"), ("hop", "none"), *((part, False) for part in ("race", "sweep", "revive"))],
)
def test_regloss_never_rises_with_one_part_switched(part, value):
    assert_descent(run(make_problem(1e-2), moves=Moves(**{part: value}), max_epochs=15).history)
