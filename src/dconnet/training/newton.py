"""Newton steps on all weights at once, where every row keeps its side of every neuron, or stays at its kink.

Minima of RegLoss often lie where some rows are at the kinks of some neurons, held there by slopes of both sides. No
gradient method converges fast to such a point, but on the piece of the objective where these rows stay where they are,
and no other row changes sides, F is smooth:

    F(V, alpha) = |y - Σ_l alpha_l A_l Q v_l|² + gamma (|V|² + |alpha|²),    q_j v_l = 0 for the rows j that l holds,

with A_l the diagonal of zeros and ones that says which rows are active. With several outputs, F is the sum of such
squares over the outputs, which share V; the unknowns are V and the output weights of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dconnet._arrays import BoolArray, FloatArray
from dconnet.convex.native import by_output
from dconnet.model.blocks import blocks
from dconnet.model.problem import WhitenedProblem
from dconnet.training.dc import KINK_TOLERANCE

# Multiplications for one step, above which none is tried.
LARGEST_WORK = 5e9

# A held row of which less than this share is new depends on the others.
INDEPENDENT = 1e-9

# Where the Hessian is not positive definite, these shares of its largest entry are added to its diagonal in turn.
SHIFTS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, 10.0, 100.0)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """The piece of F about a network.

    Attributes
    ----------
    alpha : array of shape (n_hidden,) or (n_hidden, n_outputs)
    residual : array of shape (n_rows,) or (n_rows, n_outputs)
    active : array of bool, of shape (n_rows, n_hidden)
        A_l of the text.
    directions : list of arrays of shape (rank, n_free)
        For every neuron, an orthonormal basis of the directions in which the rows that it holds stay at its kink.
    """

    problem: WhitenedProblem
    V: FloatArray
    alpha: FloatArray
    residual: FloatArray
    active: BoolArray
    directions: list[FloatArray]

    @classmethod
    def around(cls, problem: WhitenedProblem, V: FloatArray, alpha: FloatArray, width: float) -> Piece:
        """The piece next to these weights.

        Rows nearer to a kink than ``width``, as a fraction of the neuron's largest preactivation, are taken to it, if
        it is one where a row would stay: the slope rises there.
        """
        Z = problem.preactivations(V)
        residual = problem.y - np.maximum(Z, 0.0) @ alpha
        band = width * np.max(np.abs(Z), axis=0)
        directions = []
        for weight, z, near in zip(alpha, Z.T, band, strict=True):
            held = (np.abs(z) <= near) & ((weight * residual if residual.ndim == 1 else residual @ weight) < 0.0)
            directions.append(_orthogonal_to(problem.Q[held]) if near > 0.0 else np.empty((V.shape[1], 0)))
        V = np.array([basis @ (basis.T @ v) for basis, v in zip(directions, V, strict=True)])
        Z = problem.preactivations(V)
        noise = KINK_TOLERANCE * np.max(np.abs(Z), axis=0)
        return cls(problem, V, alpha, problem.y - np.maximum(Z, 0.0) @ alpha, noise < Z, directions)

    @property
    def n_unknowns(self) -> int:
        """Free directions of all neurons, and the output weights."""
        return self.alpha.size + sum(int(basis.shape[1]) for basis in self.directions)

    @property
    def outputs(self) -> list[tuple[FloatArray, FloatArray, NDArray[np.intp]]]:
        """Of each output the weights (n_hidden,), the residual (n_rows,) and the unknowns that it depends on.

        These are the free directions of all neurons, which come first, and its own output weights.
        """
        n_free = self.n_unknowns - self.alpha.size
        weights, residuals = (by_output(values) for values in (self.alpha, self.residual))
        places = n_free + np.arange(self.alpha.size).reshape(weights.shape)
        free = np.arange(n_free)
        return [(weights[:, k], residuals[:, k], np.append(free, places[:, k])) for k in range(weights.shape[1])]

    def jacobian(self, rows: slice, weights: FloatArray) -> FloatArray:
        """Derivative of the output with these weights in these rows, of shape (n, n_free + n_hidden)."""
        Q, active = self.problem.Q[rows], self.active[rows]
        hidden = [a[:, None] * (Q @ basis) for a, basis in zip(active.T, self.directions, strict=True)]
        weighted = [weight * part for weight, part in zip(weights, hidden, strict=True)]
        return np.column_stack([*weighted, active * (Q @ self.V.T)])

    def gradient_and_hessian(self) -> tuple[FloatArray, FloatArray]:
        """First and second derivatives of F / 2 in the free directions and the output weights."""
        size, gamma = self.n_unknowns, self.problem.gamma
        gradient, hessian = np.zeros(size), gamma * np.eye(size)
        for weights, residual, unknowns in self.outputs:
            pull = np.zeros((self.V.shape[1], len(weights)))  # Qᵀ A_l r of every neuron
            for rows in blocks(len(residual)):
                J, r = self.jacobian(rows, weights), residual[rows]
                gradient[unknowns] -= J.T @ r
                hessian[np.ix_(unknowns, unknowns)] += J.T @ J
                pull += self.problem.Q[rows].T @ (self.active[rows] * r[:, None])
            first = 0
            for unit, basis in enumerate(self.directions):
                own, output = slice(first, first + basis.shape[1]), unknowns[unit - len(weights)]
                # The output is a product of both weights of a neuron: its second derivative meets the residual.
                hessian[own, output] -= basis.T @ pull[:, unit]
                hessian[output, own] = hessian[own, output]
                first = own.stop
        free = [basis.T @ v for basis, v in zip(self.directions, self.V, strict=True)]
        gradient += gamma * np.concatenate([*free, self.alpha.ravel()])
        return gradient, hessian

    def spread(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A step of the unknowns as one of the weights, (V, alpha)."""
        ends = np.cumsum([basis.shape[1] for basis in self.directions])
        parts = np.split(step, ends)
        V = np.array([basis @ part for basis, part in zip(self.directions, parts[:-1], strict=True)])
        return V, parts[-1].reshape(self.alpha.shape)


class _Sized(Protocol):
    """What tells how much work a step is."""

    @property
    def n_rows(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...


def newton_work(problem: _Sized, n_hidden: int) -> float:
    """Multiplications for the Hessian of `newton_step` and its factor, at most."""
    n_rows, rank, n_outputs = problem.n_rows, problem.rank, problem.n_outputs
    products = n_outputs * n_rows * (n_hidden * (rank + 1)) ** 2
    return float(products + (n_hidden * (rank + n_outputs)) ** 3 / 3.0)


def newton_step(
    problem: WhitenedProblem, V: FloatArray, alpha: FloatArray, width: float = KINK_TOLERANCE
) -> tuple[FloatArray, FloatArray] | None:
    """The step of ``V`` (n_hidden, rank) and ``alpha`` to the minimiser of the second-order model of their piece.

    Where the Hessian is not positive definite, its diagonal is raised until it is. Nothing is promised about F, which
    has other pieces. None if the problem is too large.
    """
    if newton_work(problem, len(alpha)) > LARGEST_WORK:
        return None
    piece = Piece.around(problem, V, alpha, width)
    gradient, hessian = piece.gradient_and_hessian()
    largest = float(np.max(np.diag(hessian)))
    for shift in SHIFTS:
        try:
            factor = linalg.cho_factor(hessian + shift * largest * np.eye(len(hessian)), check_finite=False)
        except linalg.LinAlgError:
            continue
        step_V, step_alpha = piece.spread(-linalg.cho_solve(factor, gradient, check_finite=False))
        return piece.V + step_V - V, step_alpha
    return None


def _orthogonal_to(rows: FloatArray) -> FloatArray:
    """Orthonormal basis of the vectors that are orthogonal to the rows, of shape (rank, n_free)."""
    rank = rows.shape[1]
    if len(rows) == 0:
        return np.eye(rank)
    basis, triangle, _ = linalg.qr(rows.T, pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(triangle))
    independent = int(np.count_nonzero(diagonal > INDEPENDENT * diagonal[0]))
    return np.asarray(basis[:, independent:], dtype=np.float64)
