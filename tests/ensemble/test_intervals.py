"""Intervals follow the size of the errors, contain their share of new rows, and end where the target does."""

import numpy as np
import pytest

from dconnet import AutoDCONRegressor
from dconnet.encoding.coder import deal
from dconnet.encoding.columns import read_columns
from dconnet.encoding.schema import Schema
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.intervals import Intervals, find_limits

SHARES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def table_of(X):
    raws = read_columns(X)
    return Schema.fit(raws).read(raws)


def draw(n_rows, seed, spread, n_columns=3):
    """Return columns, their table, the mean of a target, and the target; its deviation is ``spread(columns)``."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return X, table_of(X), 10.0 * X[:, 0], 10.0 * X[:, 0] + spread(X) * rng.normal(size=n_rows)


def fit(table, predictions, y, *, n_folds=5, weight=None, seconds=lambda: np.inf):
    weight = np.ones(len(y)) if weight is None else weight
    data = TrainingSet(table, y[:, None], weight, tuple(deal(len(y), n_folds, 0)), None, 0)
    return Intervals.fit(data, predictions, seconds)


def thirds(values):
    return np.array_split(np.argsort(values), 3)


@pytest.mark.parametrize(
    "spread",
    [lambda X: np.exp(X[:, 1]), lambda X: np.where(X[:, 0] > 0.0, 3.0, 0.3)],
    ids=["by a column", "by the prediction"],
)
def test_widths_follow_the_errors(spread):
    intervals = fit(*draw(2000, 0, spread)[1:])
    X, table, mean, y = draw(6000, 1, spread)
    low, high = intervals.predict_interval(table, mean, 0.9)
    assert np.corrcoef(np.log(high - low), np.log(spread(X)))[0, 1] > 0.9
    covered = (low <= y) & (y <= high)
    assert covered.mean() == pytest.approx(0.9, abs=0.03)
    for rows in thirds(high - low):
        assert covered[rows].mean() == pytest.approx(0.9, abs=0.05)
    quantiles = intervals.predict_quantiles(table, mean, SHARES)
    assert (np.diff(quantiles, axis=1) > 0.0).all()
    for rows in thirds(high - low):
        np.testing.assert_allclose(np.mean(y[rows, None] <= quantiles[rows], axis=0), SHARES, atol=0.05)
    deviation = intervals.predict_deviation(table, mean)
    assert np.mean(((y - mean) / deviation) ** 2) == pytest.approx(1.0, abs=0.15)


def test_equal_errors_have_nearly_equal_widths():
    intervals = fit(*draw(400, 0, lambda X: np.ones(len(X)))[1:])
    _, table, mean, y = draw(4000, 1, lambda X: np.ones(len(X)))
    low, high = intervals.predict_interval(table, mean, 0.9)
    assert np.std(high - low) < 0.15 * np.mean(high - low)
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.9, abs=0.04)


def test_one_width_without_rows_folds_time_or_errors():
    _, table, mean, y = draw(400, 0, lambda X: np.exp(X[:, 1]))
    some = np.arange(40)
    for intervals in (
        fit(table.rows(some), mean[some], y[some]),
        fit(table, mean, y, n_folds=1),
        fit(table, mean, y, seconds=lambda: 0.0),
        fit(table, y, y),
    ):
        assert not intervals.trees
        low, high = intervals.predict_interval(table, mean, 0.9)
        np.testing.assert_allclose(high - low, high[0] - low[0])


def test_wide_tables_use_the_prediction_alone():
    rows = draw(500, 0, lambda X: np.where(X[:, 0] > 0.0, 3.0, 0.3), n_columns=60)
    intervals = fit(*rows[1:])
    assert not intervals.uses_fields
    _, table, mean, _ = rows
    deviation = intervals.predict_deviation(table, mean)
    assert np.median(deviation[mean > 0.0]) > 3.0 * np.median(deviation[mean < 0.0])


@pytest.mark.parametrize("unit", [1e-300, 1e-6, 1e12, 1e300])
def test_the_unit_of_the_target_does_not_matter(unit):
    _, table, mean, y = draw(300, 0, lambda X: np.exp(X[:, 1]))
    expected = fit(table, mean, y).predict_quantiles(table, mean, SHARES)
    scaled = fit(table, unit * mean, unit * y).predict_quantiles(table, unit * mean, SHARES)
    np.testing.assert_allclose(scaled / unit, expected, rtol=1e-6)


def test_rows_of_little_weight_hardly_count():
    _, table, mean, y = draw(300, 0, lambda X: np.where(X[:, 1] > 0.0, 100.0, 1.0))
    is_small = table.values[1] <= 0.0
    weighted = fit(table, mean, y, weight=np.where(is_small, 1.0, 1e-9))
    low, high = weighted.predict_interval(table, mean, 0.9)
    assert np.mean((low <= y) & (y <= high), where=is_small) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("y", "limits"),
    [
        ([0.3, 2.0, 7.5], (0.0, None)),
        ([-0.3, -2.0], (None, 0.0)),
        ([-1.0, 2.0], (None, None)),
        ([-1.0, *[4.0] * 5], (None, 4.0)),
        ([*[3.0] * 5, 9.0], (3.0, None)),
        ([*[4.0] * 5, *np.linspace(-1.0, 3.0, 400)], (None, None)),
        ([0.0, 0.0], (0.0, 0.0)),
    ],
)
def test_limits(y, limits):
    assert find_limits(np.array(y)) == limits


def test_positive_targets_have_no_negative_ends():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    y = np.minimum(np.exp(2.0 * X[:, 0]) * rng.gamma(1.0, size=200), 6.0)  # an instrument that ends at 6
    model = AutoDCONRegressor(random_state=0, members="networks").fit(X, y)
    low, high = model.predict_interval(X, 0.99)
    quantiles = model.predict_quantiles(X, [0.001, 0.5, 0.999])
    assert low.min() == quantiles.min() == 0.0
    assert high.max() == quantiles.max() == 6.0
    assert ((low <= model.predict(X)) & (model.predict(X) <= high)).all()
    assert (np.diff(quantiles, axis=1) >= 0.0).all()
