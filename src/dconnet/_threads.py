"""Parallel work: one thread for linear algebra, and several threads or machines for independent tasks.

Sums by several BLAS threads depend on their number, and so would the trained network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock, local
from typing import Any, TypeVar

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

    With one thread, ``work`` runs in the calling thread. If ``stop`` is given, Ctrl-C is not raised again here:
    ``work`` is also called for the other items, and may check ``stop`` to return quickly.
    """
    n_threads = min(n_threads, len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    signal = Stop() if stop is None else stop

    def watch_signal() -> None:
        _watched.stop = signal
        watch(signal)

    def run(item: Item) -> Result:
        try:
            if stop is None and signal.is_set():
                raise KeyboardInterrupt
            return work(item)
        except BaseException:
            signal.set()
            raise

    futures: dict[int, Future[Result]] = {}
    with ThreadPoolExecutor(n_threads, initializer=watch_signal) as pool:

        def finish_all() -> None:
            for number, item in enumerate(items):
                if number not in futures:
                    futures[number] = pool.submit(run, item)
            pause = FIRST_PAUSE
            while not all(future.done() for future in futures.values()):
                time.sleep(pause)
                pause = min(1.5 * pause, LONGEST_PAUSE)

        try:
            finish_all()
        except KeyboardInterrupt:
            signal.set()
            finish_all()
            if stop is None:
                raise
    errors = [error for error in (futures[number].exception() for number in range(len(items))) if error is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, KeyboardInterrupt)):
        raise error
    return [futures[number].result() for number in range(len(items))]
