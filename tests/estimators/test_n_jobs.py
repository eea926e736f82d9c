"""Networks side by side and rows in threads: their number changes no bit, also across checkpoints and forks."""

import os
import signal
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONClassifier, Problem
from dconnet.convex.backend import get_backend
from dconnet.convex.native import Native
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier
from dconnet.training.trainer import Trainer

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N_ROWS = 10_000  # three leaves of rows, which threads can share
LIMITS = {"gamma": 0.1, "max_evaluations": 25, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(N_ROWS, 6))
    return X, np.abs(X[:, 0]) + X[:, 1] * X[:, 2]


def classes(y):
    return np.digitize(y, [0.0, 1.0])


def bits(model):
    """All that a fit has reached, but for the clock."""
    found = []
    for solutions in model._layers:
        for solution in solutions:
            record = solution.history.to_dict()
            record.pop("seconds")
            found += [solution.network.parameters.tobytes(), np.array(list(record.values())).tobytes(), solution.status]
    return found


FITS = {
    "regressor": (DCONRegressor(4, **LIMITS), lambda y: y),
    "several targets": (DCONRegressor(4, **LIMITS), lambda y: np.column_stack([y, y**2])),
    "classifier": (DCONClassifier(3, **LIMITS), classes),
    "shared neurons": (DCONClassifier(4, multi_class="shared", **LIMITS), classes),
    "layers": (LayerwiseDCONClassifier((3, 2), max_epochs=1, **LIMITS), lambda y: y > 1.0),
}


@pytest.fixture(scope="module")
def alone(data):
    """Each fit with one thread."""
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {name: bits(clone(model).fit(X, coded(y))) for name, (model, coded) in FITS.items()}


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7])
@pytest.mark.parametrize("name", FITS)
def test_the_number_of_threads_changes_no_bit(name, n_jobs, data, alone):
    (X, y), (model, coded) = data, FITS[name]
    assert bits(clone(model).set_params(n_jobs=n_jobs).fit(X, coded(y))) == alone[name]


@pytest.mark.parametrize(
    ("n_jobs", "n_networks", "n_at_once", "n_threads"),
    [(1, 3, 1, 1), (2, 3, 2, 1), (3, 3, 3, 1), (7, 3, 3, 2), (7, 1, 1, 7)],
)
def test_networks_come_first_and_then_rows(monkeypatch, data, n_jobs, n_networks, n_at_once, n_threads):
    shared, teams = [], []
    whole, init = Trainer.sharing, AcceleratedDescent.init

    def seen_sharing(self, n_jobs, n_at_once):
        shared.append((n_jobs, n_at_once))
        return whole(self, n_jobs, n_at_once)

    def seen_init(self, start, validation=None):
        teams.append(self.rows.team.size)
        return init(self, start, validation)

    monkeypatch.setattr(Trainer, "sharing", seen_sharing)
    monkeypatch.setattr(AcceleratedDescent, "init", seen_init)
    X, y = data[0][:200], data[1][:200]
    y = classes(y) if n_networks == 3 else y > 1.0
    DCONClassifier(2, n_jobs=n_jobs, **LIMITS).fit(X, y)
    assert shared == [(n_jobs, n_at_once)]
    assert teams == n_networks * [n_threads]


# --- forks ---


@contextmanager
def no_warning_of_threads():
    """From Python 3.12 on, a fork of a process with threads warns; that such a one works is what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


class Child:
    """A fork of this process that ends with what it tells."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        with no_warning_of_threads():
            self.process = os.fork()

    def is_here(self):
        return self.process == 0

    def end(self, told):
        os.write(self.writer, told)
        os._exit(0)

    def told(self, seconds=60.0):
        """What the child has told when it has ended."""
        os.close(self.writer)
        deadline = time.monotonic() + seconds
        while (ended := os.waitpid(self.process, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)
                pytest.fail("the child does not end")
            time.sleep(0.01)
        with os.fdopen(self.reader, "rb") as reader:
            return ended[1], reader.read()


def parameters(model):
    return model.network_.parameters.tobytes()


@pytest.fixture
def model():
    return DCONRegressor(3, n_jobs=2, **LIMITS)


def test_a_fork_after_a_fit_predicts_and_fits(data, model):
    X, y = data
    model.fit(X, y)
    child = Child()
    if child.is_here():
        said = model.predict(X[:5]).tobytes()
        child.end(said + parameters(model.fit(X, y)))
    assert child.told() == (0, model.predict(X[:5]).tobytes() + parameters(model))


def test_a_fork_during_a_fit_can_fit_again(data, model):
    """The end of the fit destroys its team in a process in which the other threads do not exist."""
    X, y = data
    children = []

    def fork(epoch):
        children.append(Child())
        if children[0].is_here():
            raise RuntimeError("enough")

    model.set_params(callback=fork)
    try:
        model.fit(X, y)
    except RuntimeError:
        children[0].end(parameters(model.set_params(callback=None).fit(X, y)))
    assert children[0].told() == (0, parameters(model))


def test_a_team_that_sleeps_may_be_forked(data):
    """Some milliseconds after the last work, the threads wait for a signal, and no longer look by themselves."""
    X, y = data
    rng = np.random.default_rng(0)
    descent = AcceleratedDescent(Problem(X, y, 0.1), get_backend("native"), Options(split="net", n_threads=3), rng)
    assert isinstance(descent.backend, Native)
    descent.budget = 10
    state = descent.init(xavier(6, 3, rng))
    descent.began = time.perf_counter()
    descent.prepare(state)
    descent.explore(state)
    time.sleep(0.1)
    child = Child()
    if child.is_here():
        descent.explore(state)
        del descent
        child.end(state.V.tobytes())
    descent.explore(state)
    assert child.told() == (0, state.V.tobytes())
