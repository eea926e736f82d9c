"""Settings for all tests."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def _accept_ctrl_c():
    """Restore Python's handler: a shell starts processes in the background with Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
