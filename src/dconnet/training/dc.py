"""The DC subproblem of one neuron: its splits into g - h, and the DCA iteration.

With all else fixed, F as a function of the weights v of neuron l is, up to a constant,

    O(v) = Σ_j c_j σ(z_j) + a Σ_j σ(z_j)² + gamma |v|²,    z = Q v,    c_j = -2 alpha_l r_j,    a = alpha_l²,

where r is the residual of the network without neuron l. It is a difference of convex functions O = g - h with

    g(v) = Σ_j beta^g_j σ(z_j) + a Σ_j σ(z_j)² + gamma |v|²,    h(v) = Σ_j beta^h_j σ(z_j),

for any non-negative beta^g, beta^h whose difference is c. With several outputs, alpha_l is a vector and r has a column
for each of them: c_j = -2 <alpha_l, r_j> and a = |alpha_l|², and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dconnet import _native
from dconnet._arrays import BoolArray, FloatArray
from dconnet.convex.programme import ConvexSolution, Programme, Solver, solve_inexactly
from dconnet.model.problem import WhitenedProblem

# The constants are defined in the kernel, which runs the same DCA.
# Norm of the difference of two iterates at which the paper ends the DCA.
DCA_TOLERANCE = _native.DCA_TOLERANCE

# A row whose z_j is within this fraction of |v| |q_j| is at its kink: solvers return tiny numbers of either sign for
# such rows. There, every vertex of the subdifferential of h gives a valid tangent.
KINK_TOLERANCE = _native.KINK_TOLERANCE
# With a kink direction, rows at zero weights are at their kinks by this much.
LEAST_KINK_NOISE = _native.LEAST_KINK_NOISE

# Rules for the tangent of h at a kink. "active": all rows at their kinks are active, as with H(0) = 1 in the paper.
# "random": the rows on one side of a random direction are active, as the noise of a solver would select them.
KINKS = ("random", "active")

# A walk counts if O falls by at least this share of gamma times its squared length: the sufficient decrease of the
# convergence proof. A DCA step lowers O by gamma times its squared length or more.
WALK_DECREASE = _native.WALK_DECREASE

# What the walk takes for rounding, relative to the sizes of weights, rows and slopes.
WALK_TOLERANCE = 1e-12

# A rise of the objective by less than this fraction of its terms is rounding.
ROUNDING = _native.ROUNDING

Split = Callable[[FloatArray, FloatArray, FloatArray, int], tuple[FloatArray, FloatArray]]


def paper_split(y: FloatArray, hidden: FloatArray, alpha: FloatArray, unit: int) -> tuple[FloatArray, FloatArray]:
    """Return the paper's (beta^g, beta^h) of neuron ``unit``: target and every other neuron are split by sign.

    With several outputs, it is the sum of the splits of all outputs.
    """
    if alpha.ndim == 2:
        parts = [paper_split(target, hidden, weights, unit) for target, weights in zip(y.T, alpha.T, strict=True)]
        rising, falling = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
        return rising, falling
    target = 2.0 * alpha[unit] * y
    products = 2.0 * alpha[unit] * alpha  # (n_hidden,)
    products[unit] = 0.0
    beta_g = np.maximum(-target, 0.0) + hidden @ np.maximum(products, 0.0)
    beta_h = np.maximum(target, 0.0) + hidden @ np.maximum(-products, 0.0)
    return beta_g, beta_h


def net_split(y: FloatArray, hidden: FloatArray, alpha: FloatArray, unit: int) -> tuple[FloatArray, FloatArray]:
    """Return the smallest (beta^g, beta^h): the positive and the negative part of the slope c.

    Its convex majoriser lies below that of every other split, so a DCA step guarantees at least the same decrease.
    """
    others = alpha.copy()
    others[unit] = 0.0
    residual = y - hidden @ others
    slope = -2.0 * alpha[unit] * residual if y.ndim == 1 else -2.0 * (residual @ alpha[unit])
    return np.maximum(slope, 0.0), np.maximum(-slope, 0.0)


SPLITS: dict[str, Split] = {"paper": paper_split, "net": net_split}


@dataclass(frozen=True, slots=True, eq=False)
class NeuronProblem:
    """The DC subproblem of one neuron, ``O = g - h`` over v of shape (rank,)."""

    design: FloatArray  # (n_rows, rank)
    beta_g: FloatArray  # (n_rows,)
    beta_h: FloatArray  # (n_rows,)
    curvature: float
    gamma: float
    size: float = 0.0  # value of F, which determines the rounding of O
    kink_direction: FloatArray | None = None  # (rank,): active rows at kinks; None for all of them

    @classmethod
    def of(
        cls,
        white: WhitenedProblem,
        hidden: FloatArray,
        alpha: FloatArray,
        unit: int,
        split: str,
        size: float = 0.0,
        kink_direction: FloatArray | None = None,
    ) -> NeuronProblem:
        """Build the subproblem of neuron ``unit`` of a network with activations ``hidden`` (n_rows, n_hidden)."""
        if split not in SPLITS:
            raise ValueError(f"split must be one of {sorted(SPLITS)}, got {split!r}.")
        beta_g, beta_h = SPLITS[split](white.y, hidden, alpha, unit)
        curvature = float(alpha[unit]) ** 2 if alpha.ndim == 1 else float(alpha[unit] @ alpha[unit])
        return cls(white.Q, beta_g, beta_h, curvature, white.gamma, size, kink_direction)

    def value(self, v: FloatArray, z: FloatArray) -> float:
        """Return O(v), given ``z = design @ v``."""
        active = np.maximum(z, 0.0)
        hinges = float((self.beta_g - self.beta_h) @ active) + self.curvature * float(active @ active)
        return hinges + self.gamma * float(v @ v)

    def rounding(self, z: FloatArray) -> float:
        """Return a bound on the rounding of O: a fraction of F and of the slopes that cancel in `value`."""
        cancelling = float((self.beta_g + self.beta_h) @ np.maximum(z, 0.0))
        return ROUNDING * (self.size + cancelling)

    def without_noise(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a solver's answer and its preactivations; both exactly zero if they are rounding noise."""
        z = self.design @ v
        typical_size = max(np.max(self.beta_g), np.max(self.beta_h)) / (2.0 * (self.gamma + self.curvature))
        if np.max(np.abs(z)) <= KINK_TOLERANCE * typical_size:
            return np.zeros_like(v), np.zeros_like(z)
        return v, z

    def not_negative(self, v: FloatArray, z: FloatArray) -> BoolArray:
        """Return the rows that are active in the tangent of h: z_j > 0, and some of those at their kinks.

        Without a kink direction d, all rows at their kinks are active. With d, those with q_j d > 0 are: the tangent is
        the gradient of h at weights that have moved by a little in this direction.
        """
        noise = KINK_TOLERANCE * float(np.linalg.norm(v))
        norms: FloatArray = np.linalg.norm(self.design, axis=1)
        if self.kink_direction is not None:
            noise = max(noise, LEAST_KINK_NOISE)
            norms = np.copysign(norms, self.design @ self.kink_direction)
        return z >= -noise * norms

    def majoriser(self, active: BoolArray) -> Programme:
        """Return the convex programme that replaces h by its tangent at a point with these active rows."""
        tangent = self.design.T @ np.where(active, self.beta_h, 0.0)
        return Programme(self.design, tangent, self.beta_g, self.curvature, self.gamma)


@dataclass(frozen=True, slots=True, eq=False)
class DCAOutcome:
    """Result of the DCA of one neuron."""

    v: FloatArray  # (rank,), the new weights; the old ones if nothing better was found
    programmes: int  # convex programmes solved
    iterations: int  # of the backend, for all programmes
    refused: int  # one if the last step would have raised the objective by more than rounding, else zero
    unsolved: int  # programmes that reached the iteration limit of the backend
    converged: bool  # whether the DCA reached a fixed point within its limit
    restarts: int = 0  # successful restarts from a fixed point


def walk(neuron: NeuronProblem, v: FloatArray, max_steps: int) -> tuple[FloatArray, int]:
    """Walk downhill on O from ``v``, nearly always to a local minimiser; return the end and the number of steps.

    O is quadratic while every row keeps its side. A step goes towards the minimiser for the current sides, as far as O
    falls. Rows with c_j > 0 have convex kinks: one at which O stops falling is held there, until its multiplier at a
    minimiser is outside of [0, c_j]. Other rows are only crossed.

    The kernel takes other steps of the same kind, and may end in another local minimum.
    """
    Q, slope, a = neuron.design, neuron.beta_g - neuron.beta_h, neuron.curvature
    z, norms = Q @ v, np.linalg.norm(Q, axis=1)
    held: list[int] = list(np.flatnonzero((np.abs(z) <= WALK_TOLERANCE * np.linalg.norm(v) * norms) & (slope > 0.0)))
    active = z > 0.0
    active[held] = False
    for step in range(max_steps):
        if len(held) >= len(v):
            return v, step  # rows that depend on each other, as those at zero do
        hessian = 2.0 * (neuron.gamma * np.eye(len(v)) + a * Q[active].T @ Q[active])
        pull = -Q[active].T @ slope[active]
        basis, triangle = np.linalg.qr(Q[held].T, mode="complete")
        range_, free = basis[:, : len(held)], basis[:, len(held) :]
        target = free @ np.linalg.solve(free.T @ hessian @ free, free.T @ pull)
        direction = target - v
        if np.linalg.norm(direction) <= WALK_TOLERANCE * np.linalg.norm(v):
            forces = np.linalg.lstsq(triangle[: len(held)], range_.T @ (pull - hessian @ target), rcond=None)[0]
            wrong = np.maximum(-forces, forces - slope[held])
            if not np.any(wrong > WALK_TOLERANCE * np.max(np.abs(pull))):
                return v, step + 1
            worst = int(np.argmax(wrong))
            active[held[worst]] = forces[worst] > 0.0
            del held[worst]
            continue
        along = Q @ direction
        along[held] = 0.0
        z = Q @ v
        length, crossed, stop = _line_search(float(direction @ hessian @ direction), z, along, active, slope, a)
        v = v + length * direction
        active[crossed] = ~active[crossed]
        if stop is not None:
            held.append(stop)
            active[stop] = False
    return v, max_steps


def _line_search(
    curvature: float, z: FloatArray, along: FloatArray, active: BoolArray, slope: FloatArray, a: float
) -> tuple[float, list[int], int | None]:
    """Return the length of a step to the first minimum of O, at most 1, the rows crossed, and the row to be held.

    The slope of O along the direction is ``constant + linear * length``, and jumps where rows cross their kinks.
    """
    rows = np.flatnonzero(np.where(active, along < 0.0, along > 0.0))
    at = np.maximum(-z[rows] / along[rows], 0.0)
    constant, linear = -curvature, curvature
    crossed: list[int] = []
    for i in np.argsort(at, kind="stable"):
        row, length = int(rows[i]), float(at[i])
        if length >= 1.0 or constant + linear * length >= 0.0:
            break
        bend = 2.0 * a * along[row] ** 2 * (-1.0 if active[row] else 1.0)
        constant, linear = constant + slope[row] * abs(along[row]) - bend * length, linear + bend
        if slope[row] > 0.0 and constant + linear * length >= 0.0:
            return length, crossed, row
        crossed.append(row)
    return float(min(-constant / linear, 1.0)), crossed, None


def dca(
    neuron: NeuronProblem,
    v: FloatArray,
    solver: Solver,
    max_iter: int,
    *,
    tangent: BoolArray | None = None,
    inexact: bool = False,
    walks: bool = False,
) -> DCAOutcome:
    """Run the DCA from ``v`` to a fixed point: linearise h, minimise the majoriser, repeat.

    With ``walks``, every step begins at the end of a `walk` on O, if O falls enough on the way. Nearly always this is a
    fixed point, and the first step confirms it.

    The first tangent of h has the active rows ``tangent``, by default those of `NeuronProblem.not_negative`. The DCA
    has converged when two iterates differ by less than 1e-12, or when the tangent of h repeats, since the next
    programme would then be the same.

    With ``inexact``, solvers that can stop early solve each programme only until most of its decrease is certain. A
    repeated tangent then means that little is left to gain, and the next visit to the neuron continues.
    """
    if neuron.curvature == 0.0:
        # With alpha_l = 0 only the penalty remains, and its minimiser is zero.
        return DCAOutcome(np.zeros_like(v), programmes=0, iterations=0, refused=0, unsolved=0, converged=True)
    z = neuron.design @ v
    value = neuron.value(v, z)
    tangent_rows: BoolArray | None = None
    answer: ConvexSolution | None = None
    iterations = unsolved = 0
    for programmes in range(max_iter):
        active = neuron.not_negative(v, z) if tangent is None or tangent_rows is not None else tangent
        if inexact:
            # Rows without weight in the tangent may be on either side of a kink that an exact answer would meet.
            active = active & (neuron.beta_h > 0.0)
        if tangent_rows is not None and np.array_equal(active, tangent_rows):
            return DCAOutcome(v, programmes, iterations, 0, unsolved, converged=True)
        if walks and np.any(v):
            end, steps = walk(neuron, v, max_steps=60 + 16 * len(v))
            end_z = neuron.design @ end
            end_value = neuron.value(end, end_z)
            iterations += steps
            if np.any(end != v) and end_value <= value - WALK_DECREASE * neuron.gamma * float((end - v) @ (end - v)):
                v, z, value = end, end_z, end_value
                active = neuron.not_negative(v, z)
        tangent_rows = active
        majoriser = neuron.majoriser(active)
        answer = solve_inexactly(solver, majoriser, answer, v) if inexact else solver.solve(majoriser, answer)
        iterations += answer.iterations
        unsolved += not answer.converged
        new_v, new_z = neuron.without_noise(answer.v)
        new_value = neuron.value(new_v, new_z)
        if not new_value <= value:  # also refuses NaN
            # A row at its kink whose sign contradicts the tangent lifts the majoriser off O by this much.
            lift = float(neuron.beta_h @ np.where(active != (z >= 0.0), np.abs(z), 0.0))
            refused = not new_value <= value + lift + neuron.rounding(z)
            return DCAOutcome(v, programmes + 1, iterations, int(refused), unsolved, converged=not refused)
        step = float(np.linalg.norm(new_v - v))
        v, z, value = new_v, new_z, new_value
        if step < DCA_TOLERANCE:
            return DCAOutcome(v, programmes + 1, iterations, 0, unsolved, converged=True)
    return DCAOutcome(v, max_iter, iterations, 0, unsolved, converged=False)
