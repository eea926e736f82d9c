"""The auto estimators: any table in, good predictions out, the same way each time."""

import copy
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dconnet import AutoDCONClassifier, AutoDCONRegressor
from dconnet.ensemble import fold_runner
from dconnet.estimators.tables import MixedColumnWarning

# A copy of a row is one more row to all that counts rows; a weight is not.
FOLDS = "folds, quantiles and the choice of families count rows, not weights"
EXPECTED = {"check_sample_weight_equivalence_on_dense_data": FOLDS}


@pytest.mark.no_cover
@parametrize_with_checks([AutoDCONRegressor(), AutoDCONClassifier()], expected_failed_checks=lambda _: EXPECTED)
def test_contract(estimator, check):
    if "array_api" in str(check):
        pytest.skip("scikit-learn skips the array API unless SCIPY_ARRAY_API is set")
    check(estimator)


# --- data ---

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + np.abs(X[:, 1])
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    t=np.where(X[:, 2] > 0, "u", "v"), d=pd.date_range("2020", periods=60)
)
LABELS = np.where(Y > 0.5, "yes", "no")


def regressor(**parameters):
    return AutoDCONRegressor(random_state=0, **parameters)


def classifier(**parameters):
    return AutoDCONClassifier(random_state=0, **parameters)


def quick(estimator):
    """The same with the first family alone, for tests of what happens around the fits."""
    return estimator.set_params(max_seconds=1e-9)


def outputs(model, table=X):
    return model.predict_proba(table) if isinstance(model, AutoDCONClassifier) else model.predict(table)


BOTH = pytest.mark.parametrize(
    ("model", "y"), [(regressor(), Y), (classifier(), LABELS)], ids=["regressor", "classifier"]
)


# --- the same bits ---


@BOTH
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(model, y):
    first = clone(model).fit(FRAME, y)
    for n_jobs in (None, 2):
        other = clone(model).set_params(n_jobs=n_jobs).fit(FRAME, y)
        np.testing.assert_array_equal(outputs(other, FRAME), outputs(first, FRAME))
        np.testing.assert_array_equal(other.oof_prediction_, first.oof_prediction_)
        np.testing.assert_array_equal(other.feature_importances_, first.feature_importances_)
        assert other.members_ == first.members_


def test_another_seed_gives_another_model():
    first, other = (AutoDCONRegressor(random_state=seed, max_seconds=1e-9).fit(X, Y) for seed in (0, 1))
    assert not np.array_equal(first.predict(X), other.predict(X))


@pytest.mark.parametrize(
    "store", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy], ids=["pickle", "copy"]
)
@BOTH
def test_copies_predict_the_same(model, y, store):
    model = quick(clone(model)).fit(FRAME, y)
    np.testing.assert_array_equal(outputs(store(model), FRAME), outputs(model, FRAME))


def test_joblib_keeps_a_model(tmp_path):
    model = quick(regressor()).fit(FRAME, Y)
    joblib.dump(model, tmp_path / "model.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(FRAME), model.predict(FRAME))


@BOTH
def test_the_same_table_in_other_forms_gives_the_same_bits(model, y):
    expected = outputs(quick(clone(model)).fit(FRAME, y), FRAME)
    objects = FRAME.astype(object).to_numpy()
    for table in (
        pl.DataFrame(FRAME),
        pa.Table.from_pandas(FRAME),
        objects,
        objects.tolist(),
        FRAME.astype({"t": "category"}),
    ):
        np.testing.assert_array_equal(outputs(quick(clone(model)).fit(table, y), table), expected)


def test_a_model_of_one_form_of_a_table_predicts_others():
    model = quick(regressor()).fit(FRAME, Y)
    for table in (pl.DataFrame(FRAME), pa.Table.from_pandas(FRAME)):
        np.testing.assert_array_equal(model.predict(table), model.predict(FRAME))


# --- weights ---


@BOTH
def test_rows_of_weight_zero_are_as_if_they_were_not_there(model, y):
    weight = np.where(np.arange(60) < 15, 0.0, 1.0)
    weighted = quick(clone(model)).fit(FRAME, y, sample_weight=weight)
    dropped = quick(clone(model)).fit(FRAME[15:], y[15:])
    np.testing.assert_array_equal(outputs(weighted, FRAME), outputs(dropped, FRAME))
    np.testing.assert_array_equal(weighted.oof_prediction_[15:], dropped.oof_prediction_)
    np.testing.assert_array_equal(weighted.oof_prediction_[:15], outputs(dropped, FRAME[:15]))
    assert weighted.columns_ == dropped.columns_


@pytest.mark.parametrize("unit", [2.0**-900, 0.5, 2.0**900])
@BOTH
def test_the_unit_of_the_weights_does_not_matter(model, y, unit):
    weight = RNG.integers(1, 5, size=60)
    first, other = (quick(clone(model)).fit(X, y, sample_weight=w) for w in (weight, unit * weight))
    np.testing.assert_array_equal(outputs(other), outputs(first))
    if isinstance(model, AutoDCONRegressor):
        np.testing.assert_array_equal(other.predict_interval(X), first.predict_interval(X))


@pytest.mark.parametrize("heavy", [1e6, 1e20])
@BOTH
def test_a_row_of_enormous_weight_leaves_predictions_finite(model, y, heavy):
    weight = np.ones(60)
    weight[7] = heavy
    assert np.isfinite(outputs(quick(clone(model)).fit(X, y, sample_weight=weight))).all()


def test_weights_matter():
    toward = np.where(np.median(Y) < Y, 10.0, 0.1)
    noise = RNG.normal(size=60)
    plain, weighted = (quick(regressor()).fit(noise[:, None], Y, sample_weight=w) for w in (None, toward))
    assert weighted.predict(noise[:, None]).mean() > plain.predict(noise[:, None]).mean() + 0.3


def test_rows_of_hardly_any_weight_do_not_mislead_the_means_of_levels():
    rng = np.random.default_rng(0)
    levels = rng.integers(20, size=800)
    labels, light = levels % 2, np.arange(800) % 2 == 0
    table = pd.DataFrame({"t": [f"level {i}" for i in levels]})
    model = quick(classifier()).fit(table, np.where(light, 1 - labels, labels), np.where(light, 1e-6, 1.0))
    assert model.score(table, labels) == 1.0


def test_class_weights_multiply_the_sample_weights():
    weight = np.where(LABELS == "yes", 3.0, 1.0)
    by_class = quick(classifier(class_weight={"yes": 3.0, "no": 1.0})).fit(X, LABELS)
    by_row = quick(classifier()).fit(X, LABELS, sample_weight=weight)
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))


def test_balanced_classes_have_the_same_share():
    rare = np.where(np.arange(60) % 6 == 0, "rare", "common")
    model = quick(classifier(class_weight="balanced")).fit(RNG.normal(size=(60, 1)), rare)
    assert model.predict_proba(RNG.normal(size=(200, 1)))[:, 1].mean() == pytest.approx(0.5, abs=0.1)


def test_classes_of_weight_zero_are_left_out():
    model = quick(classifier(class_weight={0: 1.0, 1: 0.0, 2: 1.0})).fit(X, np.arange(60) % 3)
    assert model.classes_.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"class_weight": "some"}, ValueError, "class_weight"),
        ({"class_weight": [1.0, 2.0]}, ValueError, "class_weight"),
        ({"class_weight": {"yes": -1.0}}, ValueError, "finite and not negative"),
        ({"class_weight": {"yes": 0.0}}, ValueError, "only one class"),
        ({"quality": "best"}, ValueError, "quality"),
        ({"max_seconds": 0}, ValueError, "max_seconds"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        classifier(**parameters).fit(X, LABELS)


# --- targets ---


@pytest.mark.parametrize("n_classes", [2, 3, 30])
def test_classes_of_any_number(n_classes):
    centers = np.random.default_rng(1).normal(size=(n_classes, 4)) * 10
    labels = np.arange(3 * n_classes) % n_classes
    table = centers[labels] + RNG.normal(size=(len(labels), 4))
    model = quick(classifier()).fit(table, labels)
    probabilities = model.predict_proba(table)
    assert probabilities.shape == (len(labels), n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert model.score(table, labels) > 0.9
    assert 0.0 < model.oof_log_loss_ < np.log(n_classes)


@pytest.mark.parametrize(
    "labels",
    [
        Y > 0.5,
        LABELS,
        LABELS.astype(object),
        pd.Series(Y > 0.5, dtype="boolean"),
        pd.Series(Y > 0.5).astype("Int64"),
        pd.Series(Y > 0.5).astype("UInt8"),
        pd.Series(LABELS, dtype="category"),
        pd.Series(LABELS, dtype="string"),
        pl.Series(LABELS),
        pl.Series(Y > 0.5),
        pa.array(LABELS),
        LABELS.tolist(),
    ],
    ids=lambda labels: f"{type(labels).__name__} {getattr(labels, 'dtype', '')}",
)
def test_labels_of_all_types_are_predicted_as_they_were_given(labels):
    model = quick(classifier()).fit(X, labels)
    predicted = model.predict(X)
    assert np.mean(predicted == np.asarray(labels)) > 0.9
    kind = labels.dtype.kind if hasattr(labels, "iloc") else np.asarray(labels).dtype.kind
    assert predicted.dtype.kind == kind or {predicted.dtype.kind, kind} <= set("UTO")


@pytest.mark.parametrize("with_levels", [False, True])
@pytest.mark.parametrize("rare", [[1], [1, 2], [1, 2, 3, 4, 5]])
def test_classes_of_a_single_row(rare, with_levels):
    labels = np.zeros(60, dtype=int)
    labels[: len(rare)] = rare
    table = pd.DataFrame(X).assign(t=[f"level {i % 20}" for i in range(60)]).rename(columns=str) if with_levels else X
    model = quick(classifier()).fit(table, labels)
    assert model.classes_.tolist() == [0, *rare]
    assert np.isfinite(model.predict_proba(table)).all()


@pytest.mark.parametrize("n_rows", range(2, 13))
@BOTH
def test_few_rows(model, y, n_rows):
    y = y if y is Y else np.where(np.arange(60) % 2, "yes", "no")
    model = quick(clone(model)).fit(FRAME[:n_rows], y[:n_rows])
    assert np.isfinite(outputs(model, FRAME)).all()
    assert np.isfinite(model.oof_score_)


def test_a_constant_target_is_predicted():
    model = regressor().fit(FRAME, np.full(60, 3.5))
    np.testing.assert_allclose(model.predict(FRAME), 3.5, rtol=1e-12)
    assert model.oof_score_ == 0.0
    assert not model.feature_importances_.any()


@BOTH
def test_a_table_that_tells_nothing_is_answered_by_the_mean(model, y):
    model = clone(model).fit(np.ones((60, 2)), y)
    expected = Y.mean() if y is Y else [np.mean(LABELS == "no"), np.mean(LABELS == "yes")]
    np.testing.assert_allclose(outputs(model, np.ones((1, 2)))[0], expected, atol=0.02)


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1e12, 0.0), (1e100, 0.0), (1.0, 1e9), (1e-6, 1e3)])
def test_units_and_offsets_of_the_target_hardly_matter(scale, offset):
    plain, other = quick(regressor()).fit(X, Y), quick(regressor()).fit(X, scale * Y + offset)
    np.testing.assert_allclose((other.predict(X) - offset) / scale, plain.predict(X), atol=0.1)
    assert other.oof_score_ == pytest.approx(plain.oof_score_, abs=0.01)


@pytest.mark.parametrize("scale", [1e-300, 1e150, 1e300])
def test_targets_whose_squares_cannot_be_computed_are_refused(scale):
    with pytest.raises(ValueError, match=r"y has values up to .* in another unit"):
        regressor().fit(X, scale * Y)


@pytest.mark.parametrize("y", [np.r_[np.nan, np.nan, Y[2:]], [None, None, *Y[2:]], pl.Series([None, None, *Y[2:]])])
def test_a_target_with_gaps_is_refused_with_their_number_and_a_remedy(y):
    with pytest.raises(ValueError, match=r"y is missing .* in 2 of 60 rows. Drop these rows"):
        regressor().fit(X, y)


@pytest.mark.parametrize(
    "labels",
    [
        [None, *LABELS[1:]],
        [np.nan, *LABELS[1:].tolist()],
        np.array([np.nan, *LABELS[1:]], dtype=object),
        pd.Series([None, *LABELS[1:]], dtype="category"),
        pd.Series([None, *(Y[1:] > 0.5)], dtype="Int64"),
        np.r_[np.nan, Y[1:] > 0.5],
    ],
)
def test_missing_labels_are_refused(labels):
    with pytest.raises(ValueError, match=r"missing.*(Drop|Leave) these rows"):
        classifier().fit(X, labels)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.r_[np.inf, Y[1:]], "infinity"),
        (np.column_stack([Y, Y]), "takes one target"),
        (pd.DataFrame({"y": Y, "z": Y}), "takes one target"),
        (LABELS, "could not convert"),
        (pd.Series(pd.date_range("2020", periods=60)), "y holds dates"),
        (pd.Series(pd.to_timedelta(np.arange(60), unit="h")), "y holds dates or times"),
        (Y[:-1], "inconsistent numbers of samples"),
        (None, "requires y"),
    ],
)
def test_targets_that_are_no_numbers_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        regressor().fit(FRAME, y)


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(Y),
        pd.Series(Y, dtype="Float64"),
        pd.Series(Y, dtype="double[pyarrow]"),
        pl.Series(Y),
        pa.array(Y),
        Y.tolist(),
    ],
)
def test_targets_of_all_types_give_the_same_bits(y):
    np.testing.assert_array_equal(quick(regressor()).fit(X, y).predict(X), quick(regressor()).fit(X, Y).predict(X))


# --- tables ---


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (FRAME[:0], ValueError, "at least one of each"),
        (FRAME[[]], ValueError, "at least one of each"),
        (FRAME.assign(a=np.inf), ValueError, "Column 'a' of X contains infinity"),
        (FRAME.assign(a=[{}] * 60), TypeError, "Column 'a' of X holds dicts"),
        (FRAME.assign(a=1j), ValueError, "Complex data not supported"),
        (Y, ValueError, "Expected 2D array"),
        (pl.DataFrame(FRAME).lazy(), TypeError, r"collect\(\)"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(table, error, message):
    with pytest.raises(error, match=message):
        regressor().fit(table, Y)


def test_one_row_is_too_few():
    for table, y, weight in ((FRAME[:1], Y[:1], None), (X[:1], Y[:1], None), (FRAME, Y, np.eye(60)[0])):
        with pytest.raises(ValueError, match=r"1 sample|n_samples = 1"):
            regressor().fit(table, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (FRAME[["b", "a", "c", "t", "d"]], ValueError, "must be in the same order"),
        (FRAME[["a", "b"]], ValueError, "now missing"),
        (FRAME.assign(e=1), ValueError, "unseen at fit time"),
        (pl.DataFrame(FRAME[["b", "a", "c", "t", "d"]]), ValueError, "must be in the same order"),
        (FRAME.assign(a="text"), ValueError, "Column 'a' of X holds numbers, but also 'text'"),
        (FRAME.assign(d=1.5), ValueError, "Column 'd' of X holds dates, but also 1.5"),
        (FRAME.assign(t=[[]] * 60), TypeError, "Column 't' of X holds lists"),
        (FRAME[:0], ValueError, "at least one of each"),
    ],
)
def test_new_rows_of_another_form_are_refused(table, error, message):
    model = quick(regressor()).fit(FRAME, Y)
    with pytest.raises(error, match=message):
        model.predict(table)


@BOTH
def test_new_rows_may_be_anything_else(model, y):
    model = quick(clone(model)).fit(FRAME, y)
    rows = [
        FRAME[:1],
        FRAME.assign(a=np.nan),
        FRAME.assign(a=1e300, b=-1.7e308),
        FRAME.assign(t="new"),
        FRAME.assign(t=None, d=None, a=None),
        FRAME.assign(d=pd.Timestamp("9999-12-31")),
        FRAME.assign(a=FRAME["a"].astype(str)),
    ]
    for table in rows:
        said = outputs(model, table)
        assert len(said) == len(table)
        assert np.isfinite(said).all()


@pytest.mark.parametrize("outlier", [1e39, 1e300, 1.7e308])
@BOTH
def test_outliers_in_the_training_leave_predictions_finite(model, y, outlier):
    table = X.copy()
    table[3, 0], table[4, 1] = outlier, -outlier
    model = clone(model).fit(table[:30], y[:30])
    assert np.isfinite(outputs(model, table)).all()
    assert np.isfinite(outputs(model, X)).all()


@pytest.mark.parametrize("scale", [2.0**-1030, 2.0**-300, 2.0**300, 2.0**1015])
def test_units_of_columns_do_not_matter(scale):
    plain, other = quick(regressor()).fit(X, Y), quick(regressor()).fit(X * scale, Y)
    np.testing.assert_allclose(other.predict(X * scale), plain.predict(X), atol=1e-3)


def test_predictions_stay_in_the_range_of_the_training():
    predicted = quick(regressor()).fit(X, Y).predict(100.0 * X)
    assert Y.min() - 1e-12 <= predicted.min() < predicted.max() <= Y.max() + 1e-12


@BOTH
def test_rows_are_predicted_alike_alone_and_among_many(model, y):
    model = quick(clone(model)).fit(X, y)
    many = RNG.normal(size=(70_000, 3))
    together = outputs(model, many)
    np.testing.assert_array_equal(outputs(model, many[:1]), together[:1])
    np.testing.assert_array_equal(outputs(model, many[-5:]), together[-5:])


# --- what a fit tells ---


def friedman(n_rows, seed):
    rng = np.random.default_rng(seed)
    table = rng.uniform(size=(n_rows, 8))
    y = (
        10 * np.sin(np.pi * table[:, 0] * table[:, 1])
        + 20 * (table[:, 2] - 0.5) ** 2
        + 10 * table[:, 3]
        + 5 * table[:, 4]
    )
    return table, y + rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def friedman_model():
    return regressor().fit(*friedman(300, seed=0))


def test_columns_of_no_use_have_hardly_any_importance(friedman_model):
    importances = friedman_model.feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances.min() >= 0.0
    assert importances[5:].max() < 0.02
    assert importances[:5].min() > 0.03
    assert importances.argmax() == 3


def test_importances_of_a_sorted_table_are_those_of_all_its_rows():
    rng = np.random.default_rng(0)
    table = np.column_stack([np.sort(rng.uniform(-1.0, 1.0, 4000)), rng.normal(size=4000)])
    y = np.where(table[:, 0] < 0.0, table[:, 1], 10.0 * table[:, 0])
    importances = quick(regressor()).fit(table, y).feature_importances_
    assert importances[0] > 0.9  # among the first rows alone, the second column is all that matters


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_intervals_hold_their_share_of_new_rows(friedman_model, coverage):
    table, y = friedman(2000, seed=1)
    low, high = friedman_model.predict_interval(table, coverage)
    held = np.mean((low <= y) & (y <= high))
    # The quantile of 300 errors has a standard deviation of up to 0.03 in coverage. On new rows, the mean of all folds
    # errs less than the networks of a fold alone, so that the intervals hold more rather than less.
    assert coverage - 0.06 < held < coverage + 0.1


def test_intervals_widen_with_the_coverage(friedman_model):
    table, _ = friedman(5, seed=2)
    widths = [np.subtract(*friedman_model.predict_interval(table, c)[::-1]) for c in (0.1, 0.5, 0.9, 0.999)]
    assert (np.diff(widths, axis=0) > 0.0).all()


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1.0, np.nan])
def test_coverages_that_make_no_sense_are_refused(friedman_model, coverage):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        friedman_model.predict_interval(friedman(5, seed=2)[0], coverage)


def test_scores_out_of_fold_are_close_to_those_on_new_rows(friedman_model):
    assert friedman_model.score(*friedman(2000, seed=1)) == pytest.approx(friedman_model.oof_score_, abs=0.04)
    _, y = friedman(300, seed=0)
    assert r2_score(y, friedman_model.oof_prediction_) == pytest.approx(friedman_model.oof_score_, rel=1e-9)


def test_members_and_weights_belong_together(friedman_model):
    assert friedman_model.weights_.tolist() == [member["weight"] for member in friedman_model.members_]
    assert friedman_model.weights_.sum() == pytest.approx(1.0)
    best = min(member["oof_error"] for member in friedman_model.members_)
    _, y = friedman(300, seed=0)
    assert np.mean((y - friedman_model.oof_prediction_) ** 2) <= best * (1 + 1e-9)


def test_columns_are_described():
    table = FRAME.assign(const=1, copy=FRAME["a"], ids=[f"id {i}" for i in range(60)])
    model = quick(regressor()).fit(table, Y)
    treatments = {row["column"]: row["treatment"] for row in model.columns_}
    assert treatments["t"] == "2 levels"
    assert treatments["const"] == "dropped: constant"
    assert treatments["copy"] == "dropped: the same as a"
    assert treatments["ids"].startswith("dropped: nearly every row")
    assert len(model.feature_importances_) == model.n_features_in_ == table.shape[1]
    assert not model.feature_importances_[5:].any()


# --- distilled ---


def test_a_small_network_says_nearly_the_same_and_is_finite_in_any_row():
    model = quick(regressor()).fit(FRAME, Y)
    small = model.distil(10)
    assert r2_score(model.predict(FRAME), small.predict(FRAME)) > 0.95
    odd = FRAME.assign(a=1e300, b=None, t="new", d=pd.Timestamp("9999-12-31"))
    assert np.isfinite(small.predict(odd)).all()


def test_nothing_to_distil_from_is_told():
    model = quick(regressor()).fit(FRAME, Y)
    with pytest.raises(ValueError, match="Cannot distil from 1 row"):
        model.distil(5, X=FRAME[:1])
    with pytest.raises(ValueError, match=r"Cannot distil from .* 0 field"):
        quick(regressor()).fit(np.ones((60, 2)), Y).distil(5)
    with pytest.raises(ValueError, match="not saved"):
        pickle.loads(pickle.dumps(model)).distil(5)


# --- limits and failures ---


def test_a_tiny_limit_of_time_still_gives_a_model():
    model = regressor(max_seconds=1e-9).fit(X, Y)
    assert len({member["family"] for member in model.members_}) == 1
    assert model.score(X, Y) > 0.9


@BOTH
def test_high_quality_uses_ten_folds(model, y):
    model = clone(model).set_params(quality="high").fit(X, y)
    assert {len(fit.folds) for fit in model.ensemble_.fits} == {10}


def failing_after(monkeypatch, n_calls, error):
    """From this call on, fits of folds fail."""
    real, calls = fold_runner.fit_fold, []

    def fit_fold(*args):
        calls.append(args)
        if len(calls) > n_calls:
            raise error
        return real(*args)

    monkeypatch.setattr(fold_runner, "fit_fold", fit_fold)


@pytest.mark.parametrize("n_jobs", [1, 2])
@BOTH
def test_an_interrupt_keeps_a_model_that_predicts(monkeypatch, model, y, n_jobs):
    complete = clone(model).fit(X, y)
    model = clone(model).set_params(n_jobs=n_jobs)
    failing_after(monkeypatch, len({m["family"] for m in complete.members_}) + 6, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt, match="predicts with the members"):
        model.fit(X, y)
    assert 0 < len(model.members_) < len(complete.members_)
    assert np.isfinite(outputs(model)).all()
    assert model.n_features_in_ == 3


@pytest.mark.parametrize(("n_calls", "error"), [(0, KeyboardInterrupt()), (0, MemoryError()), (3, MemoryError())])
@BOTH
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(monkeypatch, model, y, n_calls, error):
    fresh, fitted = clone(model), quick(clone(model)).fit(FRAME, y)
    before = outputs(fitted, FRAME)
    failing_after(monkeypatch, n_calls, error)
    for estimator in (fresh, fitted):
        with pytest.raises(type(error)):
            estimator.fit(X, y)
    with pytest.raises(NotFittedError):
        outputs(fresh, FRAME)
    np.testing.assert_array_equal(outputs(fitted, FRAME), before)


@BOTH
def test_data_that_are_refused_leave_the_estimator_as_it_was(model, y):
    fitted = quick(clone(model)).fit(FRAME, y)
    before = outputs(fitted, FRAME)
    for table, target in ((FRAME[:0], y), (FRAME[["a"]], y[:-1]), (FRAME[["a"]].assign(b=np.inf), y), (X, [None] * 60)):
        with pytest.raises(ValueError):  # noqa: PT011 (several messages)
            fitted.fit(table, target)
        np.testing.assert_array_equal(outputs(fitted, FRAME), before)


# --- with the rest of scikit-learn ---


def test_pipelines_and_searches():
    pipeline = make_pipeline(StandardScaler(), quick(regressor()))
    assert cross_val_score(pipeline, X, Y, cv=2).min() > 0.5
    search = GridSearchCV(quick(classifier()), {"quality": ["default", "high"]}, cv=2).fit(FRAME, LABELS)
    assert search.best_params_["quality"] in ("default", "high")
    assert search.score(FRAME, LABELS) > 0.9
    weights = [1.0] * 60
    assert quick(regressor()).fit(X, Y, weights).score(X, Y) > 0.9


def test_predictions_before_a_fit_are_refused():
    for call in (regressor().predict, regressor().predict_interval, classifier().predict_proba):
        with pytest.raises(NotFittedError):
            call(X)


def test_copies_of_rows_do_not_predict_each_other():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    model = AutoDCONRegressor(random_state=0).fit(np.tile(X, (4, 1)), np.tile(y, 4))
    assert model.oof_score_ < 0.1  # all is noise


def test_a_slip_is_warned_about():
    table = np.array([[str(x), x] for x in np.linspace(0.0, 1.0, 30)], dtype=object)
    table[3, 0] = "o.5"
    with pytest.warns(MixedColumnWarning, match=r"'x0' of X is read as text.*holds 'o\.5'"):
        AutoDCONRegressor(max_seconds=1e-6).fit(table, np.arange(30.0))
