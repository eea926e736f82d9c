"""Boosted trees predict as well as those of scikit-learn, and are given up if they cannot end in time."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import log_loss

from dconnet.ensemble import trees as trees_module
from dconnet.ensemble.trees import boost

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4))
X[RNG.uniform(size=X.shape) < 0.2] = np.nan
SIGNAL = np.nan_to_num(X[:, 0]) + np.isnan(X[:, 1]) + (X[:, 2] > 0.3) * np.nan_to_num(X[:, 3])
Y = SIGNAL + 0.3 * RNG.normal(size=3000)
CLASSES = np.digitize(Y, [0.0, 0.9])
ROWS, NEW = slice(1000), slice(1000, None)
SETTINGS = {"n_leaves": 8, "n_rounds": 40}
PEER = {
    "max_iter": 40,
    "max_leaf_nodes": 8,
    "max_depth": trees_module.MAX_DEPTH,
    "min_samples_leaf": 20,
    "l2_regularization": trees_module.LEAF_PENALTY,
    "early_stopping": False,
}


def walk(trees, row, n_columns):
    """Return the outputs of one row, node by node."""
    result = trees.baseline.copy()
    for (_, output), node in np.ndenumerate(trees.roots):
        while trees.children[node, 0] != node:
            goes_right, column = divmod(trees.columns[node], n_columns)
            value = row[column]
            right = goes_right if np.isnan(value) else value > trees.thresholds[node]
            node = trees.children[node, int(right)]
        result[output] += trees.values[node]
    return result


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_outputs_are_sums_of_the_leaves_that_a_row_reaches(n_classes):
    target = Y if n_classes == 0 else np.minimum(CLASSES, n_classes - 1)
    found = boost(X[ROWS], target[ROWS], np.ones(1000), n_classes=n_classes, **SETTINGS)
    rows = np.vstack([X[1000:1100], np.full((1, 4), np.nan), np.full((1, 4), np.inf)])
    expected = np.array([walk(found, row, 4) for row in rows])
    np.testing.assert_allclose(found.outputs(rows), expected, rtol=1e-12, atol=1e-12)
    scaled = found.rescale(-2.0, 3.0 * np.ones(found.roots.shape[1]))
    np.testing.assert_allclose(scaled.outputs(rows), 3.0 - 2.0 * expected, rtol=1e-9, atol=1e-12)


def test_regressions_are_as_good_as_those_of_scikit_learn():
    found = boost(X[ROWS], Y[ROWS], np.ones(1000), n_classes=0, **SETTINGS).outputs(X[NEW])[:, 0]
    peer = HistGradientBoostingRegressor(**PEER).fit(X[ROWS], Y[ROWS]).predict(X[NEW])
    ours, theirs = np.mean((found - SIGNAL[NEW]) ** 2), np.mean((peer - SIGNAL[NEW]) ** 2)
    assert ours < 1.1 * theirs
    assert np.mean((found - peer) ** 2) < 0.5 * theirs  # nearly the same trees


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifications_are_as_good_as_those_of_scikit_learn(n_classes):
    classes = np.minimum(CLASSES, n_classes - 1)
    found = boost(X[ROWS], classes[ROWS], np.ones(1000), n_classes=n_classes, **SETTINGS).outputs(X[NEW])
    ours = softmax(found, axis=1) if n_classes > 2 else expit(found[:, 0])
    peer = HistGradientBoostingClassifier(**PEER).fit(X[ROWS], classes[ROWS]).predict_proba(X[NEW])
    assert log_loss(classes[NEW], ours) < 1.05 * log_loss(classes[NEW], peer)


def test_gamma_loss_predicts_the_logarithm_of_the_mean():
    sizes = np.exp(SIGNAL) * RNG.gamma(2.0, 0.5, size=3000)
    found = boost(X[ROWS], sizes[ROWS], np.ones(1000), n_classes=0, loss="gamma", **SETTINGS).outputs(X[NEW])[:, 0]
    peer = np.log(HistGradientBoostingRegressor(loss="gamma", **PEER).fit(X[ROWS], sizes[ROWS]).predict(X[NEW]))
    assert np.mean((found - SIGNAL[NEW]) ** 2) < 1.1 * np.mean((peer - SIGNAL[NEW]) ** 2)


def test_gamma_loss_bears_a_leaf_whose_targets_are_all_tiny():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120_000, 2))
    sizes = np.where(x[:, 0] > 0.0, rng.gamma(2.0, 0.5, size=len(x)), 1e-3)
    found = boost(x, sizes, np.ones(len(x)), n_classes=0, loss="gamma", n_leaves=8, n_rounds=50).outputs(x)[:, 0]
    for is_large, expected in ((True, 0.0), (False, np.log(1e-3))):
        own = found[(x[:, 0] > 0.0) == is_large]
        assert abs(np.median(own) - expected) < 0.1
    assert np.abs(found).max() < 8.0


def test_the_first_split_is_the_best_of_all():
    x, y, weight = RNG.normal(size=(60, 2)), RNG.normal(size=60), RNG.uniform(0.5, 2.0, size=60)
    x[::7, 1] = np.nan
    found = boost(x, y, weight, n_classes=0, n_leaves=2, n_rounds=1)
    penalty, rate = trees_module.LEAF_PENALTY, trees_module.LEARNING_RATE
    residual = y - np.average(y, weights=weight)

    def score(left):
        sides = [(residual * weight)[side].sum() ** 2 / (weight[side].sum() + penalty) for side in (left, ~left)]
        return sum(sides) if min(left.sum(), (~left).sum()) >= trees_module.MIN_LEAF else -np.inf

    gaps = np.isnan(x)
    sides = [(x[:, j] <= t) | (gaps[:, j] & left) for j in (0, 1) for t in x[:, j] for left in (False, True)]
    best = max([*sides, ~gaps[:, 1]], key=score)
    expected = np.average(y, weights=weight) + np.zeros(60)
    for side in (best, ~best):
        expected[side] += rate * (residual * weight)[side].sum() / (weight[side].sum() + penalty)
    np.testing.assert_allclose(found.outputs(x)[:, 0], expected, rtol=1e-5, atol=1e-6)


def test_a_million_equal_gradients_have_an_accurate_sum():
    # Sorted by class, most rows have the same gradient. One column is weakly associated with the class; two are random,
    # and one of these is zero in nearly all rows, so that its other value seems useful if the sums are inaccurate.
    n, rng = 1_000_000, np.random.default_rng(0)
    signal, noise, rare = rng.random(n) < 0.3, rng.random(n) < 0.5, rng.random(n) < 0.002
    classes = (rng.random(n) < 0.05 + 0.0012 * signal).astype(np.intp)
    order = np.argsort(classes, kind="stable")
    table = np.column_stack([noise, rare, signal]).astype(np.float64)
    found = boost(table[order], classes[order], np.ones(n), n_classes=2, n_leaves=2, n_rounds=1)
    assert found.columns[0] == 2


def test_weights_count_like_repeated_rows():
    rows = RNG.integers(-20, 20, size=(1000, 3)).astype(np.float64)  # few values: the same bins in both cases
    y, weight = np.abs(rows[:, 0]) / 20.0 + 0.1 * RNG.normal(size=1000), RNG.integers(1, 3, size=1000)
    repeated = np.repeat(np.arange(1000), weight)
    settings = {"n_classes": 0, "n_leaves": 4, "n_rounds": 5}
    weighted = boost(rows, y, weight.astype(np.float64), **settings).outputs(rows)
    whole = boost(rows[repeated], y[repeated], np.ones(len(repeated)), **settings).outputs(rows)
    np.testing.assert_allclose(weighted, whole, rtol=1e-5, atol=1e-6)


def test_classes_without_rows_are_improbable():
    found = boost(X, np.where(CLASSES == 2, 3, CLASSES), np.ones(3000), n_classes=4, **SETTINGS)
    outputs = found.outputs(X)
    assert outputs.shape == (3000, 4)
    assert (outputs[:, 2] < outputs[:, [0, 1, 3]].min(axis=1) - 5.0).all()


def test_columns_without_values_or_variation_are_not_used():
    rows = np.column_stack([np.full(1000, np.nan), np.zeros(1000), X[ROWS, 0]])
    found = boost(rows, Y[ROWS], np.ones(1000), n_classes=0, **SETTINGS)
    is_leaf = found.children[:, 0] == np.arange(len(found.children))
    assert set(found.columns[~is_leaf] % 3) == {2}
    constant = boost(rows[:, :2], Y[ROWS], np.ones(1000), n_classes=0, **SETTINGS)
    np.testing.assert_allclose(constant.outputs(rows[:, :2]), Y[ROWS].mean(), atol=1e-6)


def test_a_pattern_that_repeats_is_seen_in_many_rows():
    # The bins come from every fourth row of 400,000, on average.
    place = np.arange(400_000) % 4.0
    found = boost(place[:, None], (place == 1.0) * 1.0, np.ones(400_000), n_classes=0, n_leaves=4, n_rounds=40)
    np.testing.assert_allclose(found.outputs(place[:4, None])[:, 0], [0.0, 1.0, 0.0, 0.0], atol=0.02)


def test_extreme_values_keep_their_side():
    largest = np.finfo(np.float64).max
    rows = np.array([-largest, -1e300, 0.0, 1e-320, 1e300, largest]).repeat(20)[:, None]
    y = np.arange(6.0).repeat(20)
    found = boost(rows, y, np.ones(120), n_classes=0, n_leaves=6, n_rounds=200).outputs(rows)[:, 0]
    np.testing.assert_allclose(found, y, atol=0.1)


def test_trees_that_cannot_end_in_time_are_given_up():
    settings = {"n_classes": 0, "n_leaves": 15, "n_rounds": 100_000}
    assert boost(X, Y, np.ones(3000), **settings, seconds=lambda: 0.2) is None
    assert boost(X, Y, np.ones(3000), n_classes=0, n_leaves=2, n_rounds=1, seconds=lambda: 0.0) is None
    assert boost(X, Y, np.ones(3000), n_classes=0, n_leaves=2, n_rounds=1, seconds=lambda: 60.0) is not None


@pytest.mark.parametrize("children", [[[1, 0], [1, 1]], [[1, 1], [0, 0]], [[1, 2], [1, 1]], [[0, 1], [1, 1]]])
def test_trees_without_an_end_are_refused(children):
    nodes, numbers = np.zeros(2, dtype=np.int32), np.zeros(2)
    forged = trees_module.Trees(
        nodes, numbers, np.array(children, dtype=np.int32), numbers, np.zeros((1, 1), dtype=np.int32), np.zeros(1)
    )
    with pytest.raises(ValueError, match=r"does not exist|must come after it"):
        forged.outputs(np.ones((1, 1)))
