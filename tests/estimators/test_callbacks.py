"""scikit-learn's callbacks: tasks, partly fitted estimators, stops, errors and interrupts."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONClassifier, LayerwiseDCONRegressor
from dconnet.training.result import Status
from fitted_bits import bits

pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks before 1.9")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

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
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1])
LABELS = np.array(["low", "mid", "top"])[np.digitize(Y, [0.2, 1.0])]


def fit(name, *callbacks, **changes):
    model = clone(ESTIMATORS[name]).set_params(**changes)
    if callbacks:
        model.set_callbacks(*callbacks)
    return model.fit(X, LABELS if hasattr(model, "decision_function") else Y)


@pytest.fixture(scope="module")
def plain():
    """Each estimator fitted without callbacks."""
    return {name: fit(name) for name in ESTIMATORS}


class Recorder:
    """Records the hooks in their order and the estimator after each task; may act at one hook of one task."""

    def __init__(self, act=None, hook=None, path=None):
        self.act, self.hook, self.path = act, hook, path
        self.hooks, self.estimators = [], {}

    def setup(self, estimator, context):
        self.hooks.append(("setup",))

    def teardown(self, estimator, context):
        self.hooks.append(("teardown",))

    def on_fit_task_begin(self, estimator, context):
        return self._record("begin", context)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.estimators[path_to(context)] = fitted_estimator
        return self._record("end", context)

    def _record(self, hook, context):
        path = path_to(context)
        self.hooks.append((hook, context.task_name, path))
        return self.act() if (hook, path) == (self.hook, self.path) else None

    def tasks(self, hook, name=None):
        return sorted(each[2] for each in self.hooks if each[0] == hook and (name is None or each[1] == name))


def path_to(context):
    """Return the task ids from the fit of the estimator down to this task."""
    path = []
    while context is not None:
        path.insert(0, context.task_id)
        context = context.parent
    return tuple(path)


# --- tasks ---


@pytest.mark.parametrize(("name", "changes"), [*((name, {}) for name in ESTIMATORS), ("classifier", {"n_jobs": 2})])
def test_networks_and_epochs_are_tasks_that_change_no_bit(name, changes, plain):
    recorder = Recorder()
    model = fit(name, recorder, **changes)
    assert bits(model) == bits(plain[name])
    assert set(vars(model)) - set(vars(plain[name])) == {"_skl_callbacks"}
    solutions = [solution for layer in model._layers for solution in layer]
    networks = [(0, number) for number in range(len(solutions))]
    epochs = [(0, number, k) for number, solution in enumerate(solutions) for k in range(solution.n_epochs)]
    assert recorder.tasks("begin") == recorder.tasks("end") == sorted([(0,), *networks, *epochs])
    assert recorder.tasks("end", "epoch") == epochs
    assert recorder.hooks[:2] == [("setup",), ("begin", "fit", (0,))]
    assert recorder.hooks[-2:] == [("end", "fit", (0,)), ("teardown",)]
    position = {(hook[0], hook[-1]): place for place, hook in enumerate(recorder.hooks)}
    for path in epochs:
        begin, end = position["begin", path[:2]], position["end", path[:2]]
        assert begin < position["begin", path] < position["end", path] < end


def test_fits_without_the_callbacks_of_scikit_learn():
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


@pytest.mark.parametrize("name", ["regressor", "classifier", "deep regressor"])
def test_the_estimator_after_an_epoch_has_the_networks_reached(name):
    recorder = Recorder()
    model = fit(name, recorder)
    first, *_, last = (recorder.estimators[path] for path in recorder.tasks("end", "epoch"))
    assert first.solutions_[0].status is Status.RUNNING
    assert first.solutions_[0].n_epochs == 1
    assert np.array_equal(last.predict(X), model.predict(X))


# --- stops ---


@pytest.mark.parametrize("n_jobs", [None, 3])
def test_a_stop_at_an_epoch_ends_its_network(n_jobs, plain):
    model, whole = fit("classifier", Recorder(lambda: True, "end", (0, 1, 1)), n_jobs=n_jobs), plain["classifier"]
    assert model.statuses_ == (whole.statuses_[0], Status.STOPPED_BY_CALLBACK, whole.statuses_[2])
    assert len(model.histories_[1]) == 3
    for k in (0, 2):
        assert np.array_equal(model.networks_[k].parameters, whole.networks_[k].parameters)


def test_a_stop_at_a_network_skips_the_others(plain):
    recorder, whole = Recorder(lambda: True, "end", (0, 0)), plain["classifier"]
    model = fit("classifier", recorder)
    assert model.statuses_ == (whole.statuses_[0], Status.STOPPED_BY_CALLBACK, Status.STOPPED_BY_CALLBACK)
    assert [path for path in recorder.tasks("begin") if len(path) == 2] == [(0, 0)]
    assert np.array_equal(model.networks_[0].parameters, whole.networks_[0].parameters)


# --- errors and interrupts ---


@pytest.mark.parametrize("hook", ["begin", "end"])
@pytest.mark.parametrize("path", [(0,), (0, 1), (0, 1, 0)])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_an_error_of_a_callback_leaves_the_estimator_unchanged(hook, path, n_jobs):
    def fail():
        raise RuntimeError("no more")

    recorder = Recorder(fail, hook, path)
    model = clone(ESTIMATORS["classifier"]).set_params(n_jobs=n_jobs).set_callbacks(recorder)
    before = set(vars(model))
    with pytest.raises(RuntimeError, match="no more"):
        model.fit(X, LABELS)
    assert recorder.hooks[-1] == ("teardown",)
    is_fitted = (hook, path) == ("end", (0,))  # the last hook comes after the fit
    assert (set(vars(model)) == before) is not is_fitted
    assert hasattr(model, "networks_") is is_fitted


@pytest.mark.parametrize(
    ("hook", "path"), [("begin", (0, 1)), ("begin", (0, 1, 1)), ("end", (0, 1, 1)), ("end", (0, 1))]
)
def test_an_interrupt_in_a_callback_keeps_the_networks(hook, path, plain):
    def interrupt():
        raise KeyboardInterrupt

    recorder = Recorder(interrupt, hook, path)
    model = clone(ESTIMATORS["classifier"]).set_callbacks(recorder)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, LABELS)
    assert np.array_equal(model.networks_[0].parameters, plain["classifier"].networks_[0].parameters)
    assert model.statuses_[2] is Status.INTERRUPTED
    assert model.predict(X).shape == (60,)
    assert recorder.hooks[-2:] == [("end", "fit", (0,)), ("teardown",)]
    assert recorder.tasks("end", "epoch") == recorder.tasks("begin", "epoch")


def test_callbacks_of_a_search_reach_the_networks():
    class Propagated(Recorder):
        max_propagation_depth = None

    recorder, pipeline = Propagated(), make_pipeline(StandardScaler(), clone(ESTIMATORS["regressor"]))
    search = GridSearchCV(pipeline, {"dconregressor__gamma": [0.1, 1.0]}, cv=2).set_callbacks(recorder).fit(X, Y)
    assert len(recorder.tasks("begin", "network")) == 5  # four splits and the last fit
    assert recorder.tasks("begin") == recorder.tasks("end")
    last = [path for path in recorder.tasks("end", "epoch") if path[1] == 1]
    assert len(last) == search.best_estimator_[-1].n_iter_
    assert recorder.hooks.count(("setup",)) == recorder.hooks.count(("teardown",)) == 1
