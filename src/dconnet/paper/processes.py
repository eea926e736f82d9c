"""Work in several processes, with a display of what is left, that Ctrl-C ends without losing what is done."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Item = TypeVar("Item")

# What the numerical libraries read when they are loaded.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def work_through(
    work: Callable[[Item], None], items: Sequence[Item], jobs: int, console: Console, title: str = "Cells"
) -> list[str]:
    """Do the work for every item, each process with one thread; return a line for each failure.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; what was under way is given up.
    """
    if not items:
        return []
    with _one_thread_each():
        # Processes of their own from the start: threads of the libraries do not survive a fork.
        others = set(active_children())
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_depend_on_the_parent)
        try:
            return _watch({pool.submit(work, item): item for item in items}, console, title)
        except KeyboardInterrupt:
            # What is under way may take minutes more, and files are written whole or not at all.
            for process in set(active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let the processes that are started meanwhile find a limit of one thread in their environment."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _depend_on_the_parent() -> None:
    """Leave interrupts to the parent process, and do not outlive it where it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _watch(futures: dict[Future[None], Item], console: Console, title: str) -> list[str]:
    """Show the progress until all are done; return what went wrong."""
    failures = []
    with progress_bar(console) as progress:
        for future in progress.track(as_completed(futures), total=len(futures), description=title):
            error = future.exception()
            if error is not None:
                failures.append(f"{futures[future]}: {type(error).__name__}: {error}")
    return failures


def progress_bar(console: Console) -> Progress:
    """A bar with the number done, the time gone by and the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console)
