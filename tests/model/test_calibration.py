"""Class probabilities: the slope with the least log loss, against other solvers."""

import numpy as np
import pytest
from scipy import optimize, special

from dconnet.model.targets import LEAST_SLOPE, RIDGE, Calibration, log_probabilities_of, probabilities_of

RNG = np.random.default_rng(0)
N = 300
WEIGHT = RNG.uniform(0.2, 3.0, size=N)


def rows_of(n_columns, noise=0.8):
    """Return outputs, columns of plus and minus one that they predict with some errors, and classes."""
    classes = RNG.integers(0, max(2, n_columns), size=N)
    hot = (classes == 1)[:, None] if n_columns == 1 else classes[:, None] == np.arange(n_columns)
    columns = np.where(hot, 1.0, -1.0)
    return 0.6 * columns + noise * RNG.normal(size=columns.shape), columns, classes


@pytest.mark.parametrize("n_columns", [1, 3, 20])
def test_slope_agrees_with_another_solver(n_columns):
    outputs, columns, classes = rows_of(n_columns)
    share = WEIGHT / WEIGHT.sum()

    def loss(slope):
        logits = slope * outputs if n_columns > 1 else np.column_stack([np.zeros(N), slope * outputs])
        of_class = logits[np.arange(N), classes] - special.logsumexp(logits, axis=1)
        return -share @ of_class + RIDGE * (share @ share) * slope**2

    found = optimize.minimize_scalar(loss, bounds=(0.01, 50.0), method="bounded", options={"xatol": 1e-9})
    for scale in (1.0, 1e-6):
        assert Calibration.of(outputs, columns, scale * WEIGHT).slope == pytest.approx(found.x, rel=1e-5)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_separable_classes_have_a_finite_slope(n_columns):
    outputs, columns, _ = rows_of(n_columns, noise=0.0)
    calibration = Calibration.of(outputs, columns, np.ones(N))
    assert 5.0 < calibration.slope < 30.0
    probabilities = calibration.probabilities(outputs)
    assert probabilities.min() > 0.0
    assert probabilities.max() < 1.0


@pytest.mark.parametrize("n_columns", [1, 3])
def test_wrong_outputs_keep_their_order(n_columns):
    outputs, columns, _ = rows_of(n_columns)
    calibration = Calibration.of(-outputs, columns, np.ones(N))
    assert calibration.slope == LEAST_SLOPE
    largest = outputs.argmax(axis=1) if n_columns > 1 else outputs[:, 0] > 0.0
    np.testing.assert_array_equal(calibration.probabilities(outputs).argmax(axis=1), largest)


@pytest.mark.parametrize("n_columns", [1, 4])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e4])
def test_log_probabilities_do_not_underflow(n_columns, size):
    logits = size * RNG.normal(size=(50, n_columns))
    probabilities, logs = probabilities_of(logits), log_probabilities_of(logits)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), probabilities, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("values", [(0.0, 0.0), (-1.0, 0.0), (np.nan, 0.0), (1.0, np.inf)])
def test_bad_values_are_refused(values):
    with pytest.raises(ValueError, match="positive slope"):
        Calibration(*values)
