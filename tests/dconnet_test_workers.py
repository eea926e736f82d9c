"""Helpers for tests that start processes, and functions that these processes import by the name of this module.

The name is its own: other installed packages may contain a package named ``tests``.
"""

import os
import signal


def environment_without_coverage():
    """Return the environment for a long process whose lines other tests cover as well."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COV")}


def kill_this_process(*arguments):
    """End the process without any cleanup."""
    os.kill(os.getpid(), signal.SIGKILL)


def drop_all_partitions():
    """Drop what the workers of this process hold."""
    from dconnet.dask import worker

    for state in worker._states.values():
        state.partitions.clear()


def write_thread_limits(path):
    """Write the limits that numerical libraries read from the environment."""
    from reproduction.processes import THREADS

    if path.name == "unlucky":
        raise ValueError("an unlucky item")
    path.write_text(" ".join(os.environ[name] for name in THREADS))
