"""A fit never waits for ever: clusters whose workers are gone for good, do not move, or cannot go on."""

import os
import signal
import time
from contextlib import contextmanager
from threading import Timer

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, Nanny, wait

from dconnet.dask import DaskDCONRegressor, rounds, worker
from dconnet.dask.cluster import Parts
from dconnet.dask.rounds import LostWorkerError, asked
from dconnet.dask.waiting import NO_WORKERS_TIMEOUT, LostRowsError, NoWorkersError, result_of

OPTIONS = {"n_hidden": 3, "gamma": 0.01, "scale": False, "max_epochs": 1, "random_state": 0}
SWEEPS = {"algorithm": "paper", "split": "net"}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def _short_patience():
    with dask.config.set({NO_WORKERS_TIMEOUT: "1s"}):
        yield


@contextmanager
def cluster_of_one(**options):
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"} | options
    with LocalCluster(**options, silence_logs=50) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture
def lonely(monkeypatch):
    """The client of a cluster with one worker process; once that is killed, there never is another one."""

    async def stay_dead(nanny):
        pass

    with cluster_of_one() as client:
        monkeypatch.setattr(Nanny, "instantiate", stay_dead)
        yield client


def kill_all(client):
    for process in client.run(os.getpid).values():
        os.kill(process, signal.SIGKILL)


def far_rows(n_rows=9000, source=None):
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    X, y = (da.from_array(a, chunks=(5000, *a.shape[1:])) for a in (X, np.abs(X[:, 1])))
    return (X if source is None else X.map_blocks(source, meta=np.empty((0, 0)))), y


def before_rounds(monkeypatch, numbers, action):
    """Call something before rounds with these numbers."""
    plain, n_rounds = Parts._round, []

    def round_(parts, *arguments):
        n_rounds.append(1)
        if len(n_rounds) in numbers:
            action()
        return plain(parts, *arguments)

    monkeypatch.setattr(Parts, "_round", round_)
    return n_rounds


@pytest.mark.parametrize("parameters", [SWEEPS, {"max_evaluations": 50}], ids=["sweep", "search"])
def test_all_workers_are_killed_for_good_between_rounds(lonely, monkeypatch, parameters):
    before_rounds(monkeypatch, [40], lambda: kill_all(lonely))
    model = DaskDCONRegressor(**OPTIONS | parameters, client=lonely)
    with pytest.raises(NoWorkersError, match=r"The cluster has had no worker.* for 1 seconds.*checkpoint"):
        model.fit(*far_rows())
    assert not hasattr(model, "network_")


def test_the_only_worker_is_killed_and_another_one_comes(monkeypatch):
    with cluster_of_one() as client, dask.config.set({NO_WORKERS_TIMEOUT: "60s"}):
        model = DaskDCONRegressor(**OPTIONS, max_evaluations=20, client=client)
        expected = model.fit(*far_rows(500)).network_.parameters
        n_rounds = before_rounds(monkeypatch, [20], lambda: kill_all(client))
        assert np.array_equal(model.fit(*far_rows(500)).network_.parameters, expected)
        assert len(n_rounds) > 20


def die(block):
    os.kill(os.getpid(), signal.SIGKILL)


def test_all_workers_are_killed_for_good_while_rows_load(lonely):
    with pytest.raises(
        NoWorkersError, match=r"no worker that would load the partitions, because all are gone.* for 1 seconds"
    ):
        DaskDCONRegressor(**OPTIONS, client=lonely).fit(*far_rows(source=die))
    assert not lonely.futures


def test_rows_that_were_in_the_memory_of_a_worker_alone(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(500, 2)), da.zeros(500, chunks=500)
    with cluster_of_one() as client, dask.config.set({NO_WORKERS_TIMEOUT: "60s"}):
        held = da.from_delayed(dask.delayed(client.scatter(X)), X.shape, dtype=float)
        before_rounds(monkeypatch, [12], lambda: kill_all(client))
        with pytest.raises(LostRowsError, match="lost with their worker, and cannot be read again"):
            DaskDCONRegressor(**OPTIONS, client=client).fit(held, y)


def test_a_result_that_died_with_its_worker_is_not_waited_for(lonely):
    task = lonely.submit(abs, -1)
    with lonely.as_current():
        wait([task])
    kill_all(lonely)
    assert result_of(lonely, task) is None


def test_workers_without_memory_to_begin_anything():
    with (
        dask.config.set(
            {"distributed.worker.memory.pause": 1e-6, "distributed.worker.memory.monitor-interval": "50ms"}
        ),
        cluster_of_one(processes=False, memory_limit="1GiB") as client,
    ):
        while {about["status"] for about in client.scheduler_info()["workers"].values()} != {"paused"}:
            time.sleep(0.05)
        with pytest.raises(NoWorkersError, match="paused for want of memory"):
            DaskDCONRegressor(**OPTIONS, client=client).fit(*far_rows())


def test_a_client_that_is_closed(client):
    with Client(client.scheduler.address, set_as_default=False) as other:
        pass
    with pytest.raises(ValueError, match="The Dask client is closed"):
        DaskDCONRegressor(**OPTIONS, client=other).fit(*far_rows())


def test_parts_that_are_lost_whenever_they_are_asked(client, monkeypatch):
    n_rounds = before_rounds(monkeypatch, range(15, 1000), lambda: client.run(lambda: worker.HELD.parts.clear()))
    with pytest.raises(RuntimeError, match=r"Partition 0 could not answer .* died each time, 5 times in a row"):
        DaskDCONRegressor(**OPTIONS, client=client).fit(*far_rows())
    assert len(n_rounds) > 15


def test_a_worker_that_does_not_move_is_given_up_with_the_scheduler(lonely, monkeypatch):
    monkeypatch.setattr(rounds, "LOOK_SECONDS", 0.1)
    (address,), (process,) = lonely.nthreads(), lonely.run(os.getpid).values()

    async def give_up(dask_scheduler):
        await dask_scheduler.remove_worker(address, stimulus_id="of the test")

    os.kill(process, signal.SIGSTOP)
    try:
        Timer(0.5, lonely.run_on_scheduler, [give_up]).start()
        found = asked(lonely, set(), [address], worker.drop, "no such fit")
    finally:
        os.kill(process, signal.SIGCONT)
    assert isinstance(found[address], LostWorkerError)
