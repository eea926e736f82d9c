"""One limit on the time of a whole fit, with a clock that the tests set: nothing here is timed."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONClassifier, Problem, Status
from dconnet.estimators import gamma_choice, layer
from dconnet.training import clock
from dconnet.training.checkpoint import Checkpoint
from dconnet.training.trainer import Trainer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = np.abs(X[:, 0]) + X[:, 1]
LABELS = np.digitize(Y, [0.2, 1.0])
QUICK = {"max_epochs": 2, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def now(monkeypatch):
    """Return an object whose `seconds` is the time of the fit and whose `limits` are those of the networks."""
    time = SimpleNamespace(seconds=1000.0, tick=0.0, limits=[])

    def perf_counter():
        time.seconds += time.tick
        return time.seconds

    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=perf_counter))
    monkeypatch.setattr(layer, "_certificate_seconds", lambda problems, start: 0.0)
    with_time_limit = Trainer.with_time_limit

    def recorded(trainer, seconds):
        time.limits.append(seconds)
        return with_time_limit(trainer, seconds)

    monkeypatch.setattr(Trainer, "with_time_limit", recorded)
    return time


@pytest.fixture
def _whitening_takes_all_time(monkeypatch, now):
    factorise, now.tick = Problem._factorise, 1e-8  # a network without time left gets 1e-9 seconds

    def slow(problem):
        now.seconds += 61.0
        return factorise(problem)

    monkeypatch.setattr(Problem, "_factorise", slow)


@pytest.mark.parametrize(
    ("model", "y", "limits"),
    [
        (DCONRegressor(3, gamma=0.1), Y, [60.0]),
        (DCONClassifier(3, gamma=0.1, n_jobs=2), LABELS, [30.0, 60.0, 60.0]),
        (DCONClassifier(3, gamma=[0.1, 1.0]), LABELS, [20.0, 30.0, 60.0]),
        (LayerwiseDCONClassifier((3, 2)), LABELS, [10.0, 12.0, 15.0, 20.0, 30.0, 60.0]),
    ],
    ids=["regressor", "threads", "classifier", "layers"],
)
def test_networks_share_the_remaining_time(model, y, limits, now):
    """With a clock that stands still, no network uses time of the others."""
    model.set_params(max_seconds=60.0, **QUICK).fit(X, y)
    np.testing.assert_allclose(sorted(now.limits), limits)


@pytest.mark.usefixtures("_whitening_takes_all_time")
@pytest.mark.parametrize("gamma", [0.1, "auto"])
@pytest.mark.parametrize(("kind", "y"), [(DCONRegressor, Y), (DCONClassifier, LABELS)])
def test_without_time_the_output_layer_of_the_start_is_fitted(kind, y, gamma, monkeypatch):
    monkeypatch.setattr(gamma_choice, "short_fits", lambda *_, **__: pytest.fail("there is no time for short fits"))
    with pytest.warns(ConvergenceWarning) as caught:
        model = kind(8, gamma=gamma, max_seconds=60.0, random_state=0).fit(X, y)
    messages = [str(warning.message) for warning in caught]
    assert messages[0].startswith("Stopped by max_seconds after 0 epochs")
    assert (kind is DCONClassifier) == any("predict_proba uses a default slope" in message for message in messages)
    assert set(model.statuses_) == {Status.TIME_LIMIT}
    assert model.score(X, y) > 0.3
    assert np.isfinite(model.stationarities_).all()


@pytest.mark.usefixtures("_whitening_takes_all_time")
def test_a_layer_without_time_is_left_out():
    model = LayerwiseDCONClassifier((4, 3), gamma=[0.1, 0.2], max_seconds=60.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="no time for layer 2 of 2: the network has 1 hidden layer"):
        model.fit(X, LABELS)
    assert [len(networks) for networks in model.networks_] == [3]
    assert {problem.gamma for problem in model.problems(X, LABELS)} == {0.1}
    assert model.score(X, LABELS) > 0.5
    model.set_params(warm_start=True, max_seconds=None, max_epochs=2).fit(X, LABELS)
    assert [len(networks) for networks in model.networks_] == [3, 3]


@pytest.mark.usefixtures("_whitening_takes_all_time")
def test_a_long_certificate_is_skipped_when_time_is_over(monkeypatch):
    monkeypatch.setattr(layer, "_certificate_seconds", lambda problems, start: 18.0)
    monkeypatch.setattr(layer, "stationarity", lambda *_: pytest.fail("there is no time for a certificate"))
    model = DCONRegressor(3, gamma=0.1, max_seconds=60.0).fit(X, Y)
    assert np.isnan(model.stationarity_)
    assert np.isfinite(model.objective_)


def test_a_fold_without_time_for_all_fits_is_left_out(monkeypatch, now):
    n_fits, short_fits, now.tick = [], gamma_choice.short_fits, 1e-8

    def slow(*arguments, seconds, **options):
        def limit():
            n_fits.append(1)
            now.seconds += 7.0
            return seconds()

        return short_fits(*arguments, seconds=limit, **options)

    monkeypatch.setattr(gamma_choice, "short_fits", slow)
    with pytest.warns(ConvergenceWarning, match="left no time to calibrate"):
        model = DCONClassifier(20, max_seconds=60.0, **QUICK).fit(X, LABELS)
    assert len(n_fits) == 3  # of a third of the time
    assert model.mse_path_.shape == (7, 0)
    assert model.score(X, LABELS) > 0.5


def test_a_resumed_network_gets_its_share_of_the_remaining_time(now, tmp_path):
    path = tmp_path / "fit.checkpoint"
    settings = {"gamma": 0.1, "random_state": 0, "checkpoint": path, "tol": 0.0}
    DCONClassifier(3, max_epochs=2, **settings).fit(X, LABELS)
    before = [Checkpoint(path).get(f"network 0.{k}").values["seconds"] for k in range(3)]
    now.limits.clear()
    model = DCONClassifier(3, max_epochs=3, max_seconds=60.0, **settings).fit(X, LABELS)
    left = 60.0 - sum(before)
    np.testing.assert_allclose(now.limits, [before[0] + left / 3.0, before[1] + left / 2.0, before[2] + left])
    assert model.n_iter_ == 3
