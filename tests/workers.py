"""Work for other processes, which import it by the name of this module."""

import os

from reproduction.processes import THREADS


def write_thread_limits(path):
    """Write what the libraries will read about their threads."""
    if path.name == "unlucky":
        raise ValueError("an unlucky item")
    path.write_text(" ".join(os.environ[name] for name in THREADS))
