"""Results and progress of a search for an optimum."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from dconnet._arrays import FloatArray, Frozen


class OptimumStatus(Enum):
    """Why a search ended. The value is the message for the user, with a placeholder for the gap."""

    OPTIMAL = "Optimal: no feasible point is better than the one found by more than {gap:.1e} of its value."
    TIME_LIMIT = "Stopped by max_seconds with a gap of {gap:.1e}: the bound holds. Raise max_seconds or rel_gap."
    INEXACT = "Ended with a gap of {gap:.1e}: rounding errors forbid a smaller one here. The bound holds."
    STOPPED = "Stopped by the callback with a gap of {gap:.1e}: the bound holds."
    INFEASIBLE = "Infeasible: no point meets the bounds and all constraints."

    @property
    def is_optimal(self) -> bool:
        """Whether the gap is at most ``rel_gap``."""
        return self is OptimumStatus.OPTIMAL


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a running search."""

    value: float  # the best so far; NaN before the first feasible point
    bound: float  # no feasible point is better
    nodes: int  # parts of the region that have been searched
    waiting: int  # parts that are still to be searched
    seconds: float  # wall time so far

    @property
    def gap(self) -> float:
        """``|bound - value| / |value|``; infinite before the first feasible point."""
        return relative_gap(self.value, self.bound)


@dataclass(frozen=True, slots=True, eq=False)
class Optimum(Frozen):
    """The best point of a search, and how much better another point could be.

    Attributes
    ----------
    x : array of shape (n_features,) or None
        The point, within the bounds; None if there is no feasible one, or none was found in time.
    value : float
        The output of the network at ``x``, computed from the network itself; NaN without a point.
    bound : float
        No point of the region is better than this: above ``value`` in a maximisation, below it in a minimisation. It
        is proved up to rounding errors by "branching", and up to its tolerance of 1e-6 by "highs". NaN if the region
        is empty.
    gap : float
        ``|bound - value| / |value|``; zero for an empty region, infinite if no point was found in time.
    status : OptimumStatus
        Why the search ended.
    message : str
        The same as a sentence.
    nodes : int
        Parts of the region that were searched.
    seconds : float
        Wall time.
    """

    x: FloatArray | None
    value: float
    bound: float
    gap: float
    status: OptimumStatus
    message: str
    nodes: int
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """Point of the programme or None, bound, reason for the end, and number of searched parts."""

    v: FloatArray | None
    bound: float
    status: OptimumStatus
    nodes: int


def relative_gap(value: float, bound: float) -> float:
    """Return ``|bound - value| / |value|``, where zero over zero is zero."""
    if not np.isfinite(value):
        return np.inf
    difference = abs(bound - value)
    return difference / abs(value) if difference and value else (np.inf if difference else 0.0)
