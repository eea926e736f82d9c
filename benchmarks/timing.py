"""The time of a call, and code in a process of its own.

Calls are told in seconds of the CPU: on one thread they are those of the clock on the wall, less what other processes
took.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

# The libraries behind NumPy read these when they are loaded: one thread for all who race.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


clock = time.process_time


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds that one call took, and what it returned."""
    begin = clock()
    result = call()
    return clock() - begin, result


def median_seconds(
    call: Callable[[], T], repetitions: int, *, between: Callable[[], object] = lambda: None, patience: float = 5.0
) -> tuple[float, T]:
    """Median of several calls, and the last result; no further call after ``patience`` seconds.

    ``between`` runs between any two calls and is not timed.
    """
    elapsed, result = timed(call)
    seconds = [elapsed]
    while len(seconds) < repetitions and sum(seconds) <= patience:
        between()
        elapsed, result = timed(call)
        seconds.append(elapsed)
    return statistics.median(seconds), result


def in_fresh_process(code: str, *arguments: object) -> dict[str, Any]:
    """Run Python code in a new process and read the JSON object on the last line that it prints.

    Raises
    ------
    subprocess.CalledProcessError
        If the code fails; its message is shown on the terminal.
    """
    command = [sys.executable, "-c", code, *map(str, arguments)]
    finished = subprocess.run(
        command, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True
    )
    answer: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return answer
