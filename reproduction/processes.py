"""Work in several processes, with a progress bar, that Ctrl-C ends without losing what is done.

It uses the process pool of joblib and not `joblib.Parallel`, which runs a single job in the calling process: there,
Ctrl-C would end a fit early, and its result would be kept as if it were complete.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from typing import TypeVar

from joblib.externals.loky import ProcessPoolExecutor
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Item = TypeVar("Item")

# The numerical libraries read these when they are loaded.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def work_through(
    work: Callable[[Item], None], items: Sequence[Item], jobs: int, console: Console, title: str = "Cells"
) -> list[str]:
    """Do the work for every item, each process with one thread; return a line for each failure.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; unfinished work is lost.
    """
    if not items:
        return []
    pool = ProcessPoolExecutor(jobs, initializer=_depend_on, initargs=(os.getpid(),), env=dict.fromkeys(THREADS, "1"))
    try:
        failures = _watch({pool.submit(work, item): item for item in items}, console, title)
    except BaseException:
        # What is under way may take minutes more, and files are written whole or not at all.
        pool.shutdown(kill_workers=True)
        raise
    pool.shutdown()
    return failures


def _depend_on(parent: int) -> None:
    """Leave interrupts to the parent process, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
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
