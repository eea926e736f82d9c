"""The logistic regression agrees with that of scikit-learn."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dconnet.ensemble import logistic
from dconnet.ensemble.logistic import fit_ridge_logistic

RNG = np.random.default_rng(0)
M, N = 300, 8
H = RNG.normal(size=(M, N))
HOT = (H[:, 0] - H[:, 1] + RNG.logistic(size=M) > 0.5).astype(float)
WEIGHT = RNG.uniform(0.2, 2.0, size=M)


def value(theta, penalty):
    z = H @ theta[:-1] + theta[-1]
    return WEIGHT @ (np.logaddexp(0.0, z) - HOT * z) + 0.5 * penalty * np.sum(theta[:-1] ** 2)


@pytest.mark.parametrize("penalty", [0.1, 3.0, 100.0])
def test_agrees_with_scikit_learn(penalty):
    theta = fit_ridge_logistic(H.T, HOT, WEIGHT, penalty)
    model = LogisticRegression(C=1.0 / penalty, tol=1e-10, max_iter=1000).fit(H, HOT, sample_weight=WEIGHT)
    np.testing.assert_allclose(theta[:-1], model.coef_[0], atol=1e-3)
    assert theta[-1] == pytest.approx(model.intercept_[0], abs=1e-3)
    best = value(np.append(model.coef_[0], model.intercept_[0]), penalty)
    assert value(theta, penalty) <= best * (1 + 1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e-18, 1e18])
def test_extreme_weights_give_finite_coefficients(size):
    assert np.isfinite(fit_ridge_logistic(H.T, HOT, size * WEIGHT, 3.0)).all()


def test_no_step_is_taken_once_the_time_is_over(monkeypatch):
    calls = []
    theta = fit_ridge_logistic(H.T, HOT, WEIGHT, 3.0, lambda: calls.append(0) or len(calls) > 2)
    monkeypatch.setattr(logistic, "MAX_STEPS", 2)
    np.testing.assert_array_equal(theta, fit_ridge_logistic(H.T, HOT, WEIGHT, 3.0))
    assert len(calls) == 3
