"""Newton steps on the pieces of the objective."""

import numpy as np
import pytest

from dconnet.certificates import stationarity
from dconnet.convex.backend import get_backend
from dconnet.model.problem import Problem
from dconnet.training import newton
from dconnet.training.accelerated import AcceleratedDescent, Moves
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier
from dconnet.training.newton import Piece, newton_step


def training(n_rows=60, n_features=3, n_hidden=4, gamma=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    problem = Problem(X, np.abs(X[:, 0]) - X[:, 1] + 0.1 * rng.standard_normal(n_rows), gamma)
    start = xavier(n_features, n_hidden, rng)
    return problem, start, rng


def held_at_kinks(n_held=2):
    """Return a network whose neurons have rows exactly at convex kinks."""
    problem, start, _ = training()
    white = problem.whitened
    V, alpha = white.whiten(start), start.alpha
    residual = white.y - np.maximum(white.preactivations(V), 0.0) @ alpha
    for unit in range(len(V)):
        rows = np.argsort(alpha[unit] * residual)[:n_held]
        V[unit] -= np.linalg.lstsq(white.Q[rows], white.Q[rows] @ V[unit], rcond=None)[0]
    Z = white.preactivations(V)
    residual = white.y - np.maximum(Z, 0.0) @ alpha
    assert np.all((alpha * residual[:, None])[np.abs(Z) < 1e-12] < 0.0)
    return white, V, alpha


def half_objective(white, V, alpha):
    residual = white.y - np.maximum(white.Q @ V.T, 0.0) @ alpha
    return 0.5 * (residual @ residual + white.gamma * (np.sum(V * V) + alpha @ alpha))


@pytest.mark.parametrize("n_held", [0, 1, 2])
def test_derivatives_match_finite_differences(n_held):
    white, V, alpha = held_at_kinks(n_held)
    piece = Piece.around(white, V, alpha, 1e-9)
    if n_held:
        assert min(basis.shape[1] for basis in piece.shape.directions) < V.shape[1]
    gradient, hessian = piece.gradient_and_hessian()
    np.testing.assert_array_equal(hessian, hessian.T)

    def along(step):
        step_V, step_alpha = piece.spread(step)
        return half_objective(white, piece.shape.V + step_V, piece.shape.alpha + step_alpha)

    rng = np.random.default_rng(1)
    here = along(np.zeros(piece.shape.n_unknowns))
    for _ in range(10):
        direction = rng.standard_normal(piece.shape.n_unknowns)
        direction /= np.linalg.norm(direction)
        h = 1e-5
        ahead, behind = along(h * direction), along(-h * direction)
        assert (ahead - behind) / (2.0 * h) == pytest.approx(gradient @ direction, rel=1e-6, abs=1e-7)
        curvature = (ahead - 2.0 * here + behind) / h**2
        assert curvature == pytest.approx(direction @ hessian @ direction, rel=1e-3, abs=1e-3)


def test_held_rows_stay_at_their_kinks():
    white, V, alpha = held_at_kinks()
    before = white.preactivations(V)
    step_V, _ = newton_step(white, V, alpha)
    residual = white.y - np.maximum(before, 0.0) @ alpha
    held = (np.abs(before) < 1e-12) & (alpha * residual[:, None] < 0.0)
    assert held.any()
    assert np.max(np.abs(white.preactivations(V + step_V)[held])) < 1e-12 * np.max(np.abs(before))


def test_rows_within_the_width_are_moved_to_their_kinks():
    white, V, alpha = held_at_kinks()
    rng = np.random.default_rng(0)
    moved = V * (1.0 + 1e-5 * rng.standard_normal(V.shape))
    assert Piece.around(white, moved, alpha, 1e-9).shape.n_unknowns == V.size + len(alpha)
    piece = Piece.around(white, moved, alpha, 1e-3)
    assert piece.shape.n_unknowns < V.size + len(alpha)
    assert np.max(np.abs(piece.shape.V - moved)) < 1e-3


def test_a_dead_neuron_stays_dead():
    white, V, alpha = held_at_kinks()
    V[1] = 0.0
    step_V, _ = newton_step(white, V, alpha)
    assert not step_V[1].any()
    assert step_V[0].any()


def test_large_problems_have_no_step(monkeypatch):
    white, V, alpha = held_at_kinks()
    monkeypatch.setattr(newton, "LARGEST_WORK", 1.0)
    assert newton_step(white, V, alpha) is None


def descend(seed, moves):
    problem, start, rng = training(n_rows=200, seed=seed)
    descent = AcceleratedDescent(problem, get_backend("native"), Options(split="net"), rng, moves)
    solution = descent.run(start)
    assert np.all(np.diff(solution.history.objective) <= 0.0)
    return stationarity(problem, solution.network).norm


def test_fits_end_closer_to_stationary_points():
    with_newton = np.array([descend(seed, Moves()) for seed in range(3)])
    without = np.array([descend(seed, Moves(newton=False)) for seed in range(3)])
    assert np.median(with_newton) < 1e-9
    assert np.median(without) > 1e-7
