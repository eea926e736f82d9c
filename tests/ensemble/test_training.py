"""Out-of-fold predictions are by networks that were not trained on the row; limits and Ctrl-C keep what has ended."""

import signal
from dataclasses import replace
from threading import Timer
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dconnet.encoding.coder import Coding, deal
from dconnet.encoding.columns import read_columns
from dconnet.encoding.schema import Schema
from dconnet.ensemble import fold_fits, fold_runner
from dconnet.ensemble.ensemble_training import train_ensemble
from dconnet.ensemble.families import (
    Family,
    TreeFamily,
)
from dconnet.ensemble.fold_fits import FoldDesign, TrainingSet, fit_fold
from dconnet.ensemble.fold_runner import FoldRunner
from dconnet.ensemble.output_transforms import MAX_LOG_ODDS, MIN_SCORE, ClassScore, LogOdds, LogTarget, TargetValue
from dconnet.ensemble.prediction import FamilyFit
from dconnet.ensemble.stacking import one_hot
from dconnet.training import clock as clock_module
from dconnet.training.clock import NONE_LEFT, Clock

RNG = np.random.default_rng(0)
M = 90
FRAME = pd.DataFrame({"x": RNG.normal(size=M), "z": RNG.normal(size=M), "t": [f"level {i % 18}" for i in range(M)]})
Y = 2.0 + np.exp(FRAME["x"].to_numpy()) + 0.1 * RNG.normal(size=M)
CLASSES = (np.arange(M) % 3).astype(np.intp)
FAMILIES = [
    Family("linear", Coding(), 0.0, 5, 10, (1e-3, 0.1)),
    Family("ramps", Coding(4), 0.3, 5, 10, (1e-3, 0.1)),
    Family("knots", Coding(4, every_value=True), 1.0, 5, 10, (1e-3, 0.1)),
    Family("by target", Coding(by_target=True), 0.3, 5, 10, (1e-3, 0.1)),
    TreeFamily("boosting", 4, 9),
]
NETWORKS = FAMILIES[:-1]
EACH_FAMILY = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def training_set(y=Y, classes=None, weight=None):
    raws = read_columns(FRAME)
    table = Schema.fit(raws).read(raws)
    columns = y[:, None] if classes is None else one_hot(classes, 3)
    folds = tuple(deal(M, 5, seed=0, labels=None if classes is None else CLASSES))
    return TrainingSet(table, columns, np.ones(M) if weight is None else weight, folds, classes, seed=7)


# --- folds ---


@pytest.mark.parametrize(
    "family", [*FAMILIES, *(replace(family, log_target=True) for family in NETWORKS)], ids=lambda family: family.name
)
def test_oof_outputs_do_not_depend_on_targets_of_the_fold(family):
    before = training_set()
    other = Y.copy()
    other[before.folds[2]] += 1e3
    every = range(len(family.settings))
    changed, expected = (fit_fold(family, 0, data, 2, every) for data in (training_set(other), before))
    np.testing.assert_array_equal(changed[1], expected[1])
    new = [fit.outputs(fit.code(before.table)) for fit, _ in (changed, expected)]
    np.testing.assert_array_equal(*new)
    elsewhere = [fit_fold(family, 0, data, 1, every)[1] for data in (training_set(other), before)]
    assert not np.array_equal(*elsewhere)


@EACH_FAMILY
def test_oof_scores_do_not_depend_on_classes_of_the_fold(family):
    before = training_set(classes=CLASSES)
    other = CLASSES.copy()
    other[before.folds[2]] = (other[before.folds[2]] + 1) % 3
    (_, outputs), (_, expected) = (
        fit_fold(family, 0, data, 2, [0, 1]) for data in (training_set(classes=other), before)
    )
    assert expected.shape == (len(before.folds[2]), 1 if isinstance(family, TreeFamily) else 4, 3)
    np.testing.assert_array_equal(outputs, expected)


@EACH_FAMILY
def test_oof_outputs_are_those_of_new_rows(family):
    data = training_set()
    fit, outputs = fit_fold(family, 0, data, 1, [0, 1])
    again = fit.outputs(fit.code(data.table.rows(data.folds[1])))
    np.testing.assert_allclose(again, outputs, rtol=1e-12, atol=1e-12)


def test_predictions_of_rows_in_several_folds_are_averaged():
    data = replace(training_set(), folds=(np.array([3, 1]), np.array([1, 5]), np.array([5, 1])))
    np.testing.assert_array_equal(data.held_out, [1, 3, 5])
    predictions = np.array([3.0, 1.0, 2.0, 5.0, 7.0, 6.0])[None, :, None]
    np.testing.assert_allclose(data.average_rows(predictions)[0, :, 0], [3.0, 3.0, 6.0])


@pytest.mark.parametrize("heavy", [1.0, 1e3, 1e30])
def test_gram_matrices_are_those_of_the_rows_outside(heavy):
    weight = np.ones(M)
    data = training_set(weight=weight)
    weight[data.folds[0][0]] = heavy
    for fold in range(5):
        design = FoldDesign.of(Coding(4), data, fold, seed=0)
        expected = design.outside.gram(weight[data.outside(fold)])
        np.testing.assert_allclose(design.gram, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


# --- output transforms and families ---


@pytest.mark.parametrize(
    ("transform", "outputs", "expected"),
    [
        (TargetValue(-1.0, 2.0), [-5.0, 0.5, 9.0], [-1.0, 0.5, 2.0]),
        (LogTarget(0.5, 8.0, factor=1.1), np.log([0.1, 1.0, 2.0, 100.0]), [0.55, 1.1, 2.2, 8.0]),
        (ClassScore(), [-1.0, 0.5, 2.0], [np.log(MIN_SCORE / (1 - MIN_SCORE)), 0.0, np.log(1 / MIN_SCORE - 1)]),
        (LogOdds(), [-99.0, 1.5, 99.0], [-MAX_LOG_ODDS, 1.5, MAX_LOG_ODDS]),
    ],
)
def test_output_transforms(transform, outputs, expected):
    found = transform.from_average(transform.to_average(np.array(outputs)))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_factors_of_logarithms_are_those_of_least_squares():
    fit = FamilyFit("linear", ("a", "b"), (LogTarget(0.1, 1e3), TargetValue(0.1, 1e3)), ())
    predictions = np.stack([Y[:, None] / 1.1, Y[:, None]])
    for share, factor in ((1.0, 1.1), (1e-3, 0.8), (1e3, 1.25)):  # clipped to 0.8 and 1.25
        logarithm, value = fit.fit_factors(predictions / share, Y, np.ones(M)).transforms
        assert logarithm.factor == pytest.approx(factor)
        assert value == TargetValue(0.1, 1e3)


# --- ensembles ---


@pytest.mark.parametrize("classes", [None, CLASSES], ids=["regression", "classification"])
def test_ensembles_predict_out_of_fold_and_average_the_folds(classes):
    data = training_set(classes=classes)
    result = train_ensemble(FoldRunner(FAMILIES, data))
    by_fold = [result.ensemble.select_fold(fold) for fold in range(5)]
    alone = [own.predict(data.table.rows(rows)) for own, rows in zip(by_fold, data.folds, strict=True)]
    averages = data.average_rows(np.concatenate(alone)[None])[0]
    np.testing.assert_allclose(result.oof_predictions, averages, rtol=1e-9, atol=1e-9)
    if classes is None:  # members of a logarithm would be averaged on its scale
        mean = np.mean([own.predict(data.table) for own in by_fold], axis=0)
        np.testing.assert_allclose(result.ensemble.predict(data.table), mean, rtol=1e-9)
    n_used = sum(member.weight > 0.0 for member in result.members)
    assert n_used == len(result.ensemble.weights) == sum(len(fit.settings) for fit in result.ensemble.fits)


# --- limits ---


def trained_families(result):
    return {member.family for member in result.members}


def test_the_first_family_is_trained_without_time():
    assert trained_families(train_ensemble(FoldRunner(FAMILIES, training_set(), clock=Clock(1e-9)))) == {"linear"}
    family = replace(FAMILIES[0], evaluations=200)
    assert fit_fold(family, 0, training_set(), 0, [0, 1], lambda: NONE_LEFT, False) is None
    few, whole = (fit_fold(family, 0, training_set(), 0, [0, 1], *rest)[1] for rest in [(lambda: NONE_LEFT, True), ()])
    y = Y[training_set().folds[0]]
    errors = [np.mean((outputs[:, 0, 0] - y) ** 2) for outputs in (whole, few)]
    assert errors[0] < errors[1] < np.var(y)


def test_after_the_limit_classes_have_no_logistic_regressions(monkeypatch):
    data = training_set(classes=CLASSES)
    monkeypatch.setattr(fold_fits, "fit_ridge_logistic", lambda *_: pytest.fail("there is no time for regressions"))
    result = train_ensemble(FoldRunner(FAMILIES, data, clock=Clock(1e-9)))
    assert {(member.family, member.kind) for member in result.members} == {("linear", ClassScore().kind)}
    assert np.isfinite(result.oof_predictions).all()


@pytest.mark.parametrize(("n_seconds", "is_whole"), [(6, False), (7, False), (9, False), (100, True)])
def test_the_clock_is_checked_between_logistic_regressions(monkeypatch, n_seconds, is_whole):
    """The three networks call for the first three times, and a check follows them."""
    calls, data = iter([1e3] * n_seconds), training_set(classes=CLASSES)
    fit, outputs = fit_fold(FAMILIES[0], 0, data, 0, [0], lambda: next(calls, NONE_LEFT), True)
    assert outputs.shape[1] == len(fit.alpha) == (2 if is_whole else 1)
    calls = iter([1e3] * n_seconds)
    assert (fit_fold(FAMILIES[0], 0, data, 0, [0], lambda: next(calls, NONE_LEFT), False) is None) == (not is_whole)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_fit_that_the_limit_cuts_short_is_dropped(monkeypatch, n_threads):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(perf_counter=lambda: now.seconds))

    def slow(family, index, *rest):
        now.seconds += {0: 3.0, 1: 8.0}.get(index, 1.0)
        return fit_fold(family, index, *rest)

    monkeypatch.setattr(fold_runner, "fit_fold", slow)
    runner = FoldRunner(FAMILIES, training_set(), n_threads, clock=Clock(10.0))
    assert trained_families(train_ensemble(runner)) == {"linear"}
    assert set(runner.trained) == {(0, 0)}


# --- interrupts and errors ---


def fail_after(monkeypatch, n_calls, error):
    calls = []

    def failing(*args):
        calls.append(args)
        if len(calls) > n_calls:
            raise error
        return fit_fold(*args)

    monkeypatch.setattr(fold_runner, "fit_fold", failing)


@pytest.mark.parametrize("n_calls", [1, 2, 5])
def test_an_early_interrupt_keeps_the_first_fold(monkeypatch, n_calls):
    fail_after(monkeypatch, n_calls, KeyboardInterrupt)
    result = train_ensemble(FoldRunner(FAMILIES, training_set()))
    assert result.is_interrupted
    assert len(trained_families(result)) == min(n_calls, len(FAMILIES))
    assert {len(fit.folds) for fit in result.ensemble.fits} == {1}
    np.testing.assert_array_equal(result.data.held_out, training_set().folds[0])
    assert len(result.oof_predictions) == len(training_set().folds[0])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_ctrl_c_ends_fits_that_run(monkeypatch, n_threads):
    began = []

    def fit(family, *rest):
        if family.name == "linear":
            return fit_fold(family, *rest)
        if not began:
            began.append(Timer(0.05, signal.raise_signal, [signal.SIGINT]))
            began[0].start()
        while True:
            fit_fold(family, *rest)

    monkeypatch.setattr(fold_runner, "fit_fold", fit)
    result = train_ensemble(FoldRunner(FAMILIES[:3], training_set(), n_threads))
    assert result.is_interrupted
    assert trained_families(result) == {"linear"}
