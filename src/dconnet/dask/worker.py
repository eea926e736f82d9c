"""What runs on a worker: parts that it holds, and the answers to questions about them.

Parts live beside Dask's own memory: Dask does not know of them, and so neither spills nor moves them. Whoever asks
finds out if one is missing, and has it made again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, wraps
from threading import Lock
from typing import Any, TypeVar, TypeVarTuple

from distributed import Worker, get_worker

from dconnet._threads import one_blas_thread
from dconnet.dask.loading import Expected, loaded
from dconnet.dask.part import Part, Summary
from dconnet.dask.storage import Storage

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")

# Parts of a fit that nobody has asked for this long are given up: its client may be gone.
FORGOTTEN_SECONDS = 1800.0

# A step that all parts take, or a question: the name of a method of `Part`, and its arguments.
Call = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A question to all parts that are named, or to each of them with arguments of its own.

    Attributes
    ----------
    fit : str
        Whose parts they are.
    parts : mapping
        For each worker the numbers of the parts that it answers for.
    n_steps : int
        How many steps a part must have taken.
    call : Call
        What is asked.
    own : mapping
        Arguments of single parts, by their number, that come before the others.
    """

    fit: str
    parts: Mapping[str, Sequence[int]]
    n_steps: int
    call: Call
    own: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Behind:
    """The part is missing, or has taken only so many steps."""

    n_steps: int | None


@dataclass(slots=True)
class _Held:
    """The parts of all fits that this worker holds."""

    parts: dict[tuple[str, int], Part] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def keep(self, fit: str, number: int, part: Part) -> None:
        with self.lock:
            self._give_up_forgotten()
            self.asked[fit] = time.monotonic()
            self.parts[fit, number] = part

    def get(self, fit: str, number: int) -> Part | None:
        with self.lock:
            self.asked[fit] = time.monotonic()
            return self.parts.get((fit, number))

    def drop(self, fit: str, numbers: Sequence[int] | None) -> None:
        with self.lock:
            for key in [key for key in self.parts if key[0] == fit and (numbers is None or key[1] in numbers)]:
                del self.parts[key]

    def _give_up_forgotten(self) -> None:
        limit = time.monotonic() - FORGOTTEN_SECONDS
        gone = {fit for fit, last in self.asked.items() if last < limit}
        self.parts = {key: part for key, part in self.parts.items() if key[0] not in gone}
        self.asked = {fit: last for fit, last in self.asked.items() if fit not in gone}


HELD = _Held()


def _made_once(make: Callable[[*Arguments], T]) -> Callable[[*Arguments], T]:
    """As `functools.cache`, which may call the function twice for threads that ask at once."""
    lock, cached = Lock(), cache(make)

    @wraps(make)
    def of(*arguments: *Arguments) -> T:
        with lock:
            return cached(*arguments)

    return of


@_made_once
def storage_of(folder: str, limit: int | None) -> Storage:
    """The room for arrays of the worker with this folder and this much memory."""
    return Storage(folder, limit)


@_made_once
def _threads(n_threads: int) -> ThreadPoolExecutor:
    """Threads of this worker, so that its event loop stays free to answer the scheduler."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="dconnet")


def hold(fit: str, number: int, expected: Expected, X: Any, y: Any, weight: Any) -> Summary:
    """A task: make a part of a block, and keep it."""
    worker = get_worker()
    storage = storage_of(worker.local_directory, worker.memory_manager.memory_limit)
    with one_blas_thread():
        part, summary = loaded(X, y, weight, expected, number, worker.address, storage)
    part.rest()
    HELD.keep(fit, number, part)
    return summary


async def answer(question: Question, dask_worker: Worker, *, is_step: bool = False) -> dict[int, Any]:
    """The answers of all parts that this worker is asked for, by their numbers."""
    loop, pool = asyncio.get_running_loop(), _threads(dask_worker.state.nthreads)
    numbers = question.parts.get(dask_worker.address, ())
    waiting = [loop.run_in_executor(pool, _answer_of, question, number, is_step) for number in numbers]
    return dict(zip(numbers, await asyncio.gather(*waiting), strict=True))


def _answer_of(question: Question, number: int, is_step: bool) -> Any:
    part = HELD.get(question.fit, number)
    if part is None:
        return Behind(None)
    if part.steps != question.n_steps:
        return Behind(part.steps)
    name, arguments = question.call
    try:
        with one_blas_thread():
            found = getattr(part, name)(*question.own.get(number, ()), *arguments)
        part.steps += is_step  # of this part, even if another one has been made in its place since then
        return found
    finally:
        part.rest()


async def take_step(question: Question, dask_worker: Worker) -> dict[int, Any]:
    """As `answer`, for a step that changes the parts."""
    return await answer(question, dask_worker, is_step=True)


async def drop(fit: str, numbers: Sequence[int] | None = None) -> None:
    """Give up parts of a fit, or all of them."""
    HELD.drop(fit, numbers)
