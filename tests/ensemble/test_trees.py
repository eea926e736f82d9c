"""Boosted trees predict like those of scikit-learn, and are given up if they cannot end in time."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from dconnet.ensemble import trees as trees_module
from dconnet.ensemble.trees import Trees, boost
from dconnet.training import clock as clock_module

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
X[RNG.uniform(size=X.shape) < 0.2] = np.nan
Y = np.nan_to_num(X[:, 0]) + np.isnan(X[:, 1]) + 0.1 * RNG.normal(size=300)
CLASSES = np.digitize(Y, [0.0, 0.7])
SETTINGS = {"n_leaves": 6, "seed": 0}


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (HistGradientBoostingRegressor(max_iter=20), Y),
        (HistGradientBoostingClassifier(max_iter=20), CLASSES > 0),
        (HistGradientBoostingClassifier(max_iter=20), CLASSES),
    ],
    ids=["regression", "two classes", "three classes"],
)
def test_outputs_are_those_of_scikit_learn(model, target):
    model.fit(X, target)
    new = np.vstack([RNG.normal(size=(600, 4)), X, np.full((1, 4), np.nan)])
    found = Trees.of(model, 4)
    np.testing.assert_allclose(found.outputs(new).T, np.atleast_2d(model._raw_predict(new).T), rtol=1e-12)
    np.testing.assert_array_equal(found.outputs(new[:1]), found.outputs(new)[:1])
    scaled = found.rescale(-2.0, 3.0 * np.ones(found.roots.shape[1]))
    np.testing.assert_allclose(scaled.outputs(new), 3.0 - 2.0 * found.outputs(new), rtol=1e-9)


def test_classes_without_rows_are_improbable():
    found = boost(X, np.where(CLASSES == 2, 3, CLASSES), np.ones(300), n_classes=4, n_rounds=5, **SETTINGS)
    outputs = found.outputs(X)
    assert outputs.shape == (300, 4)
    assert (outputs[:, 2] < outputs[:, [0, 1, 3]].min(axis=1) - 5.0).all()


def test_weights_count_like_repeated_rows_in_columns_of_few_values(monkeypatch):
    fit, columns = HistGradientBoostingRegressor.fit, np.vstack([X, RNG.normal(size=(400, 4))])
    y, weight = np.nan_to_num(columns[:, 0]) + np.isnan(columns[:, 1]), RNG.integers(1, 4, size=700)

    def fit_few_values(model, values, target, sample_weight=None):
        if sample_weight is not None:
            assert max(len(np.unique(own[~np.isnan(own)])) for own in values.T) <= model.max_bins
            np.testing.assert_array_equal(np.isnan(values), np.isnan(columns))
            np.testing.assert_allclose(values, columns, atol=1.5)
            np.testing.assert_allclose(values[np.abs(columns) < 1.0], columns[np.abs(columns) < 1.0], atol=0.05)
        return fit(model, values, target, sample_weight)

    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", fit_few_values)
    repeated, new = np.repeat(np.arange(700), weight), RNG.normal(size=(400, 4))
    settings = {"n_classes": 0, "n_rounds": 30, **SETTINGS}
    weighted = boost(columns, y, weight.astype(np.float64), **settings).outputs(new)
    whole = boost(columns[repeated], y[repeated], np.ones(len(repeated)), **settings).outputs(new)
    assert np.mean((weighted - whole) ** 2) < 0.02 * np.var(whole)


@pytest.fixture
def now(monkeypatch):
    """Return a clock on which the training of a tree takes a second."""
    time = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(perf_counter=lambda: time.seconds))
    fit = HistGradientBoostingRegressor.fit

    def slow(model, *arguments):
        time.seconds += model.max_iter - getattr(model, "n_iter_", 0)
        return fit(model, *arguments)

    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", slow)
    return time


def test_chunks_of_rounds_give_the_same_trees(monkeypatch, now):
    whole = boost(X, Y, np.ones(300), n_classes=0, n_rounds=10, **SETTINGS)
    monkeypatch.setattr(trees_module, "CHUNK", 3.0 * X.size)
    monkeypatch.setattr(trees_module, "FIRST_CHUNK", 0.0)
    limits, began = [], now.seconds

    def seconds():
        limits.append(10.5 - (now.seconds - began))
        return limits[-1]

    found = boost(X, Y, np.ones(300), n_classes=0, n_rounds=10, **SETTINGS, seconds=seconds)
    np.testing.assert_allclose(found.outputs(X), whole.outputs(X), rtol=1e-5)
    assert limits == [10.5, 9.5, 6.5, 3.5]


@pytest.mark.parametrize(("limit", "n_rounds"), [(9.5, 1), (0.0, 0)])
def test_trees_that_cannot_end_in_time_are_given_up(monkeypatch, now, limit, n_rounds):
    monkeypatch.setattr(trees_module, "FIRST_CHUNK", 0.0)
    seconds = lambda: limit - now.seconds  # noqa: E731
    assert boost(X, Y, np.ones(300), n_classes=0, n_rounds=10, **SETTINGS, seconds=seconds) is None
    assert now.seconds == n_rounds
