"""The time of a fit, with a clock that the tests set."""

from types import SimpleNamespace

import pytest

from dconnet.training import clock as module
from dconnet.training.clock import NONE_LEFT, Clock


@pytest.fixture
def now(monkeypatch):
    """The time, in ``now.seconds``."""
    time = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: time.seconds))
    return time


def test_a_share_ends_before_the_whole(now):
    clock = Clock(12.0, spent=2.0)
    part = clock.share(0.5)
    now.seconds += 4.0
    assert (clock.left(), part.left()) == (6.0, 1.0)
    now.seconds += 7.0
    assert (clock.left(), part.left()) == (-1.0, -6.0)
    assert Clock(None).left() == Clock(None).share(0.1).left() == Clock(None).turns(5).next() == float("inf")


def test_unused_time_is_shared_by_the_remaining_tasks(now):
    turns = Clock(100.0).turns(4, reserve=20.0)
    assert turns.next() == 20.0
    now.seconds += 5.0
    assert turns.next() == 25.0
    now.seconds += 35.0
    assert turns.next() == 20.0
    now.seconds += 45.0
    assert turns.next() == NONE_LEFT
