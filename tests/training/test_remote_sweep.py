"""A sweep over rows that others have is the sweep over all of them, to the bit."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dconnet._native import LEAF, RemoteSweep, SweepLeaves, Team
from dconnet.convex.backend import get_backend
from dconnet.convex.native import by_output, padded
from dconnet.training.dc import SPLITS
from dconnet.training.sweep import make_sweep
from problems import whitened_setting

N_HIDDEN = 3


def scattered(problem, first_leaves, n_hidden=N_HIDDEN):
    """The rows in runs of whole leaves, which begin with these."""
    borders = [*(LEAF * leaf for leaf in first_leaves), len(problem.Q)]
    y = by_output(problem.y)
    return [
        SweepLeaves(
            padded(problem.Q[first:last]), problem.Q.shape[1], y[first:last].copy(), n_hidden, leaf, first, Team(2)
        )
        for leaf, first, last in zip(first_leaves, borders, borders[1:], strict=False)
    ]


def holders(problem, parts):
    """Those who have so many rows each; nobody has none."""
    y, found, leaf, ends = by_output(problem.y), [], 0, np.cumsum(parts)
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        if first < last:
            rows = padded(problem.Q[first:last]), problem.Q.shape[1], y[first:last].copy()
            found.append(SweepLeaves(*rows, N_HIDDEN, leaf, first))
            leaf += -(-(last - first) // LEAF)
    return found


def remote_sweep(problem, ask, n_hidden=N_HIDDEN, n_rows=None, most_numbers=10**9):
    n_rows, n_columns = [len(problem.Q)] if n_rows is None else n_rows, problem.Q.shape[1]
    return RemoteSweep(n_rows, n_columns, n_hidden, by_output(problem.y).shape[1], ask, most_numbers)


def run(sweep, problem, V, alpha, split, kinks=None):
    return sweep.run(
        alpha=by_output(alpha),
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


def ask_all(workers):
    return lambda questions: np.concatenate([worker.answer(questions) for worker in workers])


@pytest.mark.parametrize("has_kinks", [False, True], ids=["active", "directions"])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("n_rows", "first_leaves"), [(17_000, [0, 2, 4]), (17_000, [0]), (9_000, [0, 1]), (300, [0])])
def test_the_same_bits_as_over_all_rows(split, n_rows, first_leaves, has_kinks):
    problem, V, alpha = whitened_setting(n_rows=n_rows, n_columns=5, n_hidden=N_HIDDEN)
    kinks = np.random.default_rng(5).standard_normal(V.shape) if has_kinks else None
    V_here = V.copy()
    n_rows_of_each = np.diff([*(LEAF * leaf for leaf in first_leaves), n_rows]).tolist()
    sweep = remote_sweep(problem, ask_all(scattered(problem, first_leaves)), n_rows=n_rows_of_each)
    tally = run(sweep, problem, V, alpha, split, kinks)
    here = make_sweep(problem, get_backend("native"), N_HIDDEN, split, max_dca_iter=50)
    tally_here = here.run(V_here, alpha, np.arange(N_HIDDEN), np.inf, kinks)
    if n_rows > 2 * LEAF:
        assert tally[:2] == (tally_here.visited, tally_here.programmes)
        np.testing.assert_array_equal(V, V_here)
    else:  # over there, few rows are fetched only where a programme needs them all
        np.testing.assert_allclose(V, V_here, atol=1e-8 * np.abs(V_here).max())


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("parts", [[5000, 1, 0, 4000, 7999], [100, 16_900]], ids=["five", "two"])
def test_leaves_that_are_not_full_agree_to_rounding(split, parts):
    problem, V, alpha = whitened_setting(n_rows=17_000, n_columns=5, n_hidden=N_HIDDEN)
    V_here, ask = V.copy(), ask_all(holders(problem, parts))
    tally = run(remote_sweep(problem, ask, n_rows=parts), problem, V, alpha, split)
    here = make_sweep(problem, get_backend("native"), N_HIDDEN, split, max_dca_iter=50)
    tally_here = here.run(V_here, alpha, np.arange(N_HIDDEN), np.inf)
    assert tally[:2] == (tally_here.visited, tally_here.programmes)
    np.testing.assert_allclose(V, V_here, atol=1e-9 * np.abs(V_here).max())


def test_an_exception_of_those_asked_ends_the_sweep():
    problem, V, alpha = whitened_setting(n_rows=17_000, n_columns=5, n_hidden=N_HIDDEN)
    workers, rounds = ask_all(scattered(problem, [0, 3])), []

    def ask(questions):
        rounds.append(questions)
        if len(rounds) > 12:
            raise ConnectionError("a worker has gone")
        return workers(questions)

    sweep = remote_sweep(problem, ask, n_rows=[3 * LEAF, 17_000 - 3 * LEAF])
    with pytest.raises(ConnectionError, match="gone"):
        run(sweep, problem, V, alpha, "net")
    assert len(rounds) == 13
    assert np.isfinite(V).all()


def asking(workers):
    """The same, and a list of how many numbers the answers of each round had."""
    sizes = []

    def ask(questions):
        answer = workers(questions)
        sizes.append(answer.size)
        return answer

    return ask, sizes


@pytest.mark.parametrize("split", SPLITS)
def test_a_programme_whose_solution_is_zero_needs_sums_alone(split):
    problem, V, alpha = whitened_setting(n_rows=17_000, n_columns=5, n_hidden=N_HIDDEN)
    # Whatever a neuron adds is too much: its best weights are zero, where all rows are at their kinks.
    problem, alpha = replace(problem, y=-np.abs(problem.y) - 1.0), np.abs(alpha)
    ask, sizes = asking(ask_all(scattered(problem, [0])))
    *_, unsolved = run(remote_sweep(problem, ask, most_numbers=0), problem, V, alpha, split)
    assert unsolved == 0
    assert not V.any()
    assert max(sizes) < problem.Q.size / 4


def test_a_programme_that_needs_more_rows_than_may_be_fetched_leaves_its_neuron():
    problem, V, alpha = whitened_setting(n_rows=17_000, n_columns=5, n_hidden=N_HIDDEN)
    # Copies of a few rows are at their kinks together, which the walk over near rows cannot settle.
    few_rows = np.random.default_rng(0).integers(-1, 2, size=problem.Q.shape).astype(float)
    problem = SimpleNamespace(Q=np.linalg.qr(few_rows)[0], y=problem.y, gamma=problem.gamma)
    ask, sizes = asking(ask_all(scattered(problem, [0])))
    V_all, V_none = V.copy(), V.copy()
    n_numbers = 8 * 17_000
    *_, unsolved = run(remote_sweep(problem, ask, most_numbers=n_numbers), problem, V_all, alpha, "net")
    assert unsolved == 0
    assert n_numbers < max(sizes) < n_numbers + 4  # with the lengths of answers before them
    sizes.clear()
    few = remote_sweep(problem, ask, most_numbers=n_numbers - 1)
    *_, unsolved = run(few, problem, V_none, alpha, "net")
    assert 0 < unsolved <= N_HIDDEN
    assert max(sizes) < n_numbers
    moved = (V_none != V).any(axis=1)
    assert moved.sum() == N_HIDDEN - unsolved


def test_answers_of_another_length_are_refused():
    problem, _, _ = whitened_setting(n_rows=17_000, n_columns=5, n_hidden=N_HIDDEN)
    with pytest.raises(ValueError, match="another length"):
        remote_sweep(problem, lambda questions: np.zeros(3))


def questions_of(numbers):
    """The passes of a round, by their numbers."""
    passes, at = [], 0
    while at < len(numbers):
        passes.append(int(numbers[at]))
        at += 2 + int(numbers[at + 1])
    return passes


OPEN, LOOK, CLOSE, RATIOS, CHOOSE, FAR_SUMS, STRAY, COPY_LISTED, TAKE_LISTED = range(1, 10)
SAMPLE_ROWS, SAMPLE_SLOPES = 11, 12


@pytest.mark.parametrize("parts", [[2 * LEAF, 17_000 - 2 * LEAF], [1] * 200 + [16_800]], ids=["two", "many"])
def test_questions_share_rounds(parts):
    """What needs no answer waits for the next round, and what is likely to come next comes along."""
    problem, V, alpha = whitened_setting(n_rows=17_000, n_columns=5, n_hidden=N_HIDDEN)
    workers, rounds = ask_all(holders(problem, parts)), []

    def ask(questions):
        rounds.append(questions_of(questions))
        return workers(questions)

    run(remote_sweep(problem, ask, n_rows=parts), problem, V, alpha, "net")
    told = [[each for each in questions if each not in (CLOSE, TAKE_LISTED)] for questions in rounds]
    assert all(told), "a round whose answer nobody waits for"
    assert sum(CLOSE in questions for questions in rounds) == N_HIDDEN - 1
    leading = {questions[0] for questions in told}
    assert leading >= {OPEN, LOOK, CHOOSE, FAR_SUMS, STRAY}
    assert not leading & {RATIOS, SAMPLE_SLOPES}
    # Of a part with a single row, all have strayed if that has: it waits until they are asked for.
    assert (COPY_LISTED in leading) == (parts[0] == 1)


def test_samples_do_not_depend_on_who_has_the_rows():
    problem, _, _ = whitened_setting(n_rows=17_000, n_columns=5, n_hidden=N_HIDDEN)
    question = np.array([SAMPLE_ROWS, 1.0, 16.0])
    answers = [each.answer(question) for each in holders(problem, [5000, 1, 0, 4000, 5, 7994])]
    assert [len(answer) - 1 for answer in answers] == [answer[0] for answer in answers]
    rows = np.concatenate([answer[1:] for answer in answers]).reshape(-1, padded(problem.Q).shape[1])
    np.testing.assert_array_equal(rows, padded(problem.Q)[::16])


@pytest.mark.parametrize(
    "questions",
    [[0, 2, 0, 0], [3, 7, *range(7)], [14, 0], [-1, 0], [4, 1], [4, -1], [4], [4, 0, 4], [np.nan, 0], [4, np.nan]],
)
def test_what_is_no_question_is_refused(questions):
    problem, _, _ = whitened_setting(n_rows=300, n_columns=5, n_hidden=N_HIDDEN)
    with pytest.raises(ValueError, match="no round"):
        scattered(problem, [0])[0].answer(np.array(questions, dtype=float))
