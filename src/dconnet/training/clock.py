"""The time of a fit: one limit for all of it, of which each piece of work gets a fair share."""

from __future__ import annotations

import time
from math import ceil
from threading import Lock

# Seconds that a piece of work has when there are none left: a limit must be positive.
NONE_LEFT = 1e-9


class Clock:
    """What is left of the time of a fit, which begins when the clock is made.

    Parameters
    ----------
    limit : float or None
        Seconds for the whole fit; None for no limit.
    spent : float, default=0.0
        Seconds that were spent before, by a process from which this one goes on.

    Examples
    --------
    >>> from dconnet.training.clock import Clock
    >>> Clock(None).left()
    inf
    >>> clock = Clock(100.0, spent=40.0)
    >>> 59.0 < clock.left() <= 60.0
    True
    >>> 29.0 < clock.share(0.5).left() <= 30.0
    True
    """

    def __init__(self, limit: float | None, spent: float = 0.0) -> None:
        self._end = float("inf") if limit is None else time.perf_counter() + limit - spent

    @property
    def has_limit(self) -> bool:
        """Whether there is a limit."""
        return self._end < float("inf")

    def left(self) -> float:
        """Seconds left; less than zero if the limit is over."""
        return self._end - time.perf_counter() if self.has_limit else float("inf")

    def share(self, share: float) -> Clock:
        """A clock for a share of what is left."""
        return Clock(share * self.left()) if self.has_limit else self

    def turns(self, count: int, n_threads: int = 1, reserve: float = 0.0) -> Turns:
        """Turns for so many pieces of work, of which ``n_threads`` run at once; ``reserve`` seconds are for others."""
        return Turns(self, count, n_threads, reserve)


class Turns:
    """Pieces of work that take turns in the time of a clock: each gets the same, and what one leaves, all others do."""

    def __init__(self, clock: Clock, count: int, n_threads: int, reserve: float) -> None:
        self._clock, self._waiting, self._n_threads, self._reserve = clock, count, n_threads, reserve
        self._lock = Lock()

    def next(self) -> float:
        """Seconds for the piece of work that begins now; they are positive, if only just."""
        with self._lock:
            rounds = max(1, ceil(self._waiting / self._n_threads))
            self._waiting -= 1
        return max((self._clock.left() - self._reserve) / rounds, NONE_LEFT)
