"""Growing networks against cone programmes over all patterns, with proved bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONClassifier, DCONRegressor, Problem
from dconnet.certificates import global_gap
from dconnet.convex.native import NativeSolver
from dconnet.convex.programme import get_backend
from dconnet.model.problem import hidden_layer
from dconnet.training import growth, new_neurons
from dconnet.training.descent import Options
from dconnet.training.fixed_patterns import SPEED, PatternDescent, merge_neurons
from dconnet.training.growth import GrowingDescent
from dconnet.training.initialization import xavier
from dconnet.training.new_neurons import climb, random_starts, solve_lengths, solve_output_vectors
from dconnet.training.result import Status
from problems import assert_descent


def build(n_rows=40, n_features=2, gamma=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = np.abs(X[:, 0]) - 0.5 * X[:, -1] + 0.3 * rng.normal(size=n_rows)
    return Problem(X, y, gamma)


def grown(problem, seed=0, **options):
    rng = np.random.default_rng(seed)
    descent = GrowingDescent(problem, get_backend("native"), Options(split="net", **options), rng)
    return descent, descent.run(xavier(problem.X.shape[1], 4, rng))


def wide_network(problem, n_hidden, seed):
    """Return random hidden weights with their best output weights."""
    rng = np.random.default_rng(seed)
    white = problem.whitened
    V = rng.normal(size=(n_hidden, white.Q.shape[1]))
    V *= rng.uniform(0.01, 2.0, size=(n_hidden, 1)) / np.linalg.norm(V, axis=1, keepdims=True)
    hidden = hidden_layer(white.Q, V)
    alpha = np.linalg.solve(hidden.T @ hidden + white.gamma * np.eye(n_hidden), hidden.T @ white.y)
    return white.network(V, alpha)


def all_patterns(Q, n_samples=20_000):
    """Return the activation patterns of random directions: all patterns, for few rows."""
    V = np.random.default_rng(0).normal(size=(n_samples, Q.shape[1]))
    return np.unique(V @ Q.T > 0.0, axis=0)


def by_clarabel(problem):
    """Return RegLoss of the best network by a cone programme over all patterns.

    The unknowns are the length and the vector of each neuron, with an output weight of each sign, and the residual.
    """
    clarabel = pytest.importorskip("clarabel")
    white = problem.whitened
    Q, (m, rank) = np.column_stack([np.zeros(len(white.Q)), white.Q]), white.Q.shape  # lengths have no output
    patterns = all_patterns(white.Q)
    n = 2 * len(patterns)
    fit = np.hstack([sign * active[:, None] * Q for sign in (1.0, -1.0) for active in patterns])
    inward = sparse.block_diag([np.where(active, -1.0, 1.0)[:, None] * Q for active in patterns] * 2)
    of_neurons = sparse.vstack([fit, inward, -sparse.eye(n * (rank + 1))])
    of_residual = sparse.vstack([sparse.eye(m), sparse.csc_matrix((of_neurons.shape[0] - m, m))])
    A = sparse.hstack([of_neurons, of_residual]).tocsc()
    b = np.concatenate([white.y, np.zeros(A.shape[0] - m)])
    cones = [clarabel.ZeroConeT(m), clarabel.NonnegativeConeT(n * m), *([clarabel.SecondOrderConeT(rank + 1)] * n)]
    P = sparse.diags(np.repeat([0.0, 2.0], [n * (rank + 1), m])).tocsc()
    q = np.concatenate([np.tile(2.0 * white.gamma * np.eye(rank + 1)[0], n), np.zeros(m)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
    return (solution.obj_val + white.scatter) / white.total_weight


@pytest.mark.parametrize(("n_features", "gamma"), [(1, 1.0), (1, 0.1), (2, 0.01)])
def test_growth_ends_at_a_proved_optimum(n_features, gamma):
    problem = build(n_features=n_features, gamma=gamma)
    descent, solution = grown(problem)
    assert solution.status is Status.CONVERGED
    assert_descent(solution.history)
    assert solution.objective * (1.0 - 1e-6) <= descent.proved.bound <= solution.objective * (1.0 + 1e-12)
    assert solution.network.n_hidden <= len(problem.X) + 1


@pytest.mark.parametrize(
    ("n_rows", "n_features", "gamma", "seed"), [(9, 1, 0.3, 3), (9, 2, 0.05, 3), (7, 3, 0.03, 1), (7, 4, 0.1, 1)]
)
def test_objective_agrees_with_a_cone_programme(n_rows, n_features, gamma, seed):
    problem = build(n_rows, n_features, gamma, seed)
    descent, solution = grown(problem, tol=1e-12)
    best = by_clarabel(problem)
    assert solution.objective == pytest.approx(best, rel=1e-5)
    assert descent.proved.bound <= best * (1.0 + 1e-7)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([1.0, 0.1]), st.integers(1, 5))
def test_no_wide_network_is_below_a_proved_bound(seed, n_hidden, gamma, n_features):
    problem = build(n_rows=20, n_features=n_features, gamma=gamma, seed=seed % 4)
    descent, solution = grown(problem)
    bound = max(descent.proved.bound, global_gap(problem, solution.network, max_parts=2000).proved_bound)
    assert 0.0 < bound <= solution.objective * (1.0 + 1e-12)
    assert problem.objective(wide_network(problem, n_hidden, seed)) >= bound


def outputs_and_targets(n_rows, n, seed):
    rng = np.random.default_rng(seed)
    return np.maximum(rng.normal(size=(n_rows, n)), 0.0) * rng.choice([-1.0, 1.0], size=n), rng.normal(size=n_rows)


@pytest.mark.parametrize("gamma", [1.0, 0.01])
@pytest.mark.parametrize("n", [5, 30, 120])
@pytest.mark.parametrize("copies", [1, 2])
def test_lengths_satisfy_the_optimality_conditions(gamma, n, copies):
    A, y = outputs_and_targets(50, n, seed=n)
    A = np.hstack([A] * copies + [0.0 * A])
    c = solve_lengths(A, y, gamma)
    slopes = gamma - A.T @ (y - A @ c)
    assert np.all(c >= 0.0)
    assert np.all(slopes >= -1e-5 * gamma)
    np.testing.assert_allclose(slopes[c > 1e-6], 0.0, atol=1e-5 * gamma)
    assert not np.any(solve_lengths(A, y, 1.01 * np.max(A.T @ y)))


@pytest.mark.parametrize("n_outputs", [None, 2])
def test_output_vectors_satisfy_the_optimality_conditions(n_outputs):
    rng = np.random.default_rng(3)
    activations = np.maximum(rng.normal(size=(20, 4)), 0.0)
    residual = rng.normal(size=20 if n_outputs is None else (20, n_outputs))
    outputs = solve_output_vectors(activations, residual, 0.5)
    products = activations.T @ (residual - activations @ outputs)
    sizes, weights = (np.linalg.norm(values.reshape(4, -1), axis=1) for values in (products, outputs))
    assert np.all(sizes <= 0.5 + 1e-6)
    assert np.any(weights > 0.0)
    np.testing.assert_allclose(sizes[weights > 0.0], 0.5, atol=1e-6)


def test_merged_neurons_have_the_same_output_and_no_larger_penalty():
    Q = build(n_rows=12).whitened.Q
    rng = np.random.default_rng(0)
    W, signs = rng.normal(size=(80, 3)), rng.choice([-1.0, 1.0], size=80)
    fewer, their_signs = merge_neurons(Q, W, signs)
    assert len(fewer) < 80
    before, after = np.maximum(Q @ W.T, 0.0) @ signs, np.maximum(Q @ fewer.T, 0.0) @ their_signs
    np.testing.assert_allclose(after, before, atol=1e-9)
    assert np.linalg.norm(fewer, axis=1).sum() <= np.linalg.norm(W, axis=1).sum() * (1.0 + 1e-12)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    return X, np.abs(X[:, 0]) + 0.3 * rng.normal(size=60)


def test_a_regressor_finds_its_width(data):
    X, y = data
    model = DCONRegressor("auto", gamma=0.1, random_state=0).fit(X, y)
    assert model.status_ is Status.CONVERGED
    for n_hidden in (2, 10, 40):
        fixed = DCONRegressor(n_hidden, gamma=0.1, random_state=0).fit(X, y)
        assert model.objective_ <= fixed.objective_ * (1.0 + 1e-6)
    assert 1 <= model.network_.n_hidden <= 61
    with pytest.raises(ValueError, match="needs algorithm"):
        DCONRegressor("auto", gamma=0.1, algorithm="paper").fit(X, y)
    with pytest.raises(ValueError, match="n_hidden"):
        DCONRegressor("wide", gamma=0.1).fit(X, y)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_gamma_that_is_too_large_gives_zero(wide_table, n_targets):
    X, y = wide_table
    model = DCONRegressor("auto", gamma=100.0, random_state=0).fit(X, y if n_targets == 1 else np.column_stack([y, -y]))
    assert (model.network_.n_hidden, np.abs(model.network_.parameters).max()) == (1, 0.0)
    assert "all weights are zero" in model.message_


def test_growth_resumes_after_a_kill(data, tmp_path, monkeypatch):
    options = {"n_hidden": "auto", "gamma": 0.03, "random_state": 0, "early_stopping": True, "n_iter_no_change": 1000}
    whole = DCONRegressor(**options).fit(*data)
    path = tmp_path / "fit.checkpoint"
    monkeypatch.setattr("dconnet.training.checkpoint.SECONDS_BETWEEN_WRITES", 0.0)

    def stop(epoch):
        if epoch.number == 3:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        DCONRegressor(**options, callback=stop, checkpoint=path).fit(*data)
    resumed = DCONRegressor(**options, checkpoint=path).fit(*data)
    assert resumed.network_.parameters.tobytes() == whole.network_.parameters.tobytes()
    assert resumed.message_ == whole.message_


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0], [2.0], [3.0]], [0.0, 0.0, 0.0]),
        ([[1.0], [2.0], [3.0]], [5.0, 5.0, 5.0]),
        ([[1.0, 2.0]], [3.0]),
        ([[1.0], [1.0], [1.0]], [1.0, 2.0, 4.0]),
        ([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], [1.0, -1.0]),
    ],
)
@pytest.mark.parametrize("scale", [True, False])
def test_growth_on_hardly_any_data(X, y, scale):
    model = DCONRegressor("auto", gamma=0.1, scale=scale, random_state=0).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert np.all(np.isfinite(model.predict(X)))


@pytest.fixture(scope="module")
def wide_table():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(120, 6))
    return X, np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=120)


def test_a_limit_on_work_ends_growth_unless_another_is_given(wide_table, monkeypatch):
    monkeypatch.setattr("dconnet.training.growth.MOST_WORK", 1.0)
    with pytest.warns(ConvergenceWarning, match="limit on the work of growth"):
        model = DCONRegressor("auto", gamma=0.3, random_state=0).fit(*wide_table)
    assert (model.status_, model.n_iter_) == (Status.WORK_LIMIT, 1)
    for limit in ({"max_seconds": 1e6}, {"max_evaluations": 10**9}):
        assert DCONRegressor("auto", gamma=0.3, random_state=0, **limit).fit(*wide_table).n_iter_ > 1


@pytest.mark.parametrize("n_steps", [0, 1, 7])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_search_takes_no_step_after_its_time(wide_table, monkeypatch, n_steps, n_outputs):
    Q, n_solved = wide_table[0], []
    residual = np.random.default_rng(0).normal(size=(len(Q), n_outputs)).squeeze()
    monkeypatch.setattr(new_neurons, "BATCH", 4 * len(Q))  # batches of four starts
    solve = NativeSolver.solve
    monkeypatch.setattr(NativeSolver, "solve", lambda *args: n_solved.append(1) or solve(*args))
    left = iter(range(n_steps))
    starts = random_starts(np.eye(6), 6, np.random.default_rng(0))
    values, V = climb(Q, residual, starts, 8, lambda: next(left, None) is not None)
    assert len(n_solved) <= n_steps
    np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1.0)
    signed = np.maximum(Q @ V.T, 0.0).T @ residual
    expected = np.linalg.norm(signed, axis=1) if n_outputs == 2 else signed * np.repeat([1.0, -1.0], len(starts))
    np.testing.assert_allclose(values, expected)


def test_no_newton_step_begins_without_time_for_it(wide_table, monkeypatch):
    problem = Problem(*wide_table, gamma=0.1).whitened
    monkeypatch.setattr(PatternDescent, "newton_step", lambda _: pytest.fail("there is no time for a step"))
    patterns = PatternDescent(problem, np.eye(problem.Q.shape[1])[:3], np.ones(3))
    assert patterns.descend(10, 0.0, lambda: 0.5 * patterns.work() / SPEED)


@pytest.mark.parametrize("place", ["climb", "solve_lengths", "merge_neurons"])
def test_an_interrupt_keeps_the_network(wide_table, monkeypatch, place):
    real, left = getattr(growth, place), iter(range(3))

    def interrupted(*args):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(growth, place, interrupted)
    model = DCONRegressor("auto", gamma=0.1, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="the network reached so far was kept"):
        model.fit(*wide_table)
    assert model.status_ is Status.INTERRUPTED
    assert_descent(model.history_)
    assert model.objective_ == pytest.approx(model.history_.objective[-1])
    assert model.objective_ < 0.9 * model.history_.objective[0]


def test_many_features_stop_early_and_have_several_outputs_and_classes(wide_table):
    X, y = wide_table
    model = DCONRegressor("auto", gamma=1e-3, early_stopping=True, n_iter_no_change=2, random_state=0).fit(X, y)
    assert model.status_ is Status.EARLY_STOPPED
    errors = model.history_.validation_mse
    assert np.argmin(errors) == len(errors) - 1 - 2
    model = DCONRegressor("auto", gamma=0.3, random_state=0).fit(X, np.column_stack([y, X[:, 0] - y]))
    assert model.status_ is Status.CONVERGED
    assert model.predict(X).shape == (120, 2)
    classes = np.digitize(y, [0.4, 1.0])
    classifier = DCONClassifier("auto", gamma=0.3, random_state=0).fit(X, classes)
    assert classifier.score(X, classes) > 0.7
    assert classifier.transform(X).shape == (120, sum(network.n_hidden for network in classifier.networks_))
