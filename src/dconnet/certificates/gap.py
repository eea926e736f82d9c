"""How far RegLoss is from what any network, of any width, could reach.

Balanced neurons make the penalty ``2 gamma Σ |alpha_l| |v_l|``, and RegLoss convex over the measures of neurons. Its
dual is the maximum of ``2 λᵀy - |λ|²`` over all λ with ``|λᵀ σ(Q v)| ≤ gamma`` for every v of length one. A multiple of
the residual of any network is feasible, and gives a lower bound for all networks.

With several outputs, λ is a matrix Λ like the targets, and the condition is ``|Λᵀ σ(Q v)| ≤ gamma`` for the length of
that vector: then ``<Λ, Σ_l σ(Q v_l) a_lᵀ> ≤ gamma Σ_l |a_l| |v_l|``, and ``F ≥ 2 <Λ, Y> - |Λ|²`` follows as with one
output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import no_network_is_better
from dconnet._threads import one_blas_thread
from dconnet.convex.native import Native
from dconnet.model.network import Network
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.training.arrangement import can_enumerate, largest_correlation, rounding
from dconnet.training.cones import can_search, correlation_bound
from dconnet.training.descent import Options
from dconnet.training.dual import DualPoint
from dconnet.training.growth import GrowingDescent
from dconnet.training.newcomers import climbed, random_starts


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
        A lower bound that is proved in any case: by branch and bound with three to five inputs, and one output, as far
        as its limits let it; beyond that by a coarse estimate, and then far lower than ``bound``.
    correlation : float
        The largest ``|rᵀ σ(Q v)| / gamma`` found over v of length one, for several outputs the length of a vector.
        Above one, a new neuron lowers RegLoss, which needs no exactness; at an optimum over all widths it is one.
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
        """The gap as a part of RegLoss, between zero and one."""
        return self.gap / self.objective if self.objective > 0.0 else 0.0

    @property
    def proved_gap(self) -> float:
        """The gap to the bound that is proved, as a part of RegLoss."""
        return max(self.objective - self.proved_bound, 0.0) / self.objective if self.objective > 0.0 else 0.0

    @property
    def sentence(self) -> str:
        """What is proved, in words."""
        return no_network_is_better(self.proved_gap, proved=True)

    @property
    def kind(self) -> str:
        """What the bound is: "proved" or "estimate"."""
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
    problem : Problem
        The training problem.
    network : Network
        The network whose residual makes the bound; the closer it is to the optimum, the better the bound.
    n_starts : int
        Random starts of the search for the most correlated direction.
    random_state : int
        Their seed.
    exact : bool, optional
        Whether to enumerate all activation patterns instead, which is done by default for up to two inputs (three
        independent columns of M) and 2000 different rows, 300 if there are several outputs; without limit for one
        input.
    improve : bool
        Whether to grow the network on, as ``n_hidden="auto"`` does, for the sake of a better bound: that of a network
        that is too narrow is far too low. It takes as long as a fit.
    max_parts : int or None
        Parts of the sphere that branch and bound looks at to prove a bound where patterns are not enumerated, with
        three to five inputs and one output. None for no limit.
    max_seconds : float or None
        Time for each of both, at most.

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
    if exact is None:
        exact = can_enumerate(white.Q, white.n_outputs)
    look = partial(_look, white, n_starts, random_state, exact, max_parts, max_seconds)
    found = look(network)
    estimate, proved = found.estimate, found.proved
    if improve:
        grown = look(_grown(problem, network, random_state, max_seconds))
        estimate, proved = estimate.improved(grown.estimate), proved.improved(grown.proved)
    objective = problem.objective(network)
    bounds = [min(point.bound, objective) for point in (estimate, proved)]
    direction = white.whitening.from_white @ found.v
    return GlobalGap(objective, bounds[0], exact, bounds[1], found.largest / white.gamma, direction)


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """The most useful new neuron of a network, and what its residual proves."""

    largest: float
    v: FloatArray
    estimate: DualPoint
    proved: DualPoint


def _look(
    white: WhitenedProblem,
    n_starts: int,
    seed: int,
    exact: bool,
    max_parts: int | None,
    max_seconds: float | None,
    network: Network,
) -> _Look:
    Q, V = white.Q, white.whiten(network)
    residual = white.y - np.maximum(white.preactivations(V), 0.0) @ white.output_weights(network)
    if exact:
        largest, v = largest_correlation(Q, residual)
        point = DualPoint.scaled(white, residual, largest + rounding(Q, residual))
        return _Look(largest, v, point, point)
    values, directions = climbed(Q, residual, random_starts(V, n_starts, np.random.default_rng(seed)))
    first = int(np.argmax(values))
    largest, v = float(values[first]), directions[first]
    ceiling = _ceiling(Q, residual)
    if can_search(Q, white.n_outputs) and max_parts != 0:
        by_cones = correlation_bound(Q, residual, v[None, :], max_parts=max_parts, max_seconds=max_seconds)
        ceiling = min(ceiling, by_cones)
    return _Look(
        largest, v, DualPoint.scaled(white, residual, largest), DualPoint.scaled(white, residual, max(ceiling, largest))
    )


def _grown(problem: Problem, network: Network, seed: int, max_seconds: float | None) -> Network:
    """The network, grown until no new neuron lowers RegLoss."""
    options = Options(split="net", max_seconds=max_seconds)
    with one_blas_thread():
        return GrowingDescent(problem, Native(), options, np.random.default_rng(seed)).run(network).network


def _ceiling(Q: FloatArray, r: FloatArray) -> float:
    """A number that ``|rᵀ σ(Q v)|`` is proved not to exceed.

    As σ(z) = (z + |z|) / 2, and rows of the other sign only lower the product, it is at most half of ``|Qᵀr|`` plus
    half of the largest ``Σ r⁺ |z|``. The latter is at most ``|r⁺|``, and at most the root of Σ r⁺ times the largest
    eigenvalue of Qᵀ diag(r⁺) Q, both by the inequality of Cauchy and Schwarz. The same two bound ``Σ r⁺ σ(z)`` itself.

    With several outputs, the length of a vector is bounded by those of its entries in the basis of the singular vectors
    of r, and by the largest singular value, since σ(Qv) is not longer than one.
    """
    if r.ndim == 2:
        left, singular, _ = np.linalg.svd(r, full_matrices=False)
        entries = [size * _ceiling(Q, column) for size, column in zip(singular, left.T, strict=True)]
        return min(float(singular[0]), float(np.linalg.norm(entries)))
    linear = float(np.linalg.norm(Q.T @ r))
    ceilings = []
    for part in (np.maximum(r, 0.0), np.maximum(-r, 0.0)):
        steepest = float(np.linalg.eigvalsh((Q * part[:, None]).T @ Q)[-1])
        hinges = min(float(np.linalg.norm(part)), float(np.sqrt(max(steepest, 0.0) * part.sum())))
        ceilings.append(min(hinges, (linear + hinges) / 2.0))
    return max(ceilings)
