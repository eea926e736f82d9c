"""Fields are coded by finite numbers, and by target means that do not depend on the target of the row itself."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import TargetEncoder

from dconnet.encoding import coder as coder_module
from dconnet.encoding.coder import MAX_LEVELS, MIN_LEVEL, Coder, Coding, compute_level_means, deal
from dconnet.encoding.columns import read_columns
from dconnet.encoding.design import MAX_SHARE, CodedDesign, Levels
from dconnet.encoding.schema import Schema
from dconnet.ensemble.stacking import one_hot

RNG = np.random.default_rng(0)
N = 240
LEVELS = RNG.integers(0, 20, size=N)
FRAME = pd.DataFrame(
    {"x": RNG.normal(size=N), "t": [f"level {i}" for i in LEVELS], "c": np.where(LEVELS > 9, "a", "b")}
)
Y = LEVELS + RNG.normal(size=N)
BY_TARGET = Coding(by_target=True)
CODINGS = pytest.mark.parametrize("coding", [Coding(), Coding(6), Coding(16, every_value=True)])


def fields(frame, like=None):
    return Schema.fit(read_columns(frame if like is None else like)).read(read_columns(frame))


def dense(coding, frame):
    return Coder.of(coding, fields(frame)).code(fields(frame)).dense(slice(None))


# --- features ---


@pytest.mark.parametrize(
    ("levels", "n_columns"),
    [
        (np.repeat(list("abc"), [MIN_LEVEL + 1, MIN_LEVEL, MIN_LEVEL - 1]), 2),
        (["a", "b", "a"], 1),
        ([f"level {i}" for i in range(2 * MAX_LEVELS)] * MIN_LEVEL, MAX_LEVELS),
    ],
)
def test_frequent_levels_have_a_column(levels, n_columns):
    assert Coder.of(Coding(), fields(pd.DataFrame({"c": levels}))).features == (Levels(n_columns),)


# --- extreme values ---


@CODINGS
@pytest.mark.parametrize("size", [1e-310, 1e-30, 1e200, 1e307])
def test_the_unit_of_a_column_does_not_matter(coding, size):
    values = RNG.integers(-8, 9, size=N) / 8.0
    plain, other = (dense(coding, pd.DataFrame({"x": own})) for own in (values, values * size))
    np.testing.assert_allclose(other, plain, rtol=1e-5, atol=1e-6)


@CODINGS
@pytest.mark.parametrize("outlier", [1e39, -1.7e308])
def test_outliers_are_coded_by_finite_numbers(coding, outlier):
    frame = pd.DataFrame({"x": RNG.normal(size=N)})
    far = frame.copy()
    far.loc[0, "x"], far.loc[1, "x"] = outlier, -outlier
    for like in (frame, far):
        shares = Coder.of(coding, fields(like)).code(fields(far, like)).shares
        assert np.isfinite(shares).all()
        assert np.abs(shares).max() <= np.float32(MAX_SHARE)


# --- target means ---


def cross_fit(target, classes=None):
    table = fields(FRAME)
    fitted, values = Coder.of(BY_TARGET, table).cross_fit(table, target, np.ones(N), classes, seed=0)
    return fitted, values[2:]


@pytest.mark.parametrize("is_class", [False, True])
def test_target_means_of_a_row_do_not_depend_on_its_own_target(monkeypatch, is_class):
    monkeypatch.setattr(coder_module, "deal", lambda *_: deal(N, 5, seed=3))  # stratified folds depend on the target
    row = 17
    y = one_hot(RNG.integers(0, 3, size=N), 3) if is_class else Y[:, None]
    other = y.copy()
    other[row] = np.roll(y[row], 1) if is_class else 1e3
    first, second = (np.transpose(cross_fit(target)[1]) for target in (y, other))
    np.testing.assert_array_equal(second[row], first[row])
    same = LEVELS[row] == LEVELS
    same[row] = False
    assert not np.allclose(second[same], first[same], rtol=1e-3)


@pytest.mark.parametrize("rare", [[1], [2, 2], [0, 2, 3]])
def test_classes_of_a_single_row_are_coded(rare):
    y = np.full(N, 1 if 0 in rare else 0)
    y[: len(rare)] = rare
    n_means = 1 if y.max() == 1 else y.max() + 1
    fitted, values = cross_fit(one_hot(y, n_means), y)
    assert np.isfinite(CodedDesign.of(fitted.features[2:], values).dense(slice(None))).all()
    means = fitted.means[0].values(fields(FRAME))
    for k, own in enumerate(means, start=1 if len(means) == 1 else 0):
        expected = TargetEncoder(target_type="continuous").fit(FRAME[["t"]], 1.0 * (y == k)).transform(FRAME[["t"]])
        np.testing.assert_allclose(own, expected[:, 0], rtol=1e-12, atol=1e-15)


def test_a_row_of_weight_two_counts_as_two_in_target_means():
    weight = RNG.integers(0, 4, size=N)
    twice = np.repeat(np.arange(N), weight)
    found = compute_level_means(LEVELS, LEVELS.max() + 2, Y[:, None], weight.astype(float))
    expected = TargetEncoder(target_type="continuous").fit(LEVELS[twice, None], Y[twice])
    every = np.arange(len(found))[:, None]
    np.testing.assert_allclose(found[:-1], expected.transform(every[:-1]), rtol=1e-12)
    np.testing.assert_allclose(found[-1], np.average(Y, weights=weight), rtol=1e-12)


# --- folds ---


@pytest.mark.parametrize(("n_rows", "n_folds"), [(2, 2), (7, 5), (100, 10)])
def test_every_row_is_in_one_fold_and_folds_have_equal_sizes(n_rows, n_folds):
    folds = deal(n_rows, n_folds, seed=1)
    assert sorted(np.concatenate(folds).tolist()) == list(range(n_rows))
    assert {len(fold) for fold in folds} <= {n_rows // n_folds, n_rows // n_folds + 1}


def test_folds_are_stratified_and_depend_on_the_seed_alone():
    labels = np.repeat([0, 1, 2], [50, 30, 5])
    for fold in deal(85, 5, seed=0, labels=labels):
        assert np.bincount(labels[fold]).tolist() == [10, 6, 1]
    first, again, other = (np.concatenate(deal(50, 5, seed)) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
