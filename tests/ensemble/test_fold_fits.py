"""What is said out of fold comes from networks that do not know the row."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from dconnet.encoding.coder import Coding
from dconnet.encoding.columns import raw_columns
from dconnet.encoding.folds import deal
from dconnet.encoding.schema import Schema
from dconnet.ensemble import ensemble as ensemble_module
from dconnet.ensemble import run as run_module
from dconnet.ensemble.ensemble import train_ensemble
from dconnet.ensemble.families import Family, classification_families, regression_families, spreads
from dconnet.ensemble.family_fits import FamilyFit
from dconnet.ensemble.fold_fits import FoldData, Training, fit_fold
from dconnet.ensemble.readings import MAX_LOGIT, MIN_SCORE, Logarithm, LogOdds, Score, Value
from dconnet.ensemble.run import Run
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
]


def training(y=Y, classes=None, weight=None):
    raws = raw_columns(FRAME)
    table = Schema.fit(raws).read(raws)
    columns = y[:, None] if classes is None else one_hot(classes, 3)
    folds = tuple(deal(M, 5, seed=0, labels=None if classes is None else CLASSES))
    return Training(table, columns, np.ones(M) if weight is None else weight, folds, classes, seed=7)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("log_target", [False, True])
def test_outputs_out_of_fold_do_not_know_the_targets_of_the_fold(family, log_target):
    family = replace(family, log_target=log_target)
    before = training()
    held = before.folds[2]
    other = Y.copy()
    other[held] = 1e3 + np.arange(len(held))
    changed, outputs = fit_fold(family, 0, training(other), 2, [0, 1])
    kept, expected = fit_fold(family, 0, before, 2, [0, 1])
    np.testing.assert_array_equal(outputs, expected)
    np.testing.assert_array_equal(changed.U, kept.U)
    _, elsewhere = fit_fold(family, 0, training(other), 1, [0, 1])
    assert not np.array_equal(elsewhere, fit_fold(family, 0, before, 1, [0, 1])[1])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_scores_out_of_fold_do_not_know_the_classes_of_the_fold(family):
    before = training(classes=CLASSES)
    held = before.folds[2]
    other = CLASSES.copy()
    other[held] = (other[held] + 1) % 3
    _, outputs = fit_fold(family, 0, training(classes=other), 2, [0, 1])
    _, expected = fit_fold(family, 0, before, 2, [0, 1])
    assert expected.shape == (len(held), 4, 3)
    np.testing.assert_array_equal(outputs, expected)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_outputs_out_of_fold_are_those_that_new_rows_get(family):
    data = training()
    fit, outputs = fit_fold(family, 0, data, 1, [0, 1])
    again = fit.outputs(fit.coder.code(data.table.rows(data.folds[1])))
    np.testing.assert_allclose(again, outputs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("heavy", [1.0, 1e3, 1e12, 1e30])
def test_gram_matrices_outside_a_fold_are_those_of_its_rows(heavy):
    weight = np.ones(M)
    data = training(weight=weight)
    weight[data.folds[0][0]] = heavy
    for fold in range(5):
        part = FoldData.of(Coding(4), data, fold, seed=0)
        expected = part.outside.gram(weight[data.outside(fold)])
        np.testing.assert_allclose(part.gram, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


def test_the_same_seed_gives_the_same_networks_and_another_gamma_has_no_influence():
    both, first = (fit_fold(FAMILIES[1], 0, training(), 0, gammas)[0] for gammas in ([0, 1], [0]))
    np.testing.assert_array_equal(both.U[:1], first.U)
    np.testing.assert_array_equal(both.some([0]).alpha, first.alpha)


def test_a_target_in_another_unit_gives_the_same_networks_in_that_unit():
    family = FAMILIES[0]
    first, second = (fit_fold(family, 0, training(y), 0, [1])[1] for y in (Y, 1024.0 * Y))
    np.testing.assert_allclose(second, 1024.0 * first, rtol=1e-10)


# --- readings ---


def test_values_stay_in_the_range_of_the_training():
    reading = Value(-1.0, 2.0)
    assert reading.finish(reading.read(np.array([-5.0, 0.5, 9.0]))).tolist() == [-1.0, 0.5, 2.0]


def test_logarithms_are_read_as_the_target_within_its_range():
    reading = Logarithm(0.5, 8.0, factor=1.1)
    said = reading.finish(reading.read(np.log([0.1, 1.0, 2.0, 7.9, 100.0])))
    np.testing.assert_allclose(said, [0.55, 1.1, 2.2, 8.0, 8.0], rtol=1e-12)
    folds = np.log([[1.0, 4.0], [4.0, 4.0]])
    np.testing.assert_allclose(reading.finish(reading.read(folds).mean(axis=0)), [2.2, 4.4], rtol=1e-12)


def test_scores_and_log_odds_are_clipped():
    assert Score().read(np.array([-1.0, 0.5, 2.0])).tolist() == pytest.approx(
        [np.log(MIN_SCORE / (1 - MIN_SCORE)), 0.0, np.log((1 - MIN_SCORE) / MIN_SCORE)]
    )
    assert LogOdds().read(np.array([-99.0, 1.5, 99.0])).tolist() == [-MAX_LOGIT, 1.5, MAX_LOGIT]


def test_factors_of_logarithms_are_those_of_least_squares():
    family = replace(FAMILIES[0], log_target=True)
    fit = FamilyFit(family, (0.1, 0.1), (Logarithm(0.1, 1e3), Value(0.1, 1e3)), ())
    said = np.stack([Y[:, None] / 1.1, Y[:, None]])
    logarithm, value = fit.corrected(said, Y, np.ones(M)).readings
    assert logarithm.factor == pytest.approx(1.1)
    assert value == Value(0.1, 1e3)
    for share, factor in ((1e-3, 0.8), (1e3, 1.25)):
        assert fit.corrected(said / share, Y, np.ones(M)).readings[0].factor == pytest.approx(factor)


# --- families ---


def test_the_logarithm_is_learnt_only_of_positive_targets_that_are_spread():
    assert spreads(np.geomspace(1.0, 100.0, 50))
    assert not spreads(np.linspace(10.0, 12.0, 50))
    assert not spreads(np.geomspace(1.0, 100.0, 50) - 1.0)
    fields = training().table.fields
    assert any(family.log_target for family in regression_families(fields, np.geomspace(1.0, 100.0, M)))
    assert not any(family.log_target for family in regression_families(fields, np.linspace(-1.0, 1.0, M)))


def test_names_of_families_are_unique():
    fields = training().table.fields
    for families in (regression_families(fields, Y), classification_families(fields, M, 3)):
        names = [family.name for family in families]
        assert len(set(names)) == len(names)


# --- stacks ---


@pytest.mark.parametrize("classes", [None, CLASSES], ids=["regression", "classification"])
def test_the_stack_says_out_of_fold_what_the_networks_of_the_fold_say(classes):
    data = training(classes=classes)
    result = train_ensemble(Run(FAMILIES, data))
    alone = [result.ensemble.of_fold(fold).outputs(data.table.rows(rows)) for fold, rows in enumerate(data.folds)]
    np.testing.assert_allclose(result.oof_outputs, np.concatenate(alone), rtol=1e-9, atol=1e-9)
    weights = np.array([member.weight for member in result.members])
    assert (
        np.count_nonzero(weights)
        == len(result.ensemble.weights)
        == sum(len(fit.gammas) for fit in result.ensemble.fits)
    )


def test_outputs_of_new_rows_are_means_of_the_folds():
    data = training()
    ensemble = train_ensemble(Run(FAMILIES[:2], data)).ensemble
    by_fold = [ensemble.of_fold(fold).outputs(data.table) for fold in range(5)]
    np.testing.assert_allclose(ensemble.outputs(data.table), np.mean(by_fold, axis=0), rtol=1e-9)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_the_number_of_threads_has_no_influence(n_threads):
    first, other = (train_ensemble(Run(FAMILIES, training(), n)) for n in (1, n_threads))
    np.testing.assert_array_equal(other.oof_outputs, first.oof_outputs)
    assert other.members == first.members


def test_the_first_family_is_trained_whatever_the_time():
    run = Run(FAMILIES, training(), clock=Clock(1e-9))
    result = train_ensemble(run)
    assert {member.family for member in result.members} == {"linear"}


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_fit_that_time_cuts_short_is_left_out(monkeypatch, n_threads):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(clock_module, "time", SimpleNamespace(perf_counter=lambda: now.seconds))

    def slow(family, index, *rest):
        now.seconds += {0: 3.0, 1: 8.0}.get(index, 1.0)
        return fit_fold(family, index, *rest)

    monkeypatch.setattr(run_module, "fit_fold", slow)
    run = Run(FAMILIES, training(), n_threads, clock=Clock(10.0))
    result = train_ensemble(run)
    assert set(run.trained) == {(0, 0)}
    assert {member.family for member in result.members} == {"linear"}


def test_the_first_fit_has_a_few_evaluations_whatever_the_time():
    family = replace(FAMILIES[0], evaluations=200)
    assert fit_fold(family, 0, training(), 0, [0, 1], lambda: NONE_LEFT, False) is None
    few, whole = (fit_fold(family, 0, training(), 0, [0, 1], *rest)[1] for rest in [(lambda: NONE_LEFT, True), ()])
    y = training().columns[training().folds[0]]
    errors = [np.mean((outputs[:, 0] - y) ** 2) for outputs in (whole, few)]
    assert errors[0] < errors[1] < np.var(y)


def test_a_limit_of_time_leaves_those_with_a_weight_if_the_first_has_none(monkeypatch):
    def late(run, begun):
        run.clock = Clock(1e-9)
        return {f: begun[f] for f in (2, 3)}

    monkeypatch.setattr(ensemble_module, "_promising", late)
    result = train_ensemble(Run(FAMILIES, training()))
    assert {member.family for member in result.members} == {"knots", "by target"}
    assert not result.interrupted


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_interrupt_keeps_the_families_that_are_complete(monkeypatch, n_threads):
    real, calls = fit_fold, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) > 13:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(run_module, "fit_fold", interrupted)
    result = train_ensemble(Run(FAMILIES, training(), n_threads))
    assert result.interrupted
    assert {member.family for member in result.members} == {"linear", "ramps"}
    assert np.isfinite(result.ensemble.outputs(training().table)).all()


def interrupt_after(monkeypatch, n_calls):
    real, calls = fit_fold, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) > n_calls:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(run_module, "fit_fold", interrupted)


def test_an_interrupt_before_anything_is_trained_is_passed_on(monkeypatch):
    interrupt_after(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt, match="before the first members"):
        train_ensemble(Run(FAMILIES, training()))


@pytest.mark.parametrize("n_calls", [1, 2, 5])
def test_an_interrupt_before_any_family_is_complete_keeps_the_first_fold(monkeypatch, n_calls):
    interrupt_after(monkeypatch, n_calls)
    result = train_ensemble(Run(FAMILIES, training()))
    assert result.interrupted
    assert len({member.family for member in result.members}) == min(n_calls, len(FAMILIES))
    assert {len(fit.folds) for fit in result.ensemble.fits} == {1}
    np.testing.assert_array_equal(result.training.held_out, training().folds[0])
    assert len(result.oof_outputs) == len(training().folds[0])
    assert np.isfinite(result.ensemble.outputs(training().table)).all()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_other_failures_are_passed_on(monkeypatch, n_threads):
    def failing(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(run_module, "fit_fold", failing)
    with pytest.raises(MemoryError, match="no room"):
        train_ensemble(Run(FAMILIES, training(), n_threads))
