"""The Kurdyka-Łojasiewicz exponent one half, which makes the convergence linear."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray
from dconnet.model.network import Network
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.training.kinks import KINK_WIDTH
from dconnet.training.newton import LocalPieceRows, Piece, PieceShape

# Eigenvalues below this fraction of the largest cannot be distinguished from zero.
SINGULAR = 1e-10


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
    piece = Piece(LocalPieceRows(white), PieceShape(V, alpha, np.zeros(len(V)), free))
    return 2.0 * piece.gradient_and_hessian()[1]


def _in_data_coordinates(matrix: FloatArray, white: WhitenedProblem, network: Network) -> FloatArray:
    change = linalg.block_diag(*[white.whitening.to_white] * network.n_hidden, np.eye(network.alpha.size))
    result: FloatArray = change.T @ matrix @ change / white.total_weight
    return result
