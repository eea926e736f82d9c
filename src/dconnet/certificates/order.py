"""How fast a sequence converges: its order, estimated, and an example whose order is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray

EARLY = 30

# Errors below this fraction of the limit are rounding.
ROUNDING = 1e-14


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
    """

    early: float
    all: float
    errors: FloatArray
    n_early: int = EARLY


def convergence_order(objective: ArrayLike, *, limit: float | None = None, early: int = EARLY) -> ConvergenceOrder:
    """Estimate the order of convergence of a sequence of objective values.

    One is linear convergence, two quadratic. The limit is not known as a rule, and the last value stands for it, which
    bends the last points downwards; the estimate for all epochs means little before the descent has converged.

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
    values = np.asarray(objective, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError("objective must be a sequence of finite numbers, one for each epoch.")
    if early < 1:
        raise ValueError(f"early must be at least 1, got {early}.")
    if len(values) == 0:
        return ConvergenceOrder(float("nan"), float("nan"), values, early)
    target = float(values[-1]) if limit is None else float(limit)
    errors = np.abs(values - target)
    rounding = np.flatnonzero(errors <= ROUNDING * abs(target))
    errors = errors[: rounding[0]] if len(rounding) else errors
    return ConvergenceOrder(_slope(errors[: early + 1]), _slope(errors), errors, early)


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
