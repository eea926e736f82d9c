"""L-BFGS on the same RegLoss: its end is stationary, and its limits hold."""

import numpy as np

from dconnet import Problem
from dconnet.certificates import stationarity
from dconnet.training.initialization import xavier
from reproduction import lbfgs


def test_the_end_is_nearly_stationary_and_limits_hold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    problem = Problem(X, np.abs(X[:, 0]) - X[:, 1] + 0.1 * rng.normal(size=80), gamma=1e-2)
    start = xavier(3, 5, rng)
    trained, cut = (lbfgs.train(problem, start, max_evaluations=limit) for limit in (5000, 30))
    assert trained.converged
    # Kinks keep L-BFGS from an exact end.
    assert stationarity(problem, trained.network).norm < 0.02 * stationarity(problem, start).norm
    assert not cut.converged
    assert cut.evaluations < 60  # the line search under way may need some more
    values = [problem.objective(network) for network in (trained.network, cut.network, start)]
    assert values == sorted(values)
