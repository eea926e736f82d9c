"""Measure the CPU time of a call, and run code in a process of its own."""

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

# The libraries behind NumPy read these variables when they are loaded.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def median_seconds(
    call: Callable[[], T], repetitions: int, *, between: Callable[[], object] = lambda: None, max_seconds: float = 5.0
) -> tuple[float, T]:
    """Return the median CPU seconds of several calls, and the last result; start no call after ``max_seconds``.

    ``between`` runs between two calls and is not timed.
    """
    seconds: list[float] = []
    while True:
        began = time.process_time()
        result = call()
        seconds.append(time.process_time() - began)
        if len(seconds) >= repetitions or sum(seconds) > max_seconds:
            return statistics.median(seconds), result
        between()


def run_python(code: str, *arguments: object, python: str = sys.executable) -> dict[str, Any]:
    """Run code in a new process with one thread; return the JSON object on the last line that it prints."""
    command = [python, "-c", code, *map(str, arguments)]
    environment = os.environ | ONE_THREAD
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True)
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return result
