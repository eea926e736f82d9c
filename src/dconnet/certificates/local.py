"""Whether every neuron is at a local minimum of its own subproblem, and which neurons are dead."""

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
    """Which neurons contribute nothing, measured against the targets; see `active_neurons`. Of shape (n_hidden,)."""
    whole = float(np.sqrt(problem.zero_objective))
    return ~active_neurons(
        network, problem.X, sample_weight=problem.sample_weight, whole=whole, scale=problem.output_scale
    )


@dataclass(frozen=True, slots=True, eq=False)
class LocalOptimality:
    """The test ∂h ⊆ ∂g for the DC subproblem of every neuron.

    It holds exactly if the neuron is a local minimiser of RegLoss in its own weights, whatever the split; the net split
    leaves the fewest tangents of h to try. Distances are in whitened coordinates, relative to ``2 |y|``.

    Attributes
    ----------
    dca : array of shape (n_hidden,)
        Distance of the tangent of h that the DCA takes from ∂g; zero if the DCA stands still.
    worst : array of shape (n_hidden,)
        Largest distance of any tangent of h from ∂g, among those tried.
    choices : array of int, of shape (n_hidden,)
        Rows at a concave kink, each of which doubles the number of tangents.
    complete : array of bool, of shape (n_hidden,)
        Whether all tangents were tried.
    tol : float
        Distance up to which a tangent counts as a subgradient of g.
    """

    dca: FloatArray
    worst: FloatArray
    choices: NDArray[np.intp]
    complete: BoolArray
    tol: float

    @property
    def verdicts(self) -> tuple[str, ...]:
        """One of "local minimum", "not stationary", "saddle" and "undecided" for every neuron.

        A saddle is a neuron that holds the DCA, but from which another tangent of h leads down.
        """
        return tuple(map(self._verdict, self.dca, self.worst, self.complete))

    def _verdict(self, dca: float, worst: float, complete: bool) -> str:
        if dca > self.tol:
            return "not stationary"
        if worst > self.tol:
            return "saddle"
        return "local minimum" if complete else "undecided"

    def count(self, verdict: str) -> int:
        """Number of neurons with this verdict."""
        return self.verdicts.count(verdict)


def local_optimality(problem: Problem, network: Network, tol: float = 1e-4) -> LocalOptimality:
    """Test for every neuron whether all tangents of h are subgradients of g.

    The distance of a tangent from ∂g is convex in it, and so the largest is found at an extreme tangent, where every
    row at a concave kink is either active or not. All of them are tried for up to eight such rows.

    Parameters
    ----------
    problem : Problem
        The training problem.
    network : Network
        The network to judge.
    tol : float
        Distance, as a pure number, up to which a tangent counts as a subgradient of g.

    Examples
    --------
    >>> from dconnet import Network, Problem
    >>> from dconnet.certificates import local_optimality
    >>> problem = Problem(X=[[0.0], [1.0], [2.0]], y=[1.0, 0.5, 0.0], gamma=1e-6)
    >>> local_optimality(problem, Network(W=[[-0.5]], b=[1.0], alpha=[1.0])).verdicts
    ('local minimum',)
    """
    white = problem.whitened
    V = white.whiten(network)
    unit = 2.0 * float(np.linalg.norm(white.y)) or 1.0
    blocks = [kinks.net() for kinks in kinks_of(white, V, white.output_weights(network), "net")]
    found = [kinks.steepest() for kinks in blocks]
    return LocalOptimality(
        dca=np.array([steepest.dca / unit for steepest in found]),
        worst=np.array([steepest.worst / unit for steepest in found]),
        choices=np.array([np.count_nonzero(kinks.open) for kinks in blocks], dtype=np.intp),
        complete=np.array([steepest.complete for steepest in found]),
        tol=tol,
    )
