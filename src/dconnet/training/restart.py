"""The restart procedure: whether the DCA stands still at a local minimiser, and which tangent leads on if not.

A DCA stands still at v when the tangent of h that it takes there, the one with all rows at their kink active, is a
subgradient of g, too. The point is a local minimiser of O = g - h if all subgradients of h are: ∂h(v) ⊆ ∂g(v). The
paper tests it by

    max over y in ∂h(v) of min over x in ∂g(v) of |y - x|_1,

which is zero exactly if the inclusion holds. By linear programming duality, the inner minimum is the largest
``<y, d> - g'(v; d)`` over the directions d with entries of at most one, and the largest ``<y, d>`` over ∂h(v) is
h'(v; d). The whole is therefore the steepest descent that O has at v,

    max over |d|_∞ ≤ 1 of -O'(v; d),    O'(v; d) = <pull, d> + Σ_j c_j σ(<q_j, d>)    (sum over the rows at the kink),

in which only the net slopes c = beta^g - beta^h appear: the answer does not depend on the split. In ε^h, the choice
of y, the inner minimum is convex, so that the maximum lies at a vertex of the box; and only rows with c_j < 0, at a
concave kink, need both ends of their interval. For each vertex, a linear programme finds the direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from itertools import product

import numpy as np
from scipy.optimize import linprog

from dconnet._arrays import BoolArray, FloatArray
from dconnet.convex.backend import Solver
from dconnet.training.dc import KINK_TOLERANCE, DCAOutcome, NeuronProblem, dca

# A slope that is less than this fraction of the slopes it is the sum of counts as zero.
FLAT = 1e-8

# Up to so many rows at a concave kink, all 2^k vertices are tried.
ENUMERATED = 8

# Beyond that, so many seeded directions are followed for so many steps.
DIRECTIONS, STEPS = 16, 30

# Restarts for one neuron in one visit; the next epoch may go on.
RESTARTS = 10


class Verdict(Enum):
    """What is known about a point where the DCA stands still."""

    LOCAL_MINIMUM = "All subgradients of h are subgradients of g: the point is a local minimiser of the subproblem."
    DESCENDS = "A subgradient of h is not one of g: the objective descends from here."
    NONE_FOUND = "No subgradient of h outside those of g was found, but there are too many to try them all."


@dataclass(frozen=True, slots=True, eq=False)
class Slopes:
    """The directional derivative of O at a point: ``O'(d) = <pull, d> + Σ_i bends_i σ(<rows_i, d>)``.

    Attributes
    ----------
    pull : array of shape (rank,)
        Gradient of all terms that are smooth at the point.
    rows : array of shape (n_kinks, rank)
        Rows of the design at their kink.
    bends : array of shape (n_kinks,)
        Their net slopes; negative ones belong to concave kinks.
    size : float
        Length of the slopes that add up in it, the unit in which they are told from rounding.
    """

    pull: FloatArray
    rows: FloatArray
    bends: FloatArray
    size: float

    @classmethod
    def at(cls, neuron: NeuronProblem, v: FloatArray) -> Slopes:
        """The slopes of the neuron's objective at v, but for rows whose bend is rounding."""
        z = neuron.design @ v
        kinked = at_kink(z)
        bends = neuron.beta_g - neuron.beta_h
        smooth = np.where(kinked | (z < 0.0), 0.0, bends + 2.0 * neuron.curvature * z)
        pull = neuron.design.T @ smooth + 2.0 * neuron.gamma * v
        size = float(np.linalg.norm(smooth) + np.linalg.norm(bends[kinked]) + 2.0 * neuron.gamma * np.linalg.norm(v))
        steepness = np.abs(bends) * np.linalg.norm(neuron.design, axis=1)
        bent = kinked & (steepness * max(np.sum(kinked), 1) > FLAT * size)
        return cls(pull, neuron.design[bent], bends[bent], size)

    @property
    def concave(self) -> BoolArray:
        """Which of the kinks are concave."""
        return np.asarray(self.bends < 0.0)

    def along(self, directions: FloatArray) -> FloatArray:
        """O' along directions of length one, of shape (rank,) or (rank, n), as a fraction of `size`."""
        bent = self.bends @ np.maximum(self.rows @ directions, 0.0)
        slopes: FloatArray = (self.pull @ directions + bent) / (self.size or 1.0)
        return slopes


def at_kink(z: FloatArray) -> BoolArray:
    """Rows that sit at their kink, up to the noise of a solver."""
    return np.asarray(np.abs(z) <= KINK_TOLERANCE * float(np.max(np.abs(z))))


def examine(neuron: NeuronProblem, v: FloatArray) -> tuple[Verdict, FloatArray | None]:
    """Whether ∂h(v) ⊆ ∂g(v) at a point where the DCA stands still, and if not, a direction in which O descends.

    The proof of either is up to slopes of 1e-8, relative to the terms that they are the sum of.
    """
    z = neuron.design @ v
    if not np.any(neuron.beta_h[at_kink(z)]):
        return Verdict.LOCAL_MINIMUM, None  # h has one subgradient here, which is that of the DCA
    slopes = Slopes.at(neuron, v)
    across = _across_convex_kinks(slopes)
    if across is not None and slopes.along(across) < -FLAT:
        return Verdict.DESCENDS, across
    if np.sum(slopes.concave) <= ENUMERATED:
        return _enumerated(slopes)
    direction = _followed(slopes)
    return (Verdict.DESCENDS, direction) if slopes.along(direction) < -FLAT else (Verdict.NONE_FOUND, None)


def _across_convex_kinks(slopes: Slopes) -> FloatArray | None:
    """The steeper way of a direction that keeps all convex kinks and leaves a concave one.

    The convex kinks cost nothing along it and the concave ones gain: the slopes of both ways add up to less than zero.
    None if there is no such direction, because every concave kink has its row in the span of those of the convex ones.
    """
    if not slopes.concave.any():
        return None
    across = slopes.rows[slopes.concave].T  # (rank, concave kinks)
    norms = np.linalg.norm(across, axis=0)
    convex = slopes.rows[~slopes.concave]
    if len(convex):
        _, singular, basis = np.linalg.svd(convex, full_matrices=False)
        basis = basis[singular > 1e-10 * singular[0]]
        across = across - basis.T @ (basis @ across)
    lengths = np.linalg.norm(across, axis=0)
    farthest = int(np.argmax(lengths / norms))
    if lengths[farthest] <= FLAT * norms[farthest]:
        return None
    direction: FloatArray = across[:, farthest] / lengths[farthest]
    return min(direction, -direction, key=slopes.along)


def _enumerated(slopes: Slopes) -> tuple[Verdict, FloatArray | None]:
    """The verdict after all vertices, or after the first that descends."""
    verdict = Verdict.LOCAL_MINIMUM
    for vertex in product((0.0, 1.0), repeat=int(np.sum(slopes.concave))):
        direction = _steepest(slopes, np.array(vertex))
        if direction is None:
            verdict = Verdict.NONE_FOUND
        elif slopes.along(direction) < -FLAT:
            return Verdict.DESCENDS, direction
    return verdict, None


def _steepest(slopes: Slopes, vertex: FloatArray) -> FloatArray | None:
    """The steepest direction if the concave kinks are replaced by these shares of their slopes: a linear programme.

    In the unknowns (d, s), with s standing for σ(<q_j, d>) at the convex kinks. None if the programme was not solved.
    """
    rank = len(slopes.pull)
    convex, concave = slopes.rows[~slopes.concave], slopes.rows[slopes.concave]
    pull = slopes.pull + concave.T @ (vertex * slopes.bends[slopes.concave])
    answer = linprog(
        np.concatenate([pull, slopes.bends[~slopes.concave]]) / (slopes.size or 1.0),
        A_ub=np.column_stack([convex, -np.eye(len(convex))]) if len(convex) else None,
        b_ub=np.zeros(len(convex)) if len(convex) else None,
        bounds=[(-1.0, 1.0)] * rank + [(0.0, None)] * len(convex),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        return None
    direction: FloatArray = answer.x[:rank]
    return direction / (np.linalg.norm(direction) or 1.0)


def _followed(slopes: Slopes) -> FloatArray:
    """The steepest of the directions met while seeded ones are followed downhill on the sphere."""
    directions = np.random.default_rng(0).standard_normal((len(slopes.pull), DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    best = directions
    for _ in range(STEPS):
        active = slopes.rows @ directions > 0.0
        gradients = slopes.pull[:, None] + slopes.rows.T @ (slopes.bends[:, None] * active)
        lengths = np.linalg.norm(gradients, axis=0)
        directions = np.where(lengths > 0.0, -gradients / np.where(lengths > 0.0, lengths, 1.0), directions)
        best = np.where(slopes.along(directions) < slopes.along(best), directions, best)
    steepest: FloatArray = best[:, np.argmin(slopes.along(best))]
    return steepest


def better_tangent(neuron: NeuronProblem, v: FloatArray) -> BoolArray | None:
    """Active rows of a tangent of h at v that leads on from where the DCA stands still; None if none was found.

    It is the tangent a little way along a direction of descent. Its slope y is the subgradient of h with the largest
    ``<y, d>``, which is more than g'(v; d) and so more than any subgradient of g has.
    """
    _, direction = examine(neuron, v)
    if direction is None:
        return None
    z = neuron.design @ v
    return np.where(at_kink(z), neuron.design @ direction > 0.0, z > 0.0)


def dca_with_restarts(
    neuron: NeuronProblem, v: FloatArray, solver: Solver, max_iter: int, *, inexact: bool = False
) -> DCAOutcome:
    """Run the DCA, and again from a better tangent for as long as one lowers the objective by more than rounding.

    An inexact DCA is brought to its end by an exact one: which rows are at their kink can only be told there.
    """
    outcome = dca(neuron, v, solver, max_iter, inexact=inexact)
    if inexact:
        outcome = _joined(outcome, dca(neuron, outcome.v, solver, max_iter), went_on=True)
    while outcome.converged and outcome.restarts < RESTARTS:
        tangent = better_tangent(neuron, outcome.v)
        if tangent is None:
            break
        again = dca(neuron, outcome.v, solver, max_iter, tangent=tangent)
        escaped = _is_lower(neuron, again.v, outcome.v)
        outcome = replace(_joined(outcome, again, escaped), restarts=outcome.restarts + escaped)
        if not escaped:
            break
    return outcome


def _is_lower(neuron: NeuronProblem, v: FloatArray, than: FloatArray) -> bool:
    """Whether the objective at v is lower by more than rounding."""
    z, before = neuron.design @ v, neuron.design @ than
    rounding = neuron.rounding(z) + neuron.rounding(before)
    return neuron.value(v, z) < neuron.value(than, before) - rounding


def _joined(first: DCAOutcome, second: DCAOutcome, went_on: bool) -> DCAOutcome:
    """Both runs as one, which ends where the second did if that went on from the first."""
    return replace(
        second if went_on else first,
        programmes=first.programmes + second.programmes,
        iterations=first.iterations + second.iterations,
        refused=first.refused + second.refused,
        unsolved=first.unsolved + second.unsolved,
    )
