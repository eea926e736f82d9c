"""Passes over many rows make no matrix of rows times neurons, and no copy of the inputs but the whitened one."""

import tracemalloc

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.certificates import stationarity
from dconnet.estimators.data import Rows
from dconnet.estimators.gammas import MOST_ROWS, merged
from dconnet.training.initialization import check_start
from dconnet.training.output_layer import solve_output_weights

N_ROWS, N_HIDDEN = 80_000, 64


def peak_of(work):
    """Bytes that Python and NumPy hold at most while they work, beyond what there was."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(4)
    problem = Problem(rng.normal(size=(N_ROWS, 2)), rng.normal(size=N_ROWS), 1e-2)
    assert problem.whitened.Q.shape == (N_ROWS, 3)  # computed before anything is measured
    return problem


PASSES = {
    "output weights": lambda p, n: solve_output_weights(p.whitened.Q, p.whitened.whiten(n), p.whitened.y, p.gamma),
    "whitened RegLoss": lambda p, n: p.whitened.regloss(p.whitened.whiten(n), n.alpha),
    "RegLoss": lambda p, n: p.objective(n),
    "error": lambda p, n: p.mse(n),
    "prediction": lambda p, n: n.predict(p.X),
    "check of the start": check_start,
    "stationarity": stationarity,
}


@pytest.mark.parametrize("name", PASSES)
def test_no_pass_needs_the_whole_hidden_layer(name, problem):
    rng = np.random.default_rng(5)
    network = Network(rng.normal(size=(N_HIDDEN, 2)), rng.normal(size=N_HIDDEN), rng.normal(size=N_HIDDEN))
    # Blocks of 8192 rows are a tenth of all, and no pass holds more than seven matrices of a block.
    assert peak_of(lambda: PASSES[name](problem, network)) < 8 * N_ROWS * N_HIDDEN * 0.7


def test_the_choice_of_gamma_copies_no_more_rows_than_it_uses():
    rng = np.random.default_rng(6)
    rows = Rows(rng.normal(size=(3 * MOST_ROWS, 30)), rng.normal(size=(3 * MOST_ROWS, 1)), np.ones(3 * MOST_ROWS))
    assert peak_of(lambda: merged(rows, np.random.default_rng(0), MOST_ROWS)) < 0.7 * rows.X.nbytes


def test_rows_that_are_drawn_are_some_of_the_merged():
    rng = np.random.default_rng(7)
    rows = Rows(rng.integers(4, size=(60, 2)).astype(float), rng.normal(size=(60, 1)), np.ones(60))
    whole, some = merged(rows), merged(rows, np.random.default_rng(0), 5)
    drawn = np.sort(np.random.default_rng(0).choice(len(whole.X), 5, replace=False))
    assert len(whole.X) > 5
    for name in ("X", "Y", "weight"):
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[drawn])
