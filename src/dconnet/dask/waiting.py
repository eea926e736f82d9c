"""Wait for a cluster while it makes progress, but never for ever; report lost schedulers, workers and rows clearly."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dask.config
from dask.utils import parse_timedelta
from distributed import CancelledError, Client, Future, KilledWorker, wait
from distributed import TimeoutError as DaskTimeoutError

# Setting in Dask's configuration: how long a fit waits for a cluster without a worker that could continue.
NO_WORKERS_TIMEOUT, DEFAULT_TIMEOUT = "dconnet.no-workers-timeout", "120s"
# Seconds between checks for a new worker, and for tasks that ended.
WORKER_POLL_SECONDS, TASK_POLL_SECONDS = 0.1, 1.0
RESUME_HINT = "With a checkpoint, the same fit resumes once the cluster is available again."


class LostSchedulerError(RuntimeError):
    """The scheduler of the cluster is gone."""


class NoWorkersError(RuntimeError):
    """The cluster has no worker that could continue."""


class LostRowsError(RuntimeError):
    """Rows were lost with their worker and cannot be read again."""


@contextmanager
def cluster_errors(client: Client) -> Iterator[None]:
    """Replace the various errors of a client without a scheduler, or without its data, by one that says so."""
    try:
        yield
    except Exception as error:
        if client.status == "running" and not isinstance(error, (OSError, CancelledError)):
            raise
        if isinstance(error, CancelledError) and "lost dependencies" in str(error):
            raise LostRowsError(
                "Rows were lost with their worker and cannot be read again, because only its memory held them, for "
                "example after Client.scatter. Pass files, or Dask collections that can be computed again."
            ) from error
        raise LostSchedulerError(f"The scheduler of the cluster cannot be reached ({error}). {RESUME_HINT}") from error


@dataclass(slots=True)
class IdleTimeout:
    """Raise an error when nothing happens for too long."""

    seconds: float = field(
        default_factory=lambda: parse_timedelta(dask.config.get(NO_WORKERS_TIMEOUT, DEFAULT_TIMEOUT))
    )
    since: float = field(default_factory=time.monotonic)

    def check(self, reason: str) -> None:
        """Raise a NoWorkersError with this reason if the time is over."""
        if time.monotonic() - self.since > self.seconds:
            raise NoWorkersError(f"{reason} for {self.seconds:g} seconds ({NO_WORKERS_TIMEOUT}). {RESUME_HINT}")


def worker_addresses(client: Client) -> list[str]:
    """Return the addresses of the workers that the scheduler knows."""
    with cluster_errors(client):
        return list(client.nthreads())


def wait_for_workers(client: Client) -> None:
    """Wait until the cluster has a worker."""
    timeout = IdleTimeout()
    while not worker_addresses(client):
        timeout.check("The cluster has had no worker")
        time.sleep(WORKER_POLL_SECONDS)


def wait_for_tasks(client: Client, tasks: Sequence[Future]) -> None:
    """Wait until all tasks have ended or one has failed; tasks whose worker died may have no result."""
    timeout = IdleTimeout()
    while True:
        with cluster_errors(client), client.as_current():
            try:
                wait(tasks, timeout=TASK_POLL_SECONDS)
                return
            except DaskTimeoutError:
                if any(task.status == "error" and not isinstance(task.exception(), KilledWorker) for task in tasks):
                    return
            waiting, workers = client.processing(), client.scheduler_info(n_workers=-1)["workers"]
        # Paused workers finish tasks but start none.
        if any(
            waiting.get(address) and (about["status"] == "running" or about["metrics"]["task_counts"].get("executing"))
            for address, about in workers.items()
        ):
            timeout.since = time.monotonic()
        timeout.check(
            "The cluster has had no worker that can load the partitions (all are gone, paused for lack of memory, or "
            "not those that the data are bound to)"
        )


def task_result(client: Client, task: Future) -> Any:
    """Return the result of a task that has ended; None if its worker died first."""
    if task.status == "pending":
        return None
    try:
        return task.result(timeout=IdleTimeout().seconds)
    except KilledWorker:
        return None
    except Exception as error:
        if task.status == "error":  # raised by the task itself
            raise
        if isinstance(error, DaskTimeoutError):
            return None
        with cluster_errors(client):
            raise
