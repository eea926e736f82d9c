"""The driver's side: load the partitions on workers, and call functions on all of them.

One such call is a *round*: every worker runs a function on its partitions (`Client.run`), and the driver waits for all
results. Updates of the partitions travel with the next call. When a worker is lost, other workers load its partitions
again, and the call is repeated for these with all updates so far. Its result depends only on data, updates and
arguments, so the driver sees the same bits.

The driver waits for a cluster while it makes progress, but never for ever, and reports lost schedulers, workers and
rows clearly.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from threading import RLock
from typing import Any, TypeVar

import dask.config
import numpy as np
from dask.delayed import delayed
from dask.utils import parse_timedelta
from distributed import CancelledError, Client, Future, KilledWorker, wait
from distributed import TimeoutError as DaskTimeoutError

from dconnet._arrays import IndexArray
from dconnet.dask import worker
from dconnet.dask.collections import Blocks
from dconnet.dask.partition import ExpectedData, Partition, Summary
from dconnet.dask.worker import Failure, Outdated, Request
from dconnet.model.rows import Block, LeafTree

# Setting in Dask's configuration: how long a fit waits for a cluster without a worker that could continue.
NO_WORKERS_TIMEOUT, DEFAULT_TIMEOUT = "dconnet.no-workers-timeout", "120s"
# Seconds between checks for a new worker, and for tasks that ended.
WORKER_POLL_SECONDS, TASK_POLL_SECONDS = 0.1, 1.0
RESUME_HINT = "With a checkpoint, the same fit resumes once the cluster is available again."

T = TypeVar("T")
# Consecutive losses after which a partition is given up: most likely it exhausts the memory of every worker.
MAX_LOSSES = 5
# A call of a function on all partitions: the function, its arguments, and arguments of single partitions.
Call = tuple[Callable[..., Any], tuple[Any, ...], Mapping[int, tuple[Any, ...]]]


class LostSchedulerError(RuntimeError):
    """The scheduler of the cluster is gone."""


class NoWorkersError(RuntimeError):
    """The cluster has no worker that could continue."""


class LostRowsError(RuntimeError):
    """Rows were lost with their worker and cannot be read again."""


@contextmanager
def cluster_errors(client: Client) -> Iterator[None]:
    """Replace the various errors of a client without a scheduler or without its data by one with a clear message."""
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


@dataclass(slots=True, eq=False)
class Partitions:
    """All partitions of one table, on the workers of a cluster."""

    client: Client
    blocks: Blocks  # X, y and weights of each partition
    expected: ExpectedData
    fit: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    summaries: list[Summary] = field(default_factory=list)
    addresses: dict[int, str] = field(default_factory=dict)  # the worker of each partition
    row_counts: list[tuple[int, float]] = field(default_factory=list)  # rows and total weight of each partition
    n_rounds: int = 0
    n_bytes: int = 0
    _updates: list[Call] = field(default_factory=list)
    _n_known: int = 0  # updates that all partitions have received, unless they were loaded again
    _lock: RLock = field(default_factory=RLock)  # networks that are trained at once repair in turn

    def load(self) -> None:
        """Load all partitions."""
        found = self._load(range(len(self.blocks)))
        self.summaries = [found[number] for number in range(len(self.blocks))]

    def close(self) -> None:
        """Drop all partitions; workers that cannot be reached drop them after a while."""
        with suppress(LostSchedulerError), cluster_errors(self.client):
            self.client.run(worker.drop_partitions, self.fit, None, on_error="ignore")

    @property
    def n_rows(self) -> int:
        """Number of rows of all partitions."""
        return sum(n_rows for n_rows, _ in self.row_counts)

    @property
    def total_weight(self) -> float:
        """Total weight of all rows."""
        return float(sum(weight for _, weight in self.row_counts))

    def split_row_numbers(self, numbers: IndexArray) -> dict[int, IndexArray]:
        """Group ascending row numbers by partition, counted from its first row."""
        ends = np.cumsum([n_rows for n_rows, _ in self.row_counts])
        holders = np.searchsorted(ends, numbers, side="right")
        firsts = [0, *ends[:-1]]
        return {int(n): (numbers[holders == n] - firsts[n]).astype(np.intp) for n in np.unique(holders)}

    # --- rounds ---

    def map(
        self, function: Callable[..., Any], *arguments: Any, own: Mapping[int, tuple[Any, ...]] | None = None
    ) -> list[Any]:
        """Call a function on every partition and return the results in order.

        ``own`` has arguments of single partitions, which come before the others; with it, only these are called.
        """
        numbers = range(len(self.blocks)) if own is None else sorted(own)
        results = self._call((function, arguments, own or {}), numbers)
        return [results[number] for number in numbers]

    def reduce(self, merge: Callable[[T, T], T], function: Callable[..., list[Block[T]]], *arguments: Any) -> T:
        """Merge the blocks of leaves that a function returns for every partition."""
        tree: LeafTree[T] = LeafTree(merge)
        for blocks in self.map(function, *arguments):
            for block in blocks:
                tree.add(block.first, block.level, block.value)
        return tree.total()

    def update(
        self, function: Callable[..., None], *arguments: Any, own: Mapping[int, tuple[Any, ...]] | None = None
    ) -> None:
        """Change all partitions by a function, before the next call."""
        self._updates.append((function, arguments, own or {}))

    def _call(self, call: Call, numbers: Iterable[int]) -> dict[int, Any]:
        results: dict[int, Any] = {}
        remaining, losses, n_updates = list(numbers), 0, len(self._updates)
        found = self._run_round(call, remaining, self._n_known)
        while True:
            outdated = [number for number, result in found.items() if isinstance(result, Outdated)]
            results |= {number: result for number, result in found.items() if number not in outdated}
            if not outdated:
                break
            losses = losses + 1 if len(outdated) == len(remaining) else 0
            if losses == MAX_LOSSES:
                raise RuntimeError(_loss_message(outdated[0], f"could not run {call[0].__name__}"))
            with self._lock:  # another thread may have loaded them by now
                checked = self._run_round((Partition.do_nothing, (), {}), outdated, 0)
                self._load([number for number, result in checked.items() if isinstance(result, Outdated)])
            remaining, found = outdated, self._run_round(call, outdated, 0)
        if len(results) == len(self.blocks):
            self._n_known = n_updates
        return results

    def _run_round(self, call: Call, numbers: Sequence[int], first_update: int) -> dict[int, Any]:
        """Call a function once on some partitions; raise what it raises.

        Partitions that lack updates before the first of those sent return `Outdated`, and so do those of lost workers.

        The request goes to all workers that the scheduler knows. Naming workers would make it wait for connections to
        lost ones. The scheduler closes the connection to a worker that stops responding (``worker-ttl``).
        """
        function, arguments, all_own = call
        by_worker: dict[str, list[int]] = {}
        for number in numbers:
            by_worker.setdefault(self.addresses[number], []).append(number)
        own = {number: all_own[number] for number in numbers if number in all_own}
        updates = self._updates[first_update:]
        request = Request(self.fit, by_worker, function, arguments, own, first_update, updates)
        with cluster_errors(self.client):
            results = self.client.run(worker.run_request, request, on_error="return")
        self.n_rounds += 1
        self.n_bytes += len(by_worker) * size_of([arguments, updates]) + size_of(own) + size_of(results)
        found: dict[int, Any] = {}
        for address, own_numbers in by_worker.items():
            result = results.get(address)
            if result is None or isinstance(result, OSError):  # an error of the connection, see `Failure`
                result = dict.fromkeys(own_numbers, Outdated())
            elif isinstance(result, BaseException):
                raise result
            found |= result
        for result in found.values():
            if isinstance(result, Failure):
                raise result.error
        return found

    # --- where the partitions are ---

    def _load(self, numbers: Iterable[int]) -> dict[int, Summary]:
        """Load partitions on workers that the scheduler chooses."""
        remaining, found = list(numbers), dict[int, Summary]()
        for _ in range(MAX_LOSSES):
            if not remaining:
                return found
            wait_for_workers(self.client)
            found |= self._run_load_tasks(remaining)
            remaining = [number for number in remaining if number not in found]
        if not remaining:
            return found
        raise RuntimeError(_loss_message(remaining[0], "could not be loaded"))

    def _run_load_tasks(self, numbers: Sequence[int], address: str | None = None) -> dict[int, Summary]:
        """Load partitions, if possible on one worker; the results of workers that died are missing."""
        load, run = delayed(worker.load_partition, pure=False), uuid.uuid4().hex[:8]
        tasks = [
            load(self.fit, n, self.expected, *self.blocks[n], dask_key_name=f"dconnet-load-{self.fit}-{run}-{n}")
            for n in numbers
        ]
        with cluster_errors(self.client):
            futures = self.client.compute(tasks, workers=address, allow_other_workers=address is not None)
        try:
            wait_for_tasks(self.client, futures)
            results = {n: task_result(self.client, future) for n, future in zip(numbers, futures, strict=True)}
        finally:
            with suppress(LostSchedulerError), cluster_errors(self.client):
                self.client.cancel(futures)
        found = {number: summary for number, summary in results.items() if summary is not None}
        self.addresses |= {number: summary.address for number, summary in found.items()}
        return found

    def balance(self) -> None:
        """Move partitions to workers that joined, if they hold at least two fewer than another worker."""
        with self._lock:
            held: dict[str, list[int]] = {address: [] for address in worker_addresses(self.client)}
            for number, address in self.addresses.items():
                held.setdefault(address, []).append(number)
            moves: dict[str, list[int]] = {}
            while len(held) > 1:
                fullest, emptiest = max(held, key=lambda a: len(held[a])), min(held, key=lambda a: len(held[a]))
                if len(held[fullest]) < len(held[emptiest]) + 2:
                    break
                number = held[fullest].pop()
                held[emptiest].append(number)
                moves.setdefault(emptiest, []).append(number)
            for address, numbers in moves.items():
                before = {number: self.addresses[number] for number in numbers}
                self._run_load_tasks(numbers, address)
                moved: dict[str, list[int]] = {}
                for number, old in before.items():
                    if self.addresses[number] != old:
                        moved.setdefault(old, []).append(number)
                with cluster_errors(self.client):
                    self.client.run(worker.drop_partitions, self.fit, moved, on_error="ignore")


def _loss_message(number: int, problem: str) -> str:
    return (
        f"Partition {number} {problem}: the worker died each time, {MAX_LOSSES} times in a row. Most likely it needs "
        "more memory. Use smaller partitions, or workers with more memory."
    )


def size_of(value: Any) -> int:
    """Return the bytes of the numbers in arguments or results; anything else counts as zero."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (int, float)):
        return 8
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value))
    if isinstance(value, Mapping):
        return sum(map(size_of, value.values()))
    if is_dataclass(value):
        return sum(size_of(getattr(value, each.name)) for each in fields(value))
    return 0
