"""One thread for linear algebra, and several for pieces of work that do not depend on each other.

Sums of several threads depend on their number, and so would the trained network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from queue import Empty, SimpleQueue
from threading import Lock, local
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from dconnet._native import Stop, watch

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = Lock()
_users = 0
_limiter: Any = None


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let the BLAS use a single thread; of several users at once, the last to leave restores what was before."""
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
    """Raise KeyboardInterrupt if this thread works for `in_threads` and is to stop."""
    stop: Stop | None = getattr(_watched, "stop", None)
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int, stop: Stop | None = None
) -> list[Result]:
    """``work(item)`` for every item, in their order; Ctrl-C reaches the threads.

    Python raises KeyboardInterrupt in the main thread alone. That sets ``stop``, and then the kernel and `check_stop`
    raise it in the threads as well, and all of them end before this function does. An error of one stops the others.

    Parameters
    ----------
    work : callable
        Called once for each item. With one thread, that is the calling one.
    items : sequence
        What there is to do.
    n_threads : int
        How many at once.
    stop : Stop, optional
        Is set on Ctrl-C, and ``work`` may look at it. If it is given, Ctrl-C is not raised again here: ``work`` is
        called for the other items, too, and returns what can be had quickly.

    Examples
    --------
    >>> from dconnet._threads import in_threads
    >>> in_threads(lambda n: n**2, [1, 2, 3], n_threads=2)
    [1, 4, 9]
    """
    n_threads = min(n_threads, len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    asked = Stop() if stop is None else stop
    waiting: SimpleQueue[int] = SimpleQueue()
    for index in range(len(items)):
        waiting.put(index)
    results: dict[int, Result] = {}

    def take_part() -> None:
        while not (waiting.empty() or (stop is None and asked.is_set())):
            with suppress(Empty):  # another thread was faster
                index = waiting.get_nowait()
                results[index] = work(items[index])

    with ThreadPoolExecutor(n_threads, initializer=_obey, initargs=(asked,)) as pool:
        threads: list[Future[None]] = []
        try:
            threads.extend(pool.submit(take_part) for _ in range(n_threads))
            wait(threads, return_when=FIRST_EXCEPTION)
            if any(thread.done() and thread.exception() is not None for thread in threads):
                asked.set()
        except KeyboardInterrupt:
            asked.set()
            if stop is None:
                raise
            take_part()
    errors = [error for thread in threads if (error := thread.exception()) is not None]
    # An error of one makes others raise KeyboardInterrupt.
    for error in sorted(errors, key=lambda error: isinstance(error, KeyboardInterrupt)):
        raise error
    return [results[index] for index in range(len(items))]


def _obey(stop: Stop) -> None:
    """Let this thread stop when it is told to."""
    _watched.stop = stop
    watch(stop)
