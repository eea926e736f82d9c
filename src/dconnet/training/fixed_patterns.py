"""Newton steps on the convex problem in which every neuron keeps its activation pattern; merging of neurons.

Balanced, a neuron is a vector ``w = |alpha| v`` and a sign s, and adds ``s σ(Q w)`` to the output for the penalty
``2 gamma |w|``. While every row stays active or inactive for every neuron,

    F = |y - Σ_l s_l A_l Q w_l|² + 2 gamma Σ_l |w_l|

is convex: a group lasso, in which w_l stays in the cone of its pattern. Minima usually lie on the boundary of cones,
where some rows are at the kink of a neuron. There w_l moves in the directions that hold these rows at the kink, the
*face* of the cone, and a step ends where further rows reach their kinks. Neurons of one sign and pattern can be merged:
their sum has the same output, and its length is at most the sum of theirs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet.model.problem import WhitenedProblem
from dconnet.training.newton import factorise, orthogonal_to

# A row whose preactivation is below this fraction of the neuron's largest one is at its kink, up to rounding.
NOISE = 1e-11

# Largest number of multiplications of a step, and multiplications per second on a slow processor. The clock cannot
# interrupt a step.
LARGEST_WORK = 1e10
SPEED = 2.5e9

# Relative decrease of F below which the steps end.
SETTLED = 1e-13

# A row leaves its kink if its gain exceeds this fraction of gamma; the first step has this fraction of the neuron's
# length.
RELEASE = 1e-9
NUDGE = 1e-7

# Ridges on the diagonal of the Hessian, as fractions of its largest entry, tried until it is positive definite. Where
# outputs of neurons are dependent, the step is long, and some neurons vanish along it.
RIDGES = (1e-13, 1e-10, 1e-7, 1e-4)

# Step sizes that are tried; neurons that reach a kink before stop there.
REACHES = (1.0, 0.3, 0.1, 0.03, 0.01)


def balance_neurons(W: FloatArray, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return V and alpha of the neurons with vectors ``W`` (n_hidden, rank) and signs, with the least penalty."""
    roots = np.sqrt(np.linalg.norm(W, axis=1))
    return W / np.where(roots > 0.0, roots, 1.0)[:, None], signs * roots


def neuron_vectors(V: FloatArray, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the vectors ``|alpha_l| v_l`` and the signs of neurons with one output."""
    return np.abs(alpha)[:, None] * V, np.where(alpha < 0.0, -1.0, 1.0)


def merge_neurons(Q: FloatArray, W: FloatArray, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the same output by fewer neurons: add up neurons of one sign with compatible patterns."""
    W, signs = W.copy(), signs.copy()
    Z = Q @ W.T
    while len(W) > 1:
        above, below = _sides(Z)
        conflicts = above.T.astype(np.float32) @ below.astype(np.float32)
        compatible = (conflicts + conflicts.T == 0.0) & (signs[:, None] == signs[None, :])
        np.fill_diagonal(compatible, False)
        pairs = _disjoint_pairs(compatible)
        if not pairs:
            break
        for first, second in pairs:
            W[first] += W[second]
            Z[:, first] += Z[:, second]
        kept = np.setdiff1d(np.arange(len(W)), [second for _, second in pairs])
        W, signs, Z = W[kept], signs[kept], Z[:, kept]
    return W, signs


def _disjoint_pairs(compatible: BoolArray) -> list[tuple[int, int]]:
    """Return disjoint pairs of compatible neurons."""
    pairs, taken = [], np.zeros(len(compatible), dtype=bool)
    for first in range(len(compatible)):
        if taken[first]:
            continue
        others = np.flatnonzero(compatible[first] & ~taken)
        if len(others):
            pairs.append((first, int(others[0])))
            taken[[first, others[0]]] = True
    return pairs


def _sides(Z: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Return the rows above and below the kink of each neuron, of shape (n_rows, n_hidden); others are at the kink."""
    noise = NOISE * np.max(np.abs(Z), axis=0, initial=0.0)
    return noise < Z, -noise > Z


class PatternDescent:
    """Newton descent on the vectors ``W`` and signs of neurons, for a problem with one output.

    Rows at their kinks are held there, as long as a direction stays free. ``held`` lists them for every neuron, and
    ``bases`` the directions that keep them held.
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
        # Products of the outputs of all neurons for the patterns ``sides``, updated neuron by neuron.
        n, rank = W.shape
        self.sides = np.zeros((len(problem.Q), n), dtype=bool)
        self.gram = np.zeros((n, rank, n, rank))

    def work(self) -> float:
        """Return an upper bound on the multiplications of a Newton step."""
        n_rows, rank = self.problem.Q.shape
        size = len(self.W) * rank
        return float(n_rows * size**2 + size**3 / 3.0)

    def value(self, W: FloatArray, Z: FloatArray | None = None) -> float:
        """Return F of the neurons with vectors ``W`` and preactivations ``Z``, for any patterns."""
        Z = self.problem.Q @ W.T if Z is None else Z
        residual = self.problem.y - np.maximum(Z, 0.0) @ self.signs
        return float(residual @ residual) + 2.0 * self.problem.gamma * float(np.linalg.norm(W, axis=1).sum())

    def descend(self, max_steps: int, tol: float, seconds_left: Callable[[], float]) -> bool:
        """Take Newton steps until the relative gain is below ``tol``; return False if the problem is too large."""
        if self.work() > LARGEST_WORK:
            return False
        value = self.value(self.W)
        for _ in range(max_steps):
            self.drop_zero_neurons()
            if len(self.W) == 0 or seconds_left() <= self.work() / SPEED:
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

    def drop_zero_neurons(self) -> None:
        """Remove neurons that have vanished."""
        lengths = np.linalg.norm(self.W, axis=1)
        alive = lengths > NOISE * np.max(lengths, initial=0.0)
        if np.all(alive):
            return
        self.W, self.signs, self.sides = self.W[alive], self.signs[alive], self.sides[:, alive]
        self.gram = np.ascontiguousarray(self.gram[alive][:, :, alive])
        self.held = [rows for rows, kept in zip(self.held, alive, strict=True) if kept]
        self.bases = [basis for basis, kept in zip(self.bases, alive, strict=True) if kept]

    def newton_step(self) -> FloatArray:
        """Return the step of all vectors to the minimiser of the second-order model, of shape (n_hidden, rank)."""
        rows, owner = np.hstack(self.bases).T, np.repeat(np.arange(len(self.W)), [b.shape[1] for b in self.bases])
        gradient, hessian = self.derivatives(rows, owner)
        largest = float(np.max(np.diag(hessian)))
        factor = factorise(hessian, RIDGES)
        free = -gradient / largest if factor is None else -linalg.cho_solve(factor, gradient, check_finite=False)
        step = np.zeros_like(self.W)
        np.add.at(step, owner, free[:, None] * rows)
        return step

    def derivatives(self, rows: FloatArray, owner: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return gradient and Hessian of F / 2 along the free directions ``rows`` of the neurons ``owner``."""
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

    def restricted_gram(self, rows: FloatArray, owner: IndexArray) -> FloatArray:
        """Return the products of outputs along the free directions ``rows`` (n_free, rank) of the neurons ``owner``."""
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
        """Update patterns and products; the entries of held rows have no effect."""
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
        """Move along the step to the lowest F; return F, and whether a row was held or a neuron vanished.

        A neuron that reaches the kink of a row stops there and holds the row, unless the full step of all neurons is
        better. F is convex up to the first kink, so it decreases at first.
        """
        longest, rows = self.steps_to_kinks(step)
        first = min(float(np.min(longest)), 1.0)
        trials = [(np.minimum(reach, longest), reach) for reach in (*REACHES, first)]
        if first < 1.0:
            trials.append((np.ones(len(longest)), 0.0))  # the full step, across kinks
        Z, slopes = self.problem.Q @ self.W.T, self.problem.Q @ step.T
        values = [self.value(self.W + lengths[:, None] * step, Z + lengths * slopes) for lengths, _ in trials]
        best = int(np.argmin(values))
        lengths, reach = trials[best]
        if not values[best] < value:
            if first > NOISE:
                return value, False
            # Rows at their kinks were not held.
            lengths, reach, values[best] = np.zeros(len(longest)), NOISE, value
        self.W = self.W + lengths[:, None] * step
        ended = np.flatnonzero(longest <= reach)
        for unit in ended:
            self.hold(int(unit), rows[unit])
        return values[best], len(ended) > 0

    def steps_to_kinks(self, step: FloatArray) -> tuple[FloatArray, list[int]]:
        """Return for each neuron the step size to the first kink and its row; the row is -1 if the neuron vanishes."""
        Q = self.problem.Q
        Z, slopes = Q @ self.W.T, Q @ step.T
        noise = NOISE * np.max(np.abs(Z), axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where((Z * slopes < 0.0) & (np.abs(Z) > noise), -Z / slopes, np.inf)
        for unit, rows in enumerate(self.held):
            steps[rows, unit] = np.inf
        nearest = np.argmin(steps, axis=0)
        longest = steps[nearest, np.arange(len(self.W))]
        found = nearest.tolist()
        for unit, basis in enumerate(self.bases):
            if basis.shape[1] == 1:
                own, move = float(basis[:, 0] @ self.W[unit]), float(basis[:, 0] @ step[unit])
                vanishes = -own / move if own * move < 0.0 else np.inf
                if vanishes <= longest[unit]:
                    longest[unit], found[unit] = vanishes, -1
        return longest, found

    def hold(self, unit: int, row: int) -> None:
        """Hold one more row at the kink of a neuron; for row -1, set the neuron to zero."""
        if row < 0:
            self.W[unit] = 0.0
            return
        self.held[unit], self.bases[unit] = _independent(self.problem.Q, np.array([*self.held[unit], row]))
        self.W[unit] = self.bases[unit] @ (self.bases[unit].T @ self.W[unit])

    def release(self, value: float) -> float | None:
        """Release one row of each neuron whose multiplier has the wrong sign; return F, or None if F would not fall.

        On a face, ``a - gamma u`` is a combination of the held rows, with a the gradient of the correlation of the
        neuron with the residual and u its direction. At a minimum over the kink of a row, its multiplier lies between
        zero and minus its part of the correlation.
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
                direction = basis @ (basis.T @ Q[rows[first]])
                direction *= (1.0 if high[first] > low[first] else -1.0) / np.linalg.norm(direction)
                trial[unit] += NUDGE * length * direction
                freed.append((unit, others, basis))
        reached = self.value(trial) if freed else value
        if not reached < value:
            return None
        self.W = trial
        for unit, others, basis in freed:
            self.held[unit], self.bases[unit] = others, basis
        return reached


def _independent(Q: FloatArray, rows: IndexArray) -> tuple[list[int], FloatArray]:
    """Return independent rows that leave a direction free, and a basis of their orthogonal complement."""
    selected: list[int] = []
    basis = np.eye(Q.shape[1])
    for row in rows:
        if basis.shape[1] == 1:
            break
        if np.linalg.norm(Q[row] @ basis) > 1e-9 * np.linalg.norm(Q[row]):
            selected.append(int(row))
            basis = orthogonal_to(Q[selected])
    return selected, basis
