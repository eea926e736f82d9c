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
    DCONRegressor,
    LayerwiseDCONClassifier,
    PaperAlgorithm,
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

    def test_balanced_gives_all_classes_the_same_weight(self):
        model = DCONClassifier(2, gamma=0.1, scale=True, class_weight="balanced", max_epochs=1, random_state=0)
        model.fit(X[10:], LABELS[10:])
        # The output intercept is the mean of plus and minus one: a third of the weight is for each class.
        assert [network.intercept for network in model.networks_] == pytest.approx(3 * [-1.0 / 3.0])

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

    def test_classes_that_are_digits_as_text(self):
        digits = np.array(["0", "1", "2"])[np.unique(LABELS, return_inverse=True)[1]]
        model = DCONClassifier(2, gamma=0.1, max_epochs=2, random_state=0)
        weighted = clone(model).set_params(class_weight={"0": 2.0, "1": 1.0, "2": 0.5}).fit(X, digits)
        same = clone(model).fit(X, digits, sample_weight=np.select([digits == "0", digits == "1"], [2.0, 1.0], 0.5))
        np.testing.assert_array_equal(weighted.decision_function(X), same.decision_function(X))
        with pytest.raises(ValueError, match="gives a weight to 0, which is not a class of y"):
            model.set_params(class_weight={0: 2.0}).fit(X, digits)

    @pytest.mark.parametrize("estimator", [*CLASSIFIERS, AutoDCONClassifier()], ids=lambda e: type(e).__name__)
    def test_must_make_sense(self, estimator):
        with pytest.raises(ValueError, match="class_weight must be finite and not negative"):
            fitted(estimator, X, LABELS, class_weight={"setosa": -1.0})
        with pytest.raises(ValueError, match="class_weight"):
            fitted(estimator, X, LABELS, class_weight="fair")


class TestThreads:
    @pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda e: type(e).__name__)
    @pytest.mark.parametrize("n_jobs", [2, 3, -1])
    def test_their_number_makes_no_difference_to_the_networks(self, estimator, n_jobs):
        one, several = (fitted(estimator, X, LABELS, n_jobs=n) for n in (None, n_jobs))
        assert one.decision_function(X).tobytes() == several.decision_function(X).tobytes()
        assert getattr(one, "gamma_", None) == getattr(several, "gamma_", None)

    def test_nor_to_the_choice_of_gamma(self):
        one, several = (DCONRegressor(3, max_epochs=1, n_jobs=n, random_state=0).fit(X[:, 1:], X[:, 0]) for n in (1, 3))
        assert one.mse_path_.tobytes() == several.mse_path_.tobytes()
        assert one.network_.parameters.tobytes() == several.network_.parameters.tobytes()

    def test_other_solvers_run_in_threads_as_well(self):
        one, several = (
            DCONClassifier(
                2, gamma=1.0, algorithm=PaperAlgorithm(solver="reference"), max_epochs=1, n_jobs=n, random_state=0
            )
            for n in (1, 2)
        )
        one.fit(X[::3], LABELS[::3]), several.fit(X[::3], LABELS[::3])
        np.testing.assert_array_equal(one.decision_function(X), several.decision_function(X))

    def test_must_be_a_number_of_threads(self):
        with pytest.raises(ValueError, match="n_jobs"):
            DCONRegressor(n_jobs=1.5).fit(X, CODES)

    def test_progress_of_several_is_told_apart(self, capsys):
        DCONClassifier(2, gamma=0.1, max_epochs=1, n_jobs=2, verbose=2, random_state=0).fit(X, LABELS)
        lines = capsys.readouterr().out.splitlines()
        assert sorted(line.split(":")[0] for line in lines) == [f"class {label}" for label in np.unique(LABELS)]
        DCONClassifier(2, gamma=0.1, max_epochs=1, n_jobs=2, verbose=1, random_state=0).fit(X, LABELS)
        told = capsys.readouterr()
        assert told.out == ""
        assert "networks" in told.err
        assert "100%" in told.err

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

    def test_ctrl_c_before_there_are_networks_leaves_the_estimator_as_it_was(self, monkeypatch):
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


def test_a_hundred_classes():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(100), 12)
    data = rng.normal(size=(100, 6))[labels] + 0.1 * rng.normal(size=(1200, 6))
    model = DCONClassifier(3, gamma=1e-3, max_evaluations=100, n_jobs=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data, labels)
    assert len(model.networks_) == 100
    assert model.decision_function(data).shape == (1200, 100)
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
