"""The restart procedure: a tangent of h that leads on where the DCA stands still without being at a local minimiser.

Whether it is one, and in which direction the objective descends if not, is told by the rows at their kink: see `kinks`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np

from dconnet._arrays import BoolArray, FloatArray
from dconnet.convex.backend import Solver
from dconnet.training.dc import KINK_TOLERANCE, DCAOutcome, NeuronProblem, dca
from dconnet.training.kinks import FLAT, Kinks, at_kink

# Restarts for one neuron in one visit; the next epoch may go on.
RESTARTS = 10


class Verdict(Enum):
    """What is known about a point where the DCA stands still."""

    LOCAL_MINIMUM = "All subgradients of h are subgradients of g: the point is a local minimiser of the subproblem."
    DESCENDS = "A subgradient of h is not one of g: the objective descends from here."
    NONE_FOUND = "No subgradient of h outside those of g was found, but there are too many to try them all."


def examine(neuron: NeuronProblem, v: FloatArray) -> tuple[Verdict, FloatArray | None]:
    """Whether ∂h(v) ⊆ ∂g(v) at a point where the DCA stands still, and if not, a direction in which O descends.

    The proof of either is up to slopes of 1e-8, relative to the terms that they are the sum of.
    """
    kinks = Kinks.at(neuron, v, neuron.design @ v, KINK_TOLERANCE)
    if not kinks.open.any():
        return Verdict.LOCAL_MINIMUM, None  # h has one subgradient here, which is that of the DCA
    kinks = kinks.net()
    flat = FLAT * kinks.size
    found = kinks.steepest(enough=flat)
    if found.worst <= flat:
        return (Verdict.LOCAL_MINIMUM if found.complete else Verdict.NONE_FOUND), None
    direction = found.direction / found.worst
    return (Verdict.DESCENDS, direction) if kinks.along(direction) < -flat else (Verdict.NONE_FOUND, None)


def better_tangent(neuron: NeuronProblem, v: FloatArray) -> BoolArray | None:
    """Active rows of a tangent of h at v that leads on from where the DCA stands still; None if none was found.

    It is the tangent a little way along a direction of descent. Its slope y is the subgradient of h with the largest
    ``<y, d>``, which is more than g'(v; d) and so more than any subgradient of g has.
    """
    _, direction = examine(neuron, v)
    if direction is None:
        return None
    z = neuron.design @ v
    return np.where(at_kink(z, KINK_TOLERANCE), neuron.design @ direction > 0.0, z > 0.0)


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
