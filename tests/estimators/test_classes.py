"""Weights of classes, and many networks in threads."""

import signal
import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.class_weight import compute_sample_weight

from dconnet import (
    AutoDCONClassifier,
    DCONClassifier,
    LayerwiseDCONClassifier,
)
from dconnet._threads import check_stop
from dconnet.estimators import gamma_choice
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.result import Status

X, CODES = load_iris(return_X_y=True)
X, CODES = X[::2], CODES[::2]
LABELS = np.array(["setosa", "versicolor", "virginica"])[CODES]
CLASSIFIERS = [
    DCONClassifier(3, gamma=0.1, max_epochs=2, random_state=0),
    DCONClassifier(3, gamma=[0.1, 1.0], max_epochs=2, random_state=0),
    LayerwiseDCONClassifier((3, 2), gamma=0.1, max_epochs=2, lower_epochs=1, random_state=0),
]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def heed_ctrl_c():
    """A process in the background ignores Ctrl-C, and so would these tests there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def fitted(estimator, *arguments, **parameters):
    return type(estimator)(**{**estimator.get_params(), **parameters}).fit(*arguments)


class TestClassWeight:
    @pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)
    @pytest.mark.parametrize("class_weight", ["balanced", {"setosa": 2.0, "virginica": 0.3}, {"versicolor": 0.0}])
    def test_is_the_same_as_weights_of_the_rows_to_the_bit(self, estimator, class_weight):
        rows = slice(10, None)  # not as many of each class
        own = np.linspace(0.5, 1.5, len(X))[rows]
        weighted = fitted(estimator, X[rows], LABELS[rows], own, class_weight=class_weight)
        factors = compute_sample_weight(class_weight, LABELS[rows])
        if class_weight == "balanced":
            totals = {label: sum(own[LABELS[rows] == label].tolist()) for label in np.unique(LABELS)}
            factors = np.array([sum(totals.values()) / (3 * totals[label]) for label in LABELS[rows]])
        same = fitted(estimator, X[rows], LABELS[rows], own * factors)
        np.testing.assert_array_equal(weighted.decision_function(X), same.decision_function(X))
        assert weighted.classes_.tolist() == same.classes_.tolist()

    def test_counts_for_the_problems_and_the_validation_data_too(self):
        weights = {"setosa": 3.0, "versicolor": 1.0, "virginica": 0.5}
        model = DCONClassifier(2, gamma=0.1, class_weight=weights, max_epochs=2, random_state=0)
        model.fit(X, LABELS, X_val=X[::3], y_val=LABELS[::3])
        for k, problem in enumerate(model.problems(X, LABELS)):
            assert problem.objective(model.networks_[k]) == pytest.approx(model.objectives_[k], rel=1e-12)
        factors = compute_sample_weight(weights, LABELS[::3])
        target = np.where(LABELS[::3] == "setosa", 1.0, -1.0)
        error = np.average((target - model.networks_[0].predict(X[::3])) ** 2, weights=factors)
        assert model.histories_[0].validation_mse[-1] == pytest.approx(error, rel=1e-9)

    def test_balanced_counts_rows_by_their_weights(self):
        """As fit says, a row of weight two counts like the same row twice, and one of weight zero not at all."""
        times = np.arange(len(X)) % 3
        times[LABELS == "setosa"] += 1
        rows = np.repeat(np.arange(len(X)), times)
        model = DCONClassifier(2, gamma=0.1, class_weight="balanced", tol=1e-4, random_state=0)
        weighted = clone(model).fit(X, LABELS, sample_weight=times)
        repeated = clone(model).fit(X[rows], LABELS[rows])
        assert [network.intercept for network in weighted.networks_] == pytest.approx(3 * [-1.0 / 3.0])
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-5, atol=1e-9)
        with_a_ghost = clone(model).fit([*X, X[0]], [*LABELS, "ghost"], sample_weight=[*times, 0])
        np.testing.assert_allclose(with_a_ghost.predict_proba(X), weighted.predict_proba(X), rtol=1e-5, atol=1e-9)

    @pytest.mark.parametrize("estimator", [*CLASSIFIERS, AutoDCONClassifier()], ids=lambda e: type(e).__name__)
    def test_must_make_sense(self, estimator):
        with pytest.raises(ValueError, match="class_weight must be finite and not negative"):
            fitted(estimator, X, LABELS, class_weight={"setosa": -1.0})
        with pytest.raises(ValueError, match="class_weight"):
            fitted(estimator, X, LABELS, class_weight="fair")


class TestThreads:
    def test_ctrl_c_keeps_what_all_networks_have_reached(self, monkeypatch):
        press_after(monkeypatch, AcceleratedDescent, "step", 3)
        monkeypatch.setattr(AcceleratedDescent, "has_converged", lambda self, state: False)
        model = DCONClassifier(4, gamma=0.01, max_epochs=None, max_seconds=60, n_jobs=2, random_state=0)
        with pytest.raises(KeyboardInterrupt, match="Interrupted"):
            model.fit(X, LABELS)
        assert model.statuses_ == 3 * (Status.INTERRUPTED,)
        assert [len(history) > 1 for history in model.histories_] == 3 * [True]
        # How good a network is depends on how far its thread has come, but it is better than its start.
        assert [history.objective[-1] < history.objective[0] for history in model.histories_] == 3 * [True]
        assert np.isin(model.predict(X), LABELS).all()

    def test_ctrl_c_at_the_end_is_not_lost(self, monkeypatch):
        press_after(monkeypatch, AcceleratedDescent, "solution", 3)
        model = DCONClassifier(2, gamma=0.1, max_epochs=1, n_jobs=3, random_state=0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, LABELS)
        assert len(model.networks_) == 3

    def test_ctrl_c_before_the_first_network_leaves_the_estimator_unchanged(self, monkeypatch):
        press_after(monkeypatch, gamma_choice, "_best_fits", 1)
        model = DCONClassifier(3, n_jobs=2, random_state=0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, LABELS)
        with pytest.raises(NotFittedError):
            model.predict(X)

    def test_an_error_in_a_thread_is_raised(self, monkeypatch):
        def fail(self, state):
            raise ZeroDivisionError("in a thread")

        monkeypatch.setattr(AcceleratedDescent, "step", fail)
        with pytest.raises(ZeroDivisionError, match="in a thread"):
            DCONClassifier(2, gamma=0.1, n_jobs=2, random_state=0).fit(X, LABELS)


def test_forty_classes():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 12)
    data = rng.normal(size=(40, 6))[labels] + 0.1 * rng.normal(size=(480, 6))
    model = DCONClassifier(3, gamma=1e-3, max_evaluations=100, n_jobs=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data, labels)
    assert len(model.networks_) == 40
    assert model.decision_function(data).shape == (480, 40)
    assert model.score(data, labels) > 0.5


def press_ctrl_c():
    """As the terminal does: a signal for the main thread; this other thread goes on when that has told it to stop."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    for _ in range(2000):
        try:
            check_stop()
        except KeyboardInterrupt:
            return
        time.sleep(0.01)


def press_after(monkeypatch, owner, name, count):
    original, left = getattr(owner, name), list(range(count))

    def wrapped(*arguments):
        result = original(*arguments)
        if left and left.pop() == 0:
            press_ctrl_c()
        return result

    monkeypatch.setattr(owner, name, wrapped)
