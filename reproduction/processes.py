"""Parallel processes with a progress bar; Ctrl-C ends them without losing finished work.

This uses the process pool of joblib and not `joblib.Parallel`, because `Parallel` runs a single job in the calling
process: there, Ctrl-C would end a fit early, and its result would be stored as if it were complete.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from typing import TypeVar

from joblib.externals.loky import ProcessPoolExecutor
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Item = TypeVar("Item")

# The numerical libraries read these variables when they are loaded.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def work_through(
    work: Callable[[Item], None], items: Sequence[Item], n_jobs: int, console: Console, title: str = "Cells"
) -> list[str]:
    """Call ``work`` with every item, in processes with one thread each; return a line for each failure.

    After Ctrl-C, KeyboardInterrupt is raised at once; unfinished work is lost.
    """
    if not items:
        return []
    pool = ProcessPoolExecutor(n_jobs, initializer=_depend_on, initargs=(os.getpid(),), env=dict.fromkeys(THREADS, "1"))
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    failures = []
    try:
        futures = {pool.submit(work, item): item for item in items}
        with Progress(TextColumn("{task.description}"), *columns, console=console) as progress:
            for future in progress.track(as_completed(futures), total=len(futures), description=title):
                error = future.exception()
                if error is not None:
                    failures.append(f"{futures[future]}: {type(error).__name__}: {error}")
    except BaseException:
        # Running items may take minutes more. Files are written whole or not at all.
        pool.shutdown(kill_workers=True)
        raise
    pool.shutdown()
    return failures


def _depend_on(parent: int) -> None:
    """Leave interrupts to the parent process, and end with it."""

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
