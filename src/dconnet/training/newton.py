"""Newton steps on all weights at once, on a smooth piece of the objective.

Minima of RegLoss often lie where some rows are held at the kinks of some neurons by the slopes of both sides. Gradient
methods converge slowly there. While these rows stay at their kinks, and no other row changes sides, F is smooth:

    F(V, alpha) = |y - Σ_l alpha_l A_l Q v_l|² + gamma (|V|² + |alpha|²),    q_j v_l = 0 for the rows j that l holds,

with A_l the diagonal matrix of the active rows. With several outputs, F is the sum of such squares over the outputs,
which share V; the unknowns are V and the output weights of all outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray, IndexArray
from dconnet.convex.native import as_columns
from dconnet.model.problem import WhitenedProblem
from dconnet.training.dc import KINK_TOLERANCE
from dconnet.training.kinks import largest_preactivations

# Largest number of multiplications of a step.
LARGEST_WORK = 5e9

# Relative size of a diagonal entry of R below which held rows count as dependent.
INDEPENDENT = 1e-9

# Shifts of the diagonal, as fractions of its largest entry, tried until the Hessian is positive definite.
SHIFTS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0, 10.0, 100.0)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A piece of F around a network."""

    V: FloatArray  # (n_hidden, rank), with held rows exactly at their kinks
    alpha: FloatArray  # (n_hidden,) or (n_hidden, n_outputs)
    noise: FloatArray  # (n_hidden,); a row is active if its preactivation is larger
    directions: list[FloatArray]  # (rank, n_free) for every neuron, orthonormal, in which held rows stay at the kink

    @classmethod
    def around(cls, problem: WhitenedProblem, V: FloatArray, alpha: FloatArray, width: float) -> Piece:
        """Return the piece next to these weights.

        Rows nearer to a convex kink than ``width``, as a fraction of the neuron's largest preactivation, are moved to
        the kink.
        """
        band = width * problem.merge_leaves(largest_preactivations, np.maximum, V)
        held = problem.merge_leaves(_held_rows, _concatenate_rows, V, alpha, band)
        directions = [
            orthogonal_to(own) if near > 0.0 else np.empty((V.shape[1], 0))
            for own, near in zip(held, band, strict=True)
        ]
        V = np.array([basis @ (basis.T @ v) for basis, v in zip(directions, V, strict=True)])
        noise = KINK_TOLERANCE * problem.merge_leaves(largest_preactivations, np.maximum, V)
        return cls(V, alpha, noise, directions)

    @property
    def n_unknowns(self) -> int:
        """Number of free directions of all neurons and output weights."""
        return self.alpha.size + sum(int(basis.shape[1]) for basis in self.directions)

    @property
    def outputs(self) -> list[tuple[FloatArray, IndexArray]]:
        """Weights (n_hidden,) of each output, and the indices of its unknowns.

        These are the free directions of all neurons, followed by its own output weights.
        """
        n_free = self.n_unknowns - self.alpha.size
        weights = as_columns(self.alpha)
        places = n_free + np.arange(self.alpha.size).reshape(weights.shape)
        free = np.arange(n_free)
        return [(weights[:, k], np.append(free, places[:, k])) for k in range(weights.shape[1])]

    def gradient_and_hessian(self, problem: WhitenedProblem) -> tuple[FloatArray, FloatArray]:
        """Return gradient and Hessian of F / 2 in the free directions and the output weights."""
        sums = problem.merge_leaves(_derivatives, np.add, self)
        free = [basis.T @ v for basis, v in zip(self.directions, self.V, strict=True)]
        gradient = sums[0] + problem.gamma * np.concatenate([*free, self.alpha.ravel()])
        return gradient, sums[1:] + problem.gamma * np.eye(self.n_unknowns)

    def unpack(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Convert a step of the unknowns to a step of (V, alpha)."""
        ends = np.cumsum([basis.shape[1] for basis in self.directions])
        parts = np.split(step, ends)
        V = np.array([basis @ part for basis, part in zip(self.directions, parts[:-1], strict=True)])
        return V, parts[-1].reshape(self.alpha.shape)


def _held_rows(Q: FloatArray, y: FloatArray, V: FloatArray, alpha: FloatArray, band: FloatArray) -> list[FloatArray]:
    """Return for every neuron the rows within its band whose kink is convex."""
    Z = (V @ Q.T).T
    residual = y - np.maximum(Z, 0.0) @ alpha
    pulls = (residual[:, None] * alpha if residual.ndim == 1 else residual @ alpha.T).T
    return [
        Q[(np.abs(z) <= near) & (pull < 0.0)] if near > 0.0 else Q[:0]
        for z, near, pull in zip(Z.T, band, pulls, strict=True)
    ]


def _concatenate_rows(above: list[FloatArray], below: list[FloatArray]) -> list[FloatArray]:
    return [np.concatenate(own) for own in zip(above, below, strict=True)]


def _derivatives(Q: FloatArray, y: FloatArray, piece: Piece) -> FloatArray:
    """Return the contribution of rows to the derivatives of F / 2: the gradient, and below it the Hessian."""
    size = piece.n_unknowns
    gradient, hessian = np.zeros(size), np.zeros((size, size))
    Z = (piece.V @ Q.T).T
    active = piece.noise < Z
    residual = as_columns(y) - np.maximum(Z, 0.0) @ as_columns(piece.alpha)
    hidden = [a[:, None] * (Q @ basis) for a, basis in zip(active.T, piece.directions, strict=True)]
    for k, (weights, unknowns) in enumerate(piece.outputs):
        weighted = [weight * part for weight, part in zip(weights, hidden, strict=True)]
        J, r = np.column_stack([*weighted, active * Z]), residual[:, k]
        gradient[unknowns] -= J.T @ r
        hessian[np.ix_(unknowns, unknowns)] += J.T @ J
        first = 0
        for unit, part in enumerate(hidden):
            own, output = slice(first, first + part.shape[1]), unknowns[unit - len(weights)]
            # The output is the product of both weights of a neuron; its second derivative multiplies the residual.
            pull = part.T @ r
            hessian[own, output] -= pull
            hessian[output, own] -= pull
            first = own.stop
    return np.vstack([gradient, hessian])


def newton_work(n_rows: int, rank: int, n_outputs: int, n_hidden: int) -> float:
    """Return an upper bound on the multiplications of `newton_step`."""
    products = n_outputs * n_rows * (n_hidden * (rank + 1)) ** 2
    return float(products + (n_hidden * (rank + n_outputs)) ** 3 / 3.0)


def newton_step(
    problem: WhitenedProblem, V: FloatArray, alpha: FloatArray, width: float = KINK_TOLERANCE
) -> tuple[FloatArray, FloatArray] | None:
    """Return the step of ``V`` and ``alpha`` to the minimiser of the second-order model of their piece.

    The diagonal of an indefinite Hessian is raised until it is positive definite; return None if that fails. The step
    may raise F, which has other pieces.
    """
    piece = Piece.around(problem, V, alpha, width)
    gradient, hessian = piece.gradient_and_hessian(problem)
    factor = factorise(hessian, SHIFTS)
    if factor is None:
        return None
    step_V, step_alpha = piece.unpack(-linalg.cho_solve(factor, gradient, check_finite=False))
    return piece.V + step_V - V, step_alpha


def factorise(matrix: FloatArray, ridges: tuple[float, ...], *, lower: bool = False) -> tuple[FloatArray, bool] | None:
    """Return the Cholesky factor of a matrix, for `scipy.linalg.cho_solve`; None if it does not exist.

    The diagonal of ``matrix`` is raised in place by fractions ``ridges`` of its largest entry, until the matrix is
    positive definite.
    """
    diagonal = np.diag_indices(len(matrix))
    plain = matrix[diagonal].copy()
    for ridge in ridges:
        matrix[diagonal] = plain + ridge * float(np.max(plain, initial=0.0))
        try:
            factor: tuple[FloatArray, bool] = linalg.cho_factor(matrix, lower=lower, check_finite=False)
        except linalg.LinAlgError:
            continue
        return factor
    return None


def orthogonal_to(rows: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the orthogonal complement of the rows, of shape (rank, n_free)."""
    rank = rows.shape[1]
    if len(rows) == 0:
        return np.eye(rank)
    basis, triangle, _ = linalg.qr(rows.T, pivoting=True, check_finite=False)
    diagonal = np.abs(np.diag(triangle))
    independent = int(np.count_nonzero(diagonal > INDEPENDENT * diagonal[0]))
    return np.asarray(basis[:, independent:], dtype=np.float64)
