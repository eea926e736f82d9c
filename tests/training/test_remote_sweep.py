"""The sweep over rows held by workers gives the bits of the sweep over local rows."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dconnet._native import LEAF, RemoteSweep, SweepLeaves, Team
from dconnet.convex.backend import get_backend
from dconnet.convex.native import as_columns, pad_rows
from dconnet.training.dc import SPLITS
from dconnet.training.sweep import make_sweep
from problems import whitened_setting

N_HIDDEN = 3


SETTING = {"n_rows": 17_000, "n_columns": 5, "n_hidden": N_HIDDEN}


def holders(problem, parts, n_threads=1):
    """Return one worker for each part of the rows that is not empty."""
    y, found, leaf, ends = as_columns(problem.y), [], 0, np.cumsum(parts)
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        if first < last:
            rows = pad_rows(problem.Q[first:last]), problem.Q.shape[1], y[first:last].copy()
            found.append(SweepLeaves(*rows, N_HIDDEN, leaf, first, Team(n_threads)))
            leaf += -(-(last - first) // LEAF)
    return found


def remote_sweep(problem, ask, n_rows=None, most_numbers=10**9):
    n_rows, n_columns = [len(problem.Q)] if n_rows is None else n_rows, problem.Q.shape[1]
    return RemoteSweep(n_rows, n_columns, N_HIDDEN, as_columns(problem.y).shape[1], ask, most_numbers)


def run(sweep, problem, V, alpha, split, kinks=None):
    return sweep.run(
        alpha=as_columns(alpha),
        gamma=problem.gamma,
        order=np.arange(len(alpha), dtype=np.uintp),
        net_split=split == "net",
        max_dca_iterations=50,
        max_solver_iterations=3000,
        tolerance=1e-10,
        seconds=np.inf,
        V=V,
        kinks=kinks,
    )


def ask_all(workers, sizes=None):
    """Return the function that collects the answers of all workers, and notes how many numbers these are."""

    def ask(questions):
        answer = np.concatenate([worker.answer(questions) for worker in workers])
        if sizes is not None:
            sizes.append(answer.size)
        return answer

    return ask


@pytest.mark.parametrize("has_kinks", [False, True], ids=["active", "directions"])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    ("parts", "same_bits"),
    [
        ([2 * LEAF, 2 * LEAF, 17_000 - 4 * LEAF], True),
        ([17_000], True),
        ([LEAF, 9_000 - LEAF], True),
        ([300], False),  # all rows are fetched where a programme needs them
        ([5000, 1, 0, 4000, 7999], False),  # leaves that are not full
    ],
    ids=str,
)
def test_the_sweep_is_that_over_all_rows(split, parts, same_bits, has_kinks):
    problem, V, alpha = whitened_setting(**SETTING | {"n_rows": sum(parts)})
    kinks = np.random.default_rng(5).standard_normal(V.shape) if has_kinks else None
    V_here = V.copy()
    sweep = remote_sweep(problem, ask_all(holders(problem, parts, n_threads=2)), n_rows=parts)
    tally = run(sweep, problem, V, alpha, split, kinks)
    here = make_sweep(problem, get_backend("native"), N_HIDDEN, split, max_dca_iter=50)
    tally_here = here.run(V_here, alpha, np.arange(N_HIDDEN), np.inf, kinks)
    if same_bits:
        assert tally[:2] == (tally_here.visited, tally_here.programmes)
    np.testing.assert_allclose(V, V_here, atol=0.0 if same_bits else 1e-8 * np.abs(V_here).max(), rtol=0.0)


def test_an_exception_of_a_worker_ends_the_sweep():
    problem, V, alpha = whitened_setting(**SETTING)
    answer, left = ask_all(holders(problem, [3 * LEAF, 17_000 - 3 * LEAF])), iter(range(12))

    def ask(questions):
        if next(left, None) is None:
            raise ConnectionError("a worker has gone")
        return answer(questions)

    sweep = remote_sweep(problem, ask, n_rows=[3 * LEAF, 17_000 - 3 * LEAF])
    with pytest.raises(ConnectionError, match="gone"):
        run(sweep, problem, V, alpha, "net")
    assert np.isfinite(V).all()


def test_a_programme_whose_solution_is_zero_needs_sums_alone():
    problem, V, alpha = whitened_setting(**SETTING)
    # Every positive output is too large: the best weights are zero, where all rows are at their kinks.
    problem, alpha, sizes = replace(problem, y=-np.abs(problem.y) - 1.0), np.abs(alpha), []
    ask = ask_all(holders(problem, [17_000]), sizes)
    *_, unsolved = run(remote_sweep(problem, ask, most_numbers=0), problem, V, alpha, "net")
    assert unsolved == 0
    assert not V.any()
    assert max(sizes) < problem.Q.size / 4


def test_a_neuron_stays_if_its_programme_needs_more_rows_than_may_be_fetched():
    problem, V, alpha = whitened_setting(**SETTING)
    # Copies of a few rows are at their kinks together, so that the rows near kinks are not enough.
    few_rows = np.random.default_rng(0).integers(-1, 2, size=problem.Q.shape).astype(float)
    problem = SimpleNamespace(Q=np.linalg.qr(few_rows)[0], y=problem.y, gamma=problem.gamma)
    n_numbers = 8 * 17_000
    for most_numbers in (n_numbers, n_numbers - 1):
        moved, sizes = V.copy(), []
        ask = ask_all(holders(problem, [17_000]), sizes)
        *_, unsolved = run(remote_sweep(problem, ask, most_numbers=most_numbers), problem, moved, alpha, "net")
        assert (unsolved == 0) == (most_numbers == n_numbers)
        assert max(sizes) < most_numbers + 4  # with the lengths of answers before them
        assert np.sum((moved != V).any(axis=1)) == N_HIDDEN - unsolved


def test_answers_of_another_length_are_refused():
    problem, _, _ = whitened_setting(**SETTING)
    with pytest.raises(ValueError, match="another length"):
        remote_sweep(problem, lambda questions: np.zeros(3))
