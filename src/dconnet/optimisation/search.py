"""The global optimum of a trained network over a region."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray
from dconnet.model.network import Network
from dconnet.optimisation.branching import solve_by_branching
from dconnet.optimisation.highs import Answer, solve_with_highs
from dconnet.optimisation.optimum import Optimum, OptimumStatus, Progress, Watcher, relative_gap
from dconnet.optimisation.programme import posed
from dconnet.optimisation.region import Region, region_of
from dconnet.optimisation.target import one_output

SENSES = ("max", "min")
METHODS = ("branching", "highs")

# By how much a constraint may be violated, in parts of the range of its values.
SLACK = 1e-9


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
    method: str = "branching",
    callback: Watcher | None = None,
    verbose: int = 0,
) -> Optimum:
    """Find the input within bounds and linear constraints at which a trained network is largest or smallest.

    The answer is global: the search proves that nothing in the region is better by more than ``rel_gap``.

    Parameters
    ----------
    network : Network or estimator
        A network, a fitted `DCONRegressor` or `DCONClassifier`, or one that `load_model` has read.
    bounds : sequence of pairs (lower, upper), or scipy.optimize.Bounds
        The box of the inputs. Every bound must be finite, unless ``near`` is given; then None stands for no bound.
    A_ub, b_ub : array-like of shape (n_constraints, n_features) and (n_constraints,), optional
        Constraints ``A_ub @ x <= b_ub``.
    A_eq, b_eq : array-like of shape (n_constraints, n_features) and (n_constraints,), optional
        Constraints ``A_eq @ x == b_eq``.
    integrality : array-like of 0 and 1 of shape (n_features,), optional
        Which inputs are integers; a single number serves all.
    sense : {"max", "min"}, default="max"
        What is sought.
    output : int, optional
        Which output of several is optimised: the number of a column of a regressor's target, or of a class in
        ``classes_``. Two classes have one output, which is largest for the second of them.
    weights : array-like of shape (n_outputs,), optional
        Optimise this weighted sum of the outputs.
    near : array-like of shape (n_samples, n_features), optional
        Rows of data to stay near to: the optimum is sought in their convex hull. Without it, optima tend to sit in
        corners of the box, far from all data. The hull of more than 1000 rows is that of the outermost 1000, and
        the message of the result says so; see `dconnet.optimisation.near.central_rows`.
    coverage : float, default=1.0
        Share of the rows of ``near`` that count: those nearest to their mean by the Mahalanobis distance.
    rel_gap : float, default=1e-6
        Stop when ``|bound - value| <= rel_gap * |value|``.
    max_seconds : float or None, default=None
        Maximum wall time. The result then holds the best point so far, and a bound that is valid.
    method : {"branching", "highs"}, default="branching"
        "branching" is branch and bound over the signs of the neurons, written for this problem; its bound is proved up
        to rounding errors. "highs" solves a mixed-integer linear programme by SciPy's HiGHS, with its tolerance of
        1e-6; it is slower, and an independent check.
    callback : callable, optional
        Called with a `Progress` about ten times a second; the search stops if it returns True. Only for "branching":
        SciPy's HiGHS tells nothing on its way.
    verbose : int, default=0
        1 prints value, bound and gap, about once a second. Only for "branching".

    Returns
    -------
    Optimum
        With ``x``, ``value``, ``bound``, ``gap``, ``status``, ``message``, ``nodes`` and ``seconds``.

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
    if sense not in SENSES:
        raise ValueError(f"sense must be 'max' or 'min', got {sense!r}.")
    if not rel_gap >= 0.0:
        raise ValueError(f"rel_gap must not be negative, got {rel_gap}.")
    if max_seconds is not None and not max_seconds > 0.0:
        raise ValueError(f"max_seconds must be positive, got {max_seconds}.")
    if method not in METHODS:
        raise ValueError(f"method must be 'branching' or 'highs', got {method!r}.")
    if method == "highs" and callback is not None:
        raise ValueError("SciPy's HiGHS cannot call back: leave callback out, or use method='branching'.")
    target = one_output(network, output, weights)
    region = region_of(target.n_features, bounds, A_ub, b_ub, A_eq, b_eq, integrality, near, coverage)
    sign = 1.0 if sense == "max" else -1.0
    watch = _Watch(sign, callback, verbose)
    answer, x = _searched(_signed(target, sign), region, rel_gap, max_seconds, method, watch)
    size = float(np.abs(target.alpha) @ (np.abs(target.W) @ (region.high - region.low)))
    found = _told(target, sign, answer, x, time.perf_counter() - began, rel_gap, size)
    return replace(found, message=found.message + region.remark)


def output_range(network: Any, bounds: Any = None, **options: Any) -> tuple[Optimum, Optimum]:
    """The least and the largest output of a network over a region.

    Parameters
    ----------
    network : Network or estimator
        As for `optimise`.
    bounds : sequence of pairs, or scipy.optimize.Bounds
        The box.
    **options
        Any other parameter of `optimise` but ``sense``.

    Returns
    -------
    least, largest : Optimum
        The two optima.

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


class _Watch:
    """Tells user and callback of the progress, in the sense that they asked for."""

    def __init__(self, sign: float, callback: Watcher | None, verbose: int) -> None:
        self.sign, self.callback, self.verbose = sign, callback, verbose
        self.told = 0.0

    def __call__(self, progress: Progress) -> bool:
        seen = replace(progress, value=self.sign * progress.value, bound=self.sign * progress.bound)
        if self.verbose and seen.seconds - self.told >= 1.0:
            self.told = seen.seconds
            print(
                f"{seen.seconds:.0f} s: value {seen.value:.6g}, bound {seen.bound:.6g}, gap {seen.gap:.1e}, "
                f"{seen.nodes} nodes, {seen.waiting} waiting",
                flush=True,
            )
        return self.callback is not None and bool(self.callback(seen))


def _signed(network: Network, sign: float) -> Network:
    return Network(network.W, network.b, sign * network.alpha, sign * float(network.intercept))


def _searched(
    network: Network, region: Region, rel_gap: float, max_seconds: float | None, method: str, watch: _Watch
) -> tuple[Answer, FloatArray | None]:
    if region.is_empty_box:
        return Answer(None, np.nan, OptimumStatus.INFEASIBLE, 0), None
    programme = posed(network, region)
    if not programme.n_variables:
        return _only_point(region, programme.offset)
    if method == "highs":
        answer = solve_with_highs(programme, rel_gap, max_seconds)
    else:
        answer = solve_by_branching(programme, rel_gap, max_seconds, watch)
    return answer, None if answer.v is None else _within(region, programme.inputs(answer.v))


def _only_point(region: Region, value: float) -> tuple[Answer, FloatArray | None]:
    """The answer for a box that is a single point."""
    if region.violation(region.low) > SLACK:
        return Answer(None, np.nan, OptimumStatus.INFEASIBLE, 0), None
    return Answer(np.zeros(0), value, OptimumStatus.OPTIMAL, 0), region.low


def _within(region: Region, x: FloatArray) -> FloatArray:
    """The point without its rounding errors: within the box, integers whole."""
    return np.clip(np.where(region.integer, np.round(x), x), region.low, region.high)


def _told(
    network: Network, sign: float, answer: Answer, x: FloatArray | None, seconds: float, rel_gap: float, size: float
) -> Optimum:
    """The value is the network's own, and no bound is worse than it."""
    value = np.nan if x is None else float(network.predict(x[None, :])[0])
    bound = sign * answer.bound if x is None else sign * max(answer.bound, sign * value)
    empty = answer.status is OptimumStatus.INFEASIBLE
    gap = 0.0 if empty else relative_gap(value, bound)
    status = answer.status
    if status is OptimumStatus.OPTIMAL and abs(bound - value) > max(2.0 * rel_gap * abs(value), SLACK * size):
        status = OptimumStatus.INEXACT
    return Optimum(x, value, bound, gap, status, status.value.format(gap=gap), answer.nodes, seconds)
