"""The region in which an optimum is sought: a box, linear constraints, integer inputs, and the hull of data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import BoolArray, FloatArray, Frozen, frozen_copy
from dconnet.optimisation.near import hull_rows

# By how much, in parts of its range, a bound of an integer input may lie beside an integer.
INTEGER_SLACK = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Region(Frozen):
    """Points ``x`` with ``low <= x <= high`` and ``least <= A x <= most``, some of their entries integers.

    Attributes
    ----------
    low, high : arrays of shape (n_features,)
        The box. Bounds of integers are integers.
    A : array of shape (n_constraints, n_features)
        Coefficients of the linear constraints.
    least, most : arrays of shape (n_constraints,)
        Their bounds, which may be infinite.
    integer : array of bool of shape (n_features,)
        Which inputs are integers.
    corners : array of shape (n_corners, n_features) or None
        Points whose convex hull the region lies in.
    n_rows : int
        How many rows there were before the outermost of them were taken as corners.
    """

    low: FloatArray
    high: FloatArray
    A: FloatArray
    least: FloatArray
    most: FloatArray
    integer: BoolArray
    corners: FloatArray | None
    n_rows: int = 0

    @property
    def is_empty_box(self) -> bool:
        """Whether there is an input without a value, such as an integer between 0.2 and 0.8."""
        return bool((self.low > self.high).any())

    @property
    def remark(self) -> str:
        """What the user should know of the region: where its corners are not all rows."""
        if self.corners is None or len(self.corners) == self.n_rows:
            return ""
        return f" The hull is that of the outermost {len(self.corners)} of {self.n_rows} different rows of near."

    def violation(self, x: FloatArray) -> float:
        """The largest violation of a linear constraint, in parts of the range of its values over the box."""
        if not len(self.A):
            return 0.0
        size = np.abs(self.A) @ np.maximum(np.maximum(np.abs(self.low), np.abs(self.high)), self.high - self.low)
        values = self.A @ x
        beyond = np.maximum(values - self.most, self.least - values)
        return float(np.max(beyond / np.where(size > 0.0, size, 1.0)))


def region_of(
    n_features: int,
    bounds: Any,
    A_ub: ArrayLike | None,
    b_ub: ArrayLike | None,
    A_eq: ArrayLike | None,
    b_eq: ArrayLike | None,
    integrality: ArrayLike | None,
    near: ArrayLike | None,
    coverage: float,
) -> Region:
    """The region, checked; parameters as of `optimise`."""
    corners, n_rows = (None, 0) if near is None else _checked_corners(near, coverage, n_features)
    low, high = _checked_bounds(bounds, n_features, corners)
    integer = _checked_integrality(integrality, n_features)
    upper, most = _checked_rows(A_ub, b_ub, "ub", n_features)
    equal, exact = _checked_rows(A_eq, b_eq, "eq", n_features)
    return Region(
        np.where(integer, np.ceil(low - INTEGER_SLACK * np.maximum(1.0, np.abs(low))), low),
        np.where(integer, np.floor(high + INTEGER_SLACK * np.maximum(1.0, np.abs(high))), high),
        np.vstack([upper, equal]),
        np.concatenate([np.full(len(most), -np.inf), exact]),
        np.concatenate([most, exact]),
        integer,
        corners,
        n_rows,
    )


def _checked_corners(near: ArrayLike, coverage: float, n_features: int) -> tuple[FloatArray, int]:
    corners, n_rows = hull_rows(near, coverage)
    if corners.shape[1] != n_features:
        raise ValueError(f"near must have {n_features} columns, as the network has inputs, got {corners.shape[1]}.")
    return corners, n_rows


def _checked_bounds(bounds: Any, n_features: int, corners: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    low, high = _ends(bounds, n_features)
    if np.isnan(low).any() or np.isnan(high).any():
        raise ValueError("bounds must not be NaN.")
    wrong = np.flatnonzero(low > high)
    if len(wrong):
        i = wrong[0]
        raise ValueError(f"The lower bound of input {i} is above its upper bound: {low[i]} > {high[i]}.")
    if corners is not None:
        # The hull lies in the box around its corners.
        low, high = np.maximum(low, corners.min(axis=0)), np.minimum(high, corners.max(axis=0))
    endless = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if len(endless):
        raise ValueError(
            f"Input {endless[0]} has no finite bounds, so that the optimum may be infinite. Give a lower and an upper "
            "bound for every input, for example the least and the largest value in the data, or give near=X."
        )
    return low, high


def _ends(bounds: Any, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds from pairs, or from an object with ``lb`` and ``ub``, as SciPy has it."""
    if bounds is None:
        return np.full(n_features, -np.inf), np.full(n_features, np.inf)
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        sides = [np.broadcast_to(np.asarray(side, dtype=np.float64), (n_features,)) for side in (bounds.lb, bounds.ub)]
        return sides[0].copy(), sides[1].copy()
    given = bounds.to_numpy() if hasattr(bounds, "to_numpy") else bounds  # a DataFrame is a sequence of names
    try:
        pairs = np.array([[_end(end) for end in pair] for pair in given], dtype=object)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bounds must be {n_features} pairs of numbers (lower, upper): {error}.") from error
    if pairs.shape != (n_features, 2):
        raise ValueError(f"bounds must be {n_features} pairs (lower, upper), got shape {pairs.shape}.")
    low = np.array([-np.inf if end is None else end for end in pairs[:, 0]], dtype=np.float64)
    high = np.array([np.inf if end is None else end for end in pairs[:, 1]], dtype=np.float64)
    return low, high


def _end(end: Any) -> float | None:
    return None if end is None else float(end)


def _checked_integrality(integrality: ArrayLike | None, n_features: int) -> BoolArray:
    if integrality is None:
        return np.zeros(n_features, dtype=bool)
    given = np.broadcast_to(np.asarray(integrality), (n_features,)) if np.ndim(integrality) == 0 else integrality
    flags = np.asarray(given)
    if flags.shape != (n_features,) or not np.isin(flags, (0, 1)).all():
        raise ValueError(
            f"integrality must be 0 or 1 (or False or True) for each of the {n_features} inputs, got {integrality!r}."
        )
    return flags.astype(bool)


def _checked_rows(
    A: ArrayLike | None, b: ArrayLike | None, suffix: str, n_features: int
) -> tuple[FloatArray, FloatArray]:
    if (A is None) != (b is None):
        raise ValueError(f"A_{suffix} and b_{suffix} belong together: give both or neither.")
    if A is None or b is None:
        return np.zeros((0, n_features)), np.zeros(0)
    rows = frozen_copy(np.atleast_2d(np.asarray(A)), name=f"A_{suffix}", ndim=2)
    sides = frozen_copy(np.atleast_1d(np.asarray(b)), name=f"b_{suffix}", ndim=1)
    if rows.shape != (len(sides), n_features):
        raise ValueError(
            f"A_{suffix} must have shape ({len(sides)}, {n_features}): a row for each entry of b_{suffix} and a column "
            f"for each input; got {rows.shape}."
        )
    return rows, sides
