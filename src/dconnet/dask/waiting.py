"""How the driver waits for a cluster: as long as somebody works, and then for a while, but never for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed import CancelledError, Client, Future, KilledWorker, wait
from distributed import TimeoutError as NotYetError

# A setting of Dask: how long a cluster may be without anybody who could go on.
NO_WORKERS_TIMEOUT, TWO_MINUTES = "dconnet.no-workers-timeout", "120s"
# How often to look for a worker, and whether tasks have ended.
PAUSE_SECONDS, LOOK_SECONDS = 0.1, 1.0


class LostSchedulerError(RuntimeError):
    """The scheduler of the cluster is gone."""


class NoWorkersError(RuntimeError):
    """The cluster has no worker that could go on."""


class LostRowsError(RuntimeError):
    """Rows are gone with their worker, and cannot be read again."""


@contextmanager
def told_if_gone(client: Client) -> Iterator[None]:
    """Tell that the scheduler is gone, or rows are, in the place of all that a client raises then."""
    try:
        yield
    except Exception as error:
        if client.status == "running" and not isinstance(error, (OSError, CancelledError)):
            raise
        if isinstance(error, CancelledError) and "lost dependencies" in str(error):
            raise LostRowsError(
                "Rows were lost with their worker, and cannot be read again: they were in its memory alone, for "
                "example by Client.scatter. Give files, or Dask collections that know how they are made."
            ) from error
        raise LostSchedulerError(
            f"The scheduler of the cluster cannot be reached any more ({error}). If the fit has a checkpoint, the same "
            "fit goes on from there as soon as there is a cluster again."
        ) from error


@dataclass(slots=True)
class Patience:
    """How long to wait where nothing happens."""

    seconds: float = field(default_factory=lambda: parse_timedelta(dask.config.get(NO_WORKERS_TIMEOUT, TWO_MINUTES)))
    since: float = field(default_factory=time.monotonic)

    def renew(self) -> None:
        """Something has happened."""
        self.since = time.monotonic()

    def end_after(self, what: str) -> None:
        """Give up, if nothing has happened for too long.

        Raises
        ------
        NoWorkersError
            With that as its reason.
        """
        if time.monotonic() - self.since > self.seconds:
            raise NoWorkersError(
                f"{what} for {self.seconds:g} seconds ({NO_WORKERS_TIMEOUT}). If the fit has a checkpoint, the same "
                "fit goes on from there as soon as there are workers again."
            )


def addresses_of_workers(client: Client) -> list[str]:
    """The workers that the scheduler knows."""
    with told_if_gone(client):
        return list(client.nthreads())


def wait_for_workers(client: Client) -> None:
    """Wait until there is a worker."""
    patience = Patience()
    while not addresses_of_workers(client):
        patience.end_after("The cluster has had no worker")
        time.sleep(PAUSE_SECONDS)


def wait_for_tasks(client: Client, tasks: Sequence[Future]) -> None:
    """Wait until all of these have ended, or one has failed; some may be without a result, if their workers died."""
    patience = Patience()
    while not _have_ended(client, tasks):
        if _somebody_works(client):
            patience.renew()
        patience.end_after(
            "The cluster has had no worker that would load the partitions, because all are gone, are paused for want "
            "of memory, or are not those that the data are bound to,"
        )


def _have_ended(client: Client, tasks: Sequence[Future]) -> bool:
    with told_if_gone(client), client.as_current():
        try:
            wait(tasks, timeout=LOOK_SECONDS)
        except NotYetError:
            return any(map(_has_failed, tasks))
    return True


def _has_failed(task: Future) -> bool:
    """Whether a task has an error of its own: a file that is not there."""
    return task.status == "error" and not isinstance(task.exception(), KilledWorker)


def _somebody_works(client: Client) -> bool:
    """Whether a worker computes, or is about to; those that are paused end what they have begun, but begin nothing."""
    with told_if_gone(client):
        tasks, workers = client.processing(), client.scheduler_info(n_workers=-1)["workers"]
    return any(
        tasks.get(address) and (about["status"] == "running" or about["metrics"]["task_counts"].get("executing", 0))
        for address, about in workers.items()
    )


def result_of(client: Client, task: Future) -> Any:
    """The result of a task that has ended; None if its worker died before it could tell."""
    if task.status == "pending":
        return None
    try:
        return task.result(timeout=Patience().seconds)
    except KilledWorker:
        return None
    except Exception as error:
        if task.status == "error":  # its own
            raise
        if isinstance(error, NotYetError):
            return None
        with told_if_gone(client):
            raise
