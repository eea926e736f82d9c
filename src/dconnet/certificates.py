"""What was reached: how far a network is from the first-order conditions of a stationary point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import lsq_linear

from dconnet._arrays import FloatArray
from dconnet.dc import SPLITS
from dconnet.network import Network
from dconnet.problem import Problem, WhitenedProblem

# Rows whose preactivation is below this fraction of the neuron's largest one count as being at the kink.
KINK_WIDTH = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Stationarity:
    """Norms of a subgradient of ``m · RegLoss`` in whitened coordinates, relative to ``2 |y|``: a pure number.

    Attributes
    ----------
    neurons : array of shape (n_hidden,)
        The block of each hidden neuron.
    output_layer : float
        The block of the output weights.
    """

    neurons: FloatArray
    output_layer: float

    @property
    def norm(self) -> float:
        """Norm of all blocks together."""
        return float(np.hypot(np.linalg.norm(self.neurons), self.output_layer))


def stationarity(problem: Problem, network: Network, split: str = "net") -> Stationarity:
    """Distance of the network from the first-order conditions, block by block.

    For a neuron with the split ``F = g - h``, it is the norm of the shortest vector of the form (subgradient of g)
    minus (the subgradient of h that the DCA takes). With the net split, that is a subgradient of F itself where kinks
    are convex; with the paper's split the condition is weaker, for its g has kinks where F is concave, and a network
    can satisfy it without being stationary.

    Parameters
    ----------
    problem : Problem
        The training problem.
    network : Network
        The network to judge.
    split : {"net", "paper"}
        The DC split whose conditions are checked.
    """
    white = problem.whitened
    V = white.whiten(network)
    Z = white.preactivations(V)
    hidden = np.maximum(Z, 0.0)
    unit = 2.0 * float(np.linalg.norm(white.y)) or 1.0
    neurons = []
    for i, (v, z) in enumerate(zip(V, Z.T, strict=True)):
        betas = SPLITS[split](white.y, hidden, network.alpha, i)
        neurons.append(np.linalg.norm(_shortest_subgradient(white, v, z, network.alpha[i], *betas)) / unit)
    output = 2.0 * (problem.gamma * network.alpha - hidden.T @ (white.y - hidden @ network.alpha))
    return Stationarity(np.array(neurons), float(np.linalg.norm(output)) / unit)


def _shortest_subgradient(
    white: WhitenedProblem,
    v: FloatArray,
    z: FloatArray,
    alpha: float,
    beta_g: FloatArray,
    beta_h: FloatArray,
) -> FloatArray:
    """Shortest difference of subgradients of g and h with respect to the weights of one neuron."""
    width = KINK_WIDTH * float(np.max(np.abs(z)))
    at_kink = np.abs(z) <= width
    slope = np.where(z > width, beta_g, 0.0) - np.where(z >= -width, beta_h, 0.0)
    fixed = white.Q.T @ (slope + 2.0 * alpha**2 * np.maximum(z, 0.0)) + 2.0 * white.gamma * v
    free = at_kink & (beta_g > 0.0)
    if not free.any():
        return fixed
    columns = white.Q[free].T * beta_g[free]  # (rank, kinked rows)
    # Few kinked rows are solved exactly; at a dead neuron all rows are, and an iterative method must do.
    method: Literal["bvls", "trf"] = "bvls" if columns.shape[1] <= 4 * columns.shape[0] else "trf"
    share = lsq_linear(columns, -fixed, bounds=(0.0, 1.0), method=method, tol=1e-14).x
    return fixed + columns @ share
