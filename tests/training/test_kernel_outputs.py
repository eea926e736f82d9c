"""The kernel on several outputs: against plain NumPy, the sweep in Python, one output in disguise, and rotations."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import check_grad

from dconnet import Problem, _native
from dconnet.convex.backend import get_backend
from dconnet.convex.native import by_output, padded
from dconnet.training.accelerated import AcceleratedDescent, Moves
from dconnet.training.dc import SPLITS
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier
from dconnet.training.output_layer import solve_output_weights
from dconnet.training.sweep import make_sweep

GAMMA = 0.05
SEVERAL = [2, 3, 4, 5, 9]  # outputs: some less than, some equal to and some more than a block of four


def setting(n_outputs, n_hidden=5, seed=0, gamma=GAMMA):
    """A whitened problem, and a start V, alpha."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 4))
    Y = np.abs(X @ rng.normal(size=(4, n_outputs))) + 0.1 * rng.normal(size=(90, n_outputs))
    problem = Problem(X, Y, gamma).whitened
    V = problem.whiten(xavier(4, n_hidden, rng, n_outputs))
    return problem, V, 0.5 * rng.normal(size=(n_hidden, n_outputs))


def objective(problem, V, alpha):
    """F, by its definition."""
    residual = problem.y - np.maximum(problem.Q @ V.T, 0.0) @ alpha
    return np.sum(residual**2) + problem.gamma * (np.sum(V**2) + np.sum(alpha**2))


def sweep(problem, V, alpha, split="net", backend="native", sweeps=1):
    """The hidden weights after some sweeps, and the values of F after each."""
    V = V.copy()
    runner = make_sweep(problem, get_backend(backend), len(V), split, max_dca_iter=50)
    values = []
    for _ in range(sweeps):
        tally = runner.run(V, alpha, np.arange(len(V)), np.inf)
        assert (tally.visited, tally.refused, tally.unsolved) == (len(V), 0, 0)
        values.append(objective(problem, V, alpha))
    return SimpleNamespace(V=V, values=np.array(values), programmes=tally.programmes)


def explorer(problem, n_hidden, *, starts=1, samples=0, hop="none", burst=True, revive=False, seed=0):
    return _native.Explorer(
        padded(problem.Q),
        problem.Q.shape[1],
        by_output(problem.y),
        problem.gamma,
        n_hidden,
        starts=starts,
        samples=samples,
        burst=burst,
        hop=hop,
        stalled=1e-2,
        patience=3,
        revive=revive,
        seed=seed,
    )


def explored(kernel, V, alpha, evaluations):
    """The weights to which the kernel leads on from these, and its counts."""
    V, alpha = V.copy(), alpha.copy()
    counts = kernel.explore(evaluations, np.inf, V, by_output(alpha))
    return V, alpha, counts


def random_rotation(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


@pytest.mark.parametrize("n_outputs", SEVERAL)
@pytest.mark.parametrize("n_hidden", [1, 4, 9])
def test_objective_and_gradient(n_outputs, n_hidden):
    problem, V, alpha = setting(n_outputs, n_hidden)
    kernel = _native.Objective(padded(problem.Q), problem.Q.shape[1], problem.y, problem.gamma, n_hidden)
    slope_V, slope_alpha = np.empty_like(V), np.empty_like(alpha)
    value = kernel.gradient(V, alpha, slope_V, slope_alpha)
    assert value == pytest.approx(objective(problem, V, alpha), rel=1e-13)

    def unpack(theta):
        return theta[: V.size].reshape(V.shape), theta[V.size :].reshape(alpha.shape)

    error = check_grad(
        lambda theta: objective(problem, *unpack(theta)),
        lambda theta: np.concatenate([slope_V.ravel(), slope_alpha.ravel()]),
        np.concatenate([V.ravel(), alpha.ravel()]),
    )
    assert error < 1e-5 * value


@pytest.mark.parametrize("n_outputs", SEVERAL)
@pytest.mark.parametrize("gamma", [1e-4, 1.0])
def test_ridge_regression(n_outputs, gamma):
    problem, V, _ = setting(n_outputs, n_hidden=7, gamma=gamma)
    alpha = np.full((7, n_outputs), np.nan)
    kernel = _native.Objective(padded(problem.Q), problem.Q.shape[1], problem.y, problem.gamma, 7)
    kernel.solve_output_weights(V, alpha)
    hidden = np.maximum(problem.Q @ V.T, 0.0)
    stacked = np.vstack([hidden, np.sqrt(problem.gamma) * np.eye(7)])
    expected = np.linalg.lstsq(stacked, np.vstack([problem.y, np.zeros((7, n_outputs))]), rcond=None)[0]
    np.testing.assert_allclose(alpha, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("n_outputs", SEVERAL)
def test_sweep_is_that_of_python(split, n_outputs):
    start = setting(n_outputs, seed=n_outputs)
    compiled = sweep(*start, split)
    specified = sweep(*start, split, backend="reference")
    np.testing.assert_allclose(compiled.V, specified.V, atol=1e-8 * np.abs(specified.V).max())
    assert compiled.programmes == specified.programmes


@pytest.mark.parametrize("split", SPLITS)
def test_sweeps_never_raise_the_objective(split):
    problem, V, alpha = setting(3, n_hidden=8)
    values = sweep(problem, V, alpha, split, sweeps=10).values
    assert values[0] < 0.9 * objective(problem, V, alpha)
    assert np.all(np.diff(values) <= 1e-13 * values[:-1])


@pytest.mark.parametrize("n_outputs", [2, 5])
def test_outputs_may_be_rotated(n_outputs):
    """F and the net split know nothing but inner products of output weights and residuals."""
    problem, V, alpha = setting(n_outputs, seed=1)
    R = random_rotation(n_outputs)
    turned = replace(problem, y=problem.y @ R)
    assert objective(turned, V, alpha @ R) == pytest.approx(objective(problem, V, alpha), rel=1e-13)
    plain, rotated = sweep(problem, V, alpha, sweeps=3), sweep(turned, V, alpha @ R, sweeps=3)
    np.testing.assert_allclose(rotated.V, plain.V, atol=1e-8 * np.abs(plain.V).max())
    np.testing.assert_allclose(rotated.values, plain.values, rtol=1e-12)
    V_plain, alpha_plain, _ = explored(explorer(problem, len(V)), V, alpha, evaluations=5)
    V_turned, alpha_turned, _ = explored(explorer(turned, len(V)), V, alpha @ R, evaluations=5)
    np.testing.assert_allclose(V_turned, V_plain, atol=1e-8 * np.abs(V_plain).max())
    np.testing.assert_allclose(alpha_turned, alpha_plain @ R, atol=1e-8 * np.abs(alpha_plain).max())


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("w", [[0.6, -0.8], [0.5, 0.5, 0.5, 0.5], [0.0, 1.0, 0.0]])
def test_one_output_in_the_guise_of_several(split, w):
    """Targets y wᵀ with a unit vector w, and output weights a wᵀ, are the problem of y and a."""
    w = np.array(w)
    several, V, alpha = setting(len(w))
    one = replace(several, y=several.y[:, 0].copy())
    a = alpha[:, 0].copy()
    guise = replace(several, y=np.outer(one.y, w))
    plain, dressed = sweep(one, V, a, split, sweeps=3), sweep(guise, V, np.outer(a, w), split, sweeps=3)
    np.testing.assert_allclose(dressed.V, plain.V, atol=1e-9 * np.abs(plain.V).max())
    np.testing.assert_allclose(dressed.values, plain.values, rtol=1e-12)


def test_search_for_one_output_in_the_guise_of_several():
    """For one burst of L-BFGS, in which rounding does not grow too much yet."""
    w = np.array([0.6, -0.8])
    several, V, alpha = setting(2, seed=1)
    a = alpha[:, 0].copy()
    one = replace(several, y=several.y[:, 0].copy())
    guise = replace(several, y=np.outer(one.y, w))
    V_one, a_one, counts = explored(explorer(one, len(V)), V, a, evaluations=55)
    V_guise, A_guise, counts_guise = explored(explorer(guise, len(V)), V, np.outer(a, w), evaluations=55)
    assert counts_guise == counts
    assert counts[0] > 50
    np.testing.assert_allclose(V_guise, V_one, atol=1e-9 * np.abs(V_one).max())
    np.testing.assert_allclose(A_guise, np.outer(a_one, w), atol=1e-9 * np.abs(a_one).max())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_start_is_balanced_and_scaled(sign):
    """With one start and no work the race only scales: c = <f, Y> / <f, f>, with the sign that fits better."""
    problem, V, alpha = setting(3)
    V, alpha = 10.0 * V, sign * np.abs(alpha)  # the targets are positive
    f = np.maximum(problem.Q @ V.T, 0.0) @ alpha
    c = np.sum(f * problem.y) / np.sum(f * f)
    assert sign * c > 0.0
    root = np.sqrt(np.abs(c))
    s = np.sqrt(np.linalg.norm(alpha, axis=1) / np.linalg.norm(V, axis=1))[:, None]
    V_scaled, alpha_scaled, _ = explored(explorer(problem, len(V)), V, alpha, evaluations=0)
    np.testing.assert_allclose(V_scaled, root * s * V, rtol=1e-12)
    np.testing.assert_allclose(alpha_scaled, sign * root * alpha / s, rtol=1e-12)


def test_dead_neurons_are_revived_by_useful_ones():
    problem, V, alpha = setting(3)
    V[[1, 3]], alpha[3] = 0.0, 0.0
    before = objective(problem, V, alpha)
    V_new, alpha_new, counts = explored(explorer(problem, len(V), revive=True, burst=False), V, alpha, evaluations=0)
    assert counts[3:] == (2, 0)  # revived, barren
    assert objective(problem, V_new, alpha_new) < before
    for unit in (1, 3):
        hidden = np.maximum(problem.Q @ V_new.T, 0.0)
        residual = problem.y - hidden @ alpha_new + np.outer(hidden[:, unit], alpha_new[unit])
        direction, weight = V_new[unit] / np.linalg.norm(V_new[unit]), np.linalg.norm(V_new[unit]) ** 2
        active = np.maximum(problem.Q @ direction, 0.0)
        match = residual.T @ active
        if unit == 3:  # the last one knows the final residual: its output weights and its size are the best there are
            excess = np.linalg.norm(match) - problem.gamma
            np.testing.assert_allclose(alpha_new[unit] / np.sqrt(weight), match / np.linalg.norm(match), rtol=1e-9)
            assert weight == pytest.approx(excess / (active @ active), rel=1e-9)
        assert np.linalg.norm(alpha_new[unit]) == pytest.approx(np.sqrt(weight), rel=1e-12)


def test_no_neuron_is_useful_under_a_huge_penalty():
    problem, V, alpha = setting(2, gamma=1e4)
    _, alpha_new, counts = explored(explorer(problem, len(V), revive=True), 0.0 * V, 0.0 * alpha, evaluations=0)
    assert counts[3:] == (0, len(V))
    assert not alpha_new.any()


@pytest.mark.parametrize("hop", ["perturb", "restart"])
def test_search_never_rises_and_is_the_same_each_time(hop):
    problem, V, alpha = setting(3, n_hidden=6, gamma=1e-3)

    def run():
        kernel, point, values = explorer(problem, 6, starts=4, hop=hop, revive=True), (V, alpha), []
        for _ in range(12):
            *point, _counts = explored(kernel, *point, evaluations=150)
            values.append(objective(problem, *point))
        return point, values, kernel.settled

    (V_first, alpha_first), values, settled = run()
    assert settled
    assert np.all(np.diff([objective(problem, V, alpha), *values]) <= 1e-13)
    (V_again, alpha_again), _, _ = run()
    np.testing.assert_array_equal(V_again, V_first)
    np.testing.assert_array_equal(alpha_again, alpha_first)


@pytest.mark.parametrize("gamma", [1e-3, 1e-1])
def test_accelerated_descent(gamma):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 3))
    Y = np.abs(X @ rng.normal(size=(3, 4))) + 0.1 * rng.normal(size=(120, 4))
    problem = Problem(X, Y, gamma)
    descent = AcceleratedDescent(problem, get_backend("native"), Options(split="net", max_epochs=60), rng, Moves())
    solution = descent.run(xavier(3, 8, rng, 4))
    assert np.all(np.diff(solution.history.objective) <= 0.0)
    assert solution.history.total("refused") == 0
    white = problem.whitened
    best = solve_output_weights(white.Q, white.whiten(solution.network), white.y, white.gamma)
    np.testing.assert_allclose(solution.network.alpha, best, atol=1e-3 * np.abs(best).max())


def test_arrays_that_do_not_fit_are_refused():
    problem, V, alpha = setting(2)
    runner = make_sweep(problem, get_backend("native"), len(V), "net", 5)
    with pytest.raises(ValueError, match=r"alpha must have the shape \(5, 2\), got \(5, 1\)"):
        runner.run(V, alpha[:, :1], np.arange(5), np.inf)
    kernel = explorer(problem, len(V))
    with pytest.raises(ValueError, match=r"alpha must have the shape \(5, 2\), got \(5, 3\)"):
        kernel.explore(1, np.inf, V, np.zeros((5, 3)))
    arguments = padded(problem.Q), problem.Q.shape[1]
    with pytest.raises(ValueError, match=r"y must have the shape \(90, 2\), got \(89, 2\)"):
        _native.Objective(*arguments, problem.y[:-1].copy(), 0.1, 5)
    with pytest.raises(ValueError, match="y must have at least one column"):
        _native.Objective(*arguments, np.zeros((90, 0)), 0.1, 5)
    with pytest.raises(ValueError, match="at least one output"):
        _native.Sweep(*arguments, 5, 0)
    with pytest.raises(TypeError, match="incompatible"):  # the kernel would look at a copy that is gone
        _native.Objective(*arguments, np.asfortranarray(problem.y), 0.1, 5)
