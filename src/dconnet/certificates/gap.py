"""A lower bound on RegLoss over the networks of all widths.

Balanced neurons make the penalty ``2 gamma Σ |alpha_l| |v_l|``, and RegLoss convex over the measures of neurons. Its
dual is the maximum of ``2 λᵀy - |λ|²`` over all λ with ``|λᵀ σ(Q v)| ≤ gamma`` for every v of length one. A multiple of
the residual of any network is feasible, and gives a lower bound for all networks.

With several outputs, λ is a matrix Λ like the targets, and the condition is ``|Λᵀ σ(Q v)| ≤ gamma`` for the length of
that vector. Then ``<Λ, Σ_l σ(Q v_l) a_lᵀ> ≤ gamma Σ_l |a_l| |v_l|``, and ``F ≥ 2 <Λ, Y> - |Λ|²`` follows as before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import no_network_is_better
from dconnet._threads import one_blas_thread
from dconnet.convex.native import Native
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.arrangement import (
    DualPoint,
    can_enumerate,
    can_search,
    largest_correlation,
    rounding,
    search_cones,
)
from dconnet.training.descent import Options
from dconnet.training.growth import GrowingDescent
from dconnet.training.new_neurons import climb, random_starts


@dataclass(frozen=True, slots=True, eq=False)
class GlobalGap:
    """A lower bound on RegLoss over the networks of all widths, and the distance from it.

    Attributes
    ----------
    objective : float
        RegLoss of the network.
    bound : float
        The lower bound. Proved if ``exact``; otherwise an estimate, which is too high if the search missed a direction.
    exact : bool
        Whether all activation patterns were enumerated.
    proved_bound : float
        A bound that is always proved: by branch and bound for three to five inputs and one output, within its limits;
        otherwise by a coarse inequality, and then far below ``bound``.
    correlation : float
        The largest ``|rᵀ σ(Q v)| / gamma`` found over v of length one. Above one, a new neuron lowers RegLoss; at an
        optimum over all widths it is one.
    direction : array of shape (n_features + 1,)
        Weights and intercept, up to a positive factor, of the neuron that attains it.
    """

    objective: float
    bound: float
    exact: bool
    proved_bound: float
    correlation: float
    direction: FloatArray

    @property
    def gap(self) -> float:
        """RegLoss above the bound."""
        return max(self.objective - self.bound, 0.0)

    @property
    def relative_gap(self) -> float:
        """The gap as a fraction of RegLoss, between zero and one."""
        return self.gap / self.objective if self.objective > 0.0 else 0.0

    @property
    def proved_gap(self) -> float:
        """The gap to the proved bound, as a fraction of RegLoss."""
        return max(self.objective - self.proved_bound, 0.0) / self.objective if self.objective > 0.0 else 0.0

    @property
    def sentence(self) -> str:
        """The proved statement in words."""
        return no_network_is_better(self.proved_gap, proved=True)

    @property
    def kind(self) -> str:
        """Either "proved" or "estimate", for ``bound``."""
        return "proved" if self.exact else "estimate"


def global_gap(
    problem: Problem,
    network: Network,
    *,
    n_starts: int = 64,
    random_state: int = 0,
    exact: bool | None = None,
    improve: bool = False,
    max_parts: int | None = 20_000,
    max_seconds: float | None = None,
) -> GlobalGap:
    """Bound RegLoss from below over the networks of all widths.

    Parameters
    ----------
    problem, network :
        The training problem, and the network whose residual makes the bound. The closer the network is to the optimum,
        the better is the bound.
    n_starts, random_state : int
        Random starts of the search for the most correlated direction, and their seed.
    exact : bool, optional
        Whether to enumerate all activation patterns instead. The default does so for one input, and for two inputs with
        up to 2000 different rows (300 with several outputs).
    improve : bool
        Whether to grow the network first, as ``n_hidden="auto"`` does. The bound of a network that is too narrow is far
        too low; growing takes as long as a fit.
    max_parts : int or None
        Parts of the sphere that branch and bound visits to prove a bound where patterns are not enumerated; None for no
        limit.
    max_seconds : float or None
        Time limit of the growth, and of branch and bound.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.certificates import global_gap
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> y = np.abs(X[:, 0])
    >>> model = DCONRegressor(n_hidden=4, gamma=0.1, random_state=0).fit(X, y)
    >>> gap = global_gap(model.problems(X, y)[0], model.network_)
    >>> gap.kind, gap.relative_gap < 0.01
    ('proved', True)
    """
    white = problem.whitened
    is_exact = can_enumerate(white.Q, white.n_outputs) if exact is None else exact

    def bound(network: Network) -> tuple[float, FloatArray, DualPoint, DualPoint]:
        """Return correlation and weights of the most useful new neuron, and the estimated and the proved dual point."""
        Q, V = white.Q, white.whiten(network)
        residual = white.y - np.maximum(white.preactivations(V), 0.0) @ white.output_weights(network)
        if is_exact:
            largest, v = largest_correlation(Q, residual)
            point = DualPoint.of_residual(white, residual, largest + rounding(Q, residual))
            return largest, v, point, point
        values, directions = climb(Q, residual, random_starts(V, n_starts, np.random.default_rng(random_state)))
        first = int(np.argmax(values))
        largest, v = float(values[first]), directions[first]
        ceiling = _correlation_ceiling(Q, residual)
        if can_search(Q, white.n_outputs) and max_parts != 0:
            by_cones, _ = search_cones(Q, residual, v[None, :], max_parts=max_parts, max_seconds=max_seconds)
            ceiling = min(ceiling, by_cones)
        estimate, proved = (DualPoint.of_residual(white, residual, size) for size in (largest, max(ceiling, largest)))
        return largest, v, estimate, proved

    correlation, v, estimate, proved = bound(network)
    if improve:
        options = Options(split="net", max_seconds=max_seconds)
        with one_blas_thread():
            descent = GrowingDescent(problem, Native(), options, np.random.default_rng(random_state))
            *_, estimate_grown, proved_grown = bound(descent.run(network).network)
        estimate, proved = estimate.combine(estimate_grown), proved.combine(proved_grown)
    objective = problem.objective(network)
    estimated_bound, proved_bound = (min(point.bound, objective) for point in (estimate, proved))
    direction = white.whitening.from_white @ v
    return GlobalGap(objective, estimated_bound, is_exact, proved_bound, correlation / white.gamma, direction)


def _correlation_ceiling(Q: FloatArray, r: FloatArray) -> float:
    """Return a proved upper bound on ``|rᵀ σ(Q v)|`` over v of length one.

    As σ(z) = (z + |z|) / 2, and rows of the other sign only lower the product, it is at most half of ``|Qᵀr|`` plus
    half of the largest ``Σ r⁺ |z|``. The latter is at most ``|r⁺|``, and at most the root of Σ r⁺ times the largest
    eigenvalue of Qᵀ diag(r⁺) Q, both by the Cauchy-Schwarz inequality. The same two bound ``Σ r⁺ σ(z)`` itself.

    With several outputs, the length of a vector is bounded by those of its entries in the basis of the singular vectors
    of r, and by the largest singular value, since σ(Qv) is not longer than one.
    """
    if r.ndim == 2:
        left, singular, _ = np.linalg.svd(r, full_matrices=False)
        entries = [size * _correlation_ceiling(Q, column) for size, column in zip(singular, left.T, strict=True)]
        return min(float(singular[0]), float(np.linalg.norm(entries)))
    linear = float(np.linalg.norm(Q.T @ r))
    ceilings = []
    for part in (np.maximum(r, 0.0), np.maximum(-r, 0.0)):
        steepest = float(np.linalg.eigvalsh((Q * part[:, None]).T @ Q)[-1])
        hinges = min(float(np.linalg.norm(part)), float(np.sqrt(max(steepest, 0.0) * part.sum())))
        ceilings.append(min(hinges, (linear + hinges) / 2.0))
    return max(ceilings)
