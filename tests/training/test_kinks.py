"""Rows at the kinks of neurons: their shares of a subgradient, and the choice of the tangent by a direction."""

import numpy as np
import pytest

from dconnet.convex.programme import get_backend
from dconnet.training.dc import NeuronProblem
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.kinks import _shares
from problems import assert_descent, make_problem


@pytest.mark.parametrize("size", [0.01, 100.0])
@pytest.mark.parametrize("n_kinked", [10, 3000])
def test_shares_satisfy_the_conditions_of_the_closest_combination(n_kinked, size):
    rng = np.random.default_rng(n_kinked)
    columns = rng.standard_normal((7, n_kinked)) * rng.uniform(0.0, 2.0, size=n_kinked)
    target = size * rng.standard_normal(7)
    shares = _shares(columns, target)
    assert np.all((shares >= 0.0) & (shares <= 1.0))
    slope = columns.T @ (columns @ shares - target)  # of half the squared distance
    noise = 1e-9 * (1.0 + np.max(np.abs(target))) * np.max(np.linalg.norm(columns, axis=0))
    assert np.all(slope[shares < 1.0 - 1e-9] >= -noise)
    assert np.all(slope[shares > 1e-9] <= noise)


def test_rows_at_their_kinks_follow_the_direction():
    design = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [-1.0, 0.0]])
    beta = np.ones(4)
    direction = np.array([0.0, 1.0])
    neuron = NeuronProblem(design, beta, beta, 1.0, 0.1, kink_direction=direction)
    v = np.array([1.0, 0.0])  # the second and the third row are at their kinks
    assert neuron.not_negative(v, design @ v).tolist() == [True, True, False, False]
    assert neuron.not_negative(-v, -design @ v).tolist() == [False, True, False, True]
    zero = np.zeros(2)  # where all rows are at their kinks
    assert neuron.not_negative(zero, zero[[0, 0, 0, 0]])[1:3].tolist() == [True, False]
    plain = NeuronProblem(design, beta, beta, 1.0, 0.1)
    assert plain.not_negative(v, design @ v).tolist() == [True, True, True, False]


def test_random_kinks_never_raise_the_loss_and_repeat_by_the_seed():
    def fit():
        options = Options(split="paper", kinks="random", max_epochs=30)
        rng = np.random.default_rng(0)
        return Descent(make_problem(0.01, n_rows=150), get_backend("native"), options, rng).run(xavier(3, 5, rng))

    first, again = fit(), fit()
    assert_descent(first.history)
    np.testing.assert_array_equal(first.network.W, again.network.W)
