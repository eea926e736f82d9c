"""The kernel on several outputs: against NumPy, the sweep in Python, and copies of one output."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import check_grad

from dconnet import Problem, _native
from dconnet.convex.backend import get_backend
from dconnet.convex.native import as_columns, pad_rows
from dconnet.training.dc import SPLITS
from dconnet.training.initialization import xavier
from dconnet.training.sweep import make_sweep

SEVERAL = [2, 3, 4, 5, 9]  # outputs: some less than, some equal to and some more than a block of four


def setting(n_outputs, n_hidden=5, seed=0, gamma=0.05):
    """Return a whitened problem, and a start V, alpha."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 4))
    Y = np.abs(X @ rng.normal(size=(4, n_outputs))) + 0.1 * rng.normal(size=(90, n_outputs))
    problem = Problem(X, Y, gamma).whitened
    V = problem.whiten(xavier(4, n_hidden, rng, n_outputs))
    return problem, V, 0.5 * rng.normal(size=(n_hidden, n_outputs))


def objective(problem, V, alpha):
    residual = problem.y - np.maximum(problem.Q @ V.T, 0.0) @ alpha
    return np.sum(residual**2) + problem.gamma * (np.sum(V**2) + np.sum(alpha**2))


def sweep(problem, V, alpha, split="net", backend="native", sweeps=1):
    """Return the hidden weights after some sweeps, which must not raise the objective."""
    V = V.copy()
    runner = make_sweep(problem, get_backend(backend), len(V), split, max_dca_iter=50)
    values = [objective(problem, V, alpha)]
    for _ in range(sweeps):
        tally = runner.run(V, alpha, np.arange(len(V)), np.inf)
        assert (tally.visited, tally.refused, tally.unsolved) == (len(V), 0, 0)
        values.append(objective(problem, V, alpha))
    assert np.all(np.diff(values) <= 1e-13 * values[0])
    return V


def explorer(problem, n_hidden, *, starts=1, hop="none", burst=True, revive=False):
    arguments = pad_rows(problem.Q), problem.Q.shape[1], as_columns(problem.y), problem.gamma, n_hidden
    options = {"samples": 0, "stalled": 1e-2, "patience": 3, "seed": 0}
    return _native.Explorer(*arguments, starts=starts, burst=burst, hop=hop, revive=revive, **options)


def explored(kernel, V, alpha, evaluations):
    """Return the weights that the kernel reaches from these, and its counts."""
    V, alpha = V.copy(), alpha.copy()
    counts = kernel.explore(evaluations, np.inf, V, as_columns(alpha))
    return V, alpha, counts


@pytest.mark.parametrize("n_outputs", [1, *SEVERAL])
@pytest.mark.parametrize(("n_hidden", "n_rows"), [(1, 5), (4, 64), (9, 90)])
def test_gradient_and_output_weights(n_outputs, n_hidden, n_rows):
    whole, V, alpha = setting(n_outputs, n_hidden)
    problem = SimpleNamespace(Q=whole.Q[:n_rows].copy(), y=whole.y[:n_rows].copy(), gamma=whole.gamma)
    kernel = _native.Objective(pad_rows(problem.Q), problem.Q.shape[1], problem.y, problem.gamma, n_hidden)
    slope_V, slope_alpha = np.empty_like(V), np.empty_like(alpha)
    value = kernel.gradient(V, alpha, slope_V, slope_alpha)
    assert value == pytest.approx(objective(problem, V, alpha), rel=1e-13)
    error = check_grad(
        lambda theta: objective(problem, theta[: V.size].reshape(V.shape), theta[V.size :].reshape(alpha.shape)),
        lambda theta: np.concatenate([slope_V.ravel(), slope_alpha.ravel()]),
        np.concatenate([V.ravel(), alpha.ravel()]),
    )
    assert error < 1e-5 * value
    kernel.solve_output_weights(V, alpha)
    stacked = np.vstack([np.maximum(problem.Q @ V.T, 0.0), np.sqrt(problem.gamma) * np.eye(n_hidden)])
    targets = np.vstack([problem.y, np.zeros((n_hidden, n_outputs))])
    np.testing.assert_allclose(alpha, np.linalg.lstsq(stacked, targets, rcond=None)[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("n_outputs", SEVERAL)
def test_sweep_agrees_with_python(split, n_outputs):
    start = setting(n_outputs, seed=n_outputs)
    expected = sweep(*start, split, backend="reference")
    np.testing.assert_allclose(sweep(*start, split), expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("w", [[0.6, -0.8], [0.5, 0.5, 0.5, 0.5], [0.0, 1.0, 0.0]])
def test_copies_of_one_output(split, w):
    """Targets y wᵀ with a unit vector w, and output weights a wᵀ, are the problem of y and a."""
    several, V, alpha = setting(len(w))
    one, a = replace(several, y=several.y[:, 0].copy()), alpha[:, 0].copy()
    copies = replace(several, y=np.outer(one.y, w))
    expected = sweep(one, V, a, split, sweeps=3)
    found = sweep(copies, V, np.outer(a, w), split, sweeps=3)
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    V_one, a_one, _ = explored(explorer(one, len(V)), V, a, evaluations=15)
    V_copies, A_copies, _ = explored(explorer(copies, len(V)), V, np.outer(a, w), evaluations=15)
    np.testing.assert_allclose(V_copies, V_one, atol=1e-9 * np.abs(V_one).max())
    np.testing.assert_allclose(A_copies, np.outer(a_one, w), atol=1e-9 * np.abs(a_one).max())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_start_is_balanced_and_scaled(sign):
    """With one start and no work the race only scales: c = <f, Y> / <f, f>, with the sign that fits better."""
    problem, V, alpha = setting(3)
    V, alpha = 10.0 * V, sign * np.abs(alpha)  # the targets are positive
    f = np.maximum(problem.Q @ V.T, 0.0) @ alpha
    c = np.sum(f * problem.y) / np.sum(f * f)
    root, s = np.sqrt(np.abs(c)), np.sqrt(np.linalg.norm(alpha, axis=1) / np.linalg.norm(V, axis=1))[:, None]
    V_scaled, alpha_scaled, _ = explored(explorer(problem, len(V)), V, alpha, evaluations=0)
    np.testing.assert_allclose(V_scaled, root * s * V, rtol=1e-12)
    np.testing.assert_allclose(alpha_scaled, sign * root * alpha / s, rtol=1e-12)


def test_dead_neurons_are_revived_by_useful_ones():
    problem, V, alpha = setting(3)
    V[[1, 3]], alpha[3] = 0.0, 0.0
    V_new, alpha_new, counts = explored(explorer(problem, len(V), revive=True, burst=False), V, alpha, evaluations=0)
    assert counts[3:] == (2, 0)  # revived, barren
    assert objective(problem, V_new, alpha_new) < objective(problem, V, alpha)
    # The last neuron fits the final residual: its output weights and its length are the best for its direction.
    hidden = np.maximum(problem.Q @ V_new.T, 0.0)
    residual = problem.y - hidden @ alpha_new + np.outer(hidden[:, 3], alpha_new[3])
    length = np.linalg.norm(V_new[3])
    active = hidden[:, 3] / length
    match = residual.T @ active
    np.testing.assert_allclose(alpha_new[3] / length, match / np.linalg.norm(match), rtol=1e-9)
    assert length**2 == pytest.approx((np.linalg.norm(match) - problem.gamma) / (active @ active), rel=1e-9)


def test_no_neuron_is_useful_under_a_huge_penalty():
    problem, V, alpha = setting(2, gamma=1e4)
    _, alpha_new, counts = explored(explorer(problem, len(V), revive=True), 0.0 * V, 0.0 * alpha, evaluations=0)
    assert counts[3:] == (0, len(V))
    assert not alpha_new.any()


@pytest.mark.parametrize("hop", ["perturb", "restart"])
def test_search_never_rises_and_is_the_same_each_time(hop):
    problem, V, alpha = setting(3, n_hidden=6, gamma=1e-3)

    def run():
        kernel, points = explorer(problem, 6, starts=4, hop=hop, revive=True), [(V, alpha)]
        for _ in range(12):
            points.append(explored(kernel, *points[-1], evaluations=150)[:2])
        assert kernel.settled
        return points

    first, again = run(), run()
    assert np.all(np.diff([objective(problem, *point) for point in first]) <= 1e-13)
    np.testing.assert_array_equal(first[-1][0], again[-1][0])
    np.testing.assert_array_equal(first[-1][1], again[-1][1])


def test_arrays_that_do_not_fit_are_refused():
    problem, V, alpha = setting(2)
    runner = make_sweep(problem, get_backend("native"), len(V), "net", 5)
    arguments = pad_rows(problem.Q), problem.Q.shape[1]
    for message, call in [
        (r"alpha must have the shape \(5, 2\), got \(5, 1\)", lambda: runner.run(V, alpha[:, :1], np.arange(5), 1.0)),
        ("does not exist", lambda: runner.run(V, alpha, np.arange(5) + 1, 1.0)),
        (r"y must have the shape", lambda: _native.Objective(*arguments, problem.y[:-1].copy(), 0.1, 5)),
        ("at least one column", lambda: _native.Objective(*arguments, np.zeros((90, 0)), 0.1, 5)),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
