"""How fast a sequence converges: its order and its law of decay, estimated, and an example whose order is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray

EARLY = 30

# Errors below this fraction of the limit, and decreases below this fraction of the objective, are rounding.
ROUNDING = 1e-14

# A law is fitted to so many stretches of epochs, evenly spaced in their logarithm, and not to fewer than the least.
STRETCHES = 60
LEAST_STRETCHES = 8


@dataclass(frozen=True, slots=True)
class DecayLaw:
    """An exponential and a power law, fitted to the decrease of an objective from epoch to epoch.

    Attributes
    ----------
    name : {"exponential", "power", "unknown"}
        The law that fits better; "unknown" if too few epochs tell.
    exponential_misfit, power_misfit : float
        Root of the mean squared distance from each law, in the logarithm of the decrease; NaN if unknown.
    factor : float
        By how much the distance from the limit shrinks in an epoch, by the exponential law.
    exponent : float
        p, if the distance from the limit falls like ``k**-p`` in epoch k, by the power law; not above zero where it
        has not begun to settle.
    """

    name: str
    exponential_misfit: float
    power_misfit: float
    factor: float
    exponent: float


UNKNOWN_LAW = DecayLaw("unknown", *[float("nan")] * 4)


@dataclass(frozen=True, slots=True, eq=False)
class ConvergenceOrder:
    """Slopes of the regression of ``ln e_{k+1}`` on ``ln e_k``, where e_k is the distance of RegLoss from its limit.

    Attributes
    ----------
    early : float
        Slope over the first epochs; NaN if there are fewer than three points.
    all : float
        Slope over all epochs; NaN if there are fewer than three points.
    errors : array of shape (n_errors,)
        The distances e_k, up to the first that is rounding.
    n_early : int
        Number of epochs that count as early.
    decay : DecayLaw
        Whether the later epochs decrease exponentially or by a power of their number, which the slopes do not tell.
    """

    early: float
    all: float
    errors: FloatArray
    n_early: int = EARLY
    decay: DecayLaw = UNKNOWN_LAW


def convergence_order(objective: ArrayLike, *, limit: float | None = None, early: int = EARLY) -> ConvergenceOrder:
    """Estimate the order of convergence of a sequence of objective values.

    Linear convergence has order one, quadratic two. The converse does not hold: the errors ``1 / k`` of a sublinear
    sequence have a slope near one as well, and `decay` tells the two apart. The limit is not known as a rule, and the
    last value stands for it, which bends the last points downwards; the estimate for all epochs means little before
    the descent has converged.

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
    values = _checked(objective)
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
    """Tell whether an objective decreases exponentially in the number of epochs or by a power of it.

    Both laws are straight lines for the logarithm of the mean decrease in a stretch of epochs: over the epoch for the
    exponential law, over its logarithm for the power law. Decreases need no limit, unlike distances from it, and a
    power law of them has an exponent that is one larger. Both are fitted by least squares to stretches that are
    evenly spaced in the logarithm of the epoch, so that the late epochs do not rule by their number.

    Parameters
    ----------
    objective : array-like of shape (n_values,)
        RegLoss, or its distance from any number, after some epochs.
    epochs : array-like of shape (n_values,), optional
        These epochs, rising; 0, 1, 2, … by default.
    skip : int
        Epochs at the beginning that are left out.

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
    values = _checked(objective)
    k = np.arange(len(values), dtype=np.float64) if epochs is None else np.asarray(epochs, dtype=np.float64)
    if k.shape != values.shape or np.any(np.diff(k) <= 0.0):
        raise ValueError("epochs must be rising numbers, one for each value of the objective.")
    chosen = _evenly_spaced(k[: _settled(values)], max(skip, 1))
    k, values = k[chosen], values[chosen]
    decreases = -np.diff(values)
    telling = decreases > ROUNDING * np.abs(values[:-1])
    if telling.sum() < LEAST_STRETCHES:
        return UNKNOWN_LAW
    first, last = k[:-1][telling], k[1:][telling]
    logarithms = np.log(decreases[telling] / (last - first))
    exponential_misfit, per_epoch = _line((first + last) / 2.0, logarithms)
    power_misfit, per_logarithm = _line(np.log(first * last) / 2.0, logarithms)
    name = "exponential" if exponential_misfit < power_misfit else "power"
    return DecayLaw(name, exponential_misfit, power_misfit, float(np.exp(per_epoch)), -per_logarithm - 1.0)


def _checked(objective: ArrayLike) -> FloatArray:
    values = np.asarray(objective, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("objective must be a sequence of finite numbers, one for each epoch.")
    return values


def _settled(values: FloatArray) -> int:
    """Number of values up to the first that only rounding keeps from being the last one."""
    return int(np.argmax(np.abs(values - values[-1:]) <= ROUNDING * np.abs(values[-1:]))) + 1 if len(values) else 0


def _evenly_spaced(k: FloatArray, first: int) -> NDArray[np.intp]:
    """Positions of epochs from the first on, as evenly spaced in their logarithm as there are any."""
    if len(k) == 0 or k[-1] <= first:
        return np.array([], dtype=np.intp)
    return np.unique(np.searchsorted(k, np.geomspace(first, k[-1], STRETCHES + 1) * (1.0 - 1e-12)))


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Root mean square of what a line by least squares leaves, and its slope."""
    centred = x - x.mean()
    slope = centred @ y / (centred @ centred)
    left = y - y.mean() - slope * centred
    return float(np.sqrt(np.mean(left**2))), float(slope)


def _slope(errors: FloatArray) -> float:
    """Slope of the line through the points (ln e_k, ln e_{k+1}) by least squares."""
    logarithms = np.log(errors)
    x, y = logarithms[:-1], logarithms[1:]
    if len(x) < 3 or np.ptp(x) == 0.0:
        return float("nan")
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))


@dataclass(frozen=True, slots=True)
class ProximalOrder:
    """Estimated order of the proximal-point algorithm on ``|x|^(2q / (2q - 1))``, over random starts.

    Attributes
    ----------
    q : int
        Parameter of the function.
    expected : int
        The order that can be proved, 2q - 1.
    mean, std : float
        Mean and standard deviation of the estimates.
    """

    q: int
    expected: int
    mean: float
    std: float


def proximal_point_order(
    q: int,
    *,
    n_starts: int = 100,
    dimension: int = 10,
    step: float = 0.1,
    smallest: float = 1e-12,
    random_state: int = 0,
) -> ProximalOrder:
    """Run the paper's example of superlinear convergence: the proximal-point algorithm on ``|x|^(2q / (2q - 1))``.

    The order is estimated from the last three moves before a move is shorter than ``smallest``, where d_k is the length
    of move k, as ``ln(d_k / d_{k-1}) / ln(d_{k-1} / d_{k-2})``.

    Parameters
    ----------
    q : int
        Parameter of the function, at least two.
    n_starts : int
        Random starts, with standard normal entries.
    dimension : int
        Length of x.
    step : float
        λ of the algorithm.
    smallest : float
        Moves shorter than this are left out.
    random_state : int
        Seed of the starts.

    Examples
    --------
    >>> from dconnet.certificates import proximal_point_order
    >>> order = proximal_point_order(2, smallest=1e-200)
    >>> order.expected, round(order.mean, 3)
    (3, 3.0)
    """
    if q < 2:
        raise ValueError(f"q must be at least 2, got {q}.")
    rng = np.random.default_rng(random_state)
    # The iterates stay on the ray of their start, and so their norms say everything.
    norms = np.linalg.norm(rng.standard_normal((n_starts, dimension)), axis=1)
    orders = np.array([_estimated_order(_moves(float(norm), q, step, smallest)) for norm in norms])
    return ProximalOrder(q, 2 * q - 1, float(orders.mean()), float(orders.std(ddof=1)))


def _moves(norm: float, q: int, step: float, smallest: float) -> FloatArray:
    """Lengths of the moves of the algorithm, down to the smallest."""
    moves: list[float] = []
    while True:
        shorter = _proximal_norm(norm, q, step)
        if norm - shorter < smallest:
            return np.array(moves)
        moves.append(norm - shorter)
        norm = shorter


def _proximal_norm(norm: float, q: int, step: float) -> float:
    """Norm t of the next iterate, ``t + c t^(1 / (2q-1)) = norm`` with ``c = 2q step / (2q - 1)``."""
    power = 2 * q - 1
    slope = 2.0 * q * step / power
    # Newton's method for root^power + slope root = norm: from above it descends, the function being convex.
    root = min(norm / slope, norm ** (1.0 / power))
    while True:
        excess = root**power + slope * root - norm
        lower = root - excess / (power * root ** (power - 1) + slope)
        if not 0.0 < lower < root:
            return float(root**power)
        root = lower


def _estimated_order(moves: FloatArray) -> float:
    if len(moves) < 3:
        return float("nan")
    last = np.log(moves[-3:])
    return float((last[2] - last[1]) / (last[1] - last[0]))
