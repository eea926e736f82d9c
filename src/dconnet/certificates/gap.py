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

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.certificates.arrangement import can_enumerate, largest_correlation
from dconnet.convex.backend import Solver
from dconnet.convex.native import Native
from dconnet.convex.programme import Programme
from dconnet.model.network import Network
from dconnet.model.problem import Problem, WhitenedProblem

# Numbers that one batch of the search may hold.
BATCH = 2_000_000
MAX_STEPS = 50
# Directions that are climbed to the end, for either sign, and entries of the design up to which there are so many.
POLISHED = 8
POLISHED_ENTRIES = 500_000


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
        A lower bound that is proved in any case, but far lower if not exact.
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
    def kind(self) -> str:
        """What the bound is: "proved" or "estimate"."""
        return "proved" if self.exact else "estimate"


def global_gap(
    problem: Problem, network: Network, *, n_starts: int = 64, random_state: int = 0, exact: bool | None = None
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
        independent columns of M) and 1000 different rows, 300 if there are several outputs; without limit for one
        input.

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
    V = white.whiten(network)
    residual = white.y - np.maximum(white.preactivations(V), 0.0) @ white.output_weights(network)
    if exact is None:
        exact = can_enumerate(white.Q, white.n_outputs)
    if exact:
        largest, v = largest_correlation(white.Q, residual)
    else:
        largest, v = _search(white.Q, residual, _starts(V, n_starts, random_state))
    objective = problem.objective(network)
    estimate = min(_bound(white, residual, largest), objective)
    proved = estimate if exact else min(_bound(white, residual, _ceiling(white.Q, residual)), objective)
    direction = white.whitening.from_white @ v
    return GlobalGap(objective, estimate, exact, proved, largest / white.gamma, direction)


def _bound(white: WhitenedProblem, residual: FloatArray, largest: float) -> float:
    """Lower bound on RegLoss by the best feasible multiple of the residual."""
    square, product = float(np.vdot(residual, residual)), float(np.vdot(residual, white.y))
    if square == 0.0 or product <= 0.0:
        return white.scatter / white.total_weight  # λ = 0
    multiple = min(product / square, white.gamma / largest if largest > 0.0 else np.inf)
    return (2.0 * multiple * product - multiple**2 * square + white.scatter) / white.total_weight


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


def _starts(V: FloatArray, n_starts: int, random_state: int) -> FloatArray:
    """Directions to begin the search from: random ones, and those of the network's own neurons."""
    rng = np.random.default_rng(random_state)
    return _normalised(np.vstack([rng.standard_normal((n_starts, V.shape[1])), V]))


def _search(Q: FloatArray, r: FloatArray, starts: FloatArray) -> tuple[float, FloatArray]:
    """Largest ``|rᵀ σ(Q v)|`` found from the starts; the true one is not smaller."""
    solver = Native().prepare(Q)
    if r.ndim == 2:
        values, V = _ascended(Q, r, starts)
        best = np.argsort(-values)[: _n_polished(Q)]
        return max((_polished_for_several(solver, Q, r, v) for v in V[best]), key=lambda pair: pair[0])
    found = []
    for w in (r, -r):
        values, V = _ascended(Q, w, starts)
        best = np.argsort(-values)[: _n_polished(Q)]
        found += [_polished(solver, Q, w, v) for v in V[best]]
    return max(found, key=lambda pair: pair[0])


def _n_polished(Q: FloatArray) -> int:
    """Number of directions to climb to the end."""
    return max(1, min(POLISHED, POLISHED * POLISHED_ENTRIES // Q.size))


def _polished_for_several(solver: Solver, Q: FloatArray, R: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
    """Climb on with several outputs: `_polished` for ``w = R b``, with b the direction of ``Rᵀ σ(Qv)``, and again.

    The length of that vector is its product with b, and not less than its product with any other direction.
    """
    value, b = _length_and_direction(Q, R, v)
    for _ in range(MAX_STEPS):
        _, better = _polished(solver, Q, R @ b, v)
        new_value, new_b = _length_and_direction(Q, R, better)
        if not new_value > value * (1.0 + 1e-12):
            break
        value, v, b = new_value, better, new_b
    return value, v


def _length_and_direction(Q: FloatArray, R: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
    product = R.T @ np.maximum(Q @ v, 0.0)
    length = float(np.linalg.norm(product))
    return length, product / length if length > 0.0 else product


def _ascended(Q: FloatArray, w: FloatArray, starts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values and places after ``v ← normalise(Qᵀ (w where Qv > 0))`` from every start, a batch at a time.

    With several outputs, w of each start is ``R Rᵀ σ(Qv)``, normalised: the step follows the gradient of ``|Rᵀ
    σ(Qv)|``.
    """
    size = max(1, BATCH // len(Q))
    batches = [_ascend(Q, w, starts[first : first + size]) for first in range(0, len(starts), size)]
    return np.concatenate([values for values, _ in batches]), np.vstack([V for _, V in batches])


def _ascend(Q: FloatArray, w: FloatArray, V: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Repeat the step while any of the values improves; the best place of each start is kept."""
    best, places = np.full(len(V), -np.finfo(np.float64).max), V
    for _ in range(MAX_STEPS):
        Z = V @ Q.T
        values, pull = _values_and_pull(Z, w)
        better = values > best + 1e-12 * np.abs(best)
        if not better.any():
            break
        best, places = np.where(better, values, best), np.where(better[:, None], V, places)
        V = _normalised(((Z > 0.0) * pull) @ Q)
    return best, places


def _values_and_pull(Z: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The value at each row of preactivations, and what each of their entries pulls with."""
    products = np.maximum(Z, 0.0) @ w
    if w.ndim == 1:
        return products, w
    return np.linalg.norm(products, axis=1), _normalised(products) @ w.T


def _polished(solver: Solver, Q: FloatArray, w: FloatArray, v: FloatArray) -> tuple[float, FloatArray]:
    """Climb on to a place from which the DCA finds no better one.

    Each step replaces the convex part of ``wᵀ σ(Qv)`` by its tangent. What is left to maximise on the sphere is concave
    and homogeneous, and the minimiser of ``|v|² / 2`` minus it points to its maximum. Unlike the gradient, this
    finds maxima that lie in the kinks of rows with a negative w_j.
    """
    rising, falling = np.maximum(w, 0.0), np.maximum(-w, 0.0)
    value = float(w @ np.maximum(Q @ v, 0.0))
    for _ in range(MAX_STEPS):
        tangent = Q.T @ (rising * (Q @ v >= 0.0))
        step = solver.solve(Programme(Q, tangent, falling, curvature=1e-9, gamma=0.5)).v
        length = float(np.linalg.norm(step))
        if length == 0.0:
            break
        new_value = float(w @ np.maximum(Q @ step, 0.0)) / length
        if not new_value > value * (1.0 + 1e-12):
            break
        value, v = new_value, step / length
    return value, v


def _normalised(V: FloatArray) -> FloatArray:
    """Rows of length one; a row of zeros stays."""
    lengths = np.linalg.norm(V, axis=1, keepdims=True)
    normalised: FloatArray = V / np.where(lengths > 0.0, lengths, 1.0)
    return normalised
