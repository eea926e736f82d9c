"""The convex problem over given sides of the rows: a few Newton steps reach its minimum to the last digits.

Balanced, a neuron is a vector ``w = |alpha| v`` and a sign s, and adds ``s σ(Q w)`` to the output for the penalty
``2 gamma |w|``. While every row keeps its side of every neuron,

    F = |y - Σ_l s_l A_l Q w_l|² + 2 gamma Σ_l |w_l|

is convex: a group lasso, in which w_l stays in the cone of its sides. Minima lie on the borders of cones as a rule,
where some rows are at the kink of a neuron; there w_l moves in the directions that keep them, its *face*, and a step
ends where further rows reach their kinks. Neurons of one sign on the same sides are one: their sum has the same output,
and is not longer than both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dconnet._arrays import BoolArray, FloatArray
from dconnet.model.problem import WhitenedProblem
from dconnet.training.newton import orthogonal_to

# Preactivations below this share of the largest one of a neuron are rounding: the row is at its kink.
NOISE = 1e-11

# Multiplications for a step above which none is tried.
LARGEST_WORK = 1e10

# The least decrease, as a share of F, after which another step is worth while.
SETTLED = 1e-13

# A row leaves its kink if that pays by more than this share of gamma, and first by a step of this share of its neuron.
RELEASE = 1e-9
NUDGE = 1e-7

# What is added to the diagonal of the Hessian, as shares of its largest entry, until it is positive definite. Where
# outputs of neurons depend on each other, this makes a long step along which some of them vanish.
RIDGES = (1e-13, 1e-10, 1e-7, 1e-4)

# How far a step goes at most, as parts of it; neurons that meet kinks before stop there.
REACHES = (1.0, 0.3, 0.1, 0.03, 0.01)


def balanced(W: FloatArray, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """V and alpha of the neurons with the vectors ``W`` (n_hidden, rank) and these signs, at their least penalty."""
    roots = np.sqrt(np.linalg.norm(W, axis=1))
    return W / np.where(roots > 0.0, roots, 1.0)[:, None], signs * roots


def vectors(V: FloatArray, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The vectors ``|alpha_l| v_l`` and the signs of neurons with one output."""
    return np.abs(alpha)[:, None] * V, np.where(alpha < 0.0, -1.0, 1.0)


def merged(Q: FloatArray, W: FloatArray, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same output by fewer neurons: those of one sign that have no row on different sides are added up."""
    W, signs = W.copy(), signs.copy()
    Z = Q @ W.T
    while len(W) > 1:
        above, below = _sides(Z)
        conflicts = above.T.astype(np.float32) @ below.astype(np.float32)
        mates = (conflicts + conflicts.T == 0.0) & (signs[:, None] == signs[None, :])
        np.fill_diagonal(mates, False)
        pairs = _disjoint_pairs(mates)
        if not pairs:
            break
        for first, second in pairs:
            W[first] += W[second]
            Z[:, first] += Z[:, second]
        kept = np.setdiff1d(np.arange(len(W)), [second for _, second in pairs])
        W, signs, Z = W[kept], signs[kept], Z[:, kept]
    return W, signs


def _disjoint_pairs(mates: BoolArray) -> list[tuple[int, int]]:
    """Pairs of mates, each neuron in one of them at most."""
    pairs, taken = [], np.zeros(len(mates), dtype=bool)
    for first in range(len(mates)):
        if taken[first]:
            continue
        others = np.flatnonzero(mates[first] & ~taken)
        if len(others):
            pairs.append((first, int(others[0])))
            taken[[first, others[0]]] = True
    return pairs


def _sides(Z: FloatArray) -> tuple[BoolArray, BoolArray]:
    """The rows above and below the kink of each neuron; the others are at it. Both of shape (n_rows, n_hidden)."""
    noise = NOISE * np.max(np.abs(Z), axis=0, initial=0.0)
    return noise < Z, -noise > Z


class Faces:
    """Neurons on their faces.

    Parameters
    ----------
    problem : WhitenedProblem
        The problem, with one output.
    W : array of shape (n_hidden, rank)
        Vectors of the neurons. Rows that are at their kinks stay there, as many as leave a direction free.
    signs : array of shape (n_hidden,)
        Their signs.
    """

    def __init__(self, problem: WhitenedProblem, W: FloatArray, signs: FloatArray) -> None:
        self.problem = problem
        self.W, self.signs = W.copy(), signs
        above, below = _sides(problem.Q @ W.T)
        self.held: list[list[int]] = []
        self.bases: list[FloatArray] = []  # of the directions that keep the held rows, (rank, n_free)
        for unit, at_kink in enumerate((~above & ~below).T):
            rows, basis = _independent(problem.Q, np.flatnonzero(at_kink))
            self.held.append(rows)
            self.bases.append(basis)
            self.W[unit] = basis @ (basis.T @ W[unit])
        # Products of the outputs of all neurons, for these sides of the rows; kept up to date neuron by neuron.
        n, rank = W.shape
        self.sides = np.zeros((len(problem.Q), n), dtype=bool)
        self.gram = np.zeros((n, rank, n, rank))

    def work(self) -> float:
        """Multiplications for a Newton step, at most."""
        n_rows, rank = self.problem.Q.shape
        size = len(self.W) * rank
        return float(n_rows * size**2 + size**3 / 3.0)

    def value(self, W: FloatArray, Z: FloatArray | None = None) -> float:
        """F of the neurons with these vectors, and their preactivations if known, whatever the sides of the rows."""
        Z = self.problem.Q @ W.T if Z is None else Z
        residual = self.problem.y - np.maximum(Z, 0.0) @ self.signs
        return float(residual @ residual) + 2.0 * self.problem.gamma * float(np.linalg.norm(W, axis=1).sum())

    def descend(self, max_steps: int, tol: float, seconds_left: Callable[[], float]) -> bool:
        """Newton steps until one gains less than a share ``tol``; return False if the problem is too large for them."""
        if self.work() > LARGEST_WORK:
            return False
        value = self.value(self.W)
        for _ in range(max_steps):
            self.drop_nothings()
            if len(self.W) == 0 or seconds_left() <= 0.0:
                break
            reached, held = self.advance(self.newton_step(), value)
            settled = not held and value - reached <= max(tol, SETTLED) * value
            value = reached
            if settled:
                released = self.release(value)
                if released is None:
                    break
                value = released
        return True

    def drop_nothings(self) -> None:
        """Leave out neurons that have vanished."""
        lengths = np.linalg.norm(self.W, axis=1)
        alive = lengths > NOISE * np.max(lengths, initial=0.0)
        if np.all(alive):
            return
        self.W, self.signs, self.sides = self.W[alive], self.signs[alive], self.sides[:, alive]
        self.gram = np.ascontiguousarray(self.gram[alive][:, :, alive])
        self.held = [rows for rows, kept in zip(self.held, alive, strict=True) if kept]
        self.bases = [basis for basis, kept in zip(self.bases, alive, strict=True) if kept]

    def newton_step(self) -> FloatArray:
        """The step of all vectors to the minimiser of the second-order model, of shape (n_hidden, rank)."""
        rows, owner = np.hstack(self.bases).T, np.repeat(np.arange(len(self.W)), [b.shape[1] for b in self.bases])
        gradient, hessian = self.derivatives(rows, owner)
        diagonal = np.diag_indices(len(hessian))
        largest, plain = float(np.max(hessian[diagonal])), hessian[diagonal].copy()
        for ridge in RIDGES:
            hessian[diagonal] = plain + ridge * largest
            try:
                factor = linalg.cho_factor(hessian, check_finite=False)
            except linalg.LinAlgError:
                continue
            free = -linalg.cho_solve(factor, gradient, check_finite=False)
            break
        else:
            free = -gradient / largest
        step = np.zeros_like(self.W)
        np.add.at(step, owner, free[:, None] * rows)
        return step

    def derivatives(self, rows: FloatArray, owner: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """First and second derivatives of F / 2 along the free directions, ``rows``, of the neurons ``owner``."""
        Q, gamma = self.problem.Q, self.problem.gamma
        Z = Q @ self.W.T
        self.update_gram(Z)
        residual = self.problem.y - np.maximum(Z, 0.0) @ self.signs
        lengths = np.linalg.norm(self.W, axis=1)
        directions = self.W / lengths[:, None]
        full = gamma * directions - self.signs[:, None] * (Q.T @ (self.sides * residual[:, None])).T  # (n_hidden, rank)
        gradient, hessian = np.sum(full[owner] * rows, axis=1), self.restricted_gram(rows, owner)
        along = np.sum(directions[owner] * rows, axis=1)
        n_free = np.bincount(owner)
        ends = np.cumsum(n_free)
        for unit in np.flatnonzero(n_free > 1):  # a single direction is that of the neuron: there, its length is linear
            own = slice(ends[unit] - n_free[unit], ends[unit])
            hessian[own, own] += gamma / lengths[unit] * (np.eye(n_free[unit]) - np.outer(along[own], along[own]))
        return gradient, hessian

    def restricted_gram(self, rows: FloatArray, owner: NDArray[np.intp]) -> FloatArray:
        """The products of the outputs along free directions, ``rows`` (n_free, rank), of the neurons ``owner``."""
        n, rank = self.W.shape
        square, first = self.gram.reshape(n * rank, n * rank), owner * rank
        half = np.zeros((n * rank, len(rows)))
        for k in range(rank):
            half += square[:, first + k] * rows[:, k]
        whole = np.zeros((len(rows), len(rows)))
        for k in range(rank):
            whole += rows[:, k, None] * half[first + k]
        return whole

    def update_gram(self, Z: FloatArray) -> None:
        """Take over the sides that rows have now; what held rows count does not matter."""
        above, _ = _sides(Z)
        differs = above != self.sides
        for unit, rows in enumerate(self.held):
            differs[rows, unit] = False
        changed = np.flatnonzero(np.any(differs, axis=0) | ~np.any(self.sides, axis=0))
        self.sides[:, changed] = above[:, changed]
        Q, (n, rank) = self.problem.Q, self.W.shape
        if len(changed) == 0:
            return
        signed = self.sides * self.signs  # (n_rows, n_hidden)
        outputs = (signed[:, :, None] * Q[:, None, :]).reshape(len(Q), n * rank)
        own = (signed[:, changed, None] * Q[:, None, :]).reshape(len(Q), len(changed) * rank)
        products = (own.T @ outputs).reshape(len(changed), rank, n, rank)
        self.gram[changed] = products
        self.gram[:, :, changed] = products.transpose(2, 3, 0, 1)

    def advance(self, step: FloatArray, value: float) -> tuple[float, bool]:
        """Move by the step as far as F falls most; return F, and whether rows or neurons reached their ends.

        A neuron that meets the kink of a row on its way stops there, and holds the row from then on, unless all go
        their whole way and F is lower there. As F is convex until the first of them meets one, it falls for some way.
        """
        longest, rows = self.way_to_kinks(step)
        first = min(float(np.min(longest)), 1.0)
        trials = [(np.minimum(reach, longest), reach) for reach in (*REACHES, first)]
        if first < 1.0:
            trials.append((np.ones(len(longest)), 0.0))  # the whole way
        Z, slopes = self.problem.Q @ self.W.T, self.problem.Q @ step.T
        values = [self.value(self.W + lengths[:, None] * step, Z + lengths * slopes) for lengths, _ in trials]
        best = int(np.argmin(values))
        lengths, reach = trials[best]
        if not values[best] < value:
            if first > NOISE:
                return value, False
            lengths, reach, values[best] = (
                np.zeros(len(longest)),
                NOISE,
                value,
            )  # rows at their kinks that were not held
        self.W = self.W + lengths[:, None] * step
        ended = np.flatnonzero(longest <= reach)
        for unit in ended:
            self.hold(int(unit), rows[unit])
        return values[best], len(ended) > 0

    def way_to_kinks(self, step: FloatArray) -> tuple[FloatArray, list[int]]:
        """How far each neuron can go until a row reaches its kink, or it vanishes (then the row is -1)."""
        Q = self.problem.Q
        Z, slopes = Q @ self.W.T, Q @ step.T
        noise = NOISE * np.max(np.abs(Z), axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ways = np.where((Z * slopes < 0.0) & (np.abs(Z) > noise), -Z / slopes, np.inf)
        for unit, rows in enumerate(self.held):
            ways[rows, unit] = np.inf
        nearest = np.argmin(ways, axis=0)
        longest = ways[nearest, np.arange(len(self.W))]
        found = nearest.tolist()
        for unit, basis in enumerate(self.bases):
            if basis.shape[1] == 1:
                own, move = float(basis[:, 0] @ self.W[unit]), float(basis[:, 0] @ step[unit])
                vanishes = -own / move if own * move < 0.0 else np.inf
                if vanishes <= longest[unit]:
                    longest[unit], found[unit] = vanishes, -1
        return longest, found

    def hold(self, unit: int, row: int) -> None:
        """Hold one more row at the kink of a neuron; without a row, the neuron vanishes."""
        if row < 0:
            self.W[unit] = 0.0
            return
        self.held[unit], self.bases[unit] = _independent(self.problem.Q, np.array([*self.held[unit], row]))
        self.W[unit] = self.bases[unit] @ (self.bases[unit].T @ self.W[unit])

    def release(self, value: float) -> float | None:
        """Let rows go that their kinks do not hold, one of each neuron; return F, or None if it would not fall.

        On a face, ``a - gamma u`` is a combination of the held rows, with a the gradient of the neuron's match and u
        its direction. The multiplier of a row is between zero and minus its part of the match where the kink holds it.
        """
        Q, gamma = self.problem.Q, self.problem.gamma
        Z = Q @ self.W.T
        above, _ = _sides(Z)
        residual = self.problem.y - np.maximum(Z, 0.0) @ self.signs
        trial, freed = self.W.copy(), []
        for unit, rows in enumerate(self.held):
            if not rows:
                continue
            w, sign = self.W[unit], self.signs[unit]
            length = float(np.linalg.norm(w))
            pull = sign * (Q.T @ (above[:, unit] * residual)) - gamma * w / length
            multipliers, *_ = np.linalg.lstsq(Q[rows].T, pull, rcond=None)
            low, high = -multipliers, multipliers + sign * residual[rows]
            gains = np.maximum(low, high) * np.linalg.norm(Q[rows], axis=1)
            first = int(np.argmax(gains))
            if gains[first] > RELEASE * gamma:
                others = [row for row in rows if row != rows[first]]
                basis = orthogonal_to(Q[others]) if others else np.eye(Q.shape[1])
                way = basis @ (basis.T @ Q[rows[first]])
                way *= (1.0 if high[first] > low[first] else -1.0) / np.linalg.norm(way)
                trial[unit] += NUDGE * length * way
                freed.append((unit, others, basis))
        reached = self.value(trial) if freed else value
        if not reached < value:
            return None
        self.W = trial
        for unit, others, basis in freed:
            self.held[unit], self.bases[unit] = others, basis
        return reached


def _independent(Q: FloatArray, rows: NDArray[np.intp]) -> tuple[list[int], FloatArray]:
    """The first of these rows that leave a direction free, and a basis of what is orthogonal to them."""
    kept: list[int] = []
    basis = np.eye(Q.shape[1])
    for row in rows:
        if basis.shape[1] == 1:
            break
        if np.linalg.norm(Q[row] @ basis) > 1e-9 * np.linalg.norm(Q[row]):
            kept.append(int(row))
            basis = orthogonal_to(Q[kept])
    return kept, basis
