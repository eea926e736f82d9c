"""Workers that die, leave or join in the middle of a fit; Ctrl-C; a checkpoint after the cluster is gone."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

from dconnet import DCONRegressor
from dconnet.dask import DaskDCONRegressor, worker
from dconnet.dask.cluster import Parts

OPTIONS = {"n_hidden": 3, "gamma": 0.01, "scale": False, "algorithm": "paper", "max_epochs": 4, "random_state": 0}
CHUNKS = (900, 700, 800, 600)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sum(CHUNKS), 3))
    return X, np.abs(X[:, 0]) + np.maximum(X[:, 1], 0.0) + 0.1 * rng.normal(size=len(X))


def far(X, y):
    return da.from_array(X, chunks=(CHUNKS, 3)), da.from_array(y, chunks=(CHUNKS,))


@pytest.fixture(scope="module")
def expected():
    return DCONRegressor(**OPTIONS).fit(*rows()).history_.objective


def kill_one(client):
    """Kill a worker process; the nanny starts another one."""
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


class Meddling:
    """Calls something before certain rounds of a fit."""

    def __init__(self, monkeypatch, at, action):
        self.n_rounds, self.at, self.action = 0, set(at), action
        monkeypatch.setattr(Parts, "_round", self.wrapped(Parts._round))

    def wrapped(self, plain):
        def round_(parts, *arguments):
            self.n_rounds += 1
            if self.n_rounds in self.at:
                self.action()
            return plain(parts, *arguments)

        return round_


@pytest.mark.parametrize("at", [(3,), (22, 26)], ids=["while whitening", "twice in the epochs"])
def test_a_worker_that_is_killed_is_made_up_for(client, monkeypatch, expected, at):
    X, y = far(*rows())
    client.wait_for_workers(2, timeout=60)
    meddling = Meddling(monkeypatch, at, lambda: kill_one(client))
    model = DaskDCONRegressor(**OPTIONS).fit(X, y)
    assert meddling.n_rounds > max(at)
    np.testing.assert_allclose(model.history_.objective, expected, rtol=1e-8)
    client.wait_for_workers(2, timeout=60)


class SteppingPart:
    """A part in whose place another one is made while it takes a step."""

    def __init__(self, replacement=None):
        self.steps, self.replacement = 0, replacement

    def move(self):
        if self.replacement is not None:
            worker.HELD.keep("some fit", 0, self.replacement)

    def rest(self):
        pass


def test_a_part_that_was_made_anew_has_not_taken_the_step_of_the_one_before():
    new = SteppingPart()
    old = SteppingPart(new)
    worker.HELD.keep("some fit", 0, old)
    here = SimpleNamespace(address="here", state=SimpleNamespace(nthreads=1))
    step = worker.Question("some fit", {"here": [0]}, 0, ("move", ()))
    assert asyncio.run(worker.take_step(step, here)) == {0: None}
    assert (old.steps, new.steps) == (1, 0)
    assert asyncio.run(worker.take_step(step, here)) == {0: None}
    assert new.steps == 1
    assert asyncio.run(worker.take_step(step, here)) == {0: worker.Behind(1)}
    worker.HELD.drop("some fit", None)


def test_a_search_survives_a_kill(client, monkeypatch):
    options = OPTIONS | {"algorithm": "accelerated", "max_evaluations": 20, "max_epochs": 1}
    X, y = rows()
    client.wait_for_workers(2, timeout=60)
    undisturbed = DaskDCONRegressor(**options).fit(*far(X, y))
    Meddling(monkeypatch, [30], lambda: kill_one(client))
    model = DaskDCONRegressor(**options).fit(*far(X, y))
    assert np.array_equal(model.network_.parameters, undisturbed.network_.parameters)


def test_parts_that_a_worker_has_given_up_are_made_again(client, monkeypatch, expected):
    client.wait_for_workers(2, timeout=60)
    Meddling(monkeypatch, [15], lambda: client.run(lambda: worker.HELD.parts.clear()))
    model = DaskDCONRegressor(**OPTIONS).fit(*far(*rows()))
    np.testing.assert_allclose(model.history_.objective, expected, rtol=1e-8)


def test_a_sweep_whose_rows_are_lost_begins_anew(client, monkeypatch):
    """Where rows are many, they remember where a sweep is; those that are made again do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 2))
    options = OPTIONS | {"max_epochs": 1}
    X, y = X[np.argsort(X[:, 0])], np.abs(X[:, 1])
    expected = DCONRegressor(**options).fit(X, y).history_.objective
    client.wait_for_workers(2, timeout=60)
    rounds = Meddling(monkeypatch, [35, 60], lambda: client.run(lambda: worker.HELD.parts.clear()))
    model = DaskDCONRegressor(**options).fit(*(da.from_array(a, chunks=(5000, *a.shape[1:])) for a in (X, y)))
    assert rounds.n_rounds > 100
    np.testing.assert_allclose(model.history_.objective, expected, rtol=1e-8)


def test_a_part_that_has_missed_a_step_takes_it(client, monkeypatch):
    """An answer that was lost on its way: the step was taken, but nobody knows."""
    client.wait_for_workers(2, timeout=60)
    plain, lost = Parts._round, []

    def forgetful(parts, function, *arguments):
        found = plain(parts, function, *arguments)
        if function is worker.take_step and not lost:
            lost.append(found.pop(0))
        return found

    monkeypatch.setattr(Parts, "_round", forgetful)
    model = DaskDCONRegressor(**OPTIONS).fit(*far(*rows()))
    assert lost
    assert model.history_.objective[-1] < 0.5 * model.history_.objective[0]


def test_an_error_in_a_round_is_told(client, monkeypatch):
    X, y = far(*rows())

    def broken(parts, *arguments, plain=Parts.ask, **options):
        return plain(parts, "no_such_question") if arguments[0] == "squares" else plain(parts, *arguments, **options)

    monkeypatch.setattr(Parts, "ask", broken)
    with pytest.raises(AttributeError, match="no_such_question"):
        DaskDCONRegressor(**OPTIONS).fit(X, y)


@pytest.fixture
def processes():
    """Starts processes, and ends those that are left."""
    begun = []

    def begin(*arguments):
        command = [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:], "--no-dashboard"]
        begun.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()


@pytest.mark.filterwarnings("ignore")  # a client that has lost its scheduler complains in many ways
def test_a_scheduler_that_is_killed_is_told_and_a_checkpoint_goes_on(
    processes, client, monkeypatch, expected, tmp_path
):
    X, y = far(*rows())
    path = tmp_path / "fit.checkpoint"
    scheduler = processes("dask_scheduler", "--port", "0", "--scheduler-file", str(tmp_path / "address"))
    for _ in range(2):
        options = ["--scheduler-file", str(tmp_path / "address"), "--no-nanny", "--local-directory", str(tmp_path)]
        processes("dask_worker", *options, "--nthreads", "1")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        Client(scheduler_file=str(tmp_path / "address"), timeout=60, set_as_default=False) as other,
    ):
        other.wait_for_workers(2, timeout=60)
        other._timeout = 3
        epochs = []

        def kill_after_two(epoch):
            epochs.append(epoch)
            if len(epochs) == 2:
                scheduler.send_signal(signal.SIGKILL)

        model = DaskDCONRegressor(
            **OPTIONS, client=other, callback=kill_after_two, checkpoint=path, checkpoint_seconds=0
        )
        with pytest.raises(RuntimeError, match=r"scheduler of the cluster cannot be reached.*checkpoint"):
            model.fit(X, y)
    assert len(epochs) >= 2
    assert not hasattr(model, "network_")
    resumed = []
    model = DaskDCONRegressor(**OPTIONS, client=client, callback=resumed.append, checkpoint=path).fit(X, y)
    np.testing.assert_allclose(model.history_.objective, expected, rtol=1e-8)
    assert len(resumed) <= OPTIONS["max_epochs"] - 1


def test_an_interrupt_keeps_what_was_reached(client, monkeypatch):
    X, y = far(*rows())
    client.wait_for_workers(2, timeout=60)

    def interrupt():
        raise KeyboardInterrupt

    model = DaskDCONRegressor(**OPTIONS)
    Meddling(monkeypatch, [20], interrupt)
    with pytest.raises(KeyboardInterrupt, match="network reached so far was kept"):
        model.fit(X, y)
    assert model.status_.name == "INTERRUPTED"
    assert model.predict(X).compute().shape == y.shape
    assert set(client.run(lambda: len(worker.HELD.parts)).values()) == {0}
    assert not client.futures


def test_a_time_limit(client):
    X, y = far(*rows())
    began = time.monotonic()
    model = DaskDCONRegressor(**OPTIONS | {"max_epochs": None, "tol": 0.0, "max_seconds": 1.0}).fit(X, y)
    assert model.status_.name == "TIME_LIMIT"
    assert time.monotonic() - began < 30.0


def test_a_worker_that_leaves_for_good_and_workers_that_join(expected, monkeypatch):
    moved, plain = [], Parts.balance

    def balance(parts):
        plain(parts)
        moved.append(parts.moved)

    monkeypatch.setattr(Parts, "balance", balance)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        Meddling(monkeypatch, [16], lambda: cluster.scale(1))
        model = DaskDCONRegressor(**OPTIONS, client=client).fit(*far(*rows()))
        np.testing.assert_allclose(model.history_.objective, expected, rtol=1e-8)
        assert moved[-1] == 0

        def join():
            cluster.scale(2)
            client.wait_for_workers(2, timeout=60)

        Meddling(monkeypatch, [18], join)
        model = DaskDCONRegressor(**OPTIONS, client=client).fit(*far(*rows()))
        np.testing.assert_allclose(model.history_.objective, expected, rtol=1e-8)
        assert moved[-1] == 2  # of four parts


def test_a_checkpoint_goes_on_with_another_cluster(client, expected, tmp_path):
    X, y = far(*rows())
    client.wait_for_workers(2, timeout=60)
    path = tmp_path / "fit.checkpoint"
    stopped = DaskDCONRegressor(**OPTIONS | {"max_epochs": 2}, checkpoint=path, checkpoint_seconds=0).fit(X, y)
    assert stopped.n_iter_ == 2
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as other,
    ):
        model = DaskDCONRegressor(**OPTIONS, client=other, checkpoint=path).fit(X, y)
    np.testing.assert_allclose(model.history_.objective, expected, rtol=1e-8)
    with pytest.raises(ValueError, match="partitions of the data is not the same"):
        DaskDCONRegressor(**OPTIONS, checkpoint=path).fit(X, y + 1.0)
