"""The restart procedure: a tangent of h that leads down from a fixed point of the DCA that is no local minimiser.

The rows at their kinks decide whether the point is a local minimiser, and give a direction of descent if not; see
`kinks`.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import numpy as np

from dconnet._arrays import BoolArray, FloatArray
from dconnet.convex.backend import Solver
from dconnet.training.dc import KINK_TOLERANCE, DCAOutcome, NeuronProblem, dca
from dconnet.training.kinks import FLAT, Kinks, at_kink

# Restarts for one neuron in one visit; the next epoch may continue.
RESTARTS = 10


class Verdict(Enum):
    """Classification of a fixed point of the DCA."""

    LOCAL_MINIMUM = "All subgradients of h are subgradients of g: the point is a local minimiser of the subproblem."
    DESCENDS = "A subgradient of h is not one of g: the objective descends from here."
    NONE_FOUND = "No subgradient of h outside those of g was found, but there are too many to try them all."


def examine(neuron: NeuronProblem, v: FloatArray) -> tuple[Verdict, FloatArray | None]:
    """Test ∂h(v) ⊆ ∂g(v) at a fixed point of the DCA; return the verdict, and a direction of descent of O.

    Slopes count as zero below 1e-8, relative to the terms that they are the sum of.
    """
    kinks = Kinks.at(neuron, v, neuron.design @ v, KINK_TOLERANCE)
    if not kinks.open.any():
        return Verdict.LOCAL_MINIMUM, None  # the subgradient of h is unique, and is that of the DCA
    kinks = kinks.net()
    flat = FLAT * kinks.size
    found = kinks.steepest(enough=flat)
    if found.worst <= flat:
        return (Verdict.LOCAL_MINIMUM if found.complete else Verdict.NONE_FOUND), None
    direction = found.direction / found.worst
    return (Verdict.DESCENDS, direction) if kinks.along(direction) < -flat else (Verdict.NONE_FOUND, None)


def better_tangent(neuron: NeuronProblem, v: FloatArray) -> BoolArray | None:
    """Return the active rows of a tangent of h that leads down from a fixed point of the DCA; None if none was found.

    It is the tangent a small step along a direction of descent d. Its slope y is the subgradient of h with the largest
    ``<y, d>``, which exceeds g'(v; d) and therefore ``<x, d>`` of every subgradient x of g.
    """
    _, direction = examine(neuron, v)
    if direction is None:
        return None
    z = neuron.design @ v
    return np.where(at_kink(z, KINK_TOLERANCE), neuron.design @ direction > 0.0, z > 0.0)


def dca_with_restarts(
    neuron: NeuronProblem, v: FloatArray, solver: Solver, max_iter: int, *, inexact: bool = False
) -> DCAOutcome:
    """Run the DCA, and repeat it from better tangents while these lower the objective by more than rounding.

    An inexact DCA is completed by an exact one, since only its fixed point shows which rows are at their kinks.
    """
    outcome = dca(neuron, v, solver, max_iter, inexact=inexact)
    if inexact:
        outcome = _join(outcome, dca(neuron, outcome.v, solver, max_iter), use_second=True)
    while outcome.converged and outcome.restarts < RESTARTS:
        tangent = better_tangent(neuron, outcome.v)
        if tangent is None:
            break
        again = dca(neuron, outcome.v, solver, max_iter, tangent=tangent)
        z, before = neuron.design @ again.v, neuron.design @ outcome.v
        rounding = neuron.rounding(z) + neuron.rounding(before)
        escaped = neuron.value(again.v, z) < neuron.value(outcome.v, before) - rounding
        outcome = replace(_join(outcome, again, escaped), restarts=outcome.restarts + escaped)
        if not escaped:
            break
    return outcome


def _join(first: DCAOutcome, second: DCAOutcome, use_second: bool) -> DCAOutcome:
    """Return the result of one run with the counts of both."""
    return replace(
        second if use_second else first,
        programmes=first.programmes + second.programmes,
        iterations=first.iterations + second.iterations,
        refused=first.refused + second.refused,
        unsolved=first.unsolved + second.unsolved,
    )
