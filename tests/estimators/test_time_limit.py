"""One limit on the time of a whole fit, with a clock that the tests set: nothing here is timed."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dconnet import (
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    Problem,
    Status,
)
from dconnet.estimators import gamma_choice, layer
from dconnet.estimators.observer import FitObserver
from dconnet.training import clock as module
from dconnet.training.checkpoint import Checkpoint, Snapshot
from dconnet.training.trainer import Trainer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.abs(X[:, 0]) + X[:, 1]
LABELS = np.digitize(Y, [0.2, 1.0])
QUICK = {"max_epochs": 2, "random_state": 0}


@pytest.fixture
def now(monkeypatch):
    """The time of the fit, in ``now.seconds``, and the limits of the networks, in ``now.limits``."""
    time = SimpleNamespace(seconds=1000.0, limits=[])
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: time.seconds))
    monkeypatch.setattr(layer, "_certificate_seconds", lambda problems, start: 0.0)
    within = Trainer.within

    def recorded(trainer, seconds):
        time.limits.append(seconds)
        return within(trainer, seconds)

    monkeypatch.setattr(Trainer, "within", recorded)
    return time


def quiet(model, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def slow_whitening(monkeypatch, now, seconds):
    factorised = Problem._factorise

    def slow(problem):
        now.seconds += seconds
        return factorised(problem)

    monkeypatch.setattr(Problem, "_factorise", slow)


@pytest.mark.parametrize(
    ("model", "y", "limits"),
    [
        (DCONRegressor(3, gamma=0.1), Y, [60.0]),
        (DCONClassifier(3, gamma=0.1), LABELS, [20.0, 30.0, 60.0]),
        (DCONClassifier(3, gamma=0.1, n_jobs=2), LABELS, [30.0, 60.0, 60.0]),
        (DCONClassifier(3, gamma=0.1, multi_class="shared"), LABELS, [60.0]),
        (LayerwiseDCONRegressor((3, 2)), Y, [30.0, 60.0]),
        (LayerwiseDCONClassifier((3, 2)), LABELS, [10.0, 12.0, 15.0, 20.0, 30.0, 60.0]),
        (DCONRegressor(3, gamma=[0.1, 1.0]), Y, [60.0]),
        (DCONClassifier(3, gamma=[0.1, 1.0]), LABELS, [20.0, 30.0, 60.0]),
    ],
)
def test_networks_share_the_time_that_is_left(model, y, limits, now):
    """The clock stands still: no network leaves less to the others."""
    quiet(model.set_params(max_seconds=60.0, **QUICK), y)
    np.testing.assert_allclose(sorted(now.limits), limits)


def test_certificates_have_a_share_of_their_own(monkeypatch, now):
    monkeypatch.setattr(layer, "_certificate_seconds", lambda problems, start: 18.0)
    model = quiet(DCONRegressor(3, gamma=0.1, max_seconds=60.0, **QUICK), Y)
    np.testing.assert_allclose(now.limits, 60.0 - layer.RESERVE * 18.0)
    assert np.isfinite(model.stationarity_)


@pytest.mark.parametrize("gamma", [0.1, "auto"])
@pytest.mark.parametrize("kind", [DCONRegressor, DCONClassifier])
def test_with_nothing_left_there_is_the_output_layer_of_the_start(kind, gamma, monkeypatch, now):
    slow_whitening(monkeypatch, now, seconds=61.0)
    monkeypatch.setattr(gamma_choice, "short_fits", lambda *_, **__: pytest.fail("there is no time for it"))
    y = Y if kind is DCONRegressor else LABELS
    with pytest.warns(ConvergenceWarning) as caught:
        model = kind(8, gamma=gamma, max_seconds=60.0, random_state=0).fit(X, y)
    messages = [str(warning.message) for warning in caught]
    assert messages[0].startswith("Stopped by max_seconds after 0 epochs")
    assert (kind is DCONClassifier) == any("predict_proba uses a default slope" in message for message in messages)
    assert set(model.statuses_) == {Status.TIME_LIMIT}
    assert model.n_iter_ == 0
    assert model.score(X, y) > 0.3
    assert np.isfinite(model.stationarities_).all()  # takes next to no time
    if kind is DCONClassifier:
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_a_certificate_that_takes_long_is_left_out_when_time_is_over(monkeypatch, now):
    monkeypatch.setattr(layer, "_certificate_seconds", lambda problems, start: 18.0)
    monkeypatch.setattr(layer, "stationarity", lambda *_: pytest.fail("there is no time for it"))
    slow_whitening(monkeypatch, now, seconds=61.0)
    model = quiet(DCONRegressor(3, gamma=0.1, max_seconds=60.0), Y)
    assert np.isnan(model.stationarity_)
    assert np.isfinite(model.objective_)


def test_short_fits_share_a_third_of_the_time(monkeypatch, now):
    asked = []
    original = gamma_choice.short_fits

    def recorded(*arguments, seconds, **options):
        def limit():
            asked.append(seconds())
            return asked[-1]

        return original(*arguments, seconds=limit, **options)

    monkeypatch.setattr(gamma_choice, "short_fits", recorded)
    limited = quiet(DCONRegressor(20, max_seconds=3.0 * 35e4, **QUICK), Y)
    np.testing.assert_allclose(asked, 35e4 / np.arange(35.0, 0.0, -1.0))  # five folds, seven gamma_choice, a start
    monkeypatch.undo()
    np.testing.assert_array_equal(quiet(DCONRegressor(20, **QUICK), Y).mse_path_, limited.mse_path_)


def test_short_fits_without_time_end_at_once(monkeypatch, now):
    """All of them alike, so that the choice is a fair one."""
    monkeypatch.setattr(module.Turns, "next", lambda self: 1e-9)
    hurried = quiet(DCONRegressor(3, max_seconds=60.0, **QUICK), Y)
    free = quiet(DCONRegressor(3, **QUICK), Y)
    assert hurried.mse_path_.shape == free.mse_path_.shape
    assert hurried.mse_path_.min() > free.mse_path_.min()
    assert np.isfinite(hurried.mse_path_).all()


def test_time_before_a_kill_counts(now, tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.npz")
    checkpoint.begin({})
    checkpoint.entries = {
        "network 0.0": Snapshot({"seconds": 12.0}),
        "network 0.1": Snapshot({"seconds": 6.0}),
        "gamma": Snapshot({"seconds": 1000.0}),
    }
    checkpoint.write()
    for n_threads, left in [(1, 42.0), (2, 51.0), (9, 51.0)]:
        observer = FitObserver(0, checkpoint=checkpoint.path, max_seconds=60.0, n_threads=n_threads)
        assert observer.clock.left() == left


def test_a_resumed_network_gets_its_share_of_the_remaining_time(now, tmp_path):
    path = tmp_path / "fit.checkpoint"
    settings = {"gamma": 0.1, "random_state": 0, "checkpoint": path, "tol": 0.0}
    quiet(DCONClassifier(3, max_epochs=2, **settings), LABELS)
    before = [Checkpoint(path).get(f"network 0.{k}").values["seconds"] for k in range(3)]
    now.limits.clear()
    model = quiet(DCONClassifier(3, max_epochs=3, max_seconds=60.0, **settings), LABELS)
    left = 60.0 - sum(before)
    np.testing.assert_allclose(now.limits, [before[0] + left / 3.0, before[1] + left / 2.0, before[2] + left])
    assert model.n_iter_ == 3
