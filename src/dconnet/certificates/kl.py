"""The Kurdyka-Łojasiewicz exponent one half, which makes the convergence linear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dconnet._arrays import FloatArray
from dconnet.model.network import Network
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.training.kinks import KINK_WIDTH
from dconnet.training.newton import LocalPieceRows, Piece, PieceShape

# Eigenvalues below this fraction of the largest cannot be told from zero.
SINGULAR = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class KLExponent:
    """The two conditions under which RegLoss has the exponent one half at the network.

    Attributes
    ----------
    at_zero : int
        Preactivations at zero, up to rounding. A neuron with zero weights has all of its own there.
    margin : float
        The smallest preactivation, relative to the largest one of its neuron.
    eigenvalues : array of shape (n_hidden (rank + n_outputs),)
        Those of the Hessian of ``m · RegLoss`` in whitened coordinates, from the smallest to the largest; of the
        smooth part, if preactivations are at zero.
    smallest : float
        The eigenvalue with the smallest absolute value of the Hessian of RegLoss in the coordinates of the data, where
        dependent features make it zero.
    twins : tuple of pairs of int
        Neurons with the same active rows. The pair can be rotated, ``(v_1, v_2)`` and ``(alpha_1, alpha_2)`` by the
        same angle, without any change of RegLoss, and so the Hessian is singular at a stationary point.
    """

    at_zero: int
    margin: float
    eigenvalues: FloatArray
    smallest: float
    twins: tuple[tuple[int, int], ...]

    @property
    def invertible(self) -> bool:
        """Whether the Hessian in whitened coordinates is invertible, as far as rounding can tell."""
        sizes = np.abs(self.eigenvalues)
        return bool(sizes.min() > SINGULAR * sizes.max())

    @property
    def negative(self) -> int:
        """Number of negative eigenvalues: directions in which a stationary point would be a maximum."""
        return int(np.count_nonzero(self.eigenvalues < -SINGULAR * np.abs(self.eigenvalues).max()))

    @property
    def holds(self) -> bool:
        """Whether both conditions hold; if they do not, the exponent may still be one half."""
        return self.at_zero == 0 and self.invertible


def kl_exponent(problem: Problem, network: Network) -> KLExponent:
    """Check the conditions of the paper's proposition on the exponent one half.

    They are meant for a stationary point, and are that no preactivation is zero and that the Hessian is invertible. The
    Hessian is judged in whitened coordinates: for features of full rank both are the same, and otherwise the weights
    that have no effect on the data are left out.

    Parameters
    ----------
    problem : Problem
        The training problem.
    network : Network
        A stationary network.

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
    sizes = np.abs(Z)
    largest = np.max(sizes, axis=0)
    relative = np.divide(sizes, largest, out=np.zeros_like(sizes), where=largest > 0.0)
    matrix = whitened_hessian(white, network)
    return KLExponent(
        at_zero=int(np.count_nonzero(relative <= KINK_WIDTH)),
        margin=float(relative.min()),
        eigenvalues=_eigenvalues(matrix),
        smallest=_nearest_zero(_eigenvalues(_in_data_coordinates(matrix, white, network))),
        twins=_twins(Z > 0.0),
    )


def hessian(problem: Problem, network: Network) -> FloatArray:
    """Hessian of RegLoss where it is smooth, in the order ``(w_1, b_1, …, w_N, b_N, alpha)`` of the data.

    Rows at their kink count as inactive. Of several outputs, those of the first neuron come first; they are in the
    units of ``output_scale`` of the problem.
    """
    white = problem.whitened
    return _in_data_coordinates(whitened_hessian(white, network), white, network)


def whitened_hessian(white: WhitenedProblem, network: Network) -> FloatArray:
    """Hessian of ``m · RegLoss`` in the order ``(v_1, …, v_N, alpha)``, square of n_hidden (rank + n_outputs)."""
    V, alpha = white.whiten(network), white.output_weights(network)
    free = [np.eye(V.shape[1])] * len(V)
    piece = Piece(LocalPieceRows(white), PieceShape(V, alpha, np.zeros(len(V)), free))
    return 2.0 * piece.gradient_and_hessian()[1]


def _in_data_coordinates(matrix: FloatArray, white: WhitenedProblem, network: Network) -> FloatArray:
    change = linalg.block_diag(*[white.whitening.to_white] * network.n_hidden, np.eye(network.alpha.size))
    result: FloatArray = change.T @ matrix @ change / white.total_weight
    return result


def _eigenvalues(matrix: FloatArray) -> FloatArray:
    eigenvalues: FloatArray = np.asarray(linalg.eigvalsh(matrix), dtype=np.float64)
    return eigenvalues


def _nearest_zero(eigenvalues: FloatArray) -> float:
    return float(eigenvalues[np.argmin(np.abs(eigenvalues))])


def _twins(active: NDArray[np.bool_]) -> tuple[tuple[int, int], ...]:
    """Pairs of columns that are equal and not empty."""
    n_hidden = active.shape[1]
    pairs = ((i, k) for i in range(n_hidden) for k in range(i + 1, n_hidden))
    return tuple((i, k) for i, k in pairs if active[:, i].any() and np.array_equal(active[:, i], active[:, k]))
