"""Parallel work: one thread for linear algebra, and several threads or machines for independent tasks.

Sums by several BLAS threads depend on their number, and so would the trained network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, Thread, local
from typing import Any, Generic, TypeVar

from threadpoolctl import ThreadpoolController

from dconnet._native import Stop, watch

Item = TypeVar("Item")
Result = TypeVar("Result")
# Seconds between checks whether threads have ended; Ctrl-C ends a sleep on every system, but not the wait for a lock.
FIRST_PAUSE, LONGEST_PAUSE = 1e-4, 0.02

_lock = Lock()
_users = 0
_limiter: Any = None


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS to one thread; of several concurrent users, the last one restores the original limit."""
    global _users, _limiter
    with _lock:
        _users += 1
        if _users == 1:
            _limiter = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limiter.restore_original_limits()


_watched = local()


def check_stop() -> None:
    """Raise KeyboardInterrupt if this thread belongs to `in_threads` and its ``stop`` is set."""
    stop: Stop | None = getattr(_watched, "stop", None)
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt


def has_external_backend() -> bool:
    """Return whether joblib's active backend belongs to another package, such as Dask or Ray."""
    from joblib.parallel import get_active_backend

    return not type(get_active_backend()[0]).__module__.startswith("joblib._parallel_backends")


def run_parallel(work: Callable[[Item], Result], items: Sequence[Item], n_threads: int) -> list[Result]:
    """Return ``work(item)`` for every item: on joblib's backend if it belongs to another package, else in threads."""
    if not has_external_backend():
        return in_threads(work, items, n_threads)
    results = dict(run_on_backend(work, items))
    return [results[number] for number in range(len(items))]


def run_on_backend(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
    """Yield the number and the result of every item, computed on joblib's active backend.

    They come in the order in which they end if the backend supports that, otherwise in the order of the items.
    """
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    streams = getattr(get_active_backend()[0], "supports_return_generator", False)
    parallel = Parallel(return_as="generator_unordered" if streams else "list")
    yield from parallel(delayed(_numbered)(work, number, item) for number, item in enumerate(items))


def _numbered(work: Callable[[Item], Result], number: int, item: Item) -> tuple[int, Result]:
    return number, work(item)


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int, stop: Stop | None = None
) -> list[Result]:
    """Return ``work(item)`` for every item, computed in threads that Ctrl-C stops.

    Python raises KeyboardInterrupt in the main thread alone. That sets ``stop``; the kernel and `check_stop` then raise
    it in the threads as well, and all of them end before this function does. An error of one stops the others.

    Parameters
    ----------
    work : callable
        Called once for each item; with one thread, in the calling thread.
    items : sequence
        The arguments of ``work``.
    n_threads : int
        Number of threads.
    stop : Stop, optional
        Is set on Ctrl-C, and ``work`` may check it. If it is given, Ctrl-C is not raised again here: ``work`` is also
        called for the other items, and returns quickly.

    Examples
    --------
    >>> from dconnet._threads import in_threads
    >>> in_threads(lambda n: n**2, [1, 2, 3], n_threads=2)
    [1, 4, 9]
    """
    n_threads = min(n_threads, len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    signal = Stop() if stop is None else stop
    queue = _WorkQueue(work, items, signal, skip_after_stop=stop is None)
    try:
        for _ in range(n_threads):
            Thread(target=queue.run_in_thread).start()
        queue.wait()
        return queue.all_results()
    except KeyboardInterrupt:
        # A thread whose `start` was interrupted may run or not; either way, all items must be finished.
        signal.set()
        queue.finish()
        queue.wait()
        if stop is None:
            raise
    return queue.all_results()


class _WorkQueue(Generic[Item, Result]):
    """Items that threads share; with ``skip_after_stop``, items that were not begun are skipped after a stop."""

    def __init__(
        self, work: Callable[[Item], Result], items: Sequence[Item], stop: Stop, *, skip_after_stop: bool
    ) -> None:
        self.work, self.items, self.stop, self.skip_after_stop = work, items, stop, skip_after_stop
        self.waiting: SimpleQueue[int] = SimpleQueue()
        for index in range(len(items)):
            self.waiting.put(index)
        self.results: dict[int, Result] = {}
        self.errors: dict[int, BaseException] = {}

    def run_in_thread(self) -> None:
        """Process items in this thread, which the kernel interrupts when `stop` is set."""
        _watched.stop = self.stop
        watch(self.stop)
        self.finish()

    def finish(self) -> None:
        """Process the remaining items, one after the other."""
        while True:
            try:
                index = self.waiting.get_nowait()
            except Empty:
                return
            try:
                if self.skip_after_stop and self.stop.is_set():
                    raise KeyboardInterrupt
                self.results[index] = self.work(self.items[index])
            except BaseException as error:
                self.stop.set()
                self.errors[index] = error

    def wait(self) -> None:
        """Wait until all items are finished; Ctrl-C is raised here."""
        pause = FIRST_PAUSE
        while len(self.results) + len(self.errors) < len(self.items):
            time.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE)

    def all_results(self) -> list[Result]:
        """Return the results in order, or raise the first error that is not a KeyboardInterrupt."""
        for index in sorted(self.errors, key=lambda index: (isinstance(self.errors[index], KeyboardInterrupt), index)):
            raise self.errors[index]
        return [self.results[index] for index in range(len(self.items))]
