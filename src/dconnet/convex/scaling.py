"""Units of length and gradient in which any programme has numbers of order one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dconnet.convex.programme import Programme


@dataclass(frozen=True, slots=True)
class Unit:
    """Units of length and of gradient in which the programme has numbers of order one.

    Attributes
    ----------
    length : float
        What one unit of v in the scaled programme is in the original one; zero if zero is the solution.
    gradient : float
        The same for the multipliers.
    """

    length: float
    gradient: float

    @classmethod
    def of(cls, programme: Programme) -> Unit:
        """The units of this programme: its largest linear coefficient, and that over its full curvature."""
        gradient = float(np.max(np.abs(programme.linear)))
        return cls(gradient / (programme.gamma + programme.curvature), gradient)

    def scaled(self, programme: Programme) -> Programme:
        """The same programme measured in these units."""
        hessian = programme.gamma + programme.curvature
        return replace(
            programme,
            linear=programme.linear / self.gradient,
            slope=programme.slope / self.gradient,
            curvature=programme.curvature / hessian,
            gamma=programme.gamma / hessian,
        )
