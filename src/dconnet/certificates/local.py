"""Local optimality of every neuron in its own subproblem, and dead neurons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet.model.network import Network
from dconnet.model.piecewise import active_neurons
from dconnet.model.problem import Problem
from dconnet.training.kinks import kinks_of


def dead_neurons(problem: Problem, network: Network) -> BoolArray:
    """Return which neurons contribute nothing compared with the targets, of shape (n_hidden,); see `active_neurons`."""
    whole = float(np.sqrt(problem.zero_objective))
    return ~active_neurons(
        network, problem.X, sample_weight=problem.sample_weight, whole=whole, scale=problem.output_scale
    )


@dataclass(frozen=True, slots=True, eq=False)
class LocalOptimality:
    """The test ∂h ⊆ ∂g for the DC subproblem of every neuron.

    It holds exactly if the neuron is a local minimiser of RegLoss in its own weights, for every split. Distances are in
    whitened coordinates, relative to ``2 |y|``.
    """

    dca: FloatArray  # (n_hidden,), distance from ∂g of the tangent of h that the DCA takes; zero if it has converged
    worst: FloatArray  # (n_hidden,), largest distance from ∂g of the tangents of h that were tried
    choices: NDArray[np.intp]  # (n_hidden,), rows at a concave kink; each doubles the number of tangents
    complete: BoolArray  # (n_hidden,), whether all tangents were tried
    tol: float  # distance up to which a tangent counts as a subgradient of g

    @property
    def verdicts(self) -> tuple[str, ...]:
        """One of "local minimum", "not stationary", "saddle" and "undecided" for every neuron.

        At a saddle the DCA has converged, but another tangent of h leads down.
        """
        return tuple(map(self._verdict, self.dca, self.worst, self.complete))

    def _verdict(self, dca: float, worst: float, complete: bool) -> str:
        if dca > self.tol:
            return "not stationary"
        if worst > self.tol:
            return "saddle"
        return "local minimum" if complete else "undecided"

    def count(self, verdict: str) -> int:
        """Return the number of neurons with this verdict."""
        return self.verdicts.count(verdict)


def local_optimality(problem: Problem, network: Network, tol: float = 1e-4) -> LocalOptimality:
    """Test for every neuron whether all tangents of h are subgradients of g, up to the relative distance ``tol``.

    The distance of a tangent from ∂g is convex in the tangent. The largest is therefore attained where every row at a
    concave kink is either active or not. All combinations are tried for up to eight such rows.

    Examples
    --------
    >>> from dconnet import Network, Problem
    >>> from dconnet.certificates import local_optimality
    >>> problem = Problem(X=[[0.0], [1.0], [2.0]], y=[1.0, 0.5, 0.0], gamma=1e-6)
    >>> local_optimality(problem, Network(W=[[-0.5]], b=[1.0], alpha=[1.0])).verdicts
    ('local minimum',)
    """
    white = problem.whitened
    unit = 2.0 * white.target_norm or 1.0
    kinks = [each.net() for each in kinks_of(white, white.whiten(network), white.output_weights(network), "net")]
    steepest = [each.steepest() for each in kinks]
    return LocalOptimality(
        dca=np.array([each.dca / unit for each in steepest]),
        worst=np.array([each.worst / unit for each in steepest]),
        choices=np.array([np.count_nonzero(each.open) for each in kinks], dtype=np.intp),
        complete=np.array([each.complete for each in steepest]),
        tol=tol,
    )
