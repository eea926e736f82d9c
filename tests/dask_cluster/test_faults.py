"""Lost partitions, workers and schedulers, and interrupts: a fit recovers, or ends with a clear error."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from threading import Timer

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, Nanny

from dconnet import DCONRegressor
from dconnet.dask import DaskDCONRegressor, worker
from dconnet.dask.driver import NO_WORKERS_TIMEOUT, LostRowsError, NoWorkersError, Partitions
from dconnet.dask.partition import Partition
from dconnet.dask.problem import MAX_SWEPT_NUMBERS
from dconnet_test_workers import drop_all_partitions, kill_this_process

OPTIONS = {"n_hidden": 3, "gamma": 0.01, "scale": False, "algorithm": "paper", "max_epochs": 4, "random_state": 0}
SEARCH = {"algorithm": "accelerated", "max_evaluations": 20, "max_epochs": 1}
LENGTHS = (900, 700, 800, 600)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def data(rows, partition):
    return partition(LENGTHS, *rows(sum(LENGTHS)))


@pytest.fixture(scope="module")
def check(rows):
    """Compare RegLoss of every epoch with the fit on one machine."""
    expected = DCONRegressor(**OPTIONS).fit(*rows(sum(LENGTHS))).history_.objective
    return lambda model: np.testing.assert_allclose(model.history_.objective, expected, rtol=1e-8)


@contextmanager
def connect(cluster, **settings):
    with dask.config.set(settings), cluster, Client(cluster, set_as_default=False) as client:
        yield client


# --- workers in this process ---


def test_lost_partitions_are_loaded_again(client, data, check, before_rounds):
    before_rounds([3, 15, 22], drop_all_partitions)
    check(DaskDCONRegressor(**OPTIONS).fit(*data))


@pytest.mark.parametrize("max_numbers", [MAX_SWEPT_NUMBERS, 0], ids=["sweeps", "no sweeps"])
def test_lost_rows_give_the_same_bits(client, rows, partition, before_rounds, monkeypatch, max_numbers):
    monkeypatch.setattr("dconnet.dask.problem.MAX_SWEPT_NUMBERS", max_numbers)
    data, options = partition((5000, 4000), *rows(9000)), OPTIONS | SEARCH | {"max_evaluations": 1500}
    expected = DaskDCONRegressor(**options).fit(*data).network_.parameters
    count = before_rounds([35, 60, 520], drop_all_partitions)
    model = DaskDCONRegressor(**options).fit(*data)
    assert count[0] > 520
    assert np.array_equal(model.network_.parameters, expected)


def test_partitions_that_are_lost_in_every_round_are_an_error(client, data, before_rounds):
    before_rounds(range(15, 1000), drop_all_partitions)
    with pytest.raises(RuntimeError, match=r"Partition 0 could not run .* died each time, 5 times in a row"):
        DaskDCONRegressor(**OPTIONS).fit(*data)


def test_an_error_on_a_worker_is_raised_with_its_traceback(client, data, monkeypatch):
    def fail(partition, *arguments):
        raise ArithmeticError("an error on a worker")

    monkeypatch.setattr(Partition, "merge_leaves", fail)
    with pytest.raises(ArithmeticError, match="an error on a worker") as caught:
        DaskDCONRegressor(**OPTIONS).fit(*data)
    assert "in fail" in caught.value.__notes__[0]


def test_an_interrupt_keeps_the_network_and_frees_the_workers(client, data, before_rounds):
    model = DaskDCONRegressor(**OPTIONS)
    before_rounds([20], lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="network reached so far was kept"):
        model.fit(*data)
    assert model.status_.name == "INTERRUPTED"
    assert not any(client.run(lambda dask_worker: len(worker.state_of(dask_worker).partitions)).values())
    assert not client.futures
    assert model.predict(data[0]).compute().shape == data[1].shape


def test_a_time_limit(client, data):
    model = DaskDCONRegressor(**OPTIONS | {"max_epochs": None, "tol": 0.0, "max_seconds": 0.5}).fit(*data)
    assert model.status_.name == "TIME_LIMIT"


def test_a_checkpoint_resumes_on_another_cluster(client, data, check, tmp_path, local_cluster):
    path = tmp_path / "fit.checkpoint"
    DaskDCONRegressor(**OPTIONS | {"max_epochs": 2}, checkpoint=path).fit(*data)
    with connect(local_cluster(1, processes=False)) as other:
        check(DaskDCONRegressor(**OPTIONS, client=other, checkpoint=path).fit(*data))
    with pytest.raises(ValueError, match="partitions of the data is not the same"):
        DaskDCONRegressor(**OPTIONS, checkpoint=path).fit(data[0], data[1] + 1.0)


def test_workers_without_memory_to_start_tasks(data, local_cluster):
    settings = {"distributed.worker.memory.pause": 1e-6, "distributed.worker.memory.monitor-interval": "50ms"}
    with dask.config.set(settings):
        cluster = local_cluster(1, processes=False, memory_limit="1GiB")
    with connect(cluster, **{NO_WORKERS_TIMEOUT: "1s"}) as client:
        while {about["status"] for about in client.scheduler_info()["workers"].values()} != {"paused"}:
            time.sleep(0.05)
        with pytest.raises(NoWorkersError, match="paused for lack of memory"):
            DaskDCONRegressor(**OPTIONS, client=client).fit(*data)


def test_workers_that_leave_and_join(data, check, before_rounds, monkeypatch, local_cluster):
    addresses, plain = [], Partitions.balance

    def balance(partitions):
        plain(partitions)
        addresses.append(sorted(partitions.addresses.values()))

    monkeypatch.setattr(Partitions, "balance", balance)
    cluster = local_cluster(2, processes=False)
    with connect(cluster) as client:
        before_rounds([16], lambda: cluster.scale(1))
        check(DaskDCONRegressor(**OPTIONS, client=client).fit(*data))
        assert len(set(addresses[-1])) == 1

        def join():
            cluster.scale(2)
            client.wait_for_workers(2, timeout=60)

        before_rounds([18], join)
        check(DaskDCONRegressor(**OPTIONS, client=client).fit(*data))
        assert [addresses[-1].count(address) for address in set(addresses[-1])] == [2, 2]


# --- killed processes ---


def kill_one(client):
    """Kill a worker process; its nanny starts another one."""
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [(3,), (22, 26)], ids=["while whitening", "in the epochs"])
def test_a_killed_worker_is_replaced(local_cluster, data, check, before_rounds, rounds):
    # On a busy machine, killed workers may take longer than the usual 15 seconds to come back.
    settings = {"distributed.deploy.lost-worker-timeout": "10 minutes"}
    with connect(local_cluster(processes=True), **settings) as client:
        count = before_rounds(rounds, lambda: kill_one(client))
        check(DaskDCONRegressor(**OPTIONS, client=client).fit(*data))
        assert count[0] > max(rounds)


@pytest.fixture
def last_worker(monkeypatch, local_cluster):
    """The client of a cluster with one worker process, which is not started again when it dies."""

    async def stay_dead(nanny):
        pass

    with connect(local_cluster(1, processes=True), **{NO_WORKERS_TIMEOUT: "1s"}) as client:
        monkeypatch.setattr(Nanny, "instantiate", stay_dead)
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("is_frozen", [False, True], ids=["killed", "frozen"])
def test_the_last_worker_is_lost_during_a_fit(last_worker, data, before_rounds, is_frozen):
    """The test removes a frozen worker from the scheduler, which does so itself after five minutes (worker-ttl)."""
    (address,), (process,) = last_worker.nthreads(), last_worker.run(os.getpid).values()

    async def remove(dask_scheduler):
        await dask_scheduler.remove_worker(address, stimulus_id="test")

    def lose():
        os.kill(process, signal.SIGSTOP if is_frozen else signal.SIGKILL)
        if is_frozen:
            Timer(0.5, last_worker.run_on_scheduler, [remove]).start()

    before_rounds([20], lose)
    model = DaskDCONRegressor(**OPTIONS, client=last_worker)
    try:
        with pytest.raises(NoWorkersError, match=r"The cluster has had no worker.* for 1 seconds.*checkpoint"):
            model.fit(*data)
    finally:
        if is_frozen:
            os.kill(process, signal.SIGCONT)
    assert not hasattr(model, "network_")


@pytest.mark.slow
def test_the_last_worker_dies_while_rows_load(last_worker, data):
    X = data[0].map_blocks(kill_this_process, meta=np.empty((0, 0)))
    with pytest.raises(NoWorkersError, match=r"no worker that can load the partitions .* for 1 seconds"):
        DaskDCONRegressor(**OPTIONS, client=last_worker).fit(X, data[1])
    assert not last_worker.futures


@pytest.mark.slow
def test_rows_in_the_memory_of_a_lost_worker(before_rounds, local_cluster):
    X, y = np.random.default_rng(0).normal(size=(500, 2)), da.zeros(500, chunks=500)
    with connect(local_cluster(1, processes=True), **{NO_WORKERS_TIMEOUT: "60s"}) as client:
        scattered = da.from_delayed(dask.delayed(client.scatter(X)), X.shape, dtype=float)
        before_rounds([12], lambda: kill_one(client))
        with pytest.raises(LostRowsError, match="lost with their worker and cannot be read again"):
            DaskDCONRegressor(**OPTIONS, client=client).fit(scattered, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # raised in many ways by a client without a scheduler
def test_a_killed_scheduler_is_an_error_and_a_checkpoint_resumes(client, data, check, tmp_path, monkeypatch):
    monkeypatch.setattr("dconnet.training.checkpoint.SECONDS_BETWEEN_WRITES", 0.0)
    options, address = OPTIONS | {"checkpoint": tmp_path / "fit.checkpoint"}, str(tmp_path / "address")
    command = [sys.executable, "-m", "distributed.cli.dask_{}", "--scheduler-file", address, "--no-dashboard"]
    scheduler, worker = (
        subprocess.Popen([part.format(role) for part in command] + extra, stderr=subprocess.DEVNULL)
        for role, extra in (("scheduler", ["--port", "0"]), ("worker", ["--no-nanny", "--nthreads", "1"]))
    )
    epochs, resumed = [], []

    def kill_after_two(epoch):
        epochs.append(epoch)
        if len(epochs) == 2:
            scheduler.kill()

    try:
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
            Client(scheduler_file=address, timeout=60, set_as_default=False) as other,
        ):
            other.wait_for_workers(1, timeout=60)
            other._timeout = 3
            model = DaskDCONRegressor(**options, client=other, callback=kill_after_two)
            with pytest.raises(RuntimeError, match=r"scheduler of the cluster cannot be reached.*checkpoint"):
                model.fit(*data)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    assert not hasattr(model, "network_")
    check(DaskDCONRegressor(**options, client=client, callback=resumed.append).fit(*data))
    assert len(resumed) <= OPTIONS["max_epochs"] - 1
