"""Columns of all scales, offsets and dependences: RegLoss is the same in the units of the data."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Problem
from dconnet.convex.programme import get_backend
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Descent, Options


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", ["paper", "accelerated"])
def test_shrinkage_with_columns_of_very_different_scales(algorithm):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3)) * [1e-9, 1.0, 1e5]
    y = np.abs(X[:, 1]) + 0.1 * rng.normal(size=100)
    model = DCONRegressor(5, shrinkage=1e5, algorithm=algorithm, max_epochs=50, random_state=0).fit(X, y)
    assert model.objective_ == pytest.approx(model.history_.objective[-1], rel=1e-9)
    assert model.score(X, y) > -1e-6


def random_problem(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rng.integers(3, 80), rng.integers(2, 8)))
    if rng.random() < 0.4:  # scales
        X *= 10.0 ** rng.uniform(-12.0, 12.0, size=X.shape[1])
    if rng.random() < 0.4:  # an offset
        X += rng.normal() * 10.0 ** rng.uniform(0.0, 10.0)
    if rng.random() < 0.4:  # a dependent column
        X[:, -1] = X[:, :-1] @ rng.normal(size=X.shape[1] - 1)
    if rng.random() < 0.4:  # a nearly dependent column
        X[:, -1] = X[:, 0] * (1.0 + 10.0 ** rng.uniform(-14.0, -6.0) * rng.normal(size=len(X)))
    if rng.random() < 0.4:  # a constant column
        X[:, 0] = rng.choice([0.0, 1.0, 1e8, 1e-8])
    weight = rng.choice([1.0, 2.0, 1e-3, 1e3], size=len(X)) if rng.random() < 0.4 else None
    y = rng.normal(size=len(X)) * 10.0 ** rng.uniform(-3.0, 3.0)
    shrinkage = rng.choice([0.0, 0.0, 1e-6, 1e-2, 1.0, 1e3, 1e6])
    return Problem(X, y, 10.0 ** rng.uniform(-6.0, 1.0), weight, shrinkage=shrinkage)


def trained(problem, algorithm):
    """Train for three epochs from a random start of the size of the targets."""
    rng, white = np.random.default_rng(0), problem.whitened
    size = np.sqrt(np.linalg.norm(white.y))
    rank = white.whitening.rank
    start = white.network(size * rng.normal(size=(3, rank)) / np.sqrt(rank), size * rng.normal(size=3))
    return algorithm(problem, get_backend("native"), Options(split="net", max_epochs=3), rng).run(start)


@pytest.mark.parametrize("algorithm", [Descent, AcceleratedDescent])
def test_objective_survives_the_change_of_coordinates(algorithm):
    for seed in range(60):
        problem = random_problem(seed)
        solution = trained(problem, algorithm)
        reached = solution.history.objective
        assert np.all(np.diff(reached) <= 0.0), seed
        assert solution.objective == problem.objective(solution.network)
        assert abs(solution.objective - reached[-1]) <= 1e-4 * (reached[-1] + 1e-4 * problem.zero_objective), seed


def test_networks_that_rounding_makes_inaccurate_are_refused():
    """The relevant differences of x are next to the last digit of x."""
    z = np.random.default_rng(0).normal(size=(40, 1))
    problem = Problem(1e9 + 1e-6 * z, np.abs(z[:, 0]), 1e-9, shrinkage=1.0)
    with pytest.raises(ValueError, match="in the units of the data"):
        trained(problem, AcceleratedDescent)
