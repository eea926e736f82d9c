"""The constants of the convergence theory, derived on the errata page of the documentation.

In the coordinates u = (w, b) of the data they depend on the singular values of the design M. In whitened coordinates
v the design is orthonormal, and the same formulas hold with singular values of one.

They also hold for several outputs, with Frobenius norms of targets and output weights in units of ``output_scale``. The
products in the proofs are bounded by the Cauchy-Schwarz inequality over the outputs: ``|R a_l| ≤ |R| |a_l|`` and
``Σ_k |a_lk| |a_ik| ≤ |a_l| |a_i|``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._native import WALK_DECREASE


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants of RegLoss in one system of coordinates.

    Examples
    --------
    >>> from dconnet import Problem
    >>> problem = Problem(X=[[-2.0], [2.0]], y=[1.0, 3.0], gamma=0.5)  # M = [[-2, 1], [2, 1]]
    >>> round(problem.constants.sigma_min**2, 12), round(problem.constants.sigma_max**2, 12)
    (2.0, 8.0)
    >>> round(problem.constants.strong_convexity, 12)  # 2 · 0.5 · 2 / 2
    1.0
    """

    gamma: float
    total_weight: float  # m of the formulas: the sum of the sample weights
    target_norm: float  # weighted norm of the targets
    sigma_min: float  # smallest positive singular value of the weighted design; one in whitened coordinates
    sigma_max: float  # largest one

    @property
    def strong_convexity(self) -> float:
        """Modulus of strong convexity of g_l, ``2 gamma sigma_min² / m``: no larger one holds everywhere."""
        return 2.0 * self.dca_decrease

    @property
    def dca_decrease(self) -> float:
        """``gamma sigma_min² / m``: a DCA step that moves a neuron by d lowers RegLoss by at least this times d²."""
        return self.gamma * self.sigma_min**2 / self.total_weight

    @property
    def output_decrease(self) -> float:
        """``gamma / m``: the same for the ridge regression of the output weights."""
        return self.gamma / self.total_weight

    def sufficient_decrease(self, max_dca_iter: int = 50, split: str = "net") -> float:
        """Return the constant a of the sufficient-decrease condition (H1).

        With the net split, every DCA step may begin with a walk. A neuron then makes up to twice as many moves, each of
        which lowers RegLoss by at least a share of ``dca_decrease``.
        """
        per_move = self.dca_decrease / max_dca_iter
        return min(per_move * (WALK_DECREASE / 2.0 if split == "net" else 1.0), self.output_decrease)

    def relative_error(self, objective: float, split: str = "net") -> float:
        """Return the constant b of the relative-error condition (H2) for epochs that begin at or below this RegLoss.

        It holds for the subgradient that `stationarity` measures with the same split, if every DCA converged.
        """
        total = self.total_weight * objective  # F of the start bounds |residual|² and gamma (|V|² + |alpha|²)
        slopes = {
            "net": 2.0 * np.sqrt(total) + 2.0 * np.sqrt(2.0) * total / self.gamma,
            "paper": 2.0 * self.target_norm + (1.0 + 2.0 * np.sqrt(2.0)) * total / self.gamma,
        }
        return float(slopes[split] * self.sigma_max * max(self.sigma_max, 1.0) / self.total_weight)

    def hidden_bound(self, objective: float) -> float:
        """Return an upper bound on the norm of the weights of a neuron, given a bound on RegLoss."""
        return self.output_bound(objective) / self.sigma_min

    def output_bound(self, objective: float) -> float:
        """Return an upper bound on the norm of the output weights, given a bound on RegLoss."""
        return float(np.sqrt(self.total_weight * objective / self.gamma))
