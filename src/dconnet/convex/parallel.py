"""The paper's parallel solver: batches of rows that agree on v by a penalty, or by an augmented Lagrangian.

Let Q_b be the rows of batch b. Because Q is orthonormal, Σ_b Q_bᵀQ_b = I, and the programme is a sum over the batches,

    P(v) = Σ_b f_b(v),    f_b(v) = gamma |Q_b v|² - <Q_b t, Q_b v> + Σ_{j in b} phi_j(q_j v).

Every batch has its own copy v_b, and a penalty draws all copies to a centre c:

    min  Σ_b f_b(v_b) + <y_b, v_b - c> + ½ μ |v_b - c|²    over all v_b and c,

with prices y = 0 in the paper's penalty method. In a round, all batches solve for v_b independently, and c becomes the
mean of v_b + y_b / μ. With eigenvalues s and eigenvectors V of Q_bᵀQ_b,

    v_b = V D w,    D² = (gamma + ½ μ) / (gamma s + ½ μ),

turns the problem of a batch into a programme over the design Q_b V D, whose singular values are at most one,

    min_w  (gamma + ½ μ) |w|² - <D Vᵀ(Q_bᵀQ_b t + μ c - y_b), w> + Σ_{j in b} phi_j((Q_b V D w)_j),

which the native solver accepts. Two residuals measure the distance to a solution, the spread of the copies and the
movement of the centre: 2 gamma c - t + Qᵀλ is at most 2 gamma max |v_b - c| + μ B |c - c_before|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import joblib
import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.native import Native
from dconnet.convex.programme import ConvexSolution, Programme, require_orthonormal, solve_scaled

PENALTY, AUGMENTED_LAGRANGIAN = "penalty", "augmented-lagrangian"

# The rounds of the penalty method grow with the accuracy: three digits are affordable.
DEFAULT_TOL = {PENALTY: 1e-3, AUGMENTED_LAGRANGIAN: 1e-9}

# The penalty method raises μ when the centre moves by less than this fraction of the spread, in units of the gradient.
INNER_TOL = 0.3

# The augmented Lagrangian changes μ if one residual is IMBALANCE times the other. After MAX_BALANCED_ROUNDS rounds μ
# stays, because convergence is only proved for a constant μ.
IMBALANCE = 3.0
MAX_BALANCED_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Parallel:
    """Backend that splits the rows into batches and solves them with joblib, in rounds.

    The joblib backend of the caller runs the batches: threads, processes, or a cluster with
    ``joblib.parallel_config(backend="dask")``. The answer is the same to the last bit.

    Parameters
    ----------
    n_batches : int
        Number of batches; each has every ``n_batches``-th row.
    method : {"augmented-lagrangian", "penalty"}
        "penalty" is the paper's method, in which μ grows. The augmented Lagrangian also updates prices of the
        differences, so that μ may stay small; it needs far fewer rounds.
    mu : float
        The first μ, in units of ``(alpha_l² + gamma) / n_batches``, the curvature of a batch.
    growth : float
        Factor, above one, by which μ changes.
    n_jobs : int or None
        Number of batches solved at the same time, as in joblib.
    tol : float or None
        Both residuals, in units of order one, at which an answer counts as solved. None is 1e-9 for the augmented
        Lagrangian, and 1e-3 for the penalty method.
    max_iter : int
        Limit on rounds.
    """

    n_batches: int = 4
    method: str = AUGMENTED_LAGRANGIAN
    mu: float = 1.0
    growth: float = 2.0
    n_jobs: int | None = None
    tol: float | None = None
    max_iter: int = 3000

    def __post_init__(self) -> None:
        if self.n_batches < 1:
            raise ValueError(f"n_batches must be at least 1, got {self.n_batches}.")
        if self.method not in DEFAULT_TOL:
            raise ValueError(f"method must be one of {list(DEFAULT_TOL)}, got {self.method!r}.")
        if not 0.0 < self.mu < np.inf:
            raise ValueError(f"mu must be positive and finite, got {self.mu}.")
        if not 1.0 < self.growth < np.inf:
            raise ValueError(f"growth must be above 1 and finite, got {self.growth}.")
        if self.n_jobs == 0:
            raise ValueError("n_jobs must not be 0. Pass None, a number of jobs, or -1 for all processors.")
        if self.tol is not None and not self.tol > 0.0:
            raise ValueError(f"tol must be positive or None, got {self.tol}.")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}.")

    def prepare(self, design: FloatArray) -> ParallelSolver:
        """Split the rows into batches, and decompose each of them."""
        require_orthonormal(design)
        batches = []
        # The rows of a fit are sorted: taking every n-th row makes batches alike, and alike batches agree soon.
        for first in range(min(self.n_batches, len(design))):
            members = slice(first, None, self.n_batches)
            squares, basis = np.linalg.eigh(design[members].T @ design[members])
            batches.append(Batch(members, design[members] @ basis, basis, np.clip(squares, 0.0, 1.0)))
        return ParallelSolver(batches, self)


class Batch(NamedTuple):
    """The rows of one batch, decomposed."""

    members: slice  # rows of the design
    rows: FloatArray  # Q_b V, of shape (batch_size, rank)
    basis: FloatArray  # V, the eigenvectors of Q_bᵀQ_b
    squares: FloatArray  # s, the eigenvalues

    def multiply_gram(self, v: FloatArray) -> FloatArray:
        """Return ``Q_bᵀQ_b v``."""
        return self.basis @ (self.squares * (self.basis.T @ v))


def solve_batch(rows: FloatArray, scale: FloatArray, numbers: dict[str, Any], start: ConvexSolution) -> ConvexSolution:
    """Solve the programme of one batch; without BLAS, whose sums depend on the number of its threads."""
    programme = Programme(rows * scale, **numbers)
    return Native().prepare(programme.design).solve(programme, start)


@dataclass(frozen=True, slots=True, eq=False)
class ParallelSolver:
    """The prepared backend."""

    batches: list[Batch]
    options: Parallel

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve a programme in rounds, optionally from the answer to a similar one."""
        return solve_scaled(programme, start, self._solve)

    def _solve(self, scaled: Programme, start: ConvexSolution | None) -> ConvexSolution:
        options = self.options
        tol = DEFAULT_TOL[options.method] if options.tol is None else options.tol
        consensus = Consensus(self.batches, scaled, options.mu / len(self.batches))
        if start is not None:
            consensus.start_at(start.v, start.multipliers)
        n_rounds = 0
        with joblib.Parallel(n_jobs=options.n_jobs) as pool:
            while n_rounds < options.max_iter:
                consensus.run_round(pool)
                n_rounds += 1
                if consensus.residual <= tol:
                    break
                if options.method == AUGMENTED_LAGRANGIAN:
                    consensus.update_prices(options.growth if n_rounds <= MAX_BALANCED_ROUNDS else 1.0)
                elif consensus.movement <= max(INNER_TOL * consensus.spread, tol):
                    consensus.mu *= options.growth
        return ConvexSolution(consensus.centre, consensus.multipliers, n_rounds, consensus.residual <= tol)


class Consensus:
    """The copies of v for one programme in units of order one, and their centre."""

    def __init__(self, batches: list[Batch], programme: Programme, mu: float) -> None:
        self.batches, self.programme, self.mu = batches, programme, mu
        shape = len(batches), len(programme.linear)
        self.centre = np.zeros(shape[1])  # c
        self.copies, self.prices = np.zeros(shape), np.zeros(shape)  # v_b and y_b
        self.multipliers = np.zeros_like(programme.slope)  # λ of all rows
        self.spread = self.movement = float("inf")  # max |v_b - c| and μ B max |c - c_before|

    @property
    def residual(self) -> float:
        """The larger residual."""
        return max(self.spread, self.movement)

    def start_at(self, v: FloatArray, multipliers: FloatArray) -> None:
        """Set all copies to v, and the prices to minus the gradients of f_b, which keep the copies there."""
        self.centre, self.multipliers = v, multipliers.copy()
        self.copies[:] = v
        for price, batch in zip(self.prices, self.batches, strict=True):
            hinges = batch.basis @ (batch.rows.T @ multipliers[batch.members])
            price[:] = batch.multiply_gram(self.programme.linear - 2.0 * self.programme.gamma * v) - hinges
        self.prices -= np.mean(self.prices, axis=0)  # the prices of a best centre sum to zero

    def run_round(self, pool: joblib.Parallel) -> None:
        """Solve all batches, and move the centre."""
        half, programme = 0.5 * self.mu, self.programme
        scales = [np.sqrt((programme.gamma + half) / (programme.gamma * b.squares + half)) for b in self.batches]
        tasks = []
        for batch, scale, copy, price in zip(self.batches, scales, self.copies, self.prices, strict=True):
            pull = batch.multiply_gram(programme.linear) + self.mu * self.centre - price
            numbers = {
                "linear": scale * (batch.basis.T @ pull),
                "slope": programme.slope[batch.members].copy(),
                "curvature": programme.curvature,
                "gamma": programme.gamma + half,
            }
            multipliers = self.multipliers[batch.members].copy()
            start = ConvexSolution(batch.basis.T @ copy / scale, multipliers, 0, True)
            tasks.append(joblib.delayed(solve_batch)(batch.rows, scale, numbers, start))
        for b, (batch, scale, answer) in enumerate(zip(self.batches, scales, pool(tasks), strict=True)):
            self.copies[b] = batch.basis @ (scale * answer.v)
            self.multipliers[batch.members] = answer.multipliers
        before, self.centre = self.centre, np.mean(self.copies + self.prices / self.mu, axis=0)
        self.spread = float(np.max(np.abs(self.copies - self.centre)))
        self.movement = self.mu * len(self.batches) * float(np.max(np.abs(self.centre - before)))

    def update_prices(self, growth: float) -> None:
        """Add μ (v_b - c) to the prices, and change μ by the factor `growth` to balance the residuals."""
        self.prices += self.mu * (self.copies - self.centre)
        if self.spread > IMBALANCE * self.movement:
            self.mu *= growth
        elif self.movement > IMBALANCE * self.spread:
            self.mu /= growth
