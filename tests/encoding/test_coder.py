"""Fields are coded as their coding says, with means of the target that do not know the row, and always finite."""

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import TargetEncoder

from dconnet.encoding import coder
from dconnet.encoding.coder import FEW_LEVELS, MAX_LEVELS, MIN_LEVEL, Coder, Coding, level_means
from dconnet.encoding.columns import raw_columns
from dconnet.encoding.features import FARTHEST, Levels, Linear, Ramps
from dconnet.encoding.folds import deal
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


def table_of(frame, like=None):
    return Schema.fit(raw_columns(FRAME if like is None else like)).read(raw_columns(frame))


# --- features ---


def test_codings_choose_the_features():
    table = table_of(FRAME)
    assert [type(f) for f in Coder.of(Coding(), table).features] == [Linear, Levels, Levels]
    assert [type(f) for f in Coder.of(Coding(6), table).features] == [Ramps, Levels, Levels]
    assert [type(f) for f in Coder.of(BY_TARGET, table).features] == [Linear, Levels]


def test_levels_with_few_rows_have_no_column_and_two_levels_have_one():
    counts = [MIN_LEVEL + 1, MIN_LEVEL, MIN_LEVEL - 1]
    table = table_of(*[pd.DataFrame({"c": np.repeat(list("abc"), counts)})] * 2)
    assert Coder.of(Coding(), table).features == (Levels(2),)
    table = table_of(*[pd.DataFrame({"c": ["a", "b", "a"]})] * 2)
    assert Coder.of(Coding(), table).features == (Levels(1),)


def test_no_category_has_more_columns_than_the_most():
    frame = pd.DataFrame({"c": [f"level {i}" for i in range(2 * MAX_LEVELS)] * MIN_LEVEL})
    assert Coder.of(Coding(), table_of(frame, frame)).features == (Levels(MAX_LEVELS),)


def test_weekdays_of_a_weekend_have_a_column():
    frame = pd.DataFrame({"d": pd.to_datetime(["2024-01-06", "2024-01-07"] * 20)})
    table = table_of(frame, frame)
    design = Coder.of(Coding(), table).code(table)
    weekday = design.dense(slice(None))[:, -2]
    assert set(weekday.tolist()) == {0.0, 1.0}


def test_only_levels_beside_ramps_are_gentle():
    table = table_of(FRAME)
    assert not Coder.of(Coding(), table).gentle.any()
    fitted = Coder.of(Coding(6), table)
    n_ramps = fitted.features[0].n_columns
    assert fitted.gentle.tolist() == [False] * n_ramps + [True] * (len(fitted.gentle) - n_ramps)


# --- values out of all proportion ---


@pytest.mark.parametrize("coding", [Coding(), Coding(6), Coding(16, every_value=True)])
@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e-30, 1e30, 1e200, 1e307])
def test_the_unit_of_a_column_does_not_matter(coding, size):
    values = RNG.integers(-8, 9, size=N) / 8.0
    plain, other = pd.DataFrame({"x": values}), pd.DataFrame({"x": values * size})
    codes = [Coder.of(coding, table_of(f, f)).code(table_of(f, f)).dense(slice(None)) for f in (plain, other)]
    np.testing.assert_allclose(codes[1], codes[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("coding", [Coding(), Coding(6), Coding(16, every_value=True)])
@pytest.mark.parametrize("outlier", [1e39, 1e300, -1.7e308])
def test_outliers_are_coded_by_finite_numbers(coding, outlier):
    frame = pd.DataFrame({"x": RNG.normal(size=N)})
    far = frame.copy()
    far.loc[0, "x"], far.loc[1, "x"] = outlier, -outlier
    for like in (frame, far):
        shares = Coder.of(coding, table_of(like, like)).code(table_of(far, like)).shares
        assert np.isfinite(shares).all()
        assert np.abs(shares).max() <= np.float32(FARTHEST)


def test_an_outlier_in_the_training_has_the_largest_standardised_value():
    frame = pd.DataFrame({"x": np.append(np.zeros(N - 1), 1e300)})
    table = table_of(frame, frame)
    column = Coder.of(Coding(), table).code(table).dense(slice(None))[:, 0]
    assert column[-1] == pytest.approx(np.sqrt(N - 1), rel=1e-6)
    assert column.std() == pytest.approx(1.0, rel=1e-6)


# --- means of the target ---


def test_new_rows_have_the_means_of_all_rows_as_scikit_learn_computes_them():
    table = table_of(FRAME)
    fitted, _ = Coder.of(BY_TARGET, table).with_target(table, Y[:, None], np.ones(N), None, seed=0)
    (means,) = fitted.means
    expected = TargetEncoder(target_type="continuous").fit(FRAME[["t"]], Y).transform(FRAME[["t"]])
    np.testing.assert_allclose(means.values(table)[0], expected[:, 0], rtol=1e-12)


def test_new_levels_have_the_mean_of_all_rows():
    table = table_of(FRAME)
    fitted, _ = Coder.of(BY_TARGET, table).with_target(table, Y[:, None], np.ones(N), None, seed=0)
    new = table_of(FRAME.assign(t="new"))
    np.testing.assert_allclose(fitted.means[0].values(new)[0], Y.mean(), rtol=1e-12)


@pytest.mark.parametrize("is_class", [False, True])
def test_the_means_of_a_row_do_not_know_its_own_target(monkeypatch, is_class):
    monkeypatch.setattr(coder, "deal", lambda *_: deal(N, 5, seed=3))  # folds of classes would depend on the target
    table, row = table_of(FRAME), 17
    y = one_hot(RNG.integers(0, 3, size=N), 3) if is_class else Y[:, None]
    other = y.copy()
    other[row] = np.roll(y[row], 1) if is_class else 1e3
    first, second = (
        means_of(*Coder.of(BY_TARGET, table).with_target(table, t, np.ones(N), None, 0)) for t in (y, other)
    )
    np.testing.assert_allclose(second[row], first[row], rtol=1e-4)
    same = LEVELS[row] == LEVELS
    same[row] = False
    assert not np.allclose(second[same], first[same], rtol=1e-3)


def means_of(fitted, design):
    """The means themselves: codes of linear features after x, unscaled."""
    features = fitted.features[len(fitted.plain) :]
    codes = design.dense(slice(None))[:, 1 : 1 + len(features)]
    return codes * [f.scale for f in features] + [f.center for f in features]


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_classes_have_a_column_each_but_two_have_one(n_classes):
    table = table_of(FRAME)
    y, n_means = LEVELS % n_classes, 1 if n_classes == 2 else n_classes
    fitted, design = Coder.of(BY_TARGET, table).with_target(table, one_hot(y, n_means), np.ones(N), y, seed=0)
    assert design.n_columns == 2 + n_means
    (means,) = fitted.means
    expected = TargetEncoder().fit(FRAME[["t"]], y).transform(FRAME[["t"]])
    np.testing.assert_allclose(np.transpose(means.values(table)), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("rare", [[1], [1, 2], [2], [2, 2], [0, 2, 3]])
def test_classes_of_a_single_row_are_coded(rare):
    table = table_of(FRAME)
    y = np.full(N, 1 if 0 in rare else 0)
    y[: len(rare)] = rare
    n_means = 1 if y.max() == 1 else y.max() + 1
    fitted, design = Coder.of(BY_TARGET, table).with_target(table, one_hot(y, n_means), np.ones(N), y, seed=0)
    assert np.isfinite(design.dense(slice(None))).all()
    means = fitted.means[0].values(table)
    for k, own in enumerate(means, start=1 if len(means) == 1 else 0):
        expected = TargetEncoder(target_type="continuous").fit(FRAME[["t"]], 1.0 * (y == k)).transform(FRAME[["t"]])
        np.testing.assert_allclose(own, expected[:, 0], rtol=1e-12, atol=1e-15)


def test_a_row_of_weight_two_counts_as_two_in_the_means():
    weight = RNG.integers(0, 4, size=N)
    twice = np.repeat(np.arange(N), weight)
    found = level_means(LEVELS, LEVELS.max() + 2, Y[:, None], weight.astype(float))
    expected = TargetEncoder(target_type="continuous").fit(LEVELS[twice, None], Y[twice])
    every = np.arange(len(found))[:, None]
    np.testing.assert_allclose(found[:-1], expected.transform(every[:-1]), rtol=1e-12)
    np.testing.assert_allclose(found[-1], np.average(Y, weights=weight), rtol=1e-12)


def test_few_levels_are_never_coded_by_the_target():
    frame = pd.DataFrame({"c": [f"level {i}" for i in range(FEW_LEVELS)] * 3})
    table = table_of(frame, frame)
    assert not any(BY_TARGET.is_by_target(field) for field in table.fields)


# --- folds ---


@pytest.mark.parametrize(("n_rows", "n_folds"), [(2, 2), (7, 5), (12, 5), (100, 10)])
def test_every_row_is_in_one_fold_and_folds_are_as_long(n_rows, n_folds):
    folds = deal(n_rows, n_folds, seed=1)
    assert sorted(np.concatenate(folds).tolist()) == list(range(n_rows))
    assert {len(fold) for fold in folds} <= {n_rows // n_folds, n_rows // n_folds + 1}


def test_classes_are_spread_over_all_folds():
    labels = np.repeat([0, 1, 2], [50, 30, 5])
    for fold in deal(85, 5, seed=0, labels=labels):
        assert np.bincount(labels[fold]).tolist() == [10, 6, 1]


def test_folds_depend_on_the_seed_alone():
    first, again, other = (deal(50, 5, seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
