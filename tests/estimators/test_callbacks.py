"""scikit-learn's callbacks: tasks, partly fitted estimators, stops, and what they leave alone."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import (
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
)
from dconnet.inspection.replay import replay
from dconnet.training.result import Status

pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks before 1.9")

SHALLOW = {"n_hidden": 3, "tol": 1e-3, "random_state": 0}
DEEP = {"hidden_layer_sizes": (3, 2), "gamma": 0.1, "lower_epochs": 2, "tol": 1e-3, "random_state": 0}
ESTIMATORS = {
    "regressor": DCONRegressor(gamma=0.1, **SHALLOW),
    "paper": DCONRegressor(gamma=0.1, algorithm="paper", max_epochs=5, **SHALLOW),
    "early stopping": DCONRegressor(gamma=0.1, early_stopping=True, n_iter_no_change=2, **SHALLOW),
    "classifier": DCONClassifier(gamma=0.1, **SHALLOW),
    "shared": DCONClassifier(gamma=0.1, multi_class="shared", **SHALLOW),
    "candidates": DCONClassifier(gamma=[0.1, 1.0], cv=2, **SHALLOW),
    "deep regressor": LayerwiseDCONRegressor(**DEEP),
    "deep classifier": LayerwiseDCONClassifier(**DEEP, skip=True),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1])
    return X, y, np.array(["low", "mid", "top"])[np.digitize(y, [0.2, 1.0])]


def target_of(estimator, data):
    return data[2] if hasattr(estimator, "decision_function") else data[1]


def fitted(estimator, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(data[0], target_of(estimator, data))


def bits(model):
    networks = [solution.network for solutions in model._layers for solution in solutions]
    return [network.parameters.tobytes() for network in networks], model.statuses_, model.messages_


def path_to(context):
    """The task ids from the fit of the estimator down to this task."""
    path = []
    while context is not None:
        path.insert(0, context.task_id)
        context = context.parent
    return tuple(path)


class Recorder:
    """Records the hooks in their order."""

    def __init__(self):
        self.hooks = []

    def setup(self, estimator, context):
        self.hooks.append(("setup",))

    def teardown(self, estimator, context):
        self.hooks.append(("teardown",))

    def on_fit_task_begin(self, estimator, context):
        self.hooks.append(("begin", context.task_name, path_to(context)))

    def on_fit_task_end(self, estimator, context):
        self.hooks.append(("end", context.task_name, path_to(context)))

    def tasks(self, hook, name=None):
        return [each[2] for each in self.hooks if each[0] == hook and (name is None or each[1] == name)]


class Keeper(Recorder):
    """Keeps the estimators as they would be, at the beginning and at the end of each task."""

    def __init__(self):
        super().__init__()
        self.begun, self.ended, self.data = {}, {}, None

    def on_fit_task_begin(self, estimator, context, *, fitted_estimator=None):
        super().on_fit_task_begin(estimator, context)
        self.begun[path_to(context)] = fitted_estimator

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        super().on_fit_task_end(estimator, context)
        self.ended[path_to(context)] = fitted_estimator
        self.data = X, y, metadata


class Acting(Recorder):
    """Does something at a task."""

    def __init__(self, act, hook, path):
        super().__init__()
        self.act, self.hook, self.path = act, hook, path

    def on_fit_task_begin(self, estimator, context):
        super().on_fit_task_begin(estimator, context)
        return self._act("begin", context)

    def on_fit_task_end(self, estimator, context):
        super().on_fit_task_end(estimator, context)
        return self._act("end", context)

    def _act(self, hook, context):
        return self.act() if hook == self.hook and path_to(context) == self.path else None


def interrupt():
    raise KeyboardInterrupt


def fail():
    raise RuntimeError("no more")


# --- the tasks ---


@pytest.mark.parametrize(("name", "changes"), [*((name, {}) for name in ESTIMATORS), ("classifier", {"n_jobs": 2})])
def test_networks_and_their_epochs_are_tasks(name, changes, data):
    recorder = Recorder()
    model = fitted(clone(ESTIMATORS[name]).set_params(**changes).set_callbacks(recorder), data)
    solutions = [solution for level in model._layers for solution in level]
    networks = [(0, number) for number in range(len(solutions))]
    epochs = [(0, number, k) for number, solution in enumerate(solutions) for k in range(solution.n_epochs)]
    assert sorted(recorder.tasks("begin")) == sorted([(0,), *networks, *epochs])
    assert sorted(recorder.tasks("end")) == sorted(recorder.tasks("begin"))
    assert sorted(recorder.tasks("end", "epoch")) == epochs
    assert recorder.hooks[:2] == [("setup",), ("begin", "fit", (0,))]
    assert recorder.hooks[-2:] == [("end", "fit", (0,)), ("teardown",)]
    order = {hook: place for place, hook in enumerate(recorder.hooks)}
    for path in epochs:
        title = next(each[1] for each in recorder.hooks if each[2:] == (path[:2],))
        begin, first = order["begin", title, path[:2]], order["begin", "epoch", path]
        last, end = order["end", "epoch", path], order["end", title, path[:2]]
        assert begin < first < last < end


@every_estimator
def test_bits_are_the_same_with_and_without_callbacks(name, data):
    plain, watched = fitted(clone(ESTIMATORS[name]), data), clone(ESTIMATORS[name]).set_callbacks(Keeper())
    assert bits(fitted(watched, data)) == bits(plain)
    if "n_jobs" in plain.get_params():
        assert bits(fitted(clone(watched).set_params(n_jobs=2), data)) == bits(plain)
    assert set(vars(watched)) - set(vars(plain)) == {"_skl_callbacks"}


def test_where_scikit_learn_has_no_callbacks():
    code = (
        "import sys, numpy as np, sklearn.model_selection, sklearn.pipeline\n"
        "sys.modules['sklearn.callback'] = None\n"
        "del sklearn.callback\n"
        "from dconnet import DCONRegressor\n"
        "X = np.linspace(-1.0, 1.0, 30).reshape(-1, 1)\n"
        "model = DCONRegressor(2, gamma=0.1, random_state=0, callback=lambda epoch: True).fit(X, np.abs(X[:, 0]))\n"
        "print(model.status_.name, hasattr(model, 'set_callbacks'))\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["STOPPED_BY_CALLBACK", "False"]


# --- fitted estimators on the way ---


@every_estimator
def test_a_fitted_estimator_is_what_a_stop_would_have_left(name, data):
    estimator, keeper = clone(ESTIMATORS[name]), Keeper()
    model = fitted(clone(estimator).set_callbacks(keeper), data)
    solutions = [solution for level in model._layers for solution in level]
    for number in sorted({0, len(solutions) // 2, len(solutions) - 1}):
        n_epochs = max(1, solutions[number].n_epochs - 1)
        reached = keeper.ended[0, number, n_epochs - 1]
        stopped = stopped_after(estimator, data, *divmod(number, len(model.solutions_)), n_epochs)
        # The layers above a stop come with the best output weights alone; those that are trained do not know them yet.
        for own, theirs in zip(reached._layers, stopped._layers, strict=False):
            for one, other in zip(own, theirs, strict=True):
                assert np.array_equal(one.network.parameters, other.network.parameters)
                assert one.objective == other.objective
                assert one.n_epochs == other.n_epochs
                assert len(one.history) == len(other.history)
        running = reached._layers[-1][number % len(model.solutions_)]
        assert running.status is Status.RUNNING
        assert running.message == Status.RUNNING.message(n_epochs)
    # The last of them has all layers.
    assert np.array_equal(reached.predict(data[0]), stopped.predict(data[0]))


def stopped_after(estimator, data, depth, column, n_epochs):
    """The estimator whose fit a plain callback has stopped at an epoch."""

    def stop(epoch):
        is_layer = not epoch.label.startswith("layer") or epoch.label.startswith(f"layer {depth + 1}")
        return is_layer and (epoch.column, epoch.number) == (column, n_epochs)

    return fitted(clone(estimator).set_params(callback=stop), data)


# --- stops ---


@pytest.mark.parametrize("n_jobs", [None, 3])
def test_a_stop_at_an_epoch_ends_its_network(n_jobs, data):
    callback = Acting(lambda: True, "end", (0, 1, 1))
    whole = fitted(clone(ESTIMATORS["classifier"]), data)
    model = fitted(clone(whole).set_params(n_jobs=n_jobs).set_callbacks(callback), data)
    assert model.statuses_ == (whole.statuses_[0], Status.STOPPED_BY_CALLBACK, whole.statuses_[2])
    assert model.messages_[1] == "Stopped by a callback after 2 epochs: the network reached so far was kept."
    assert len(model.histories_[1]) == 3
    for k in (0, 2):
        assert np.array_equal(model.networks_[k].parameters, whole.networks_[k].parameters)


def test_a_stop_at_a_network_leaves_the_others_out(data):
    callback = Acting(lambda: True, "end", (0, 0))
    whole = fitted(clone(ESTIMATORS["classifier"]), data)
    model = fitted(clone(whole).set_callbacks(callback), data)
    assert model.statuses_ == (whole.statuses_[0], Status.STOPPED_BY_CALLBACK, Status.STOPPED_BY_CALLBACK)
    assert model.solutions_[1].n_epochs == model.solutions_[2].n_epochs == 0
    assert recorded_networks(callback) == [(0, 0)]
    assert np.array_equal(model.networks_[0].parameters, whole.networks_[0].parameters)


def recorded_networks(callback):
    return [path for path in callback.tasks("begin") if len(path) == 2]


def test_both_kinds_of_callbacks_work_together(data):
    recorder, seen = Recorder(), []
    model = clone(ESTIMATORS["classifier"]).set_params(callback=lambda epoch: seen.append(epoch) or epoch.number == 2)
    fitted(model.set_callbacks(recorder), data)
    assert len(seen) == 2
    assert recorder.tasks("end", "epoch") == [(0, 0, 0), (0, 0, 1)]
    assert set(model.statuses_) == {Status.STOPPED_BY_CALLBACK}


# --- errors and interrupts ---


@pytest.mark.parametrize("hook", ["begin", "end"])
@pytest.mark.parametrize("path", [(0,), (0, 1), (0, 1, 0)])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_an_error_of_a_callback_leaves_the_estimator_unchanged(hook, path, n_jobs, data):
    callback = Acting(fail, hook, path)
    model = clone(ESTIMATORS["classifier"]).set_params(n_jobs=n_jobs).set_callbacks(callback)
    before = set(vars(model))
    with pytest.raises(RuntimeError, match="no more"):
        fitted(model, data)
    assert callback.hooks[-1] == ("teardown",)
    after_the_fit = (hook, path) == ("end", (0,))
    assert (set(vars(model)) == before) is not after_the_fit
    assert hasattr(model, "networks_") is after_the_fit


@pytest.mark.parametrize(
    ("hook", "path"),
    [("begin", (0, 1)), ("begin", (0, 1, 1)), ("end", (0, 1, 1)), ("end", (0, 1))],
)
def test_an_interrupt_in_a_callback_keeps_the_networks(hook, path, data):
    callback = Acting(interrupt, hook, path)
    whole = fitted(clone(ESTIMATORS["classifier"]), data)
    model = clone(whole).set_callbacks(callback)
    with pytest.raises(KeyboardInterrupt):
        fitted(model, data)
    assert np.array_equal(model.networks_[0].parameters, whole.networks_[0].parameters)
    assert model.statuses_[2] is Status.INTERRUPTED
    assert model.predict(data[0]).shape == (60,)
    assert callback.hooks[-2:] == [("end", "fit", (0,)), ("teardown",)]
    epochs = callback.tasks("begin", "epoch")
    assert sorted(callback.tasks("end", "epoch")) == sorted(epochs)


# --- with the rest of scikit-learn ---


class Travelling(Recorder):
    """A callback of the outermost estimator that goes down to all others."""

    max_propagation_depth = None


def test_callbacks_of_a_search_reach_the_networks(data):
    recorder, pipeline = Travelling(), make_pipeline(StandardScaler(), clone(ESTIMATORS["regressor"]))
    search = GridSearchCV(pipeline, {"dconregressor__gamma": [0.1, 1.0]}, cv=2).set_callbacks(recorder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(data[0], data[1])
    # Search and refit, split, step of the pipeline, network: four splits and the last fit.
    assert len(recorder.tasks("begin", "network")) == 5
    assert sorted(recorder.tasks("begin")) == sorted(recorder.tasks("end"))
    last = [path for path in recorder.tasks("end", "epoch") if path[1] == 1]
    assert len(last) == search.best_estimator_[-1].n_iter_
    assert recorder.hooks.count(("setup",)) == recorder.hooks.count(("teardown",)) == 1
    assert not hasattr(search.best_estimator_[-1], "_skl_callbacks")


def test_a_replay_calls_no_callbacks(data):
    recorder = Recorder()
    model = fitted(clone(ESTIMATORS["regressor"]).set_callbacks(recorder), data)
    seen = len(recorder.hooks)
    replay(model, data[0], data[1])
    assert len(recorder.hooks) == seen
