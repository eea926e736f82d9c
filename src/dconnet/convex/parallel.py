"""The paper's parallel solver: batches of rows that agree on v by a penalty, or by an augmented Lagrangian.

Let Q_b be the rows of batch b. Because Q is orthonormal, Σ_b Q_bᵀQ_b = I, and the programme is a sum over the batches,

    P(v) = Σ_b f_b(v),    f_b(v) = gamma |Q_b v|² - <Q_b t, Q_b v> + Σ_{j in b} phi_j(q_j v).

Every batch gets a copy v_b of its own, and all are drawn to a centre c:

    min  Σ_b f_b(v_b) + <y_b, v_b - c> + ½ μ |v_b - c|²    over all v_b and c,

with y = 0 in the paper's penalty method. A round is one step of its block coordinate descent: all batches solve for
their v_b, each by itself, and c becomes the mean of v_b + y_b / μ. With eigenvalues s and eigenvectors V of Q_bᵀQ_b,

    v_b = V D w,    D² = (gamma + ½ μ) / (gamma s + ½ μ),

turns the problem of a batch into a programme over the design Q_b V D, none of whose singular values exceeds one,

    min_w  (gamma + ½ μ) |w|² - <D Vᵀ(Q_bᵀQ_b t + μ c - y_b), w> + Σ_{j in b} phi_j((Q_b V D w)_j),

of the kind that the native solver takes. Two residuals measure what is missing to a solution, the spread of the copies
and the way of the centre: 2 gamma c - t + Qᵀλ is at most 2 gamma max |v_b - c| + μ B |c - c_before|.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import joblib
import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.backend import ConvexSolution, require_orthonormal, solve_scaled
from dconnet.convex.native import Native
from dconnet.convex.programme import Programme

PENALTY, AUGMENTED_LAGRANGIAN = "penalty", "augmented-lagrangian"

# The penalty method needs rounds in proportion to the accuracy, or more: it is asked for three digits only.
DEFAULT_TOL = {PENALTY: 1e-3, AUGMENTED_LAGRANGIAN: 1e-9}

# The inner loop of the penalty method ends when the centre moves by this fraction of the spread of the copies, both in
# units of the gradient: the closer the copies are to each other, the better their problem is solved.
INNER = 0.3

# The augmented Lagrangian changes μ where one residual is this many times the other, and only in so many rounds: with a
# μ that stays, it converges.
IMBALANCE = 3.0
BALANCED_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Parallel:
    """Backend that splits the rows into batches and solves them through joblib, in rounds.

    The batches go to whatever carries joblib at the time: threads, processes, or with
    ``joblib.parallel_config(backend="dask")`` a cluster. The answer is the same to the last bit.

    Parameters
    ----------
    n_batches : int
        Number of batches, of every ``n_batches``-th row each.
    method : {"augmented-lagrangian", "penalty"}
        "penalty" is the paper's: copies that differ are fined, with a μ that grows. The augmented Lagrangian also
        learns the price of a difference, so that μ may stay small; it needs far fewer rounds.
    mu : float
        The first μ, in units of ``(alpha_l² + gamma) / n_batches``, which is the curvature of a batch.
    growth : float
        Factor by which μ changes, above one: after every inner loop ("penalty"), or to balance the residuals.
    n_jobs : int or None
        Batches to solve at the same time, as in joblib: None is one, unless ``joblib.parallel_config`` says more.
    tol : float or None
        Both residuals, in units of order one, at which an answer counts as solved. None is 1e-9 for the augmented
        Lagrangian, and 1e-3 for the penalty method.
    max_iter : int
        Limit on rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.convex.parallel import Parallel
    >>> from dconnet.convex.programme import Programme
    >>> design, _ = np.linalg.qr(np.column_stack([np.linspace(-1, 1, 50), np.ones(50)]))
    >>> programme = Programme(design, np.array([1.0, -2.0]), slope=np.full(50, 0.1), curvature=0.5, gamma=0.05)
    >>> answer = Parallel(n_batches=5).prepare(design).solve(programme)
    >>> answer.converged, answer.kkt_residual(programme) < 1e-8
    (True, True)
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
            raise ValueError("n_jobs must not be 0: give None, a number of jobs, or -1 for all processors.")
        if self.tol is not None and not self.tol > 0.0:
            raise ValueError(f"tol must be positive or None, got {self.tol}.")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}.")

    def prepare(self, design: FloatArray) -> ParallelSolver:
        """Split the rows into batches, and decompose each of them."""
        require_orthonormal(design)
        # The rows of a training are sorted: every n-th of them makes batches that are alike, and soon agree.
        members = [slice(first, None, self.n_batches) for first in range(min(self.n_batches, len(design)))]
        return ParallelSolver([Batch.of(design[rows], rows) for rows in members], self)


class Batch(NamedTuple):
    """One batch, which knows its own rows alone.

    Attributes
    ----------
    members : slice
        Which rows they are.
    rows : array of shape (batch_size, rank)
        ``Q_b V``.
    basis : array of shape (rank, rank)
        V, the eigenvectors of ``Q_bᵀQ_b``.
    squares : array of shape (rank,)
        s, the eigenvalues.
    """

    members: slice
    rows: FloatArray
    basis: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, rows: FloatArray, members: slice) -> Batch:
        """Decompose the rows of a batch."""
        squares, basis = np.linalg.eigh(rows.T @ rows)
        return cls(members, rows @ basis, basis, np.clip(squares, 0.0, 1.0))

    def scale(self, gamma: float, mu: float) -> FloatArray:
        """The diagonal of D."""
        return np.sqrt((gamma + 0.5 * mu) / (gamma * self.squares + 0.5 * mu))

    def gram(self, v: FloatArray) -> FloatArray:
        """``Q_bᵀQ_b v``."""
        product: FloatArray = self.basis @ (self.squares * (self.basis.T @ v))
        return product


def solve_batch(rows: FloatArray, scale: FloatArray, numbers: dict[str, Any], start: ConvexSolution) -> ConvexSolution:
    """Solve the programme of one batch: all that joblib carries away.

    It does without BLAS, whose sums depend on the number of its threads.
    """
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
        consensus = Consensus(self.batches, scaled, self.options.mu / len(self.batches))
        if start is not None:
            consensus.start_at(start.v, start.multipliers)
        with joblib.Parallel(n_jobs=self.options.n_jobs) as pool:
            rounds = self._run(consensus, pool)
        return ConvexSolution(consensus.centre, consensus.multipliers, rounds, consensus.residual <= self._tol)

    @property
    def _tol(self) -> float:
        return DEFAULT_TOL[self.options.method] if self.options.tol is None else self.options.tol

    def _run(self, consensus: Consensus, pool: joblib.Parallel) -> int:
        """Rounds until the residuals are small enough; how many it took."""
        advance = self._raise_penalty if self.options.method == PENALTY else self._learn_price
        for done in range(1, self.options.max_iter + 1):
            consensus.round(pool)
            if consensus.residual <= self._tol:
                return done
            advance(consensus, done)
        return self.options.max_iter

    def _raise_penalty(self, consensus: Consensus, done: int) -> None:
        """The paper's outer loop: once the copies are the best for this μ, a larger one."""
        if consensus.movement <= max(INNER * consensus.spread, self._tol):
            consensus.mu *= self.options.growth

    def _learn_price(self, consensus: Consensus, done: int) -> None:
        """The multipliers of v_b = c take over what μ has to pull, and μ keeps the residuals in balance."""
        consensus.prices += consensus.mu * (consensus.copies - consensus.centre)
        if done > BALANCED_ROUNDS:
            return
        if consensus.spread > IMBALANCE * consensus.movement:
            consensus.mu *= self.options.growth
        elif consensus.movement > IMBALANCE * consensus.spread:
            consensus.mu /= self.options.growth


class Consensus:
    """The copies of v for one programme, in units of order one, and what draws them together.

    Attributes
    ----------
    mu : float
        μ.
    centre : array of shape (rank,)
        c.
    copies, prices : array of shape (n_batches, rank)
        v_b and y_b.
    multipliers : array of shape (n_rows,)
        λ of all rows.
    spread, movement : float
        The primal residual ``max |v_b - c|`` and the dual one ``μ B max |c - c_before|``.
    """

    def __init__(self, batches: list[Batch], programme: Programme, mu: float) -> None:
        self.batches, self.programme, self.mu = batches, programme, mu
        rank = len(programme.linear)
        self.centre = np.zeros(rank)
        self.copies, self.prices = np.zeros((len(batches), rank)), np.zeros((len(batches), rank))
        self.multipliers = np.zeros_like(programme.slope)
        self.spread = self.movement = float("inf")

    @property
    def residual(self) -> float:
        """The larger one of both residuals."""
        return max(self.spread, self.movement)

    def start_at(self, v: FloatArray, multipliers: FloatArray) -> None:
        """All copies at v, and the prices that would keep them there: minus the gradients of f_b."""
        self.centre, self.multipliers = v, multipliers.copy()
        self.copies[:] = v
        for price, batch in zip(self.prices, self.batches, strict=True):
            hinges = batch.basis @ (batch.rows.T @ multipliers[batch.members])
            price[:] = batch.gram(self.programme.linear - 2.0 * self.programme.gamma * v) - hinges
        self.prices -= np.mean(self.prices, axis=0)  # they add up to zero at any centre that is the best one

    def round(self, pool: joblib.Parallel) -> None:
        """All batches solve, each by itself; then the centre moves."""
        scales = [batch.scale(self.programme.gamma, self.mu) for batch in self.batches]
        answers = pool(self._tasks(scales))
        for b, (batch, scale, answer) in enumerate(zip(self.batches, scales, answers, strict=True)):
            self.copies[b] = batch.basis @ (scale * answer.v)
            self.multipliers[batch.members] = answer.multipliers
        before, self.centre = self.centre, np.mean(self.copies + self.prices / self.mu, axis=0)
        self.spread = float(np.max(np.abs(self.copies - self.centre)))
        self.movement = self.mu * len(self.batches) * float(np.max(np.abs(self.centre - before)))

    def _tasks(self, scales: list[FloatArray]) -> Iterator[Any]:
        gamma, curvature = self.programme.gamma, self.programme.curvature
        for b, (batch, scale) in enumerate(zip(self.batches, scales, strict=True)):
            pull = batch.gram(self.programme.linear) + self.mu * self.centre - self.prices[b]
            numbers = {
                "linear": scale * (batch.basis.T @ pull),
                "slope": self.programme.slope[batch.members].copy(),
                "curvature": curvature,
                "gamma": gamma + 0.5 * self.mu,
            }
            w = batch.basis.T @ self.copies[b] / scale
            start = ConvexSolution(w, self.multipliers[batch.members].copy(), 0, True)
            yield joblib.delayed(solve_batch)(batch.rows, scale, numbers, start)
