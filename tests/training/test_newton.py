"""Newton steps on the pieces of the objective."""

import numpy as np
import pytest

from dconnet.certificates import stationarity
from dconnet.convex.programme import get_backend
from dconnet.model.problem import Problem
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier
from dconnet.training.newton import Piece, newton_step
from problems import assert_descent


def training(n_rows=60, n_features=3, n_hidden=4, gamma=0.1, seed=0, n_outputs=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    y = np.abs(X[:, 0]) - X[:, 1] + 0.1 * rng.standard_normal(n_rows)
    problem = Problem(X, y if n_outputs is None else np.column_stack([y, X[:, :2]]), gamma)
    return problem, xavier(n_features, n_hidden, rng, n_outputs), rng


def move_to_kinks(n_held=2, n_outputs=None):
    """Return a network whose neurons have some rows exactly at convex kinks."""
    problem, start, _ = training(n_outputs=n_outputs)
    white = problem.whitened
    V, alpha = white.whiten(start), start.alpha
    residual = white.y - np.maximum(white.preactivations(V), 0.0) @ alpha
    for unit in range(len(V) if n_held else 0):
        rows = np.argsort(residual * alpha[unit])[:n_held]
        V[unit] -= np.linalg.lstsq(white.Q[rows], white.Q[rows] @ V[unit], rcond=None)[0]
    return white, V, alpha


@pytest.mark.parametrize(("n_held", "n_outputs"), [(0, None), (2, None), (0, 3)])
def test_derivatives_match_finite_differences(n_held, n_outputs):
    white, V, alpha = move_to_kinks(n_held, n_outputs)
    piece = Piece.around(white, V, alpha, 1e-9)
    assert (piece.n_unknowns < V.size + alpha.size) == (n_held > 0)
    gradient, hessian = piece.gradient_and_hessian(white)
    np.testing.assert_array_equal(hessian, hessian.T)

    def along(step):
        step_V, step_alpha = piece.unpack(step)
        V, alpha = piece.V + step_V, piece.alpha + step_alpha
        return 0.5 * white.total_weight * white.regloss(V, alpha)

    rng, h = np.random.default_rng(1), 1e-4
    here = along(np.zeros(piece.n_unknowns))
    for _ in range(10):
        direction = rng.standard_normal(piece.n_unknowns)
        direction /= np.linalg.norm(direction)
        ahead, behind = along(h * direction), along(-h * direction)
        assert (ahead - behind) / (2.0 * h) == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-6)
        curvature = (ahead - 2.0 * here + behind) / h**2
        assert curvature == pytest.approx(direction @ hessian @ direction, rel=1e-3, abs=1e-3)


def test_kinked_rows_and_dead_neurons_stay():
    white, V, alpha = move_to_kinks()
    V[1] = 0.0
    before = white.preactivations(V)
    step_V, _ = newton_step(white, V, alpha)
    residual = white.y - np.maximum(before, 0.0) @ alpha
    held = (np.abs(before) < 1e-12) & (alpha * residual[:, None] < 0.0)
    assert held.any()
    assert np.max(np.abs(white.preactivations(V + step_V)[held])) < 1e-12 * np.max(np.abs(before))
    assert not step_V[1].any()
    assert step_V[0].any()


def test_fits_end_at_stationary_points():
    norms = []
    for seed in range(3):
        problem, start, rng = training(n_rows=200, seed=seed)
        solution = AcceleratedDescent(problem, get_backend("native"), Options(split="net"), rng).run(start)
        assert_descent(solution.history)
        norms.append(stationarity(problem, solution.network).norm)
    assert np.median(norms) < 1e-9  # without Newton steps, 1e-7
