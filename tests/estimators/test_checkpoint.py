"""Callbacks after each epoch, and fits that resume from a checkpoint to the same bits."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONClassifier, LayerwiseDCONRegressor, PaperAlgorithm
from dconnet.training.checkpoint import Checkpoint
from dconnet.training.result import Status
from dconnet_test_workers import environment_without_coverage
from fitted_bits import bits

ROOT = Path(__file__).parents[2]


def make_data(n_rows=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1])
    return X, y, np.digitize(y, [0.2, 1.0])


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


# --- callbacks ---


def test_a_callback_sees_every_epoch(data):
    X, y, _ = data
    seen = []
    model = DCONRegressor(4, tol=1e-3, random_state=0, callback=seen.append).fit(X, y, X_val=X[:20], y_val=y[:20])
    assert [epoch.number for epoch in seen] == list(range(1, model.n_iter_ + 1))
    for name in ("objective", "mse", "validation_mse", "seconds", "evaluations"):
        assert [getattr(epoch, name) for epoch in seen] == list(getattr(model.history_, name)[1:])
    assert seen[-1].network is model.network_
    assert {(epoch.column, epoch.label) for epoch in seen} == {(0, "DCONRegressor")}
    assert bits(model) == bits(DCONRegressor(4, tol=1e-3, random_state=0).fit(X, y, X_val=X[:20], y_val=y[:20]))


@pytest.mark.parametrize("algorithm", ["accelerated", "paper"])
def test_a_callback_stops_the_fit_of_all_networks(data, algorithm):
    X, _, labels = data

    def stop(epoch):
        return epoch.column == 1 and epoch.number == 2

    model = DCONClassifier(3, gamma=0.1, algorithm=algorithm, tol=1e-2, random_state=0, callback=stop).fit(X, labels)
    assert [status is Status.STOPPED_BY_CALLBACK for status in model.statuses_] == [False, True, True]
    assert len(model.histories_[1]) == 3
    assert len(model.histories_[2]) == 2  # the start, and its best output weights
    assert model.predict(X).shape == (90,)


# --- checkpoints ---


class KilledError(Exception):
    """Ends a fit at a given epoch; the checkpoint is what a kill would leave."""


def end_at(epoch_count):
    left = [epoch_count]

    def callback(epoch):
        left[0] -= 1
        if left[0] < 0:
            raise KilledError

    return callback


PAPER = {"n_hidden": 4, "gamma": 0.05, "max_epochs": 5}
KINDS = {
    "regressor": (DCONRegressor, {"n_hidden": 4, "tol": 1e-4}),
    "regressor, early stopping": (DCONRegressor, {"n_hidden": 6, "gamma": 0.01, "early_stopping": True}),
    "cross-validated": (DCONRegressor, {"n_hidden": 4, "gamma": [0.03, 0.3], "cv": KFold(3), "tol": 1e-4}),
    "few evaluations": (DCONRegressor, {"n_hidden": 4, "gamma": 0.05, "max_evaluations": 1000}),
    "two targets": (DCONRegressor, {"n_hidden": 4, "gamma": 0.05, "early_stopping": True}),
    "Algorithm 1": (DCONRegressor, PAPER | {"algorithm": "paper", "early_stopping": True}),
    "Algorithm 1, many rows": (DCONRegressor, PAPER | {"algorithm": "paper"}),
    "restart": (DCONRegressor, PAPER | {"algorithm": PaperAlgorithm(restart=True)}),
    "inexact": (DCONRegressor, PAPER | {"algorithm": PaperAlgorithm(inexact=True)}),
    "reference": (DCONRegressor, PAPER | {"algorithm": PaperAlgorithm(solver="reference")}),
    "classifier": (DCONClassifier, {"n_hidden": 3, "gamma": 0.1, "early_stopping": True}),
    "cross-validated classifier": (DCONClassifier, {"n_hidden": 3, "gamma": [0.1, 0.3], "cv": 3, "tol": 1e-3}),
    "layers": (LayerwiseDCONRegressor, {"hidden_layer_sizes": (4, 3), "gamma": 0.1, "tol": 1e-3}),
    "layers of classes": (
        LayerwiseDCONClassifier,
        {"hidden_layer_sizes": (3, 2), "gamma": 0.1, "tol": 1e-3, "lower_epochs": 2},
    ),
}


@pytest.fixture
def _write_after_every_epoch(monkeypatch):
    monkeypatch.setattr("dconnet.training.checkpoint.SECONDS_BETWEEN_WRITES", 0.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("_write_after_every_epoch")
@pytest.mark.parametrize("name", KINDS)
def test_a_fit_resumes_to_the_same_bits(path, name):
    X, y, labels = make_data(5000 if "many rows" in name else 90)
    kind, parameters = KINDS[name]
    target = labels if "class" in name else np.column_stack([y, X[:, 2]]) if name == "two targets" else y
    whole = kind(random_state=0, **parameters).fit(X, target)
    model = kind(random_state=0, **parameters, checkpoint=path)
    for _ in range(1000):
        try:
            model.set_params(callback=end_at(2)).fit(X, target)
        except KilledError:
            Checkpoint(path)
        else:
            break
    assert bits(model) == bits(whole)
    assert np.array_equal(model.predict(X), whole.predict(X))
    again = kind(random_state=0, **parameters, checkpoint=str(path), callback=end_at(0)).fit(X, target)
    assert bits(again) == bits(whole)  # without a single epoch
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_resumed_classifier_of_many_rows_has_the_same_probabilities(path):
    """The choice of gamma tests all rows; the calibration with a single gamma, only some of more than 4,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    labels = X[:, 0] + rng.normal(size=6000) > 0.0
    options = {"n_hidden": 2, "gamma": [0.1, 1.0], "random_state": 0, "max_evaluations": 20}
    whole = DCONClassifier(**options).fit(X, labels)
    with pytest.raises(KilledError):
        DCONClassifier(**options, checkpoint=path, callback=end_at(0)).fit(X, labels)
    resumed = DCONClassifier(**options, checkpoint=path).fit(X, labels)
    assert resumed.calibration_ == whole.calibration_


@pytest.mark.usefixtures("_write_after_every_epoch")
def test_without_a_seed_the_seed_is_that_of_the_checkpoint(data, path):
    X, y, _ = data
    parameters = {"n_hidden": 3, "tol": 1e-3, "early_stopping": True, "checkpoint": path}
    model = DCONRegressor(**parameters)
    with pytest.raises(KilledError):
        clone(model).set_params(callback=end_at(2)).fit(X, y)
    content = path.read_bytes()
    one = clone(model).fit(X, y)
    path.write_bytes(content)
    other = clone(model).fit(X, y)
    assert bits(one) == bits(other)


def test_another_fit_is_refused(data, path):
    X, y, _ = data
    model = DCONRegressor(3, gamma=0.1, tol=1e-2, random_state=0, checkpoint=path)
    network = clone(model).fit(X, y).network_

    def assert_refused(what, X=X, y=y, more=None, **changes):
        with pytest.raises(ValueError, match=f"belongs to another fit: {what}. Delete the file to train from"):
            clone(model).set_params(**changes).fit(X, y, **more or {})

    assert_refused("X is not the same", X=X + 1.0)
    assert_refused("y is not the same", y=-y)
    assert_refused("sample_weight is not the same", more={"sample_weight": np.arange(1.0, 91.0)})
    assert_refused("the validation data is not the same", more={"X_val": X, "y_val": y})
    assert_refused("gamma was 0.1 and is 0.2", gamma=0.2)
    assert_refused("random_state was 0 and is 1", random_state=1)
    assert_refused("algorithm was 'accelerated' and is .PaperAlgorithm.*", algorithm=PaperAlgorithm())
    assert_refused("init is not the same", init=network)
    clone(model).set_params(verbose=0).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        DCONRegressor(4, gamma=0.03, algorithm="paper", random_state=0),
        LayerwiseDCONRegressor((3, 3), gamma=0.1, lower_epochs=None, random_state=0),
    ],
    ids=["regressor", "layers"],
)
def test_a_larger_limit_continues_a_fit(data, path, model):
    """Layers above a layer that continues are trained again."""
    X, y, _ = data
    for n_epochs in (2, 2, 4):
        resumed = clone(model).set_params(checkpoint=path, max_epochs=n_epochs).fit(X, y)
    assert bits(resumed) == bits(clone(model).set_params(max_epochs=4).fit(X, y))


def test_ctrl_c_writes_the_last_epoch(data, path):
    X, y, _ = data
    whole = DCONRegressor(5, gamma=0.03, random_state=0).fit(X, y)

    def interrupt(epoch):
        if epoch.number == 3:
            raise KeyboardInterrupt

    model = DCONRegressor(5, gamma=0.03, random_state=0, checkpoint=path, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ is Status.INTERRUPTED
    assert Checkpoint(path).get("network 0.0").values["n_epochs"] == 2
    assert bits(model.set_params(callback=None).fit(X, y)) == bits(whole)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_processes_that_are_killed_at_random_moments(tmp_path):
    options = ["kills", "--cases", "6", "--output", str(tmp_path / "fuzz.jsonl")]
    command = [sys.executable, str(ROOT / "benchmarks" / "fuzz.py"), *options]
    done = subprocess.run(command, env=environment_without_coverage(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 cases" in done.stdout


FORGERIES = [lambda array: np.full(array.shape, np.nan), lambda array: array.ravel()[:-1], np.atleast_3d]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", ["accelerated", "paper"])
def test_forged_arrays_and_values_are_refused(data, path, algorithm):
    X, y, _ = data
    options = {"gamma": [0.1, 1.0], "cv": 3, "tol": 0.0, "early_stopping": True, "random_state": 0}
    model = DCONRegressor(3, algorithm=algorithm, checkpoint=path, max_epochs=2, **options).fit(X, y)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    forged = [(header, arrays | {name: forge(array)}) for name, array in arrays.items() for forge in FORGERIES]
    rising = {"network 0.0/history": arrays["network 0.0/history"][::-1]}
    forged.append((header, arrays | rising))
    for entry, values in header["entries"].items():
        for name in values.keys() - {"was_undone"}:
            entries = header["entries"] | {entry: values | {name: ["?"]}}
            forged.append((header | {"entries": entries}, arrays))
    for other_header, other_arrays in forged:
        content = np.frombuffer(json.dumps(other_header).encode(), dtype=np.uint8)
        with path.open("wb") as stream:
            np.savez(stream, header=content, **other_arrays)
        with pytest.raises(ValueError, match="Delete the file"):
            model.set_params(max_epochs=3).fit(X, y)
