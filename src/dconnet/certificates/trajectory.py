"""A descent with the network of every epoch, measured against the conditions of the convergence theory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.certificates.order import EARLY, ConvergenceOrder, convergence_order
from dconnet.certificates.stationarity import Stationarity, Subgradient, stationarity, subgradient
from dconnet.convex.backend import Backend, get_backend
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.model.theory import Constants
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Descent, Options
from dconnet.training.observer import Recorder
from dconnet.training.result import History, Status

ALGORITHMS: dict[str, type[Descent]] = {"accelerated": AcceleratedDescent, "paper": Descent}
COORDINATES = ("data", "whitened")

# Differences of RegLoss below this fraction of it are rounding.
ROUNDING = 1e-13
# Subgradients below this, as a pure number, are rounding.
VANISHED = 1e-11


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
    status: Status
    algorithm: str  # "paper" or "accelerated"
    split: str
    max_dca_iter: int

    def stationarity(self, split: str | None = None, concave: str = "dca") -> tuple[Stationarity, ...]:
        """Return the `stationarity` of every network, by default with the split of the descent."""
        split = self.split if split is None else split
        return tuple(stationarity(self.problem, network, split, concave) for network in self.networks)

    def subgradients(self, split: str | None = None, concave: str = "dca") -> tuple[Subgradient, ...]:
        """Return the `subgradient` of every network, by default with the split of the descent."""
        split = self.split if split is None else split
        return tuple(subgradient(self.problem, network, split, concave) for network in self.networks)

    def order(self, early: int = EARLY) -> ConvergenceOrder:
        """Estimate the order of convergence of RegLoss."""
        return convergence_order(self.history.objective, early=early)

    def step_norms(self, coordinates: str = "data") -> FloatArray:
        """Return the distance of each network from the one before, of shape (n_epochs,)."""
        points = np.array([self._weights(network, coordinates) for network in self.networks])
        steps: FloatArray = np.linalg.norm(np.diff(points, axis=0), axis=1)
        return steps

    def sufficient_decrease(self, coordinates: str = "data") -> Condition:
        """Check condition (H1): every epoch that moves the weights by d lowers RegLoss by at least a d²."""
        constants, squares = self._constants(coordinates), self.step_norms(coordinates) ** 2
        decreases = -np.diff(self.history.objective)
        noise = ROUNDING * self.history.objective[:-1]
        a = constants.sufficient_decrease(self.max_dca_iter) if self._is_proved else float("nan")
        ratios = _ratios(decreases, squares, squares * constants.dca_decrease > 100.0 * noise)
        holds = self._is_proved and bool(np.all(decreases + noise >= a * squares))
        return Condition(ratios, _extreme(np.min, ratios), a, holds)

    def relative_error(self, coordinates: str = "data") -> Condition:
        """Check condition (H2): after every epoch that moves the weights by d, a subgradient is at most b d long."""
        constants, steps = self._constants(coordinates), self.step_norms(coordinates)
        pure = np.array([entry.norm for entry in self.stationarity()[1:]])
        if coordinates == "data":
            norms = np.array([vector.norm for vector in self.subgradients()[1:]])
        else:
            norms = pure * 2.0 * constants.target_norm / constants.total_weight
        b = constants.relative_error(self.history.objective[0], self.split) if self._is_proved else float("nan")
        ratios = _ratios(norms, steps, pure > VANISHED)
        holds = self._is_proved and bool(np.all((norms <= b * steps) | (pure <= VANISHED)))
        return Condition(ratios, _extreme(np.max, ratios), b, holds)

    @property
    def _is_proved(self) -> bool:
        """True if the constants are proved for the distance between the ends of epochs."""
        return self.algorithm == "paper"

    def _constants(self, coordinates: str) -> Constants:
        if coordinates not in COORDINATES:
            raise ValueError(f"coordinates must be one of {COORDINATES}, got {coordinates!r}.")
        return self.problem.constants if coordinates == "data" else self.problem.whitened.constants

    def _weights(self, network: Network, coordinates: str) -> FloatArray:
        if coordinates == "data":
            return self.problem.parameters(network)
        white = self.problem.whitened
        return np.concatenate([white.output_weights(network).ravel(), white.whiten(network).ravel()])


def _ratios(numerator: FloatArray, denominator: FloatArray, informative: NDArray[np.bool_]) -> FloatArray:
    """Divide where the epoch is informative; NaN elsewhere."""
    ratios = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=ratios, where=informative & (denominator > 0.0))
    return ratios


def _extreme(choose: Callable[[FloatArray], np.float64], ratios: FloatArray) -> float:
    """Return the smallest or largest of the ratios that are numbers; NaN if there are none."""
    informative = ratios[~np.isnan(ratios)]
    return float(choose(informative)) if len(informative) else float("nan")


def trace(
    problem: Problem,
    start: Network,
    options: Options | None = None,
    *,
    algorithm: str = "paper",
    solver: str | Backend = "native",
    random_state: int | np.random.Generator = 0,
) -> Trajectory:
    """Run a descent from ``start`` and keep the network of every epoch.

    If features are linearly dependent, the part of the start without effect on the data is removed. ``random_state``
    seeds the order of the neurons, and the search of the accelerated algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import Problem
    >>> from dconnet.certificates import trace
    >>> from dconnet.training.descent import Options
    >>> from dconnet.training.initialization import xavier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 2))
    >>> start = xavier(n_features=2, n_hidden=3, rng=rng)
    >>> trajectory = trace(Problem(X, np.abs(X[:, 0]), gamma=0.1), start, Options(split="net", max_epochs=20))
    >>> len(trajectory.networks), trajectory.sufficient_decrease().holds, trajectory.relative_error().holds
    (21, True, True)
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {sorted(ALGORITHMS)}, got {algorithm!r}.")
    options = Options() if options is None else options
    white = problem.whitened
    if white.whitening.rank < problem.X.shape[1] + 1:
        start = white.network(white.whiten(start), start.alpha)
    descent = ALGORITHMS[algorithm](problem, get_backend(solver), options, np.random.default_rng(random_state))
    recorder = Recorder()
    solution = descent.run(start, observer=recorder)
    return Trajectory(
        problem,
        tuple(recorder.networks),
        solution.history,
        solution.status,
        algorithm,
        options.split,
        options.max_dca_iter,
    )
