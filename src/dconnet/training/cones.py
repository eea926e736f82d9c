"""A proved bound on the use of new neurons beyond rank three, by branch and bound over cones of directions."""

from __future__ import annotations

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._native import ConeSearch
from dconnet.training.arrangement import rounding

# Ranks of the designs for which it is of use.
MAX_RANK = 6
# Parts that may wait at once, which take some hundred bytes each.
MOST_WAITING = 1_000_000
# Bound and best value may differ by this share.
RELATIVE_GAP = 1e-4


def can_search(Q: FloatArray, n_outputs: int = 1) -> bool:
    """Whether the search is there for this design."""
    return n_outputs == 1 and 2 <= Q.shape[1] <= MAX_RANK


def correlation_bound(
    Q: FloatArray,
    r: FloatArray,
    directions: FloatArray,
    *,
    max_parts: int | None = None,
    max_seconds: float | None = None,
    relative_gap: float = RELATIVE_GAP,
) -> float:
    """A number that ``|rᵀ σ(Q v)|`` is proved not to exceed for any v of length one; see `search_cones`."""
    return search_cones(Q, r, directions, max_parts=max_parts, max_seconds=max_seconds, relative_gap=relative_gap)[0]


def search_cones(
    Q: FloatArray,
    r: FloatArray,
    directions: FloatArray,
    *,
    max_parts: int | None = None,
    max_seconds: float | None = None,
    relative_gap: float = RELATIVE_GAP,
) -> tuple[float, FloatArray]:
    """A number that ``|rᵀ σ(Q v)|`` is proved not to exceed for any v of length one, and the best v seen.

    It is not above the largest value by more than ``relative_gap``, unless a limit ends the search before.

    Parameters
    ----------
    Q : array of shape (n_rows, rank)
        The design.
    r : array of shape (n_rows,)
        The residual.
    directions : array of shape (n, rank)
        Directions to begin with; the better they are, the sooner parts are closed.
    max_parts : int, optional
        Parts of the sphere to look at, at most, but for those of one step.
    max_seconds : float, optional
        Time for it, at most.
    relative_gap : float
        When to stop.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.training.cones import search_cones
    >>> rng = np.random.default_rng(0)
    >>> Q, r = rng.normal(size=(40, 4)), rng.normal(size=40)
    >>> bound, best = search_cones(Q, r, np.eye(4))
    >>> V = rng.normal(size=(1000, 4))
    >>> V /= np.linalg.norm(V, axis=1)[:, None]
    >>> bool(np.max(np.abs(np.maximum(V @ Q.T, 0.0) @ r)) <= bound)
    True
    """
    search = ConeSearch(np.ascontiguousarray(Q), np.ascontiguousarray(r))
    for v in directions:
        search.try_point(np.ascontiguousarray(v))
    most = np.iinfo(np.intp).max if max_parts is None else max_parts
    seconds = np.inf if max_seconds is None else max_seconds
    search.run(relative_gap, 0.0, most, MOST_WAITING, seconds)
    return float(search.bound) + rounding(Q, r), np.array(search.point)
