"""The paper's parallel solver: batches, both methods, and whatever carries the batches."""

from __future__ import annotations

import threading

import joblib
import numpy as np
import pytest

from dconnet import DCONRegressor
from dconnet.convex import parallel
from dconnet.convex.native import Native
from dconnet.convex.parallel import Consensus, Parallel, solve_batch
from dconnet.convex.programme import Programme
from problems import catalogue
from tolerances import KKT, ROUNDING

CASES = catalogue()
SOME = [
    "typical 40x4 gamma=0.1 alpha=1",
    "typical 60x5 gamma=10 alpha=0.1",
    "known solution, 3 kinked rows",
    "zero: multipliers well inside",
    "rank-deficient inputs",
]
METHODS = ["augmented-lagrangian", "penalty"]


def in_order(tasks) -> list:
    """A pool that solves the batches one after the other."""
    return [function(*arguments, **options) for function, arguments, options in tasks]


def excess(programme: Programme, v: np.ndarray) -> float:
    """How far P(v) is above its minimum, relative."""
    least = programme.value(Native().prepare(programme.design).solve(programme).v)
    return (programme.value(v) - least) / (abs(least) + programme.magnitude)


@pytest.mark.parametrize("mu", [0.05, 3.0])
@pytest.mark.parametrize("case", ["typical 40x4 gamma=0.1 alpha=1", "typical 30x27 gamma=0.1 alpha=1"])
def test_batches_solve_their_own_problems(case: str, mu: float) -> None:
    programme = CASES[case].programme
    consensus = Consensus(Parallel(n_batches=3).prepare(programme.design).batches, programme, mu)
    rng = np.random.default_rng(0)
    consensus.prices = rng.standard_normal(consensus.prices.shape)
    centre = consensus.centre = rng.standard_normal(len(programme.linear))
    consensus.round(in_order)
    for b in range(3):
        Q, beta = programme.design[b::3], programme.slope[b::3]
        v, lam = consensus.copies[b], consensus.multipliers[b::3]
        smooth = 2.0 * programme.gamma * Q.T @ (Q @ v) - Q.T @ (Q @ programme.linear)
        gradient = smooth + Q.T @ lam + consensus.prices[b] + mu * (v - centre)
        assert np.max(np.abs(gradient)) <= KKT
        own = Programme(Q, programme.linear, beta, programme.curvature, programme.gamma)
        assert np.max(np.abs(Q @ v - own.prox(Q @ v + lam, 1.0))) <= KKT


def test_centre_is_the_best_one_for_its_copies() -> None:
    programme = CASES[SOME[0]].programme
    consensus = Consensus(Parallel(n_batches=3).prepare(programme.design).batches, programme, 0.7)
    consensus.prices = np.random.default_rng(0).standard_normal(consensus.prices.shape)
    consensus.round(in_order)
    gradient = np.sum(consensus.prices + 0.7 * (consensus.copies - consensus.centre), axis=0)
    assert np.max(np.abs(gradient)) <= ROUNDING


@pytest.mark.parametrize("n_batches", [1, 3, 8])
@pytest.mark.parametrize("case", SOME)
def test_augmented_lagrangian_finds_the_exact_solution(case: str, n_batches: int) -> None:
    programme = CASES[case].programme
    answer = Parallel(n_batches).prepare(programme.design).solve(programme)
    assert answer.converged
    assert answer.kkt_residual(programme) <= 10.0 * KKT
    assert excess(programme, answer.v) <= KKT


@pytest.mark.parametrize("case", SOME)
def test_penalty_method_comes_as_close_as_it_is_told(case: str) -> None:
    programme = CASES[case].programme
    for tol in (3e-2, 3e-3):
        answer = Parallel(3, method="penalty", tol=tol).prepare(programme.design).solve(programme)
        assert answer.converged
        assert answer.kkt_residual(programme) <= 3.0 * tol
        assert excess(programme, answer.v) <= tol


def test_error_of_the_penalty_method_falls_with_mu() -> None:
    programme = CASES[SOME[0]].programme
    exact = Native().prepare(programme.design).solve(programme).v
    errors = []
    for mu in (10.0, 20.0, 40.0):
        consensus = Consensus(Parallel(n_batches=3).prepare(programme.design).batches, programme, mu)
        consensus.centre = exact
        while consensus.movement > 1e-3 / mu:  # the gradient of the penalised problem
            consensus.round(in_order)
        errors.append(np.linalg.norm(consensus.centre - exact))
    assert errors[1] == pytest.approx(errors[0] / 2.0, rel=0.1)
    assert errors[2] == pytest.approx(errors[1] / 2.0, rel=0.1)


@pytest.mark.parametrize("case", ["typical 40x4 gamma=0.1 alpha=1", "typical 60x5 gamma=10 alpha=0.1"])
def test_augmented_lagrangian_needs_fewer_rounds(case: str) -> None:
    programme = CASES[case].programme
    rounds = {
        method: Parallel(4, method, tol=2e-3).prepare(programme.design).solve(programme).iterations
        for method in METHODS
    }
    assert 4 * rounds["augmented-lagrangian"] <= rounds["penalty"]


@pytest.mark.parametrize("case", SOME)
def test_rounds_stand_still_at_the_solution(case: str) -> None:
    programme = CASES[case].programme
    exact = Native().prepare(programme.design).solve(programme)
    again = Parallel().prepare(programme.design).solve(programme, exact)
    assert again.converged
    assert again.iterations == 1


def test_more_batches_than_rows() -> None:
    programme = CASES["one row, active"].programme
    solver = Parallel(5).prepare(programme.design)
    assert len(solver.batches) == 1
    assert solver.solve(programme).kkt_residual(programme) <= 10.0 * KKT


def test_batches_of_fewer_rows_than_columns() -> None:
    programme = CASES["typical 20x19 gamma=0.01 alpha=1"].programme
    assert Parallel(4).prepare(programme.design).solve(programme).kkt_residual(programme) <= 10.0 * KKT


def test_batches_know_their_own_rows_only() -> None:
    programme = CASES["typical 90x6 gamma=0.01 alpha=0.3"].programme
    consensus = Consensus(Parallel(n_batches=4).prepare(programme.design).batches, programme, 1.0)
    sent = []

    def record(tasks) -> list:
        tasks = list(tasks)
        sent.extend(arguments for _, arguments, _ in tasks)
        return in_order(tasks)

    consensus.round(record)
    for b, (rows, scale, numbers, start) in enumerate(sent):
        own = programme.design[b::4]
        assert np.allclose(rows @ rows.T, own @ own.T)  # its rows, but for a rotation
        assert np.array_equal(numbers["slope"], programme.slope[b::4])
        assert len(start.multipliers) == len(own)
        arrays = (rows, numbers["slope"], start.multipliers)
        assert all(array.base is None for array in arrays)  # no view that would bring all rows along
        assert len(scale) == len(numbers["linear"]) == len(start.v) == programme.design.shape[1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("carrier", ["threading", "loky"])
def test_answer_does_not_depend_on_who_carries_the_batches(method: str, carrier: str) -> None:
    programme = CASES["typical 90x6 gamma=0.01 alpha=0.3"].programme
    alone = Parallel(3, method, max_iter=15).prepare(programme.design).solve(programme)
    with joblib.parallel_config(backend=carrier):
        together = Parallel(3, method, max_iter=15, n_jobs=2).prepare(programme.design).solve(programme)
    assert np.array_equal(alone.v, together.v)
    assert np.array_equal(alone.multipliers, together.multipliers)


def test_jobs_are_those_of_the_users_joblib(monkeypatch: pytest.MonkeyPatch) -> None:
    programme, threads = CASES[SOME[0]].programme, set()

    def spy(*arguments):
        threads.add(threading.get_ident())
        return solve_batch(*arguments)

    monkeypatch.setattr(parallel, "solve_batch", spy)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        Parallel(max_iter=3).prepare(programme.design).solve(programme)
    assert threads
    assert threading.get_ident() not in threads


def test_training_is_that_with_the_native_solver() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = np.abs(X[:, 0])
    model = DCONRegressor(3, gamma=0.1, scale=False, algorithm="paper", max_dca_iter=5, tol=0.5, random_state=0)
    exact = model.fit(X, y).objective_
    model.set_params(solver=Parallel(n_batches=2)).fit(X, y)
    assert np.all(np.diff(model.history_.objective) <= 0.0)
    assert model.objective_ == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_batches": 0}, "n_batches must be at least 1"),
        ({"method": "admm"}, "method must be one of"),
        ({"mu": 0.0}, "mu must be positive"),
        ({"growth": 1.0}, "growth must be above 1"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"tol": 0.0}, "tol must be positive or None"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
    ],
)
def test_bad_option_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parallel(**options)
