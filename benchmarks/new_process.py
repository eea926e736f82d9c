"""Run code in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

# The libraries behind NumPy read these variables when they are loaded.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def run_python(code: str, *arguments: object, python: str = sys.executable) -> dict[str, Any]:
    """Run code in a new process with one thread; return the JSON object on the last line that it prints."""
    command = [python, "-c", code, *map(str, arguments)]
    environment = os.environ | ONE_THREAD
    finished = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True)
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return result
