"""First-order conditions of a network, local optimality of every neuron in its own subproblem, and dead neurons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet.model.network import Network
from dconnet.model.piecewise import active_neurons
from dconnet.model.problem import Problem, WhitenedProblem, hidden_layer
from dconnet.training.kinks import Kinks, kinks_of
from dconnet.training.row_work import DataProblem

CONCAVE = ("dca", "best")


@dataclass(frozen=True, slots=True, eq=False)
class Stationarity:
    """Norms of a subgradient of ``m · RegLoss`` in whitened coordinates, divided by ``2 |y|``."""

    neurons: FloatArray  # (n_hidden,), the block of each hidden neuron
    output_layer: float  # the block of the output weights

    @property
    def norm(self) -> float:
        """Norm of all blocks together."""
        return float(np.hypot(np.linalg.norm(self.neurons), self.output_layer))


@dataclass(frozen=True, slots=True, eq=False)
class Subgradient:
    """A subgradient of RegLoss in the coordinates ``(W, b)`` and ``alpha`` of the data, as the paper plots its norm.

    ``limiting`` is True for neurons whose block is proved to belong to the limiting subdifferential of RegLoss, for
    example if no row is at the kink.
    """

    hidden: FloatArray  # (n_hidden, n_features + 1), entries for the weights and, in the last column, the intercept
    output: FloatArray  # shape of alpha, entries for the output weights, in units of ``problem.output_scale``
    limiting: BoolArray  # (n_hidden,)

    @property
    def neurons(self) -> FloatArray:
        """Norm of the block of each neuron, of shape (n_hidden,)."""
        return np.linalg.norm(self.hidden, axis=1)

    @property
    def output_layer(self) -> float:
        """Norm of the block of the output weights."""
        return float(np.linalg.norm(self.output))

    @property
    def norm(self) -> float:
        """Norm of all blocks together."""
        return float(np.hypot(np.linalg.norm(self.hidden), self.output_layer))


def stationarity(problem: DataProblem, network: Network, split: str = "net", concave: str = "dca") -> Stationarity:
    """Measure the distance of the network from the first-order conditions, block by block.

    For a neuron with the split ``F = g - h``, it is the norm of the shortest vector of the form (subgradient of g)
    minus (subgradient of h). With the net split, this is a subgradient of F itself where kinks are convex. The paper's
    split gives a weaker condition, which a network can satisfy without being stationary.

    Parameters
    ----------
    problem, network :
        The training problem and the network.
    split : {"net", "paper"}
        The DC split whose conditions are checked.
    concave : {"dca", "best"}
        The subgradient of h for rows at a concave kink. "dca" takes that of the DCA: zero means that the DCA has
        converged. "best" takes the one with the shortest result, if at most eight rows leave a choice: zero means that
        the network is limiting-critical, although F may still descend.

    Examples
    --------
    >>> from dconnet import Network, Problem
    >>> from dconnet.certificates import stationarity
    >>> problem = Problem(X=[[1.0], [2.0]], y=[1.0, 2.0], gamma=1e-9)
    >>> stationarity(problem, Network(W=[[1.0]], b=[0.0], alpha=[1.0])).norm < 1e-8  # fits exactly
    True
    """
    kinks, output = _first_order(problem.whitened, network, split)
    unit = 2.0 * problem.whitened.target_norm or 1.0
    neurons = [np.linalg.norm(_shortest(each, concave)[0]) / unit for each in kinks]
    return Stationarity(np.array(neurons), float(np.linalg.norm(output)) / unit)


def subgradient(problem: Problem, network: Network, split: str = "net", concave: str = "dca") -> Subgradient:
    """Return the shortest subgradient of RegLoss, block by block, in the coordinates of the data.

    This is the vector v(θ, ε_g, ε_h) of the paper's proposition on the limiting subdifferential: ε_g solves a
    least-squares problem over a box, and ε_h is one with ``concave="dca"``. The paper's convergence plots use
    ``split="paper"``; with the net split the vector is a limiting subgradient in all but degenerate cases. The
    parameters are those of `stationarity`.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import Network, Problem
    >>> from dconnet.certificates import subgradient
    >>> problem = Problem(X=[[1.0], [2.0]], y=[1.0, 1.0], gamma=0.5)
    >>> vector = subgradient(problem, Network(W=[[1.0]], b=[0.0], alpha=[1.0]))
    >>> vector.hidden.round(6), vector.output.round(6), vector.limiting
    (array([[4.5, 2.5]]), array([2.5]), array([ True]))
    """
    white = problem.whitened
    matrix = white.whitening.to_white.T / white.total_weight  # the gradient in u of F(R u) / m
    kinks, output = _first_order(white, network, split)
    shortest = [_shortest(each, concave, matrix) for each in kinks]
    hidden, limiting = (np.array(part) for part in zip(*shortest, strict=True))
    return Subgradient(hidden, output / white.total_weight, limiting)


def _first_order(white: WhitenedProblem, network: Network, split: str) -> tuple[Iterator[Kinks], FloatArray]:
    """Return the kinks of every neuron, and the gradient of ``m · RegLoss`` in the output weights."""
    V, alpha = white.whiten(network), white.output_weights(network)
    half = white.merge_leaves(_output_gradient, np.add, V, alpha) + white.gamma * alpha
    return kinks_of(white, V, alpha, split), 2.0 * half


def _output_gradient(Q: FloatArray, y: FloatArray, V: FloatArray, alpha: FloatArray) -> FloatArray:
    """Return half of the gradient of the squared error of some rows in the output weights."""
    hidden = hidden_layer(Q, V)
    return hidden.T @ (hidden @ alpha - y)


def _shortest(kinks: Kinks, concave: str, matrix: FloatArray | None = None) -> tuple[FloatArray, bool]:
    """Return the shortest subgradient of a block, and whether it is proved to be a limiting one."""
    if concave not in CONCAVE:
        raise ValueError(f"concave must be one of {CONCAVE}, got {concave!r}.")
    mapped = kinks if matrix is None else kinks.in_coordinates(matrix)
    tangents = list(kinks.tangents()) if concave == "best" else [np.ones(len(kinks.rows))]
    candidates = [mapped.slopes(tangent) for tangent in tangents]
    slopes = min(candidates, key=lambda slopes: float(np.linalg.norm(mapped.subgradient(slopes))))
    return mapped.subgradient(slopes), kinks.are_limiting(slopes)


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
    choices: IndexArray  # (n_hidden,), rows at a concave kink; each doubles the number of tangents
    complete: BoolArray  # (n_hidden,), whether all tangents were tried
    tol: float  # distance up to which a tangent counts as a subgradient of g

    @property
    def verdicts(self) -> tuple[str, ...]:
        """One of "local minimum", "not stationary", "saddle" and "undecided" for every neuron.

        At a saddle the DCA has converged, but another tangent of h leads down.
        """
        if_no_tangent_leads_down = np.where(self.complete, "local minimum", "undecided")
        if_stationary = np.where(self.worst > self.tol, "saddle", if_no_tangent_leads_down)
        return tuple(np.where(self.dca > self.tol, "not stationary", if_stationary).tolist())

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
