"""Estimated order of convergence of a sequence, and its law of decay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray

# Number of epochs that count as early, as in the paper.
EARLY = 30

# Errors below this fraction of the limit, and decreases below this fraction of the objective, are rounding.
ROUNDING = 1e-14

# A law is fitted to at most STRETCHES ranges of epochs, evenly spaced in their logarithm, and at least LEAST_STRETCHES.
STRETCHES = 60
LEAST_STRETCHES = 8


@dataclass(frozen=True, slots=True)
class DecayLaw:
    """An exponential and a power law, fitted to the decrease of an objective from epoch to epoch.

    The distance from the limit in epoch k falls like ``factor**k`` or ``k**-exponent``. An exponent that is not
    positive means that the descent has not begun to converge.
    """

    name: str  # of the law that fits better, "exponential" or "power"; "unknown" with too few epochs
    exponential_misfit: float  # root mean squared distance in the logarithm of the decrease; NaN if unknown
    power_misfit: float
    factor: float
    exponent: float


UNKNOWN_LAW = DecayLaw("unknown", *[float("nan")] * 4)


@dataclass(frozen=True, slots=True, eq=False)
class ConvergenceOrder:
    """Slopes of the regression of ``ln e_{k+1}`` on ``ln e_k``, where e_k is the distance of RegLoss from its limit.

    The slopes cannot distinguish an exponential from a power law; ``decay`` does.
    """

    early: float  # slope over the first ``n_early`` epochs; NaN for fewer than three points
    all: float  # slope over all epochs; NaN for fewer than three points
    errors: FloatArray  # (n_errors,), the distances e_k up to the first that is rounding
    n_early: int = EARLY
    decay: DecayLaw = UNKNOWN_LAW


def convergence_order(objective: ArrayLike, *, limit: float | None = None, early: int = EARLY) -> ConvergenceOrder:
    """Estimate the order of convergence of a sequence of objective values.

    Linear convergence has order one, quadratic two. The converse does not hold: the errors ``1 / k`` of a sublinear
    sequence also have a slope near one, and only `decay` distinguishes the two. The last value replaces an unknown
    limit. The estimate for all epochs therefore means little before the descent has converged.

    Parameters
    ----------
    objective : array-like of shape (n_epochs + 1,)
        RegLoss of the start and after each epoch, for example ``history_.objective``.
    limit : float, optional
        The limit; the last value by default.
    early : int
        Number of epochs that count as early.

    Examples
    --------
    >>> from dconnet.certificates import convergence_order
    >>> order = convergence_order([1.0 + 0.5**k for k in range(40)], limit=1.0)
    >>> round(order.all, 6)
    1.0
    """
    values = _check_objective(objective)
    if early < 1:
        raise ValueError(f"early must be at least 1, got {early}.")
    if len(values) == 0:
        return ConvergenceOrder(float("nan"), float("nan"), values, early)
    target = float(values[-1]) if limit is None else float(limit)
    errors = np.abs(values - target)
    rounding = np.flatnonzero(errors <= ROUNDING * abs(target))
    errors = errors[: rounding[0]] if len(rounding) else errors
    return ConvergenceOrder(_slope(errors[: early + 1]), _slope(errors), errors, early, decay_law(values, skip=early))


def decay_law(objective: ArrayLike, *, epochs: ArrayLike | None = None, skip: int = EARLY) -> DecayLaw:
    """Decide whether an objective decreases exponentially in the number of epochs or by a power of it.

    Both laws are straight lines for the logarithm of the mean decrease in a range of epochs: over the epoch for the
    exponential law, over its logarithm for the power law. Decreases need no limit, and their power law has an exponent
    that is larger by one. The ranges are evenly spaced in the logarithm of the epoch, so that the many late epochs do
    not dominate the least-squares fit.

    Parameters
    ----------
    objective : array-like of shape (n_values,)
        RegLoss, or its distance from any number, after some epochs.
    epochs : array-like of shape (n_values,), optional
        These epochs, ascending; 0, 1, 2, … by default.
    skip : int
        Number of epochs left out at the beginning.

    Examples
    --------
    >>> from dconnet.certificates import decay_law
    >>> law = decay_law([1.0 + 1.0 / k for k in range(1, 1000)])
    >>> law.name, round(law.exponent, 1)
    ('power', 1.0)
    >>> law = decay_law([1.0 + 0.98**k for k in range(1000)])
    >>> law.name, round(law.factor, 4)
    ('exponential', 0.98)
    """
    values = _check_objective(objective)
    k = np.arange(len(values), dtype=np.float64) if epochs is None else np.asarray(epochs, dtype=np.float64)
    if k.shape != values.shape or np.any(np.diff(k) <= 0.0):
        raise ValueError("epochs must be ascending numbers, one for each value of the objective.")
    # Up to the first value that differs from the last one by rounding alone.
    close = np.abs(values - values[-1:]) <= ROUNDING * np.abs(values[-1:])
    k = k[: int(np.argmax(close)) + 1] if len(values) else k
    first_epoch = max(skip, 1)
    if len(k) == 0 or k[-1] <= first_epoch:
        return UNKNOWN_LAW
    ends = np.unique(np.searchsorted(k, np.geomspace(first_epoch, k[-1], STRETCHES + 1) * (1.0 - 1e-12)))
    k, values = k[ends], values[ends]
    decreases = -np.diff(values)
    is_decrease = decreases > ROUNDING * np.abs(values[:-1])
    if is_decrease.sum() < LEAST_STRETCHES:
        return UNKNOWN_LAW
    first, last = k[:-1][is_decrease], k[1:][is_decrease]
    logarithms = np.log(decreases[is_decrease] / (last - first))
    exponential_misfit, per_epoch = _line((first + last) / 2.0, logarithms)
    power_misfit, per_logarithm = _line(np.log(first * last) / 2.0, logarithms)
    name = "exponential" if exponential_misfit < power_misfit else "power"
    return DecayLaw(name, exponential_misfit, power_misfit, float(np.exp(per_epoch)), -per_logarithm - 1.0)


def _check_objective(objective: ArrayLike) -> FloatArray:
    values = np.asarray(objective, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("objective must be a sequence of finite numbers, one for each epoch.")
    return values


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return the root mean squared residual of a least-squares line, and its slope."""
    centred = x - x.mean()
    slope = centred @ y / (centred @ centred)
    left = y - y.mean() - slope * centred
    return float(np.sqrt(np.mean(left**2))), float(slope)


def _slope(errors: FloatArray) -> float:
    """Return the slope of the least-squares line through the points (ln e_k, ln e_{k+1})."""
    logarithms = np.log(errors)
    x, y = logarithms[:-1], logarithms[1:]
    if len(x) < 3 or np.ptp(x) == 0.0:
        return float("nan")
    return _line(x, y)[1]
