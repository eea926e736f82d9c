"""Probabilities from outputs: the slope of least log loss, against other ways to find it."""

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.linear_model import LogisticRegression

from dconnet.model.calibration import LEAST_SLOPE, RIDGE, Calibration, log_probabilities_of, probabilities_of

RNG = np.random.default_rng(0)
N = 300
WEIGHT = RNG.uniform(0.2, 3.0, size=N)


def rows_of(n_columns, noise=0.8):
    """Outputs, and columns of plus and minus one that they foretell with some errors."""
    classes = RNG.integers(0, max(2, n_columns), size=N)
    hot = (classes == 1)[:, None] if n_columns == 1 else classes[:, None] == np.arange(n_columns)
    columns = np.where(hot, 1.0, -1.0)
    return 0.6 * columns + noise * RNG.normal(size=columns.shape), columns, classes


@pytest.mark.parametrize("weight", [np.ones(N), WEIGHT], ids=["plain", "weighted"])
def test_for_two_classes_it_is_a_logistic_regression_without_intercept(weight):
    outputs, columns, classes = rows_of(1)
    C = weight.sum() / (2.0 * RIDGE * np.sum(weight**2))
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-12).fit(outputs, classes, sample_weight=weight)
    calibration = Calibration.of(outputs, columns, weight)
    assert calibration.slope == pytest.approx(model.coef_[0, 0], rel=1e-6)
    np.testing.assert_allclose(calibration.probabilities(outputs), model.predict_proba(outputs), atol=1e-7)


@pytest.mark.parametrize("n_columns", [1, 3, 20])
def test_it_has_the_least_loss_that_another_solver_finds(n_columns):
    outputs, columns, classes = rows_of(n_columns)
    share = WEIGHT / WEIGHT.sum()

    def loss(slope):
        logits = slope * outputs if n_columns > 1 else np.column_stack([np.zeros(N), slope * outputs])
        of_class = logits[np.arange(N), classes] - special.logsumexp(logits, axis=1)
        return -share @ of_class + RIDGE * (share @ share) * slope**2

    slope = Calibration.of(outputs, columns, WEIGHT).slope
    found = optimize.minimize_scalar(loss, bounds=(0.01, 50.0), method="bounded", options={"xatol": 1e-9})
    assert slope == pytest.approx(found.x, rel=1e-5)
    assert (loss(slope + 1e-4) - loss(slope - 1e-4)) / 2e-4 == pytest.approx(0.0, abs=1e-8)


def test_the_scale_of_the_weights_does_not_matter():
    outputs, columns, _ = rows_of(3)
    one, other = (Calibration.of(outputs, columns, scale * WEIGHT).slope for scale in (1.0, 1e-6))
    assert one == pytest.approx(other, rel=1e-9)


def test_means_of_rows_count_like_these_rows():
    outputs = np.array([[-1.0], [0.5]])
    as_rows = Calibration.of(outputs[[0, 0, 1, 1]], np.array([[-1.0], [-1.0], [1.0], [-1.0]]), 1e3 * np.ones(4))
    share = np.array([0.5, 0.5])
    logits = as_rows.slope * outputs[:, 0]
    hot = np.array([0.0, 0.5])
    gradient = share @ ((special.expit(logits) - hot) * outputs[:, 0]) + 2.0 * RIDGE / 4 * as_rows.slope
    assert gradient == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_classes_that_outputs_separate_have_a_finite_slope_and_probabilities_inside(n_columns):
    outputs, columns, _ = rows_of(n_columns, noise=0.0)
    calibration = Calibration.of(outputs, columns, np.ones(N))
    assert 5.0 < calibration.slope < 30.0
    probabilities = calibration.probabilities(outputs)
    assert probabilities.min() > 0.0
    assert probabilities.max() < 1.0


@pytest.mark.parametrize("n_columns", [1, 3])
def test_the_order_of_the_outputs_stays_even_if_they_are_wrong(n_columns):
    outputs, columns, _ = rows_of(n_columns)
    calibration = Calibration.of(-outputs, columns, np.ones(N))
    assert calibration.slope == LEAST_SLOPE
    largest = outputs.argmax(axis=1) if n_columns > 1 else outputs[:, 0] > 0.0
    np.testing.assert_array_equal(calibration.probabilities(outputs).argmax(axis=1), largest)


@pytest.mark.parametrize("n_columns", [1, 4])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e4])
def test_logarithms_are_those_of_the_probabilities_and_finite_beyond_them(n_columns, size):
    logits = size * RNG.normal(size=(50, n_columns))
    probabilities, logs = probabilities_of(logits), log_probabilities_of(logits)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), probabilities, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("values", [(0.0, 0.0), (-1.0, 0.0), (np.nan, 0.0), (1.0, np.inf)])
def test_bad_values_are_refused(values):
    with pytest.raises(ValueError, match="positive slope"):
        Calibration(*values)
