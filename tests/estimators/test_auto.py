"""The auto estimators: good predictions for any table, reproducible, with clear errors and no lost work."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

from dconnet import AutoDCONClassifier, AutoDCONRegressor
from dconnet.ensemble import fold_runner
from dconnet.ensemble.families import NOISY
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.importance import VALUES_WHEN_CUT
from dconnet.ensemble.prediction import Ensemble

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + np.abs(X[:, 1])
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    t=np.where(X[:, 2] > 0, "u", "v"), d=pd.date_range("2020", periods=60)
)
LABELS = np.where(Y > 0.5, "yes", "no")

# Most fits of this module are cut by `quick`, or have too few rows to predict anything.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Stopped by max_seconds:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:The out-of-fold:UserWarning"),
]


def regressor(**parameters):
    return AutoDCONRegressor(random_state=0, **parameters)


def classifier(**parameters):
    return AutoDCONClassifier(random_state=0, **parameters)


def quick(estimator):
    """Train the first family only, for tests of what happens around the fits."""
    return estimator.set_params(max_seconds=1e-9)


def outputs(model, table=X):
    return model.predict_proba(table) if isinstance(model, AutoDCONClassifier) else model.predict(table)


BOTH = pytest.mark.parametrize(
    ("model", "y"), [(regressor(), Y), (classifier(), LABELS)], ids=["regressor", "classifier"]
)


# --- reproducibility ---


@BOTH
def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(model, y):
    first, other = (clone(model).set_params(n_jobs=n_jobs).fit(FRAME, y) for n_jobs in (None, 2))
    np.testing.assert_array_equal(outputs(other, FRAME), outputs(first, FRAME))
    np.testing.assert_array_equal(other.oof_prediction_, first.oof_prediction_)
    np.testing.assert_array_equal(other.feature_importances_, first.feature_importances_)
    assert other.members_ == first.members_
    seeded = [quick(clone(model)).set_params(random_state=seed).fit(X, y) for seed in (0, 1)]
    assert not np.array_equal(*map(outputs, seeded))


@BOTH
def test_copies_and_all_kinds_of_tables_predict_the_same(model, y):
    model = quick(clone(model)).fit(FRAME, y)
    expected = outputs(model, FRAME)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(outputs(other, FRAME), expected)
    named = [pl.DataFrame(FRAME), pa.Table.from_pandas(FRAME), FRAME.astype({"t": "category"})]
    objects = FRAME.astype(object).to_numpy()
    for table in (*named, objects, objects.tolist()):
        np.testing.assert_array_equal(outputs(clone(model).fit(table, y), table), expected)
    for table in named:
        np.testing.assert_array_equal(outputs(model, table), expected)


# --- weights ---


@BOTH
def test_rows_of_weight_zero_do_not_count(model, y):
    weight = np.where(np.arange(60) < 15, 0.0, 1.0)
    weighted = quick(clone(model)).fit(FRAME, y, sample_weight=weight)
    dropped = quick(clone(model)).fit(FRAME[15:], y[15:])
    np.testing.assert_array_equal(outputs(weighted, FRAME), outputs(dropped, FRAME))
    np.testing.assert_array_equal(weighted.oof_prediction_[15:], dropped.oof_prediction_)
    np.testing.assert_array_equal(weighted.oof_prediction_[:15], outputs(dropped, FRAME[:15]))


@BOTH
def test_the_unit_of_the_weights_does_not_matter(model, y):
    weight = RNG.integers(1, 5, size=60)
    first, *others = (quick(clone(model)).fit(X, y, unit * weight) for unit in (1.0, 2.0**-900, 2.0**900))
    for other in others:
        np.testing.assert_array_equal(outputs(other), outputs(first))
    weight = np.where(np.arange(60) == 7, 1e20, 1.0)
    assert np.isfinite(outputs(quick(clone(model)).fit(X, y, weight))).all()
    with pytest.raises(ValueError, match="two rows of positive weight"):
        clone(model).fit(X, y, np.where(np.arange(60) == 7, 1e300, 1e-300))


# --- targets ---


@pytest.mark.parametrize("n_classes", [2, 3, 30])
def test_any_number_of_classes(n_classes):
    centers = np.random.default_rng(1).normal(size=(n_classes, 4)) * 10
    labels = np.arange(3 * n_classes) % n_classes
    table = centers[labels] + RNG.normal(size=(len(labels), 4))
    model = quick(classifier()).fit(table, labels)
    probabilities = model.predict_proba(table)
    assert probabilities.shape == (len(labels), n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    scores = model.decision_function(table)
    expected = expit(scores) if n_classes == 2 else softmax(scores, axis=1)
    np.testing.assert_allclose(probabilities[:, 1] if n_classes == 2 else probabilities, expected, rtol=1e-12)
    assert model.score(table, labels) > 0.9
    assert 0.0 < model.oof_log_loss_ < np.log(n_classes)


@pytest.mark.parametrize(
    "labels",
    [
        Y > 0.5,
        LABELS.astype(object),
        pd.Series(Y > 0.5, dtype="boolean"),
        pd.Series(LABELS, dtype="category"),
        pl.Series(LABELS),
        pa.array(LABELS),
        LABELS.tolist(),
    ],
    ids=lambda labels: f"{type(labels).__name__} {getattr(labels, 'dtype', '')}",
)
def test_labels_of_all_types_are_predicted_as_given(labels):
    predicted = quick(classifier()).fit(X, labels).predict(X)
    assert np.mean(predicted == np.asarray(labels)) > 0.9
    assert predicted.dtype.kind in ("b" if isinstance(labels[0], bool | np.bool_) else "UTO")


@pytest.mark.parametrize("n_rows", [2, 5, 12])
@BOTH
def test_few_rows_are_enough(model, y, n_rows):
    target = np.array(["yes", "no"])[np.arange(n_rows) % 2] if y is LABELS else y[:n_rows]
    model = clone(model).fit(FRAME[:n_rows], target)
    assert np.isfinite(outputs(model, FRAME)).all()
    assert np.isfinite(model.oof_prediction_).all()
    assert np.isfinite(model.oof_score_)


def test_constant_targets_and_tables():
    model = regressor().fit(FRAME, np.full(60, 3.3))  # means of 3.3 are rounded
    assert (model.predict(FRAME) == 3.3).all()
    assert model.oof_score_ == 0.0
    assert not model.feature_importances_.any()
    constant = np.ones((60, 2))
    np.testing.assert_allclose(regressor().fit(constant, Y).predict(constant[:1]), Y.mean(), atol=0.02)
    shares = [np.mean(LABELS == "no"), np.mean(LABELS == "yes")]
    np.testing.assert_allclose(classifier().fit(constant, LABELS).predict_proba(constant[:1])[0], shares, atol=0.02)


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1e100, 0.0), (1.0, 1e9)])
def test_unit_and_offset_of_the_target_hardly_matter(scale, offset):
    plain, other = quick(regressor()).fit(X, Y), quick(regressor()).fit(X, scale * Y + offset)
    np.testing.assert_allclose((other.predict(X) - offset) / scale, plain.predict(X), atol=0.1)


# --- invalid input ---


@pytest.mark.parametrize(
    ("model", "table", "y", "error", "message"),
    [
        (classifier(class_weight={"yes": 0.0}), X, LABELS, ValueError, "only one class"),
        (classifier(quality="best"), X, LABELS, ValueError, "quality"),
        (classifier(max_seconds=0), X, LABELS, ValueError, "max_seconds"),
        (classifier(), X, pd.Series([None, *LABELS[1:]], dtype="category"), ValueError, "missing"),
        (classifier(), X, np.r_[np.nan, Y[1:] > 0.5], ValueError, "missing"),
        (regressor(), X, [None, np.nan, *Y[2:]], ValueError, r"y is missing .* in 2 of 60 rows"),
        (regressor(), X, np.r_[np.inf, Y[1:]], ValueError, "infinity"),
        (regressor(), X, 1e150 * Y, ValueError, r"y has values up to .* in another unit"),
        (regressor(), X, LABELS, ValueError, r"'no'.* use AutoDCONClassifier"),
        (regressor(), X, pd.Series(pd.date_range("2020", periods=60)), ValueError, "y holds dates"),
        (regressor(), X, Y[:-1], ValueError, "inconsistent numbers of samples"),
        (regressor(), X, None, ValueError, "requires y"),
        (regressor(), FRAME[:1], Y[:1], ValueError, r"1 sample|n_samples = 1"),
        (regressor(), FRAME[:0], Y, ValueError, "at least one of each"),
        (regressor(), FRAME[[]], Y, ValueError, "at least one of each"),
        (regressor(), FRAME.assign(a=np.inf), Y, ValueError, "Column 'a' of X contains infinity"),
        (regressor(), FRAME.assign(a=[{}] * 60), Y, TypeError, "Column 'a' of X holds dicts"),
        (regressor(), FRAME.assign(a=1j), Y, ValueError, "Complex data not supported"),
        (regressor(), Y, Y, ValueError, "Expected 2D array"),
        (regressor(), pl.DataFrame(FRAME).lazy(), Y, TypeError, r"collect\(\)"),
    ],
)
def test_invalid_input_is_refused(model, table, y, error, message):
    with pytest.raises(error, match=message):
        clone(model).fit(table, y)


@BOTH
def test_new_rows_are_refused_or_have_finite_predictions(model, y):
    fitted = quick(clone(model)).fit(FRAME, y)
    for table, message in (
        (FRAME[["b", "a", "c", "t", "d"]], "must be in the same order"),
        (FRAME[["a", "b"]], "now missing"),
        (pl.DataFrame(FRAME).with_columns(e=1), "unseen at fit time"),
        (FRAME.assign(a="text"), "Column 'a' of X holds numbers, but also 'text'"),
        (FRAME[:0], "at least one of each"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict(table)
    for table in (
        FRAME[:1],
        FRAME.assign(a=1e300, b=-1.7e308),
        FRAME.assign(t="new"),
        FRAME.assign(t=None, d=None, a=None),
        FRAME.assign(d=pd.Timestamp("9999-12-31")),
        FRAME.assign(a=FRAME["a"].astype(str)),
    ):
        predicted = outputs(fitted, table)
        assert len(predicted) == len(table)
        assert np.isfinite(predicted).all()


@BOTH
def test_rows_are_predicted_alike_alone_and_among_many(model, y):
    model = quick(clone(model)).fit(X, y)
    many = RNG.normal(size=(70_000, 3))
    together = outputs(model, many)
    np.testing.assert_array_equal(outputs(model, many[:1]), together[:1])
    np.testing.assert_array_equal(outputs(model, many[-5:]), together[-5:])
    if y is Y:
        assert Y.min() - 1e-12 <= together.min() < together.max() <= Y.max() + 1e-12


# --- fitted attributes ---


def friedman(n_rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n_rows, 8))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, y + rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def friedman_model():
    return regressor().fit(*friedman(300, seed=0))


def test_importances_find_the_useful_columns(friedman_model):
    importances = friedman_model.feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances[5:].max() < 0.02
    assert importances[:5].min() > 0.03
    assert importances.argmax() == 3


def test_intervals_contain_their_share_of_new_rows(friedman_model):
    table, y = friedman(2000, seed=1)
    widths = []
    for coverage in (0.5, 0.8, 0.95):
        low, high = friedman_model.predict_interval(table, coverage)
        widths.append((high - low).mean())
        # The quantile of 300 errors has a standard deviation of up to 0.03 in coverage. On new rows, the mean over the
        # folds has smaller errors than the networks of one fold, so that intervals contain more rather than less.
        assert coverage - 0.06 < np.mean((low <= y) & (y <= high)) < coverage + 0.1
    assert widths == sorted(widths)
    for coverage in (0.0, 1.0, np.nan, [0.5, 0.9]):
        with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
            friedman_model.predict_interval(table, coverage)


def test_quantiles_never_cross_and_contain_their_share_of_new_rows(friedman_model):
    table, y = friedman(2000, seed=1)
    shares = [0.05, 0.25, 0.5, 0.75, 0.95]
    quantiles = friedman_model.predict_quantiles(table, shares)
    assert (np.diff(quantiles, axis=1) >= 0.0).all()
    np.testing.assert_allclose(np.mean(y[:, None] <= quantiles, axis=0), shares, atol=0.07)
    for invalid in ([0.0], [1.0, 0.5], 0.5, [np.nan]):
        with pytest.raises(ValueError, match="between 0 and 1"):
            friedman_model.predict_quantiles(table, invalid)


@pytest.mark.filterwarnings("ignore:The out-of-fold")
def test_groups_and_folds_of_the_user():
    rng = np.random.default_rng(0)
    labels = np.repeat([f"patient {k}" for k in range(50)], 4)
    noise = rng.normal(size=(50, 3)).repeat(4, axis=0)
    table, y = noise[:, :2] + 1e-3 * rng.normal(size=(200, 2)), noise[:, 2]
    assert regressor().fit(table, y).oof_score_ > 0.8
    for model, groups in ((regressor(), labels), (regressor(cv=GroupKFold(3)), labels)):
        assert model.fit(table, y, groups=groups).oof_score_ < 0.3
    halves = [(np.arange(100), np.arange(100, 200)), (np.arange(100, 200), np.arange(100))]
    model = quick(classifier(cv=halves)).fit(table, y > 0)
    assert np.isnan(model.oof_prediction_[:100]).all()
    for cv, groups, message in (
        (TimeSeriesSplit(), None, "fold without some of the rows"),
        (None, np.zeros(200), "holds all rows"),
        (None, np.zeros(3), "inconsistent numbers"),
        ([], None, "holds no folds"),
    ):
        with pytest.raises(ValueError, match=message):
            regressor(cv=cv).fit(table, y, groups=groups)


def test_oof_scores_and_members(friedman_model):
    _, y = friedman(300, seed=0)
    assert friedman_model.score(*friedman(2000, seed=1)) == pytest.approx(friedman_model.oof_score_, abs=0.04)
    assert r2_score(y, friedman_model.oof_prediction_) == pytest.approx(friedman_model.oof_score_, rel=1e-9)
    assert friedman_model.weights_.sum() == pytest.approx(1.0)
    best = min(member["oof_error"] for member in friedman_model.members_)
    assert np.mean((y - friedman_model.oof_prediction_) ** 2) <= best * (1 + 1e-9)


@pytest.mark.parametrize("n_groups", [None, 4])
def test_noise_is_predicted_by_the_mean(n_groups):
    rng = np.random.default_rng(0)
    groups = None if n_groups is None else rng.integers(n_groups, size=200)
    centers = 0.0 if groups is None else 3.0 * rng.normal(size=(n_groups, 5))[groups]
    table, y = centers + rng.normal(size=(200, 5)), rng.normal(size=200)
    model = regressor().fit(table, y, groups=groups)
    assert -0.05 < model.oof_score_ < 0.05
    assert np.var(model.predict(table)) < 0.02 * np.var(y)
    assert sum(member["weight"] for member in model.members_ if member["family"] == "constant") > 0.2
    clear = regressor().fit(table, y + 10.0 * table[:, 0], groups=groups)
    assert clear.oof_score_ > 0.97
    assert sum(member["weight"] for member in clear.members_ if member["family"] == "constant") == 0.0


def test_duplicate_rows_do_not_predict_each_other():
    noise = np.random.default_rng(0).normal(size=(100, 3))
    assert regressor().fit(np.tile(noise[:, :2], (4, 1)), np.tile(noise[:, 2], 4)).oof_score_ < 0.1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_distilled_classifiers_have_nearly_the_same_probabilities(n_classes):
    rng = np.random.default_rng(0)
    table, new = rng.normal(size=(400, 3)), rng.normal(size=(500, 3))
    score = np.sin(table[:, 0]) + table[:, 1] + 0.5 * rng.normal(size=400)
    labels = np.array(["low", "middle", "high"])[np.digitize(score, [-0.5, 0.8][: n_classes - 1])]
    model = classifier(members="networks").fit(table, labels)
    small = model.distil(20)
    expected, found = model.predict_proba(new), small.predict_proba(new)
    assert small.classes_.tolist() == model.classes_.tolist()
    assert np.abs(found - expected).mean() < 0.03
    assert np.mean(small.predict(new) == model.predict(new)) > 0.93
    assert small[-1].network_.n_hidden == 20


def test_distilled_networks_predict_nearly_the_same():
    model = quick(regressor()).fit(FRAME, Y)
    small = model.distil(10)
    assert small[-1].network_.n_hidden == 10
    assert r2_score(model.predict(FRAME), small.predict(FRAME)) > 0.95
    odd = FRAME.assign(a=1e300, b=None, t="new", d=pd.Timestamp("9999-12-31"))
    assert np.isfinite(small.predict(odd)).all()
    with pytest.raises(ValueError, match=r"two rows.* 1 row "):
        model.distil(5, X=FRAME[:1])
    with pytest.raises(ValueError, match=r"a column that varied.* 0 varying fields"):
        quick(regressor()).fit(np.ones((60, 2)), Y).distil(5)
    with pytest.raises(ValueError, match="not saved"):
        pickle.loads(pickle.dumps(model)).distil(5)


# --- limits and failures ---


@BOTH
def test_limits_and_quality(model, y):
    limited = quick(clone(model)).fit(X, y)
    assert len({member["family"] for member in limited.members_}) == 1
    assert limited.score(X, y) > 0.9
    high = clone(model).set_params(quality="high").fit(X, y)
    assert len(high.ensemble_.fits[0].folds) > len(limited.ensemble_.fits[0].folds)


def fail_after(monkeypatch, n_calls, error):
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
    fail_after(monkeypatch, len({member["family"] for member in complete.members_}) + 6, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt, match="predicts with the members"):
        model.fit(X, y)
    assert len(model.members_) > 0
    assert np.isfinite(outputs(model)).all()


@pytest.mark.parametrize(("n_calls", "error"), [(0, KeyboardInterrupt), (3, MemoryError)])
@BOTH
def test_a_failed_fit_leaves_the_estimator_unchanged(monkeypatch, model, y, n_calls, error):
    fresh, fitted = clone(model), quick(clone(model)).fit(FRAME, y)
    before = outputs(fitted, FRAME)
    for table, target in ((FRAME[:0], y), (FRAME[["a"]], y[:-1]), (FRAME[["a"]].assign(b=np.inf), y), (X, [None] * 60)):
        with pytest.raises(ValueError):  # noqa: PT011 (several messages)
            fitted.fit(table, target)
    fail_after(monkeypatch, n_calls, error)
    for estimator in (fresh, fitted.set_params(max_seconds=None)):
        with pytest.raises(error):
            estimator.fit(X, y)
    with pytest.raises(NotFittedError):
        outputs(fresh, FRAME)
    np.testing.assert_array_equal(outputs(fitted, FRAME), before)


# --- warnings ---


@pytest.mark.filterwarnings("error")
def test_a_fit_that_was_cut_and_a_fit_without_success_warn():
    with pytest.warns(ConvergenceWarning, match=r"max_seconds=1e-09: \d+ members trained, on 1 of 10 folds"):
        quick(regressor()).fit(X, Y)
    for model, y, score in ((regressor(), Y, "R²"), (classifier(), LABELS, "log loss")):
        with pytest.warns(UserWarning, match=f"out-of-fold {score} is no better"):
            model.fit(np.ones((len(y), 1)), y)


def test_a_column_with_one_value_that_a_fold_may_lack():
    sparse = FRAME.assign(rare=np.where(np.arange(len(FRAME)) == 3, 7.0, np.nan))
    for model, y in ((regressor(), Y), (classifier(), LABELS)):
        assert np.isfinite(outputs(model.fit(sparse, y), sparse)).all()


def test_without_time_no_association_is_tested(monkeypatch):
    monkeypatch.setattr(TrainingSet, "count_associated", lambda _: pytest.fail("there is no time for tests"))
    X = np.random.default_rng(0).normal(size=(40, NOISY))
    assert AutoDCONRegressor(max_seconds=1e-9, random_state=0).fit(X, X[:, 0]).oof_score_ > 0.0


def test_without_time_importances_use_few_rows_of_wide_tables(monkeypatch):
    n_rows, predict = [], Ensemble.predict_coded
    monkeypatch.setattr(Ensemble, "predict_coded", lambda own, rows: n_rows.append(len(rows[0])) or predict(own, rows))
    X = np.random.default_rng(0).normal(size=(300, 150))
    quick(regressor()).fit(X, X[:, 0])
    assert sum(n_rows) * X.shape[1] <= VALUES_WHEN_CUT + X.shape[1] * max(n_rows)
