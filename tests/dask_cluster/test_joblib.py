"""Work that goes through joblib runs on a Dask cluster."""

import signal
import time
from itertools import islice
from threading import Timer

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from dconnet import AutoDCONRegressor, DCONClassifier, DCONRegressor
from dconnet._threads import as_carried, carried, is_carried
from dconnet.ensemble import fold_runner
from dconnet.estimators import levels

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(n_rows=240):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    return X, np.abs(X[:, 0]) + 0.1 * rng.normal(size=n_rows)


@pytest.fixture
def counts(client):
    """How many tasks the cluster has done, and how many of them since."""

    def n_tasks():
        return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.transition_log))

    return n_tasks


@pytest.fixture
def is_used(client, counts):
    """Whether the cluster does something for a while."""

    def used(work):
        before = counts()
        with joblib.parallel_config("dask"):
            done = work()
        return done, counts() > before

    return used


def test_whether_joblib_carries_work(client):
    assert not is_carried()
    with joblib.parallel_config("threading"):
        assert not is_carried()
    with joblib.parallel_config("dask"):
        assert is_carried()
        assert carried(lambda n: n**2, [1, 2, 3], 1) == [1, 4, 9]
    assert carried(lambda n: n**2, [1, 2, 3], 1) == [1, 4, 9]


@pytest.mark.parametrize("gamma", [0.01, "auto"])
def test_a_grid_search_on_the_workers(is_used, gamma):
    X, y = rows(120)
    search = GridSearchCV(
        DCONRegressor(3, gamma=gamma, max_epochs=2, random_state=0),
        {"shrinkage": [0.0, 1.0]},
        cv=3,
        error_score="raise",
    )
    there, used = is_used(lambda: search.fit(X, y).cv_results_)
    here = search.fit(X, y).cv_results_
    assert used
    np.testing.assert_array_equal(there["mean_test_score"], here["mean_test_score"])


def test_folds_and_gammas(is_used):
    model = DCONRegressor(3, gamma="auto", max_epochs=1, random_state=0)
    there, used = is_used(lambda: model.fit(*rows()).mse_path_)
    assert used
    np.testing.assert_array_equal(there, model.fit(*rows()).mse_path_)


@pytest.mark.parametrize("options", [{}, {"early_stopping": True}, {"gamma": "auto"}], ids=["plain", "early", "auto"])
def test_classes(is_used, options):
    X, y = rows()
    labels = np.digitize(y, [0.4, 1.0])
    model = DCONClassifier(**{"n_hidden": 3, "gamma": 0.01, "max_epochs": 2, "random_state": 0} | options)

    def fitted():
        return [network.parameters for network in model.fit(X, labels).networks_], model.predict_proba(X)

    (networks, probabilities), used = is_used(fitted)
    assert used
    here, probabilities_here = fitted()
    assert len(networks) == 3
    np.testing.assert_array_equal(networks, here)
    np.testing.assert_array_equal(probabilities, probabilities_here)


def test_a_backend_that_tells_all_results_at_once(client, monkeypatch):
    with joblib.parallel_config("dask"):
        backend = type(joblib.parallel.get_active_backend()[0])
        monkeypatch.setattr(backend, "supports_return_generator", False)
        assert list(as_carried(lambda n: n**2, [1, 2, 3])) == [(0, 1), (1, 4), (2, 9)]


def sleep_or_not(seconds):
    time.sleep(seconds)
    return seconds


def test_an_interrupt_keeps_what_has_ended(client):
    with joblib.parallel_config("dask"):
        results = as_carried(sleep_or_not, [30.0, 0.0])
        assert next(results) == (1, 0.0)
        Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            next(results)


def interrupted_after(n_results, monkeypatch, module):
    """Ctrl-C as soon as so many results are there."""

    def some(*arguments):
        yield from islice(as_carried(*arguments), n_results)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "as_carried", some)


@pytest.mark.filterwarnings("ignore:.*tasks which were still being processed")
def test_an_interrupt_keeps_the_networks_that_are_there(client, monkeypatch):
    X, y = rows()
    labels = np.digitize(y, [0.4, 1.0])
    model = DCONClassifier(n_hidden=3, gamma=0.01, max_epochs=2, random_state=0)
    complete = [network.parameters for network in model.fit(X, labels).networks_]
    interrupted_after(2, monkeypatch, levels)
    with joblib.parallel_config("dask"), pytest.raises(KeyboardInterrupt, match="Interrupted"):
        model.fit(X, labels)
    kept = [np.array_equal(n.parameters, all_) for n, all_ in zip(model.networks_, complete, strict=True)]
    assert sum(kept) == 2
    assert model.predict(X).shape == labels.shape


@pytest.mark.filterwarnings("ignore:.*tasks which were still being processed")
def test_an_interrupt_keeps_the_families_that_are_there(client, monkeypatch):
    X, y = rows()
    model = AutoDCONRegressor(random_state=0)
    interrupted_after(3, monkeypatch, fold_runner)
    with joblib.parallel_config("dask"), pytest.raises(KeyboardInterrupt, match="predicts with the members"):
        model.fit(X, y)
    assert len(model.members_) > 0
    assert model.predict(X).shape == y.shape


def test_families(is_used):
    X, y = rows()
    model = AutoDCONRegressor(random_state=0)
    there, used = is_used(lambda: model.fit(X, y).predict(X))
    assert used
    np.testing.assert_array_equal(there, model.fit(X, y).predict(X))


def test_what_needs_somebody_here_stays_here(client):
    X, y = rows()
    labels, epochs = np.digitize(y, [0.4, 1.0]), []
    model = DCONClassifier(3, gamma=0.01, max_epochs=2, random_state=0, callback=epochs.append)
    with joblib.parallel_config("dask"):
        model.fit(X, labels)
    assert len(epochs) == 6
