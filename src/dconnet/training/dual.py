"""Lower bounds on RegLoss over the networks of all widths, by feasible points of the dual problem.

For every λ with ``|λᵀ σ(Q v)| ≤ gamma`` for all v of length one, ``m · RegLoss ≥ 2 λᵀy - |λ|²`` for every network of
every width. Scaling makes any vector feasible if its largest ``|λᵀ σ(Q v)|`` is known. Points between two feasible
points are feasible, so the bounds of several residuals can be combined, and the bound never falls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.model.problem import WhitenedProblem


@dataclass(frozen=True, slots=True, eq=False)
class DualPoint:
    """A feasible point of the dual problem: ``multipliers`` is λ of the module docstring, of the shape of y."""

    problem: WhitenedProblem
    multipliers: FloatArray

    @classmethod
    def zero(cls, problem: WhitenedProblem) -> DualPoint:
        """Return the point that is feasible for every problem."""
        return cls(problem, np.zeros_like(problem.y))

    @classmethod
    def scaled(cls, problem: WhitenedProblem, residual: FloatArray, largest: float) -> DualPoint:
        """Return the best feasible multiple of a residual whose largest ``|rᵀ σ(Q v)|`` is at most ``largest``."""
        square, product = float(np.vdot(residual, residual)), float(np.vdot(residual, problem.y))
        if square == 0.0 or product <= 0.0:
            return cls.zero(problem)
        multiple = min(product / square, problem.gamma / largest if largest > 0.0 else np.inf)
        return cls(problem, multiple * residual)

    @property
    def bound(self) -> float:
        """The lower bound on RegLoss."""
        own, y = self.multipliers, self.problem.y
        value = 2.0 * float(np.vdot(own, y)) - float(np.vdot(own, own))
        return (value + self.problem.scatter) / self.problem.total_weight

    def combine(self, other: DualPoint) -> DualPoint:
        """Return the best point between this one and another."""
        difference = other.multipliers - self.multipliers
        square = float(np.vdot(difference, difference))
        if square == 0.0:
            return self
        share = float(np.clip(np.vdot(self.problem.y - self.multipliers, difference) / square, 0.0, 1.0))
        found = DualPoint(self.problem, self.multipliers + share * difference)
        return found if found.bound > self.bound else self
