"""Functions that run on a worker: they load partitions and call functions on them.

Partitions live outside Dask's own memory, so that Dask neither spills nor moves them. The driver notices when one is
missing and has it loaded again.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from distributed import Worker, get_worker

from dconnet._threads import one_blas_thread
from dconnet.dask.partition import ExpectedData, Partition, Summary
from dconnet.dask.storage import Storage

# Seconds without a request after which the partitions of a fit are dropped: its client may be gone.
ABANDONED_SECONDS = 1800.0


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Call ``function(partition, *own_arguments[number], *arguments)`` on several partitions of a fit."""

    fit: str
    numbers: Mapping[str, Sequence[int]]  # of the partitions on each worker, by its address
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    own_arguments: Mapping[int, tuple[Any, ...]]
    first_update: int  # number of updates that a partition must have received; others return `Outdated`
    updates: Sequence[tuple[Callable[..., None], tuple[Any, ...], Mapping[int, tuple[Any, ...]]]]  # those after these


@dataclass(frozen=True, slots=True)
class Outdated:
    """Result of a call on a partition that is missing, or has received too few updates."""


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """An exception of a call. As a result, it cannot be mistaken for an error of the connection."""

    error: Exception


@dataclass(slots=True, eq=False)
class WorkerState:
    """The partitions of all fits on one worker, and what calls on them need."""

    storage: Storage
    threads: ThreadPoolExecutor  # the event loop of the worker must stay free to answer the scheduler
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)
    last_used: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def add(self, fit: str, number: int, partition: Partition) -> None:
        """Store a partition, and drop those of abandoned fits."""
        with self._lock:
            now = self.last_used[fit] = time.monotonic()
            abandoned = {name for name, last in self.last_used.items() if now - last > ABANDONED_SECONDS}
            self.last_used = {name: last for name, last in self.last_used.items() if name not in abandoned}
            self.partitions = {key: own for key, own in self.partitions.items() if key[0] not in abandoned}
            self.partitions[fit, number] = partition

    def drop(self, fit: str, numbers: Sequence[int] | None) -> None:
        """Drop some partitions of a fit, or all of them."""
        with self._lock:
            for key in [key for key in self.partitions if key[0] == fit and (numbers is None or key[1] in numbers)]:
                del self.partitions[key]

    def call(self, request: Request, number: int) -> Any:
        """Return the result of a request for one partition, an `Outdated` or a `Failure`."""
        with self._lock:
            self.last_used[request.fit] = time.monotonic()
            partition = self.partitions.get((request.fit, number))
        if partition is None or partition.n_updates < request.first_update:
            return Outdated()
        try:
            with one_blas_thread():
                with partition.lock:
                    for function, arguments, own in request.updates[partition.n_updates - request.first_update :]:
                        function(partition, *own.get(number, ()), *arguments)
                        partition.n_updates += 1
                return request.function(partition, *request.own_arguments.get(number, ()), *request.arguments)
        except Exception as error:
            error.add_note(f"Raised by partition {number} on its worker:\n{traceback.format_exc()}")
            return Failure(error)
        finally:
            partition.release_pages()


# With a LocalCluster in one process, several workers share this module.
_states: WeakKeyDictionary[Worker, WorkerState] = WeakKeyDictionary()
_states_lock = Lock()


def state_of(worker: Worker) -> WorkerState:
    """Return the state of a worker, created on first use."""
    with _states_lock:
        if worker not in _states:
            storage = Storage(worker.local_directory, worker.memory_manager.memory_limit)
            threads = ThreadPoolExecutor(worker.state.nthreads, thread_name_prefix="dconnet")
            _states[worker] = WorkerState(storage, threads)
        return _states[worker]


def load_partition(fit: str, number: int, expected: ExpectedData, X: Any, y: Any, weight: Any) -> Summary:
    """Make a partition of a block of the table, store it on this worker, and return its summary (a Dask task)."""
    worker = get_worker()
    state = state_of(worker)
    with one_blas_thread():
        try:
            partition = Partition.from_block(X, y, weight, expected, state.storage)
        except ValueError as error:
            raise ValueError(f"Partition {number}: {error}") from error
    partition.release_pages()
    state.add(fit, number, partition)
    return partition.summary(worker.address, is_regression=expected.is_regression)


async def run_request(request: Request, dask_worker: Worker) -> dict[int, Any]:
    """Return the results of a request for the partitions on this worker, by their numbers."""
    state, loop = state_of(dask_worker), asyncio.get_running_loop()
    numbers = request.numbers.get(dask_worker.address, ())
    calls = [loop.run_in_executor(state.threads, state.call, request, number) for number in numbers]
    return dict(zip(numbers, await asyncio.gather(*calls), strict=True))


async def drop_partitions(fit: str, numbers: Mapping[str, Sequence[int]] | None, dask_worker: Worker) -> None:
    """Drop the partitions of a fit with these numbers, by the address of the worker; None drops all of them."""
    state_of(dask_worker).drop(fit, None if numbers is None else numbers.get(dask_worker.address, ()))
