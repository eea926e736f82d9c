"""Weights of members satisfy their optimality conditions and agree with an independent solver."""

import numpy as np
import pytest
from scipy import optimize, special

from dconnet.ensemble.stacking import (
    INTERCEPT_PENALTY,
    PRIOR_ROWS,
    WEIGHT_PENALTY,
    SoftmaxStack,
    fit_convex_weights,
)
from dconnet.model.targets import probabilities_of

RNG = np.random.default_rng(0)
M, MEMBERS = 200, 6
TARGET = RNG.normal(size=M)
PREDICTIONS = TARGET[:, None] + RNG.normal(size=(M, MEMBERS)) * [0.5, 0.7, 1.0, 1.5, 0.6, 4.0]
SAMPLE_WEIGHT = RNG.uniform(0.1, 3.0, size=M)
PRIOR = np.full(MEMBERS, 1.0 / MEMBERS)
BEST = np.average((PREDICTIONS - TARGET[:, None]) ** 2, axis=0, weights=SAMPLE_WEIGHT).min()


def penalised_error(weights):
    """Return the mean squared error and the penalty on the distance from the prior."""
    errors = np.average((PREDICTIONS @ weights - TARGET) ** 2, weights=SAMPLE_WEIGHT)
    return float(errors + PRIOR_ROWS / SAMPLE_WEIGHT.sum() * BEST * np.sum((weights - PRIOR) ** 2))


def convex_weights(predictions=PREDICTIONS, y=TARGET, sample_weight=SAMPLE_WEIGHT):
    n_members = predictions.shape[1]
    return fit_convex_weights(predictions, y, sample_weight, np.full(n_members, 1.0 / n_members))


# --- convex weights ---


@pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
def test_convex_weights_satisfy_their_optimality_conditions(size):
    weights = convex_weights(size * PREDICTIONS, size * TARGET)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0, rel=1e-12)
    gradient = optimize.approx_fprime(weights, penalised_error, 1e-8)
    used = weights > 0.0
    assert 1 < used.sum() < MEMBERS
    np.testing.assert_allclose(gradient[used], gradient[used].mean(), atol=1e-6)
    assert (gradient[~used] >= gradient[used].mean() - 1e-6).all()


def test_convex_weights_agree_with_slsqp():
    found = optimize.minimize(
        penalised_error,
        PRIOR,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * MEMBERS,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    weights = convex_weights()
    assert penalised_error(weights) <= found.fun * (1 + 1e-8)
    np.testing.assert_allclose(weights, found.x, atol=1e-4)


def test_convex_weights_in_special_cases():
    few = convex_weights(PREDICTIONS[:3], TARGET[:3], SAMPLE_WEIGHT[:3])
    assert few.min() >= 0.0
    perfect = PREDICTIONS.copy()
    perfect[:, 3] = TARGET
    assert convex_weights(perfect)[3] == pytest.approx(1.0, abs=1e-6)
    equal = [convex_weights(np.tile(TARGET[:, None] + c, 3)) for c in (0.0, 1.0)]
    for weights in (few, *equal):
        assert weights.sum() == pytest.approx(1.0)
    half = np.where(np.arange(M) < M // 2, SAMPLE_WEIGHT, 0.0)
    first = convex_weights(PREDICTIONS[: M // 2], TARGET[: M // 2], SAMPLE_WEIGHT[: M // 2])
    np.testing.assert_allclose(convex_weights(sample_weight=half), first, atol=1e-9)


# --- classes ---


def scores_of(n_columns):
    """Return scores of members, and classes that depend on them."""
    rng = np.random.default_rng(n_columns)
    scores = rng.normal(size=(4, M, n_columns))
    total = scores[0] + 0.5 * scores[1] + rng.gumbel(size=(M, n_columns))
    classes = (total[:, 0] > 0.3).astype(np.intp) if n_columns == 1 else total.argmax(axis=1)
    return scores, classes


def fit_stack(scores, classes, sample_weight=SAMPLE_WEIGHT, total=1.0):
    return SoftmaxStack.of(scores, classes, sample_weight, np.full(len(scores), total / len(scores)))


def probabilities(stack, scores):
    return probabilities_of(np.tensordot(stack.weights, scores, axes=1) + stack.intercepts)


def penalised(theta, scores, classes):
    """Return the penalised log loss, computed in another way."""
    n_members, _, n_columns = scores.shape
    totals = sum(w * s for w, s in zip(theta[:n_members], scores, strict=True)) + theta[n_members:]
    if n_columns == 1:
        totals = np.column_stack([np.zeros(M), totals])
    chosen = totals[np.arange(M), classes] - special.logsumexp(totals, axis=1)
    ridge = WEIGHT_PENALTY * np.sum((theta[:n_members] - 1.0 / n_members) ** 2) + INTERCEPT_PENALTY * np.sum(
        theta[n_members:] ** 2
    )
    return -np.average(chosen, weights=SAMPLE_WEIGHT) + ridge


@pytest.mark.parametrize("n_columns", [1, 3, 30])
def test_softmax_stacks_satisfy_their_optimality_conditions(n_columns):
    scores, classes = scores_of(n_columns)
    stack = fit_stack(scores, classes)
    theta = np.append(stack.weights, stack.intercepts)
    gradient = optimize.approx_fprime(theta, penalised, 1e-7, scores, classes)
    assert stack.weights.min() >= 0.0
    free = np.append(stack.weights > 0.0, np.ones(n_columns, dtype=bool))
    np.testing.assert_allclose(gradient[free], 0.0, atol=1e-4)
    assert (gradient[~free] > -1e-4).all()


def test_softmax_stacks_agree_with_slsqp():
    scores, classes = scores_of(3)
    stack = fit_stack(scores, classes)
    found = optimize.minimize(
        penalised,
        np.append(np.ones(4), np.zeros(3)),
        args=(scores, classes),
        method="SLSQP",
        bounds=[(0.0, None)] * 4 + [(None, None)] * 3,
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert penalised(np.append(stack.weights, stack.intercepts), scores, classes) <= found.fun + 1e-7


def test_separable_classes_have_finite_weights():
    scores = np.where(np.arange(M) < M // 2, -1e3, 1e3)[None, :, None]
    stack = fit_stack(scores, (np.arange(M) >= M // 2).astype(np.intp), np.ones(M))
    assert np.isfinite(stack.weights).all()
    assert np.isfinite(probabilities(stack, scores)).all()
