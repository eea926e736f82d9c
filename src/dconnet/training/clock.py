"""The time limit of a fit, divided among its tasks."""

from __future__ import annotations

import time
from math import ceil
from threading import Lock

# Seconds for a task without time left: a limit must be positive.
NONE_LEFT = 1e-9


class Clock:
    """The time of a fit or of a descent, which begins when the clock is created.

    ``limit`` is in seconds, None for no limit; ``spent`` are the seconds of an earlier process from which this one
    resumes.
    """

    def __init__(self, limit: float | None, spent: float = 0.0) -> None:
        self._began, self._limit = time.perf_counter() - spent, float("inf") if limit is None else limit

    @property
    def has_limit(self) -> bool:
        """Whether there is a limit."""
        return self._limit < float("inf")

    def spent(self) -> float:
        """Return the seconds spent."""
        return time.perf_counter() - self._began

    def left(self) -> float:
        """Return the seconds left; negative after the limit."""
        return self._limit - self.spent()

    def share(self, share: float) -> Clock:
        """Return a clock for a share of the remaining time."""
        return Clock(share * self.left()) if self.has_limit else self

    def turns(self, count: int, n_threads: int = 1, reserve: float = 0.0) -> Turns:
        """Return turns for ``count`` tasks, ``n_threads`` at once; ``reserve`` seconds are left for other work."""
        return Turns(self, count, n_threads, reserve)


class Turns:
    """Splits the remaining time evenly over the remaining tasks."""

    def __init__(self, clock: Clock, count: int, n_threads: int, reserve: float) -> None:
        self._clock, self._n_left, self._n_threads, self._reserve = clock, count, n_threads, reserve
        self._lock = Lock()

    def next(self) -> float:
        """Return the seconds for the task that begins now, a positive number."""
        with self._lock:
            rounds = max(1, ceil(self._n_left / self._n_threads))
            self._n_left -= 1
        return max((self._clock.left() - self._reserve) / rounds, NONE_LEFT)
