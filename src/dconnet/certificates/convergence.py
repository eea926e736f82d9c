"""Convergence: conditions of the theory along a run, the Kurdyka-Łojasiewicz exponent, and the order of convergence.

A `Trajectory` has the network of every epoch and measures them against the conditions of the theory. The exponent one
half makes the convergence linear. The order of convergence and the law of decay are estimated from RegLoss alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from dconnet._arrays import BoolArray, FloatArray
from dconnet.certificates.stationarity import stationarity, subgradient
from dconnet.model.network import Network
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.training.kinks import KINK_WIDTH
from dconnet.training.newton import Piece
from dconnet.training.result import History

# Differences of RegLoss below this fraction of it are rounding.
REGLOSS_ROUNDING = 1e-13
# Subgradients below this, as a pure number, are rounding.
VANISHED = 1e-11

# Eigenvalues below this fraction of the largest cannot be distinguished from zero.
SINGULAR = 1e-10
# Number of epochs that count as early, as in the paper.
EARLY = 30
# Errors below this fraction of the limit, and decreases below this fraction of the objective, are rounding.
ROUNDING = 1e-14
# A law is fitted to at most STRETCHES ranges of epochs, evenly spaced in their logarithm, and at least LEAST_STRETCHES.
STRETCHES = 60
LEAST_STRETCHES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A condition of the theory, measured over the epochs of a run."""

    ratios: FloatArray  # (n_epochs,), the constant that each epoch allows; NaN if it changed nothing beyond rounding
    measured: float  # the best constant for all epochs; NaN if no epoch allows an estimate
    theoretical: float  # the proved constant; NaN if there is none for the algorithm
    holds: bool  # whether every epoch satisfies the condition with the theoretical constant, up to rounding


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """The networks of a descent: the start and one for each epoch."""

    problem: Problem
    networks: tuple[Network, ...]
    history: History  # with an entry for each network
    algorithm: str  # "paper" or "accelerated"; constants are proved for the former alone
    split: str
    max_dca_iter: int

    def step_norms(self) -> FloatArray:
        """Return the distance of each network from the one before, of shape (n_epochs,)."""
        points = np.array([self.problem.parameters(network) for network in self.networks])
        return np.linalg.norm(np.diff(points, axis=0), axis=1)

    def sufficient_decrease(self) -> Condition:
        """Check condition (H1): every epoch that moves the weights by d lowers RegLoss by at least a d²."""
        constants, squares = self.problem.constants, self.step_norms() ** 2
        decreases = -np.diff(self.history.objective)
        noise = REGLOSS_ROUNDING * self.history.objective[:-1]
        ratios = _divide(decreases, squares, squares * constants.dca_decrease > 100.0 * noise)
        measured = float(np.nanmin(ratios)) if np.isfinite(ratios).any() else float("nan")
        if self.algorithm != "paper":
            return Condition(ratios, measured, float("nan"), holds=False)
        a = constants.sufficient_decrease(self.max_dca_iter, self.split)
        return Condition(ratios, measured, a, bool(np.all(decreases + noise >= a * squares)))

    def relative_error(self) -> Condition:
        """Check condition (H2): after every epoch that moves the weights by d, a subgradient is at most b d long."""
        steps, networks = self.step_norms(), self.networks[1:]
        norms = np.array([subgradient(self.problem, network, self.split).norm for network in networks])
        pure = np.array([stationarity(self.problem, network, self.split).norm for network in networks])
        ratios = _divide(norms, steps, pure > VANISHED)
        measured = float(np.nanmax(ratios)) if np.isfinite(ratios).any() else float("nan")
        if self.algorithm != "paper":
            return Condition(ratios, measured, float("nan"), holds=False)
        b = self.problem.constants.relative_error(self.history.objective[0], self.split)
        return Condition(ratios, measured, b, bool(np.all((norms <= b * steps) | (pure <= VANISHED))))


def _divide(numerator: FloatArray, denominator: FloatArray, is_informative: BoolArray) -> FloatArray:
    """Divide where the epoch is informative; NaN elsewhere."""
    ratios = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=ratios, where=is_informative & (denominator > 0.0))
    return ratios


@dataclass(frozen=True, slots=True, eq=False)
class KLExponent:
    """The two conditions under which RegLoss has the exponent one half at the network.

    ``eigenvalues`` are those of the Hessian of ``m · RegLoss`` in whitened coordinates, ascending. With preactivations
    at zero, it is the Hessian of the smooth part. ``twins`` are pairs of neurons with the same active rows. Rotating
    ``(v_1, v_2)`` and ``(alpha_1, alpha_2)`` by the same angle does not change RegLoss, so the Hessian is singular at a
    stationary point.
    """

    at_zero: int  # preactivations at zero, up to rounding; all of a neuron with zero weights
    margin: float  # the smallest preactivation, relative to the largest one of its neuron
    eigenvalues: FloatArray  # (n_hidden (rank + n_outputs),)
    smallest: float  # eigenvalue nearest zero in the coordinates of the data; zero for dependent features
    twins: tuple[tuple[int, int], ...]

    @property
    def invertible(self) -> bool:
        """Whether the Hessian in whitened coordinates is invertible, up to rounding."""
        sizes = np.abs(self.eigenvalues)
        return bool(sizes.min() > SINGULAR * sizes.max())

    @property
    def negative(self) -> int:
        """Number of negative eigenvalues: directions in which a stationary point would be a maximum."""
        return int(np.count_nonzero(self.eigenvalues < -SINGULAR * np.abs(self.eigenvalues).max()))

    @property
    def holds(self) -> bool:
        """Whether both conditions hold; if not, the exponent may still be one half."""
        return self.at_zero == 0 and self.invertible


def kl_exponent(problem: Problem, network: Network) -> KLExponent:
    """Check the conditions of the paper's proposition on the exponent one half, for a stationary network.

    No preactivation may be zero, and the Hessian must be invertible. The Hessian is checked in whitened coordinates,
    where weights without effect on the data are left out; for features of full rank both conditions are the same.

    Examples
    --------
    >>> from dconnet import Network, Problem
    >>> from dconnet.certificates import kl_exponent
    >>> problem = Problem(X=[[0.0], [1.0], [3.0]], y=[1.0, 2.0, 4.0], gamma=0.1)
    >>> kl_exponent(problem, Network(W=[[1.0]], b=[1.0], alpha=[1.0])).holds
    True
    >>> kl_exponent(problem, Network(W=[[1.0]], b=[-1.0], alpha=[1.0])).at_zero  # at x = 1
    1
    """
    white = problem.whitened
    Z = white.preactivations(white.whiten(network))
    sizes, active = np.abs(Z), Z > 0.0
    largest = np.max(sizes, axis=0)
    relative = np.divide(sizes, largest, out=np.zeros_like(sizes), where=largest > 0.0)
    matrix = _whitened_hessian(white, network)
    of_data = linalg.eigvalsh(_in_data_coordinates(matrix, white, network))
    pairs = combinations(np.flatnonzero(active.any(axis=0)).tolist(), 2)
    return KLExponent(
        at_zero=int(np.count_nonzero(relative <= KINK_WIDTH)),
        margin=float(relative.min()),
        eigenvalues=np.asarray(linalg.eigvalsh(matrix), dtype=np.float64),
        smallest=float(of_data[np.argmin(np.abs(of_data))]),
        twins=tuple((i, k) for i, k in pairs if np.array_equal(active[:, i], active[:, k])),
    )


def hessian(problem: Problem, network: Network) -> FloatArray:
    """Return the Hessian of RegLoss where it is smooth, in the order ``(w_1, b_1, …, w_N, b_N, alpha)`` of the data.

    Rows at their kink count as inactive. With several outputs, the output weights of the first neuron come first, in
    the units of ``problem.output_scale``.
    """
    white = problem.whitened
    return _in_data_coordinates(_whitened_hessian(white, network), white, network)


def _whitened_hessian(white: WhitenedProblem, network: Network) -> FloatArray:
    """Return the Hessian of ``m · RegLoss`` in the order ``(v_1, …, v_N, alpha)``."""
    V, alpha = white.whiten(network), white.output_weights(network)
    free = [np.eye(V.shape[1])] * len(V)
    return 2.0 * Piece(V, alpha, np.zeros(len(V)), free).gradient_and_hessian(white)[1]


def _in_data_coordinates(matrix: FloatArray, white: WhitenedProblem, network: Network) -> FloatArray:
    change = linalg.block_diag(*[white.whitening.to_white] * network.n_hidden, np.eye(network.alpha.size))
    return change.T @ matrix @ change / white.total_weight


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
