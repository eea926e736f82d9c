"""L-BFGS on the same RegLoss: its end is stationary, and its limits hold."""

import numpy as np
import pytest

from dconnet import Problem
from dconnet.certificates import stationarity
from dconnet.training.initialization import xavier
from reproduction import lbfgs


def case(gamma, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    y = np.abs(X[:, 0]) - X[:, 1] + 0.1 * rng.normal(size=80)
    return Problem(X, y, gamma), xavier(3, 5, rng)


@pytest.mark.parametrize("gamma", [1e-2, 1.0])
def test_the_end_is_nearly_stationary_and_below_the_start(gamma):
    problem, start = case(gamma)
    trained = lbfgs.train(problem, start, max_evaluations=5000)
    assert trained.converged
    assert problem.objective(trained.network) < 0.5 * problem.objective(start)
    # Kinks keep L-BFGS from going to the end.
    assert stationarity(problem, trained.network).norm < 0.02 * stationarity(problem, start).norm


def test_a_limit_on_evaluations():
    problem, start = case(1e-3)
    trained = lbfgs.train(problem, start, max_evaluations=30)
    assert not trained.converged
    assert trained.evaluations < 60  # the line search under way may need some more
    longer = lbfgs.train(problem, start, max_evaluations=300)
    assert problem.objective(longer.network) < problem.objective(trained.network)
