"""A descent with the network of every epoch, measured against the conditions of the convergence theory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._arrays import BoolArray, FloatArray
from dconnet.certificates.stationarity import stationarity, subgradient
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.result import History

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
    algorithm: str  # "paper" or "accelerated"; constants are proved for the former alone
    split: str
    max_dca_iter: int

    def step_norms(self) -> FloatArray:
        """Return the distance of each network from the one before, of shape (n_epochs,)."""
        points = np.array([self.problem.parameters(network) for network in self.networks])
        steps: FloatArray = np.linalg.norm(np.diff(points, axis=0), axis=1)
        return steps

    def sufficient_decrease(self) -> Condition:
        """Check condition (H1): every epoch that moves the weights by d lowers RegLoss by at least a d²."""
        constants, squares = self.problem.constants, self.step_norms() ** 2
        decreases = -np.diff(self.history.objective)
        noise = ROUNDING * self.history.objective[:-1]
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
