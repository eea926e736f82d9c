"""Threads change no bit of a fit, stop at Ctrl-C without losing work, and survive forks."""

import os
import select
import signal
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info, threadpool_limits

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONClassifier
from dconnet._threads import check_stop, in_threads, one_blas_thread
from dconnet.estimators import gamma_choice
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.result import Status
from fitted_bits import bits

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_ROWS = 10_000  # three leaves of rows, which threads can share
LIMITS = {"gamma": 0.1, "max_evaluations": 10, "random_state": 0}
X, CODES = load_iris(return_X_y=True)
X, LABELS = X[::2], np.array(["setosa", "versicolor", "virginica"])[CODES[::2]]


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(N_ROWS, 6))
    return X, np.abs(X[:, 0]) + X[:, 1] * X[:, 2]


# --- the same bits ---


def classes(y):
    return np.digitize(y, [0.0, 1.0])


FITS = {
    "regressor": (DCONRegressor(4, **LIMITS), lambda y: y),
    "several targets": (DCONRegressor(4, **LIMITS), lambda y: np.column_stack([y, y**2])),
    "classifier": (DCONClassifier(3, **LIMITS), classes),
    "shared neurons": (DCONClassifier(4, multi_class="shared", **LIMITS), classes),
    "layers": (LayerwiseDCONClassifier((3, 2), max_epochs=1, **LIMITS), lambda y: y > 1.0),
}


@pytest.mark.parametrize("name", FITS)
def test_the_number_of_threads_changes_no_bit(name, data):
    (X, y), (model, coded) = data, FITS[name]
    alone = bits(clone(model).fit(X, coded(y)))
    for n_jobs in (2, 7):
        assert bits(clone(model).set_params(n_jobs=n_jobs).fit(X, coded(y))) == alone


def test_threads_change_no_bit_of_the_choice_of_gamma():
    one, several = (DCONClassifier(3, max_epochs=1, n_jobs=n, random_state=0).fit(X, LABELS) for n in (1, 3))
    assert one.mse_path_.tobytes() == several.mse_path_.tobytes()
    assert one.predict_proba(X).tobytes() == several.predict_proba(X).tobytes()


def test_the_limit_of_blas_threads_ends_with_the_last_of_several_fits():
    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        with ThreadPoolExecutor(4) as pool:
            fits = [pool.submit(DCONRegressor(2, **LIMITS).fit, X, X[:, 0]) for _ in range(8)]
            for fit in fits:
                fit.result()
        assert blas_threads() == before


# --- Ctrl-C and errors ---


def press_after(monkeypatch, owner, name, n_calls):
    original, left = getattr(owner, name), list(range(n_calls))

    def wrapped(*arguments, **options):
        result = original(*arguments, **options)
        if left and left.pop() == 0:
            press_ctrl_c()
        return result

    monkeypatch.setattr(owner, name, wrapped)


def press_ctrl_c():
    """Send the signal to the main thread, as a terminal does; continue this thread when it is asked to stop."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    for _ in range(2000):
        try:
            check_stop()
        except KeyboardInterrupt:
            return
        time.sleep(0.01)


def test_ctrl_c_keeps_what_all_networks_have_reached(monkeypatch):
    press_after(monkeypatch, AcceleratedDescent, "step", 3)
    monkeypatch.setattr(AcceleratedDescent, "has_converged", lambda self, state: False)
    model = DCONClassifier(4, gamma=0.01, max_epochs=None, max_seconds=60, n_jobs=2, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="Interrupted"):
        model.fit(X, LABELS)
    assert model.statuses_ == 3 * (Status.INTERRUPTED,)
    # How good a network is depends on how far its thread has come, but it is better than its start.
    assert all(history.objective[-1] < history.objective[0] for history in model.histories_)
    assert np.isin(model.predict(X), LABELS).all()


def test_ctrl_c_at_the_end_is_not_lost(monkeypatch):
    press_after(monkeypatch, AcceleratedDescent, "solution", 3)
    model = DCONClassifier(2, gamma=0.1, max_epochs=1, n_jobs=3, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, LABELS)
    assert len(model.networks_) == 3


def test_ctrl_c_before_the_first_network_leaves_the_estimator_unchanged(monkeypatch):
    press_after(monkeypatch, gamma_choice, "short_fits", 1)
    model = DCONClassifier(3, n_jobs=2, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, LABELS)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_ctrl_c_stops_running_items_and_starts_no_others():
    begun = []

    def work(item):
        begun.append(item)
        if item == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        while True:
            check_stop()

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(10), 2)
    assert sorted(begun) == [0, 1]


def test_an_error_stops_the_other_items():
    def work(item):
        if item == 3:
            raise ZeroDivisionError
        while True:
            check_stop()

    with pytest.raises(ZeroDivisionError):
        in_threads(work, range(4), 4)


# --- forks ---


class Child:
    """A fork of this process that sends its result to the parent."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork of a process with threads is what is tested
            self.process = os.fork()

    def is_here(self):
        return self.process == 0

    def end(self, result):
        os.write(self.writer, result)
        os._exit(0)

    def result(self):
        """Return exit status and result; end the child if it has no result within a minute."""
        os.close(self.writer)
        if not select.select([self.reader], [], [], 60.0)[0]:
            os.kill(self.process, signal.SIGKILL)
        with os.fdopen(self.reader, "rb") as reader:
            result = reader.read()
        return os.waitpid(self.process, 0)[1], result


def parameters(model):
    return model.network_.parameters.tobytes()


def test_a_fork_after_a_fit_predicts_and_fits(data):
    X, y = data
    model = DCONRegressor(3, n_jobs=2, **LIMITS).fit(X, y)
    child = Child()
    if child.is_here():
        predicted = model.predict(X[:5]).tobytes()
        child.end(predicted + parameters(model.fit(X, y)))
    assert child.result() == (0, model.predict(X[:5]).tobytes() + parameters(model))


def test_a_fork_during_a_fit_can_fit_again(data):
    """The end of the fit destroys its team in a process in which the other threads do not exist."""
    X, y = data
    children = []

    def fork(epoch):
        children.append(Child())
        if children[0].is_here():
            raise RuntimeError("enough")

    model = DCONRegressor(3, n_jobs=2, callback=fork, **LIMITS)
    try:
        model.fit(X, y)
    except RuntimeError:
        children[0].end(parameters(model.set_params(callback=None).fit(X, y)))
    assert children[0].result() == (0, parameters(model))
