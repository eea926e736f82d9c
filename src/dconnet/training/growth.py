"""Training that finds the width of the network: neurons are added while they lower RegLoss.

Balanced neurons make RegLoss convex over the measures of neurons, whatever their number. An epoch is a round: joint
steps on all weights; neurons with the same active rows become one, and those that carry nothing go; Newton steps take
the convex problem over the sides that the rows have now to its minimum; then a search for the directions in which new
neurons lower RegLoss most, and several of them join. At the end none does: where the search is exact, no network of any
width is better, and the residual proves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray
from dconnet._text import no_network_is_better
from dconnet.convex.backend import Backend
from dconnet.model.blocks import blocks
from dconnet.model.network import Network
from dconnet.model.problem import Problem, hidden_layer
from dconnet.training.accelerated import AcceleratedDescent, Moves
from dconnet.training.arrangement import can_enumerate, candidates, rounding
from dconnet.training.checkpoint import Snapshot
from dconnet.training.cones import can_search, search_cones
from dconnet.training.descent import Descent, Options, State
from dconnet.training.dual import DualPoint
from dconnet.training.early_stopping import Validation
from dconnet.training.faces import Faces, balanced, merged, vectors
from dconnet.training.newcomers import climbed, most_different, random_starts

# Neurons to start from.
START = 4
# Neurons that may join in one round: these at least, and this share of those that are there; more beyond two features.
FEWEST_NEW, NEW_SHARE, LARGE_SHARE = 8, 0.15, 0.3
# New directions differ by this angle, and by less the more neurons there are.
WIDEST_ANGLE, ANGLE = 0.2, 1.5
# Evaluations of RegLoss in the joint steps of a round, and beyond two features.
EVALUATIONS, MANY_EVALUATIONS = 300, 1000
# Random directions from which the search for new neurons climbs.
STARTS = 32
# The same before it is said that there are none, how many climbs go to the end then, and parts of the sphere that
# branch and bound looks at.
MANY_STARTS, MANY_POLISHED, PARTS = 256, 64, 50_000
# All patterns are enumerated once climbing finds nothing above this; until then, it does.
NEARLY = 1.05
# Newton steps in a round, and the gain at which they end, as a share of the gap to the lower bound.
NEWTON_STEPS, NEWTON_SHARE = 100, 1e-4
# Beyond two features, there are none while a round lowers RegLoss by more than this share of it.
FAST = 0.003
# Below this excess of the correlation over one, they go on to the last digits.
LAST_DIGITS = 1e-4
# Entries of the hidden layer of all rows up to which neurons are merged and faces are looked at.
LARGEST_LAYER = 20_000_000
# Passes over new neurons to find their output weights.
PASSES = 20
# Up to this times the estimated gap, only the proved one is told.
ALIKE = 1.5
# Neurons whose output is below this share of the largest one carry nothing.
NOTHING = 1e-12
# Where RegLoss falls by less than this share of tol in as many rounds, growth has come to its end.
STALLED, STALLED_ROUNDS = 1e-3, 3


@dataclass(frozen=True, slots=True)
class Newcomers:
    """What the search for new neurons found at a network.

    Attributes
    ----------
    correlation : float
        The largest ``|rᵀ σ(Q v)| / gamma``; above one, a new neuron lowers RegLoss.
    exact : bool
        Whether no direction has a larger one, but for rounding.
    directions : array of shape (n, rank)
        Directions of length one that lower RegLoss.
    """

    correlation: float
    exact: bool
    directions: FloatArray


class GrowingDescent(AcceleratedDescent):
    """Training of a network that grows.

    Parameters
    ----------
    problem : Problem
        The data and the regularisation.
    backend : Backend
        Solver of the convex programmes in the sweeps.
    options : Options
        Limits and choices; an epoch is a round.
    rng : numpy.random.Generator
        Source of directions to search from.

    Attributes
    ----------
    newcomers : Newcomers or None
        What the last search found.
    dual : DualPoint
        The lower bound by the residual of the last round; an estimate unless its search was exact.
    proved : DualPoint
        The same of the searches alone whose bounds are proved.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.convex.backend import get_backend
    >>> from dconnet.model.problem import Problem, hidden_layer
    >>> from dconnet.training.descent import Options
    >>> from dconnet.training.growth import GrowingDescent
    >>> from dconnet.training.initialization import xavier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 2))
    >>> problem = Problem(X, np.abs(X[:, 0]), gamma=0.01)
    >>> descent = GrowingDescent(problem, get_backend("native"), Options(split="net"), rng)
    >>> solution = descent.run(xavier(n_features=2, n_hidden=4, rng=rng))
    >>> solution.status.name, solution.objective - descent.proved.bound < 1e-6 * solution.objective
    ('CONVERGED', True)
    """

    def __init__(self, problem: Problem, backend: Backend, options: Options, rng: np.random.Generator) -> None:
        super().__init__(problem, backend, options, rng, Moves(race=False, hop="none", revive=False))
        self.white = problem.whitened
        self.newcomers: Newcomers | None = None
        self.dual = self.proved = DualPoint.zero(self.white)
        self.is_enumerable = can_enumerate(self.white.Q, self.problem.n_outputs)

    @property
    def most(self) -> int:
        """The number of neurons that always suffices."""
        return len(self.white.Q) + 1

    def step(self, state: State) -> None:
        """One round: joint steps, fewer neurons for the same, Newton steps, new neurons."""
        self.prepare(state)  # for the width of today
        self.budget = EVALUATIONS if self.is_enumerable else MANY_EVALUATIONS
        self.explore(state)
        if self.seconds_left() > 0.0:
            self.settle_in(state)
        if self.seconds_left() > 0.0:
            self.newcomers = self.search(state)
            if self.newcomers.correlation > 1.0 + self.options.tol and len(self.newcomers.directions):
                self.add(state, self.newcomers.directions)
            state.n_epochs += 1

    def settle_in(self, state: State) -> None:
        """Simplify the network, and take it to a minimum."""
        if self.problem.n_outputs == 1 and self.problem.n_rows * len(state.alpha) <= LARGEST_LAYER:
            self.simplify(state)
            if self.is_worth_polishing(state):
                self.polish(state)
        else:
            self.block_descent(state)
            self.balance(state)
            self.newton(state)
        self.prune(state)

    def is_worth_polishing(self, state: State) -> bool:
        """Whether to take Newton steps: with many features, not while joint steps lower RegLoss fast."""
        before = state.history.epochs[-1].objective
        return self.is_enumerable or before - self.objective(state) <= FAST * before

    def block_descent(self, state: State) -> None:
        """A sweep with the output layer, as in the paper; it is not an epoch of its own."""
        n_epochs, budget = state.n_epochs, self.budget
        super().block_descent(state)
        state.n_epochs, self.budget = n_epochs, budget

    def simplify(self, state: State) -> None:
        """Add up neurons with the same active rows, and let those go that others can replace."""
        W, signs = merged(self.white.Q, *vectors(state.V, state.alpha))
        if len(W) >= self.most:
            W, signs = reduced(self.white.Q, W, signs)
        self.replace(state, *balanced(W, signs))

    def polish(self, state: State) -> None:
        """Minimise over the sides that the rows have now."""
        faces = Faces(self.white, *vectors(state.V, state.alpha))
        is_last = self.newcomers is not None and self.newcomers.correlation <= 1.0 + LAST_DIGITS
        tol = 0.0 if is_last else NEWTON_SHARE * self.gap(state, self.dual)
        if faces.descend(NEWTON_STEPS, tol, self.seconds_left):
            self.replace(state, *balanced(faces.W, faces.signs))
            self.simplify(state)
        else:
            self.prepare(state)
            self.block_descent(state)

    def prune(self, state: State) -> None:
        """Let neurons go that carry nothing; one stays in any case."""
        size = np.linalg.norm(state.V, axis=1) * np.linalg.norm(state.alpha.reshape(len(state.alpha), -1), axis=1)
        kept = size > NOTHING * np.max(size)
        kept[np.argmax(size)] = True
        if not np.all(kept):
            self.replace(state, state.V[kept], state.alpha[kept])

    def replace(self, state: State, V: FloatArray, alpha: FloatArray) -> None:
        """Go to a network of another width, if RegLoss does not rise by more than rounding."""
        if len(V) > 0:
            self.move(state, V, alpha, decrease=-1e-14 * self.objective(state))

    def residual(self, state: State) -> FloatArray:
        """What the network leaves of the targets, block by block."""
        left = self.white.y.copy()
        for rows in blocks(len(left)):
            left[rows] -= hidden_layer(self.white.Q[rows], state.V) @ state.alpha
        return left

    def gap(self, state: State, point: DualPoint) -> float:
        """RegLoss above a lower bound, as a share of it."""
        objective = self.objective(state)
        return max(1.0 - point.bound / objective, 0.0) if objective > 0.0 else 0.0

    def search(self, state: State) -> Newcomers:
        """The directions in which new neurons lower RegLoss most."""
        Q, gamma = self.white.Q, self.problem.gamma
        residual = self.residual(state)
        values, directions = climbed(Q, residual, random_starts(state.V, STARTS, self.rng))
        exact = self.is_enumerable and bool(np.max(values) <= NEARLY * gamma)
        if exact:
            values, directions = candidates(Q, residual, floor=gamma)
        elif np.max(values) <= gamma * (1.0 + self.options.tol):
            values, directions = self.search_on(state, residual)
        largest = float(np.max(values))
        if exact:
            largest = max(largest, gamma) + rounding(Q, residual)
        self.note_bound(residual, largest, exact)
        pays = values > gamma
        chosen = self.choose(state, residual, values[pays], directions[pays])
        return Newcomers(largest / gamma, exact, chosen)

    def search_on(self, state: State, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Climb from many more starts, and then by branch and bound, before it is said that nothing was found."""
        Q, gamma = self.white.Q, self.problem.gamma
        values, directions = climbed(Q, residual, random_starts(state.V, MANY_STARTS, self.rng), polished=MANY_POLISHED)
        if np.max(values) > gamma * (1.0 + self.options.tol) or not can_search(Q, self.problem.n_outputs):
            return values, directions
        limit = None if self.options.max_seconds is None else max(self.seconds_left(), 0.0)
        first = directions[np.argmax(values)][None, :]
        bound, v = search_cones(Q, residual, first, max_parts=PARTS, max_seconds=limit)
        self.proved = self.proved.improved(DualPoint.scaled(self.white, residual, bound))
        value = abs(float(residual @ np.maximum(Q @ v, 0.0)))
        return np.append(values, value), np.vstack([directions, v])

    def note_bound(self, residual: FloatArray, largest: float, exact: bool) -> None:
        """Improve the lower bounds by the residual of the network.

        What is not proved may be too high, and is forgotten with the next round.
        """
        found = DualPoint.scaled(self.white, residual, largest)
        if exact:
            self.proved = self.proved.improved(found)
        self.dual = self.proved if self.proved.bound > found.bound else found

    def choose(self, state: State, residual: FloatArray, values: FloatArray, directions: FloatArray) -> FloatArray:
        """Of the directions found, some that differ."""
        n_hidden = len(state.alpha)
        share = NEW_SHARE if self.is_enumerable else LARGE_SHARE
        most = min(max(FEWEST_NEW, int(share * n_hidden)), self.most - n_hidden)
        if self.problem.n_outputs == 1:
            groups = np.sign(np.maximum(directions @ self.white.Q.T, 0.0) @ residual)
        else:
            groups = np.zeros(len(values))
        angle = min(WIDEST_ANGLE, ANGLE / np.sqrt(n_hidden + 1.0))
        found: FloatArray = directions[most_different(values, directions, groups, most, angle)]
        return found

    def add(self, state: State, directions: FloatArray) -> None:
        """Let neurons join, with the output weights that lower RegLoss most while all others stay."""
        activations = hidden_layer(self.white.Q, directions)
        outputs = best_outputs(activations, self.residual(state), self.problem.gamma)
        sizes = np.linalg.norm(outputs.reshape(len(outputs), -1), axis=1)
        useful = sizes > 0.0
        roots = np.sqrt(sizes[useful])
        alpha = (outputs[useful].T / roots).T
        V = roots[:, None] * directions[useful]
        self.replace(state, np.vstack([state.V, V]), np.concatenate([state.alpha, alpha]))

    def has_converged(self, state: State) -> bool:
        """Whether the lower bound is reached, which an exact search proves, or RegLoss falls no more."""
        if self.newcomers is None or state.risen:
            return False
        bound = self.proved if self.is_enumerable else max(self.dual, self.proved, key=lambda point: point.bound)
        return self.gap(state, bound) <= self.options.tol or self.has_stalled(state)

    def has_stalled(self, state: State) -> bool:
        """Whether RegLoss has hardly fallen for some rounds."""
        last = state.history.objective[-STALLED_ROUNDS - 1 :]
        return len(last) > STALLED_ROUNDS and bool(last[0] - last[-1] <= STALLED * self.options.tol * last[0])

    def progress(self, state: State) -> str:
        """How close to convergence, for the message."""
        n_hidden, found = len(state.alpha), self.newcomers
        width = f"{n_hidden} neuron{'s' * (n_hidden != 1)}"
        if found is None:
            return width
        estimated, proved = self.gap(state, self.dual), self.gap(state, self.proved)
        room = "" if found.correlation <= 1.0 + self.options.tol else ", and new ones would lower RegLoss"
        if proved <= ALIKE * max(estimated, self.options.tol):
            return f"{width}{room}. {no_network_is_better(proved, proved=True)}"
        guess = no_network_is_better(estimated, proved=False) if room else "No new neuron was found that lowers RegLoss"
        return f"{width}{room}. {guess}" + (f". {no_network_is_better(proved, proved=True)}" if proved < 1.0 else "")

    def step_norm(self, network: Network, before: Network) -> float:
        """Distance of the weights from those before; NaN if there are more or fewer of them."""
        return super().step_norm(network, before) if network.n_hidden == before.n_hidden else float("nan")

    def snapshot(self, state: State, validation: Validation | None) -> Snapshot:
        """All that the descent depends on after an epoch was recorded; the rest follows from it."""
        found = self.newcomers
        own = {
            "n_hidden": len(state.alpha),
            "correlation": None if found is None else found.correlation,
            "exact": found is not None and found.exact,
        }
        arrays = {"dual": self.dual.multipliers.copy(), "proved": self.proved.multipliers.copy()}
        return Descent.snapshot(self, state, validation) | Snapshot(own, arrays)

    def resume(self, state: State, found: Snapshot, validation: Validation | None) -> None:
        """Go on from a snapshot, with the limits of today; see `Descent.resume`."""
        n_hidden, rank = int(found.values["n_hidden"]), self.white.Q.shape[1]
        state.V, state.alpha = np.empty((n_hidden, rank)), np.empty((n_hidden, *state.alpha.shape[1:]))
        correlation, exact = found.values["correlation"], bool(found.values["exact"])
        self.newcomers = None if correlation is None else Newcomers(float(correlation), exact, np.empty((0, rank)))
        y = self.white.y
        self.dual, self.proved = (DualPoint(self.white, found.array(name, y.shape)) for name in ("dual", "proved"))
        Descent.resume(self, state, found, validation)


def best_outputs(activations: FloatArray, residual: FloatArray, gamma: float) -> FloatArray:
    """Output weights of new neurons with directions of length one, by block descent on their group lasso.

    Parameters
    ----------
    activations : array of shape (n_rows, n_new)
        ``σ(Q v)`` of each direction.
    residual : array of shape (n_rows,) or (n_rows, n_outputs)
        What they are to explain.
    gamma : float
        Strength of the regularisation.
    """
    squares = np.sum(activations**2, axis=0)
    outputs = np.zeros((activations.shape[1], *residual.shape[1:]))
    left = residual.copy()
    for _ in range(PASSES):
        for unit, column in enumerate(activations.T):
            product = column @ left + squares[unit] * outputs[unit]
            size = float(np.linalg.norm(product))
            new = max(size - gamma, 0.0) / (squares[unit] * size) * product if size > 0.0 else 0.0 * product
            left -= np.multiply.outer(column, new - outputs[unit])
            outputs[unit] = new
    return outputs


def reduced(Q: FloatArray, W: FloatArray, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same outputs by no more neurons than rows, and with no larger penalty, by the argument of Carathéodory.

    More outputs than rows depend on each other: along such a dependence the output stays, the penalty does not rise in
    one of both directions, and after some way a neuron vanishes.
    """
    while len(W) > len(Q):
        outputs = signs * np.maximum(Q @ W.T, 0.0)  # (n_rows, n_hidden)
        shares = linalg.null_space(outputs)[:, 0]
        if np.linalg.norm(W, axis=1) @ shares > 0.0:
            shares = -shares
        with np.errstate(divide="ignore"):
            ways = np.where(shares < 0.0, -1.0 / shares, np.inf)
        first = int(np.argmin(ways))
        W = np.delete(W * (1.0 + ways[first] * shares)[:, None], first, axis=0)
        signs = np.delete(signs, first)
    return W, signs
