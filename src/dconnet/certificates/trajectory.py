"""A run with all its networks, measured against the conditions of the convergence theory."""

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
from dconnet.training.result import History, Status

ALGORITHMS: dict[str, type[Descent]] = {"accelerated": AcceleratedDescent, "paper": Descent}
COORDINATES = ("data", "whitened")

# Differences of RegLoss below this fraction of it are rounding.
ROUNDING = 1e-13
# Subgradients below this, as a pure number, are rounding.
VANISHED = 1e-11


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A condition of the theory, measured over the epochs of a run.

    Attributes
    ----------
    ratios : array of shape (n_epochs,)
        What each epoch allows for the constant; NaN where the epoch moved nothing that rounding could not have moved.
    measured : float
        The best constant for the whole run; NaN if no epoch allows an estimate.
    theoretical : float
        The constant that is proved; NaN if there is none for the algorithm.
    holds : bool
        Whether every epoch satisfies the condition with the theoretical constant, rounding aside.
    """

    ratios: FloatArray
    measured: float
    theoretical: float
    holds: bool


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """The networks of a run, the start and one for each epoch.

    Attributes
    ----------
    problem : Problem
        The training problem.
    networks : tuple of Network
        The start, and the network after each epoch.
    history : History
        The record of the run, with an entry for each network.
    status : Status
        Why the run ended.
    algorithm : str
        "paper" or "accelerated".
    split : str
        DC split of the run.
    max_dca_iter : int
        Limit on the DCA iterations for a neuron in an epoch.
    """

    problem: Problem
    networks: tuple[Network, ...]
    history: History
    status: Status
    algorithm: str
    split: str
    max_dca_iter: int

    def stationarity(self, split: str | None = None, concave: str = "dca") -> tuple[Stationarity, ...]:
        """`stationarity` of every network, by default with the split of the run."""
        split = self.split if split is None else split
        return tuple(stationarity(self.problem, network, split, concave) for network in self.networks)

    def subgradients(self, split: str | None = None, concave: str = "dca") -> tuple[Subgradient, ...]:
        """`subgradient` of every network, by default with the split of the run; the paper plots their norms."""
        split = self.split if split is None else split
        return tuple(subgradient(self.problem, network, split, concave) for network in self.networks)

    def order(self, early: int = EARLY) -> ConvergenceOrder:
        """Estimated order of convergence of RegLoss."""
        return convergence_order(self.history.objective, early=early)

    def step_norms(self, coordinates: str = "data") -> FloatArray:
        """Distance of each network from the one before, of shape (n_epochs,)."""
        points = np.array([self._weights(network, coordinates) for network in self.networks])
        steps: FloatArray = np.linalg.norm(np.diff(points, axis=0), axis=1)
        return steps

    def sufficient_decrease(self, coordinates: str = "data") -> Condition:
        """Condition (H1): every epoch that moves the weights by d lowers RegLoss by at least a d².

        Parameters
        ----------
        coordinates : {"data", "whitened"}
            Where distances are measured.
        """
        squares = self.step_norms(coordinates) ** 2
        decreases = -np.diff(self.history.objective)
        noise = ROUNDING * self.history.objective[:-1]
        a = self._constants(coordinates).sufficient_decrease(self.max_dca_iter) if self._proved else float("nan")
        ratios = _ratios(decreases, squares, squares * self._constants(coordinates).dca_decrease > 100.0 * noise)
        holds = self._proved and bool(np.all(decreases + noise >= a * squares))
        return Condition(ratios, _extreme(np.min, ratios), a, holds)

    def relative_error(self, coordinates: str = "data") -> Condition:
        """Condition (H2): after every epoch that moves the weights by d, a subgradient is not longer than b d.

        Parameters
        ----------
        coordinates : {"data", "whitened"}
            Where distances and subgradients are measured.
        """
        steps, constants = self.step_norms(coordinates), self._constants(coordinates)
        pure = np.array([entry.norm for entry in self.stationarity()[1:]])
        if coordinates == "data":
            norms = np.array([vector.norm for vector in self.subgradients()[1:]])
        else:
            norms = pure * 2.0 * constants.target_norm / constants.total_weight
        b = constants.relative_error(self.history.objective[0], self.split) if self._proved else float("nan")
        ratios = _ratios(norms, steps, pure > VANISHED)
        holds = self._proved and bool(np.all((norms <= b * steps) | (pure <= VANISHED)))
        return Condition(ratios, _extreme(np.max, ratios), b, holds)

    @property
    def _proved(self) -> bool:
        """Whether the constants are proved for the distance between the ends of epochs."""
        return self.algorithm == "paper"

    def _constants(self, coordinates: str) -> Constants:
        if coordinates not in COORDINATES:
            raise ValueError(f"coordinates must be one of {COORDINATES}, got {coordinates!r}.")
        return self.problem.constants if coordinates == "data" else self.problem.whitened.constants

    def _weights(self, network: Network, coordinates: str) -> FloatArray:
        self._constants(coordinates)
        if coordinates == "data":
            return self.problem.parameters(network)
        white = self.problem.whitened
        return np.concatenate([white.output_weights(network).ravel(), white.whiten(network).ravel()])


def _ratios(numerator: FloatArray, denominator: FloatArray, telling: NDArray[np.bool_]) -> FloatArray:
    """Quotients where the epoch is informative, NaN elsewhere."""
    ratios = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=ratios, where=telling & (denominator > 0.0))
    return ratios


def _extreme(choose: Callable[[FloatArray], np.float64], ratios: FloatArray) -> float:
    """The smallest or largest of the ratios that are numbers; NaN if there are none."""
    telling = ratios[~np.isnan(ratios)]
    return float(choose(telling)) if len(telling) else float("nan")


def trace(
    problem: Problem,
    start: Network,
    options: Options | None = None,
    *,
    algorithm: str = "paper",
    solver: str | Backend = "native",
    random_state: int | np.random.Generator = 0,
) -> Trajectory:
    """Descend from ``start`` and keep the network of every epoch.

    Parameters
    ----------
    problem : Problem
        The training problem.
    start : Network
        Where to begin. If features are linearly dependent, the part of its weights without effect is taken out.
    options : Options, optional
        Limits and choices of the descent.
    algorithm : {"paper", "accelerated"}
        Which descent.
    solver : str or Backend
        Solver of the convex programmes.
    random_state : int or numpy.random.Generator
        Seed of the order of the neurons, and of the search of the accelerated algorithm.

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
    >>> run = trace(Problem(X, np.abs(X[:, 0]), gamma=0.1), start, Options(split="net", max_epochs=20))
    >>> len(run.networks), run.sufficient_decrease().holds, run.relative_error().holds
    (21, True, True)
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {sorted(ALGORITHMS)}, got {algorithm!r}.")
    options = Options() if options is None else options
    white = problem.whitened
    if white.whitening.rank < problem.X.shape[1] + 1:
        start = white.network(white.whiten(start), start.alpha)
    descent = ALGORITHMS[algorithm](problem, get_backend(solver), options, np.random.default_rng(random_state))
    networks: list[Network] = []
    solution = descent.run(start, visit=networks.append)
    return Trajectory(
        problem, tuple(networks), solution.history, solution.status, algorithm, options.split, options.max_dca_iter
    )
