"""Training that finds the width of the network: neurons are added while they lower RegLoss.

Balanced neurons make RegLoss convex over the measures of neurons, whatever their number. An epoch is a round: joint
steps on all weights; neurons with the same active rows become one, and those that carry nothing go; then a search for
the directions in which new neurons lower RegLoss most. As many as there are neurons are offered, and all, old and new,
get the lengths that are best together: a lasso, which lets most of them vanish again. Near the end, Newton steps take
the convex problem over the sides that the rows have now to its minimum. Where the search is exact, no network of any
width is better at the end, and the residual proves it; elsewhere the gap is an estimate, and growth ends at a larger
one, or where rounds lower RegLoss no more by much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import no_network_is_better, per_cent
from dconnet.convex.backend import Backend
from dconnet.model.network import Network
from dconnet.model.problem import Problem, hidden_layer
from dconnet.model.rows import blocks
from dconnet.training.accelerated import EVALUATION, AcceleratedDescent, Moves
from dconnet.training.arrangement import can_enumerate, can_search, candidates, rounding, search_cones
from dconnet.training.checkpoint import Snapshot
from dconnet.training.descent import Descent, Options, State
from dconnet.training.dual import DualPoint
from dconnet.training.early_stopping import Validation
from dconnet.training.fixed_patterns import (
    PatternDescent,
    balance_neurons,
    merge_neurons,
    neuron_vectors,
    reduce_neurons,
)
from dconnet.training.lasso import solve_lengths, solve_output_vectors
from dconnet.training.new_neurons import climb, random_starts, select_different
from dconnet.training.result import Status

# Neurons to start from.
START = 4
# New directions that are offered in one round: as many as there are neurons, and these at least. With few features they
# differ by an angle of one over the number of neurons, beyond by at most this, and by less the more neurons there are.
FEWEST_NEW, WIDEST_ANGLE = 20, 0.2
# Evaluations of RegLoss in the joint steps of a round.
EVALUATIONS = 300
# Random directions from which the search for new neurons climbs.
STARTS = 64
# Few of the climbs go to the end, into the kinks of rows; below this correlation, so many.
FEW_POLISHED, NEAR, POLISHED = 8, 1.5, 64
# These are for designs of up to so many entries; for larger ones, there are fewer.
POLISHED_ENTRIES = 20_000
# The same before it is said that there are none, and parts of the sphere that branch and bound looks at.
MANY_STARTS, PARTS = 256, 50_000
# Where all patterns can be enumerated, they are once climbing finds nothing above this: the neurons stay where they are
# then, and are exchanged for better ones. With several outputs, it is later, as the enumeration finds only one.
LATE, LATE_OF_SEVERAL = 3.0, 1.05
# Newton steps in a round, and the gain at which they end, as a share of the gap to the lower bound.
NEWTON_STEPS, NEWTON_SHARE = 100, 1e-4
# There are none before the correlation is below this.
CLOSE = 1.01
# Below this excess of the correlation over one, they go on to the last digits.
LAST_DIGITS = 1e-4
# Multiplications in the joint steps of a whole fit for which no limit is set: about a minute with a small gamma.
MOST_WORK = 5e11
# Entries of the hidden layer of all rows up to which neurons are merged and faces are looked at.
LARGEST_LAYER = 20_000_000
# Work of a lasso for the lengths of all neurons, rows times their square, up to which there is one, and how much of it
# is done in a second. Nobody looks at the clock meanwhile: where time would not be enough, or beyond the limit, new
# neurons get their lengths one after the other.
LARGEST_LASSO = 7.5e9
LASSO_SPEED = 2.5e9
# Up to this times the estimated gap, only the proved one is told.
ALIKE = 1.5
# Neurons whose output is below this share of the largest one carry nothing.
NOTHING = 1e-12
# Where RegLoss falls by less than this share of tol in as many rounds, growth has come to its end.
STALLED, STALLED_ROUNDS = 1e-3, 3


@dataclass(frozen=True, slots=True)
class NewNeurons:
    """What the search for new neurons found at a network.

    Attributes
    ----------
    correlation : float
        The largest ``|rᵀ σ(Q v)| / gamma``; above one, a new neuron lowers RegLoss.
    exact : bool
        Whether no direction has a larger one, but for rounding.
    thorough : bool
        Whether the search did what it can to find more.
    directions : array of shape (n, rank)
        Directions of length one that lower RegLoss.
    """

    correlation: float
    exact: bool
    thorough: bool
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
    new_neurons : NewNeurons or None
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
        self.new_neurons: NewNeurons | None = None
        self.dual = self.proved = DualPoint.zero(self.white)
        self.is_enumerable = can_enumerate(self.white.Q, self.problem.n_outputs)
        self.work = 0.0  # multiplications in joint steps

    @property
    def most(self) -> int:
        """The number of neurons that always suffices."""
        return len(self.white.Q) + 1

    def step(self, state: State) -> None:
        """One round: joint steps, fewer neurons for the same, Newton steps, new neurons."""
        self.prepare(state)  # for the width of today
        self.budget = EVALUATIONS
        if not self.is_late:
            self.explore(state)
            self.work += state.tally.evaluations * EVALUATION * self.n_entries() * len(state.alpha)
        if self.has_time():
            self.settle_in(state)
        if self.has_time():
            self.new_neurons = self.search(state)
            if self.has_time() and not self.has_reached_bound(state) and len(self.new_neurons.directions):
                self.add(state, self.new_neurons.directions)
            state.n_epochs += 1

    @property
    def correlation(self) -> float:
        """The largest correlation that the last search found."""
        return np.inf if self.new_neurons is None else self.new_neurons.correlation

    @property
    def is_late(self) -> bool:
        """Whether neurons are only exchanged for better ones, by enumeration: joint steps take them off the kinks."""
        if self.new_neurons is None or not self.is_enumerable or self.problem.n_outputs > 1:
            return False
        return self.new_neurons.exact or self.new_neurons.correlation <= LATE

    def settle_in(self, state: State) -> None:
        """Simplify the network, and take it to a minimum."""
        if self.problem.n_outputs == 1 and self.fits_in_memory(len(state.alpha)):
            self.simplify(state)
            if self.correlation <= CLOSE:
                self.polish(state)
        else:
            self.block_descent(state)
            self.balance(state)
            self.newton(state)
        self.prune(state)

    def block_descent(self, state: State) -> None:
        """A sweep with the output layer, as in the paper; it is not an epoch of its own."""
        n_epochs, budget = state.n_epochs, self.budget
        super().block_descent(state)
        state.n_epochs, self.budget = n_epochs, budget

    def simplify(self, state: State) -> None:
        """Add up neurons with the same active rows, and let those go that others can replace."""
        W, signs = merge_neurons(self.white.Q, *neuron_vectors(state.V, state.alpha))
        if len(W) >= self.most:
            W, signs = reduce_neurons(self.white.Q, W, signs)
        self.replace(state, *balance_neurons(W, signs))

    def polish(self, state: State) -> None:
        """Minimise over the sides that the rows have now."""
        faces = PatternDescent(self.white, *neuron_vectors(state.V, state.alpha))
        is_last = self.new_neurons is not None and self.new_neurons.correlation <= 1.0 + LAST_DIGITS
        tol = 0.0 if is_last else NEWTON_SHARE * self.gap(state, self.dual)
        if faces.descend(NEWTON_STEPS, tol, self.seconds_left):
            self.replace(state, *balance_neurons(faces.W, faces.signs))
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

    def search(self, state: State) -> NewNeurons:
        """The directions in which new neurons lower RegLoss most."""
        Q, gamma = self.white.Q, self.problem.gamma
        residual = self.residual(state)
        exact = thorough = self.is_late
        if not exact:
            values, directions, thorough = self.climb(state, residual)
            late = LATE if self.problem.n_outputs == 1 else LATE_OF_SEVERAL
            exact = self.is_enumerable and bool(np.max(values) <= late * gamma)
        if exact:
            values, directions = candidates(Q, residual, floor=gamma)
        largest = float(np.max(values))
        if exact:
            largest = max(largest, gamma) + rounding(Q, residual)
        self.note_bound(residual, largest, exact)
        pays = values > gamma
        chosen = self.choose(state, residual, values[pays], directions[pays])
        return NewNeurons(largest / gamma, exact, thorough or exact, chosen)

    def climb(self, state: State, residual: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
        """Values and directions where climbs end, and whether all was done to find large ones.

        Most climbs follow the gradient, which is enough while much is left to gain. What it misses are maxima in the
        kinks of rows: these are where further climbs go to the end.
        """
        gamma = self.problem.gamma
        values, directions = self.climb_from(state, residual, STARTS)
        if self.is_enumerable or np.max(values) > NEAR * gamma:
            return values, directions, False
        values, directions = self.climb_from(state, residual, STARTS, POLISHED)
        if np.max(values) > gamma * (1.0 + self.tolerance):
            return values, directions, False
        values, directions = self.search_on(state, residual)
        return values, directions, self.has_time()

    def climb_from(
        self, state: State, residual: FloatArray, n_starts: int, polished: int = FEW_POLISHED
    ) -> tuple[FloatArray, FloatArray]:
        """Values and directions where climbs from random starts and from the neurons end; some go to the end."""
        starts = random_starts(state.V, n_starts, self.rng)
        fewer = max(1, min(polished, polished * POLISHED_ENTRIES // self.white.Q.size))
        return climb(self.white.Q, residual, starts, fewer, self.has_time)

    def has_time(self) -> bool:
        """Whether time is left, if it is limited."""
        return self.seconds_left() > 0.0

    def search_on(self, state: State, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Climb from many more starts, and then by branch and bound, before it is said that nothing was found."""
        Q, gamma = self.white.Q, self.problem.gamma
        values, directions = self.climb_from(state, residual, MANY_STARTS, POLISHED)
        if np.max(values) > gamma * (1.0 + self.tolerance) or not can_search(Q, self.problem.n_outputs):
            return values, directions
        limit = None if self.options.max_seconds is None else max(self.seconds_left(), 0.0)
        first = directions[np.argmax(values)][None, :]
        bound, v = search_cones(Q, residual, first, max_parts=PARTS, max_seconds=limit)
        self.proved = self.proved.combine(DualPoint.scaled(self.white, residual, bound))
        value = abs(float(residual @ np.maximum(Q @ v, 0.0)))
        return np.append(values, value), np.vstack([directions, v])

    @property
    def tolerance(self) -> float:
        """The relative gap at which growth ends: larger where it is an estimate."""
        return self.options.tol if self.is_enumerable else float(np.sqrt(self.options.tol))

    def note_bound(self, residual: FloatArray, largest: float, exact: bool) -> None:
        """Improve the lower bounds by the residual of the network.

        What is not proved may be too high, and is forgotten with the next round.
        """
        found = DualPoint.scaled(self.white, residual, largest)
        if exact:
            self.proved = self.proved.combine(found)
        self.dual = self.proved if self.proved.bound > found.bound else found

    def choose(self, state: State, residual: FloatArray, values: FloatArray, directions: FloatArray) -> FloatArray:
        """Of the directions found, some that differ."""
        n_hidden = len(state.alpha)
        if self.problem.n_outputs == 1:
            groups = np.sign(np.maximum(directions @ self.white.Q.T, 0.0) @ residual)
        else:
            groups = np.zeros(len(values))
        angle = min(WIDEST_ANGLE, 1.0 / (n_hidden if self.is_enumerable else np.sqrt(n_hidden)))
        most = max(FEWEST_NEW, n_hidden)
        found: FloatArray = directions[select_different(values, directions, groups, most, angle)]
        return found

    def add(self, state: State, directions: FloatArray) -> None:
        """Let neurons join: all get the lengths that lower RegLoss most, and those that are of no use go."""
        joined = None
        if self.problem.n_outputs == 1 and self.may_have_lasso(len(state.alpha) + len(directions)):
            joined = self.joined(state, directions)
        if joined is None:
            self.append(state, directions)
        else:
            self.replace(state, *joined)

    def joined(self, state: State, directions: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """V and alpha of the neurons and those with new directions, with the best lengths; None without these."""
        Q, y, gamma = self.white.Q, self.white.y, self.problem.gamma
        W, signs = neuron_vectors(state.V, state.alpha)
        lengths = np.linalg.norm(W, axis=1)
        new = np.sign(hidden_layer(Q, directions).T @ self.residual(state))
        U = np.vstack([W[lengths > 0.0] / lengths[lengths > 0.0, None], directions])
        signs = np.concatenate([signs[lengths > 0.0], new])
        best = solve_lengths(signs * hidden_layer(Q, U), y, gamma)
        if best is None:
            return None
        W, signs = best[best > 0.0, None] * U[best > 0.0], signs[best > 0.0]
        return balance_neurons(*(reduce_neurons(Q, W, signs) if len(W) > self.most else (W, signs)))

    def append(self, state: State, directions: FloatArray) -> None:
        """Let neurons join, with the output weights that lower RegLoss most while all others stay."""
        activations = hidden_layer(self.white.Q, directions)
        outputs = solve_output_vectors(activations, self.residual(state), self.problem.gamma)
        sizes = np.linalg.norm(outputs.reshape(len(outputs), -1), axis=1)
        useful = sizes > 0.0
        roots = np.sqrt(sizes[useful])
        alpha = (outputs[useful].T / roots).T
        V = roots[:, None] * directions[useful]
        self.replace(state, np.vstack([state.V, V]), np.concatenate([state.alpha, alpha]))

    def fits_in_memory(self, n_hidden: int) -> bool:
        """Whether the outputs of so many neurons on all rows may be held at once."""
        return self.problem.n_rows * n_hidden <= LARGEST_LAYER

    def may_have_lasso(self, n_hidden: int) -> bool:
        """Whether the lengths of so many neurons are found at once in memory and time that can be spared."""
        work = self.problem.n_rows * n_hidden**2
        return self.fits_in_memory(n_hidden) and work <= min(LARGEST_LASSO, LASSO_SPEED * self.seconds_left())

    def has_converged(self, state: State) -> bool:
        """Whether the lower bound is reached, or RegLoss falls no more."""
        if self.new_neurons is None or state.risen:
            return False
        return self.has_reached_bound(state) or self.has_stalled(state)

    def verdict(self, state: State, validation: Validation | None) -> Status:
        """Whether to continue, and why not."""
        found = super().verdict(state, validation)
        has_limit = self.options.max_seconds is not None or self.options.max_evaluations is not None
        is_spent = self.work > MOST_WORK and not has_limit
        return Status.WORK_LIMIT if found is Status.RUNNING and is_spent else found

    def has_reached_bound(self, state: State) -> bool:
        """Whether RegLoss is nearly as low as the bound that is proved, or that a thorough search leads to."""
        if self.gap(state, self.proved) <= self.options.tol:
            return True
        is_thorough = self.new_neurons is not None and self.new_neurons.thorough and not self.is_enumerable
        return is_thorough and self.gap(state, self.dual) <= self.tolerance

    def has_stalled(self, state: State) -> bool:
        """Whether RegLoss has hardly fallen for some rounds."""
        last = state.history.objective[-STALLED_ROUNDS - 1 :]
        return len(last) > STALLED_ROUNDS and bool(last[0] - last[-1] <= self.least_fall * last[0])

    @property
    def least_fall(self) -> float:
        """What RegLoss falls by in some rounds at least, as a share, for growth to go on."""
        return STALLED * self.options.tol if self.is_enumerable else self.tolerance

    def progress(self, state: State) -> str:
        """How close to convergence, and by which criterion, for the message."""
        n_hidden, found = len(state.alpha), self.new_neurons
        width = f"{n_hidden} neuron{'s' * (n_hidden != 1)}"
        if found is None:
            return width
        none_found = found.correlation <= 1.0 + self.options.tol
        room = "" if none_found or self.has_reached_bound(state) else ", and new ones would lower RegLoss"
        return ". ".join([width + room, *self.reason(state), *self.gap_in_words(state, none_found)])

    def reason(self, state: State) -> list[str]:
        """Why growth ends short of the lower bound, if it does."""
        if self.has_reached_bound(state) or not self.has_stalled(state):
            return []
        return [f"RegLoss fell by less than {per_cent(self.least_fall)} in {STALLED_ROUNDS} rounds"]

    def gap_in_words(self, state: State, none_found: bool) -> list[str]:
        """What is estimated and what is proved on the networks of all widths."""
        estimated, proved = self.gap(state, self.dual), self.gap(state, self.proved)
        known = [no_network_is_better(proved, proved=True)] if proved < 1.0 else []
        if known and proved <= ALIKE * max(estimated, self.options.tol):
            return known
        guess = no_network_is_better(estimated, proved=False)
        return ["No new neuron was found that lowers RegLoss" if none_found else guess, *known]

    def step_norm(self, network: Network, before: Network) -> float:
        """Distance of the weights from those before; NaN if there are more or fewer of them."""
        return super().step_norm(network, before) if network.n_hidden == before.n_hidden else float("nan")

    def snapshot(self, state: State, validation: Validation | None) -> Snapshot:
        """All that the descent depends on after an epoch was recorded; the rest follows from it."""
        found = self.new_neurons
        own = {
            "n_hidden": len(state.alpha),
            "work": self.work,
            "correlation": None if found is None else found.correlation,
            "exact": found is not None and found.exact,
            "thorough": found is not None and found.thorough,
        }
        arrays = {"dual": self.dual.multipliers.copy(), "proved": self.proved.multipliers.copy()}
        return Descent.snapshot(self, state, validation) | Snapshot(own, arrays)

    def resume(self, state: State, found: Snapshot, validation: Validation | None) -> None:
        """Go on from a snapshot, with the limits of today; see `Descent.resume`."""
        n_hidden, rank = int(found.values["n_hidden"]), self.white.Q.shape[1]
        state.V, state.alpha = np.empty((n_hidden, rank)), np.empty((n_hidden, *state.alpha.shape[1:]))
        self.work = float(found.values["work"])
        correlation = found.values["correlation"]
        exact, thorough = bool(found.values["exact"]), bool(found.values["thorough"])
        none = np.empty((0, rank))
        self.new_neurons = None if correlation is None else NewNeurons(float(correlation), exact, thorough, none)
        y = self.white.y
        self.dual, self.proved = (DualPoint(self.white, found.array(name, y.shape)) for name in ("dual", "proved"))
        Descent.resume(self, state, found, validation)
