"""Processes that tests start."""

import os


def uncounted():
    """The environment for a long process that takes no part in the coverage: other tests reach the same lines."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COV")}
