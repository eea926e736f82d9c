"""The global optimum of a trained network over a region: progress, result and search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray, Frozen
from dconnet._native import SignSearch
from dconnet.model.network import Network
from dconnet.optimisation.programme import PiecewiseLinearProgramme, Region, build_programme, build_region, build_target

# Violation of a constraint that counts as rounding, relative to the range of its values.
SLACK = 1e-9
# Seconds between two checks of the clock, of Ctrl-C and of the callback.
SECONDS_PER_CHECK = 0.1
# Gaps below this share of the sum of all sizes are rounding errors.
ROUNDING = 1e-12


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
        is proved up to rounding errors. NaN if the region is empty.
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


def relative_gap(value: float, bound: float) -> float:
    """Return ``|bound - value| / |value|``, where zero over zero is zero."""
    if not np.isfinite(value):
        return np.inf
    difference = abs(bound - value)
    return difference / abs(value) if difference and value else (np.inf if difference else 0.0)


def optimise(
    network: Any,
    bounds: Any = None,
    A_ub: ArrayLike | None = None,
    b_ub: ArrayLike | None = None,
    A_eq: ArrayLike | None = None,
    b_eq: ArrayLike | None = None,
    integrality: ArrayLike | None = None,
    sense: str = "max",
    *,
    output: int | None = None,
    weights: ArrayLike | None = None,
    near: ArrayLike | None = None,
    coverage: float = 1.0,
    rel_gap: float = 1e-6,
    max_seconds: float | None = None,
    callback: Callable[[Progress], object] | None = None,
    verbose: int = 0,
) -> Optimum:
    """Find the input within bounds and linear constraints at which a trained network is largest or smallest.

    The answer is global: branch and bound over the signs of the neurons proves that nothing in the region is better by
    more than ``rel_gap``.

    Parameters
    ----------
    network : Network or estimator
        A network, or a fitted `DCONRegressor` or `DCONClassifier`.
    bounds : sequence of pairs (lower, upper), or scipy.optimize.Bounds
        The box of the inputs. Every bound must be finite, unless ``near`` is given; None then means no bound.
    A_ub, b_ub : array-like of shape (n_constraints, n_features) and (n_constraints,), optional
        Constraints ``A_ub @ x <= b_ub``.
    A_eq, b_eq : array-like of shape (n_constraints, n_features) and (n_constraints,), optional
        Constraints ``A_eq @ x == b_eq``.
    integrality : array-like of 0 and 1 of shape (n_features,), optional
        Which inputs are integers; a single number counts for all.
    sense : {"max", "min"}, default="max"
        Maximise or minimise.
    output : int, optional
        Which output of several is optimised: the number of a column of a regressor's target, or of a class in
        ``classes_``. Two classes have one output, which is largest for the second of them.
    weights : array-like of shape (n_outputs,), optional
        Optimise this weighted sum of the outputs.
    near : array-like of shape (n_samples, n_features), optional
        Rows of data to stay near to: the optimum is sought in their convex hull. Without it, optima tend to sit in
        corners of the box, far from all data. The hull of more than 1000 rows is that of the outermost 1000, and
        the message of the result says so.
    coverage : float, default=1.0
        Share of the rows of ``near`` that count: those nearest to their mean by the Mahalanobis distance.
    rel_gap : float, default=1e-6
        Stop when ``|bound - value| <= rel_gap * |value|``.
    max_seconds : float or None, default=None
        Maximum wall time. At the limit, the result holds the best point so far, and a valid bound.
    callback : callable, optional
        Called with a `Progress` about ten times a second; the search stops if it returns True.
    verbose : int, default=0
        1 prints value, bound and gap, about once a second.

    Examples
    --------
    >>> from dconnet import Network, optimise
    >>> roof = Network(W=[[1.0, 1.0], [-1.0, 0.0]], b=[-1.0, 0.5], alpha=[-1.0, -2.0], intercept=4.0)
    >>> best = optimise(roof, bounds=[(0, 2), (0, 2)], A_ub=[[-1.0, -1.0]], b_ub=[-1.5])
    >>> best.value, best.status.name
    (3.5, 'OPTIMAL')
    >>> optimise(roof, bounds=[(0, 2), (0, 2)], sense="min").x
    array([2., 2.])
    """
    began = time.perf_counter()
    if sense not in ("max", "min"):
        raise ValueError(f"sense must be 'max' or 'min', got {sense!r}.")
    if not rel_gap >= 0.0:
        raise ValueError(f"rel_gap must not be negative, got {rel_gap}.")
    if max_seconds is not None and not max_seconds > 0.0:
        raise ValueError(f"max_seconds must be positive, got {max_seconds}.")
    deadline = np.inf if max_seconds is None else began + max_seconds
    target = build_target(network, output, weights)
    # Half of the time for the corners of the hull: the search needs the other half.
    halfway = np.inf if max_seconds is None else began + 0.5 * max_seconds
    region = build_region(target.n_features, bounds, A_ub, b_ub, A_eq, b_eq, integrality, near, coverage, halfway)
    sign = 1.0 if sense == "max" else -1.0
    signed = Network(target.W, target.b, sign * target.alpha, sign * float(target.intercept))
    report = _ProgressReporter(sign, callback, verbose, began)
    x, bound, status, nodes = _search(signed, region, rel_gap, deadline, report)
    value = np.nan if x is None else float(target.predict(x[None, :])[0])
    bound = sign * bound if x is None else sign * max(bound, sign * value)
    gap = 0.0 if status is OptimumStatus.INFEASIBLE else relative_gap(value, bound)
    size = float(np.abs(target.alpha) @ (np.abs(target.W) @ (region.high - region.low)))
    if status is OptimumStatus.OPTIMAL and abs(bound - value) > max(2.0 * rel_gap * abs(value), SLACK * size):
        status = OptimumStatus.INEXACT
    message = status.value.format(gap=gap) + region.remark
    return Optimum(x, value, bound, gap, status, message, nodes, time.perf_counter() - began)


def output_range(network: Any, bounds: Any = None, **options: Any) -> tuple[Optimum, Optimum]:
    """Return the optima with the least and the largest output over a region; all options are those of `optimise`.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.optimisation import output_range
    >>> absolute_value = Network(W=[[1.0], [-1.0]], b=[0.0, 0.0], alpha=[1.0, 1.0])
    >>> least, largest = output_range(absolute_value, bounds=[(-3, 2)])
    >>> least.value, largest.value
    (0.0, 3.0)
    """
    return optimise(network, bounds, sense="min", **options), optimise(network, bounds, sense="max", **options)


class _ProgressReporter:
    """Report the progress to user and callback, in the sense of the caller; return whether to stop."""

    def __init__(self, sign: float, callback: Callable[[Progress], object] | None, verbose: int, began: float) -> None:
        self.sign, self.callback, self.verbose, self.began = sign, callback, verbose, began
        self.last_print = 0.0

    def __call__(self, value: float, bound: float, nodes: int, waiting: int) -> bool:
        seconds = time.perf_counter() - self.began
        progress = Progress(self.sign * value, self.sign * bound, nodes, waiting, seconds)
        if self.verbose and seconds - self.last_print >= 1.0:
            self.last_print = seconds
            print(
                f"{seconds:.0f} s: value {progress.value:.6g}, bound {progress.bound:.6g}, gap {progress.gap:.1e}, "
                f"{nodes} nodes, {waiting} waiting",
                flush=True,
            )
        return self.callback is not None and bool(self.callback(progress))


# Point or None, bound, reason for the end, and number of searched parts.
Found = tuple[FloatArray | None, float, OptimumStatus, int]


def _search(network: Network, region: Region, rel_gap: float, deadline: float, report: _ProgressReporter) -> Found:
    """Maximise the network over the region; the point are its inputs."""
    infeasible = None, np.nan, OptimumStatus.INFEASIBLE, 0
    if (region.low > region.high).any():  # such as an integer between 0.2 and 0.8
        return infeasible
    programme = build_programme(network, region)
    if not programme.n_variables:  # the box is a single point
        if region.violation(region.low) > SLACK:
            return infeasible
        return region.low, programme.offset, OptimumStatus.OPTIMAL, 0
    v, bound, status, nodes = _branch_and_bound(programme, rel_gap, deadline, report)
    if v is None:
        return None, bound, status, nodes
    x = programme.origin + programme.directions @ v
    # Remove rounding errors: integers are whole, and the point is within the box.
    x = np.clip(np.where(region.integer, np.round(x), x), region.low, region.high)
    return x, bound, status, nodes


def _branch_and_bound(
    programme: PiecewiseLinearProgramme, rel_gap: float, deadline: float, report: _ProgressReporter
) -> Found:
    """Maximise over the signs of the neurons, in the kernel; the point are variables of the programme."""
    m, n = len(programme.A), programme.n_variables
    search = SignSearch(
        np.ascontiguousarray(np.vstack([programme.W, programme.A])),
        np.concatenate([programme.b, np.zeros(m)]),
        np.ascontiguousarray(programme.alpha),
        np.ascontiguousarray(programme.slopes),
        np.concatenate([np.zeros(n), programme.z_low, programme.least]),
        np.concatenate([np.ones(n), programme.z_high, programme.most]),
        np.concatenate([programme.step[:n], np.zeros(len(programme.b)), programme.step[n:]]),
    )
    size = float(np.abs(programme.alpha).sum() + np.abs(programme.slopes).sum())
    # Bound by interval arithmetic, for the time before the first part has been searched.
    interval_bound = programme.slopes.clip(0.0).sum() + (programme.alpha * programme.z_high).clip(0.0).sum()
    status = None
    while status is None:
        seconds = max(min(SECONDS_PER_CHECK, deadline - time.perf_counter()), 0.0)
        is_closed = search.run(seconds, rel_gap, ROUNDING * size, programme.offset)
        bound = float(programme.offset + min(search.bound, interval_bound))
        value = float(programme.offset + search.best) if search.has_point else np.nan
        if is_closed:
            status = OptimumStatus.OPTIMAL if search.has_point else OptimumStatus.INFEASIBLE
        elif time.perf_counter() >= deadline:
            status = OptimumStatus.TIME_LIMIT
        elif report(value, bound, search.nodes, search.waiting):
            status = OptimumStatus.STOPPED
    v = np.array(search.point) if search.has_point else None
    return v, np.nan if status is OptimumStatus.INFEASIBLE else bound, status, search.nodes
