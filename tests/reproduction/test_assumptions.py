"""The assumptions of the paper's theorem: where they are known to fail, and where they hold."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, PaperAlgorithm, Problem
from dconnet.training.dc import NeuronProblem
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier
from reproduction.assumptions import has_common_subgradient, watch

X = np.linspace(-1.0, 1.0, 21).reshape(-1, 1)
PARABOLA = Problem(X, X[:, 0] ** 2, gamma=0.1)


def stuck():
    """Where Algorithm 1 stops with the paper's split, though RegLoss still descends: docs/algorithm.md."""
    algorithm = PaperAlgorithm(kinks="active")
    return DCONRegressor(3, gamma=0.1, scale=False, algorithm=algorithm, random_state=0).fit(X, PARABOLA.y).network_


def test_a_known_failure_is_seen():
    counts, epochs = watch(PARABOLA, stuck(), Options(split="paper", max_epochs=5), seed=0)
    assert counts.visits == 2 * epochs  # the third neuron is dead
    assert counts.not_local == epochs  # one is held at a point from which RegLoss descends
    assert counts.technical == counts.concave == epochs
    assert counts.not_ended == 0


def test_the_net_split_leaves_that_point():
    counts, _ = watch(PARABOLA, stuck(), Options(split="net", max_epochs=20), seed=0)
    assert counts.visits > counts.not_local == 0


def test_without_kinks_all_assumptions_hold():
    problem = Problem([[-1.0], [1.0]], [1.0, 1.0], gamma=0.5)
    start = Network(W=[[0.1], [0.0]], b=[0.6, 0.8], alpha=[0.7, 0.5])
    counts, epochs = watch(problem, start, Options(split="paper", max_epochs=30, tol=1e-12), seed=0)
    assert counts.visits == 2 * epochs > 0
    assert (counts.kinked, counts.not_local, counts.unclear, counts.not_ended, counts.technical) == (0, 0, 0, 0, 0)


def test_a_limit_on_the_dca_is_an_assumption():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    problem = Problem(inputs, np.abs(inputs[:, 0]) - inputs[:, 1], gamma=1e-3)
    start = xavier(3, 5, rng)
    few, _ = watch(problem, start, Options(split="paper", max_epochs=5, max_dca_iter=1), seed=0)
    many, _ = watch(problem, start, Options(split="paper", max_epochs=5, max_dca_iter=200), seed=0)
    assert few.not_ended > 0
    assert many.not_ended == 0


def one_row(beta_g, beta_h, smooth):
    """A neuron with one row at its kink; the other row pulls by a given slope."""
    design = np.eye(2)
    return NeuronProblem(design, np.array([beta_g, 0.0]), np.array([beta_h, smooth]), curvature=1.0, gamma=1e-9)


@pytest.mark.parametrize(
    ("before", "after", "holds"),
    [
        ((2.0, 0.0), (2.0, 0.0), True),  # a convex kink that stays
        ((2.0, 0.0), (1.0, 1.5), False),  # its net slope has become negative
        ((2.0, 1.0), (2.0, 2.0), True),  # flat: 2 e_g = 2 e_h and 2 e_g = e_h for both zero
    ],
)
def test_by_linear_programming(before, after, holds):
    v = np.array([0.0, 0.5])
    kinked = np.array([True, False])
    # At v the second row has the slope 2 * 0.5 - 1 = 0, so the first alone decides.
    earlier, later = (one_row(*slopes, smooth=1.0) for slopes in (before, after))
    assert has_common_subgradient(earlier, later, v, kinked) == holds
