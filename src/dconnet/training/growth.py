"""Training that finds the width of the network: neurons are added while they lower RegLoss.

Balanced neurons make RegLoss convex over the measures of neurons. An epoch is a round: joint steps on all weights;
neurons with the same active rows are merged, and useless ones removed; then a search for the directions in which new
neurons lower RegLoss most. A lasso finds the best lengths of all neurons, old and new, and most of them vanish again.
Near the end, Newton steps minimise the convex problem with fixed activation patterns. Where the search is exact, the
residual proves that no network of any width is better. Elsewhere the gap is an estimate, and growth ends at a larger
gap, or when rounds hardly lower RegLoss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import count, no_network_is_better, per_cent
from dconnet.convex.programme import Backend
from dconnet.model.network import Network
from dconnet.model.piecewise import output_strengths
from dconnet.model.problem import Problem, hidden_layer
from dconnet.model.rows import blocks
from dconnet.training.accelerated import EVALUATION, AcceleratedDescent, Moves
from dconnet.training.arrangement import DualPoint, can_enumerate, can_search, candidates, rounding, search_cones
from dconnet.training.checkpoint import Snapshot
from dconnet.training.descent import Descent, Options, State
from dconnet.training.fixed_patterns import SPEED, PatternDescent, balance_neurons, merge_neurons, neuron_vectors
from dconnet.training.new_neurons import climb, random_starts, select_different, solve_lengths, solve_output_vectors
from dconnet.training.observer import Validation
from dconnet.training.result import Status

# Neurons of the start.
START = 4
# New directions in a round: the number of neurons, and at least FEWEST_NEW. Their angles differ by one over the number
# of neurons with few features, by one over its root otherwise, and by at most WIDEST_ANGLE.
FEWEST_NEW, WIDEST_ANGLE = 20, 0.2
# Evaluations of RegLoss in the joint steps of a round.
EVALUATIONS = 300
# Random starts of the search for new neurons, and of the last search before growth ends.
STARTS, MANY_STARTS = 64, 256
# Climbs that are polished, into the kinks of rows: FEW_POLISHED, or POLISHED once no correlation exceeds NEAR. Larger
# designs than POLISHED_ENTRIES entries have fewer.
FEW_POLISHED, NEAR, POLISHED = 8, 1.5, 64
POLISHED_ENTRIES = 20_000
# Parts of the sphere that branch and bound visits.
PARTS = 50_000
# Correlation below which all patterns are enumerated, if possible. From then on neurons are exchanged for better ones,
# and not moved. With several outputs the enumeration finds only one direction, so it begins later.
LATE, LATE_OF_SEVERAL = 3.0, 1.05
# Newton steps in a round, and their last gain as a fraction of the gap to the lower bound.
NEWTON_STEPS, NEWTON_SHARE = 100, 1e-4
# Correlation below which Newton steps begin, and its excess over one below which they continue to the last digits.
CLOSE, LAST_DIGITS = 1.01, 1e-4
# Multiplications in the joint steps of a fit without other limits: about a minute with a small gamma.
MOST_WORK = 5e11
# Entries of the hidden layer of all rows up to which neurons are merged and patterns are kept.
LARGEST_LAYER = 20_000_000
# Largest work of a lasso, rows times squared neurons. A lasso cannot be interrupted by the clock: beyond the limit or
# the time left, new neurons get their lengths one after the other.
LARGEST_LASSO = 7.5e9
# The estimated gap is reported only if the proved one is larger by more than this factor.
ALIKE = 1.5
# Neurons whose output is below this fraction of the largest one are removed.
NOTHING = 1e-12
# Growth ends if RegLoss falls by less than STALLED times tol in STALLED_ROUNDS rounds.
STALLED, STALLED_ROUNDS = 1e-3, 3


@dataclass(frozen=True, slots=True)
class NewNeurons:
    """Result of the search for new neurons."""

    correlation: float  # the largest |rᵀ σ(Q v)| / gamma found; above one, a new neuron lowers RegLoss
    exact: bool  # whether it is the maximum over all directions, up to rounding
    thorough: bool  # whether the search tried everything to find more
    directions: FloatArray  # (n, rank), of length one, that lower RegLoss


class GrowingDescent(AcceleratedDescent):
    """Descent that adds and removes neurons; an epoch is a round.

    ``new_neurons`` is the result of the last search. ``dual`` is the lower bound by the residual of the last round, an
    estimate unless the search was exact; ``proved`` uses searches with proved results alone.
    """

    def __init__(self, problem: Problem, backend: Backend, options: Options, rng: np.random.Generator) -> None:
        super().__init__(problem, backend, options, rng, Moves(race=False, hop="none", revive=False))
        self.white = problem.whitened
        self.new_neurons: NewNeurons | None = None
        self.dual = self.proved = DualPoint.zero(self.white)
        self.is_enumerable = can_enumerate(self.white.Q, self.problem.n_outputs)
        self.work = 0.0  # multiplications in joint steps

    def step(self, state: State) -> None:
        """Run one round: joint steps, simplification, Newton steps, new neurons."""
        self.prepare(state)  # for the current width
        self.budget = EVALUATIONS
        if not self.is_late:
            self.explore(state)
            self.work += state.tally.evaluations * EVALUATION * self.n_entries() * len(state.alpha)
        if self.has_time():
            self.simplify_and_polish(state)
        if self.has_time():
            self.new_neurons = self.search_new_neurons(state)
            if self.has_time() and not self.has_reached_bound(state) and len(self.new_neurons.directions):
                self.add_neurons(state, self.new_neurons.directions)
            state.n_epochs += 1

    @property
    def is_late(self) -> bool:
        """True if neurons are only exchanged by enumeration; joint steps would move them off the kinks."""
        if self.new_neurons is None or not self.is_enumerable or self.problem.n_outputs > 1:
            return False
        return self.new_neurons.exact or self.new_neurons.correlation <= LATE

    def simplify_and_polish(self, state: State) -> None:
        """Simplify the network and move it to a minimum."""
        if self.problem.n_outputs == 1 and self.fits_in_memory(len(state.alpha)):
            self.simplify(state)
            if self.new_neurons is not None and self.new_neurons.correlation <= CLOSE:
                self.polish(state, self.new_neurons.correlation)
        else:
            self.block_descent(state)
            self.balance(state)
            self.newton(state)
        self.prune(state)

    def block_descent(self, state: State) -> None:
        """Run a sweep with the output layer, within the epoch."""
        n_epochs, budget = state.n_epochs, self.budget
        super().block_descent(state)
        state.n_epochs, self.budget = n_epochs, budget

    def simplify(self, state: State) -> None:
        """Merge neurons with the same active rows, and remove those that others can replace."""
        self.move_to_width(state, *balance_neurons(*merge_neurons(self.white.Q, *neuron_vectors(state.V, state.alpha))))

    def polish(self, state: State, correlation: float) -> None:
        """Minimise with fixed activation patterns, or by a sweep if the problem is too large."""
        patterns = PatternDescent(self.white, *neuron_vectors(state.V, state.alpha))
        tol = 0.0 if correlation <= 1.0 + LAST_DIGITS else NEWTON_SHARE * self.gap(state, self.dual)
        if patterns.descend(NEWTON_STEPS, tol, self.clock.left):
            self.move_to_width(state, *balance_neurons(patterns.W, patterns.signs))
            self.simplify(state)
        else:
            self.prepare(state)
            self.block_descent(state)

    def prune(self, state: State) -> None:
        """Remove neurons without output; one always stays, of weight zero if no network is better than zero."""
        self.move(state, np.zeros_like(state.V[:1]), np.zeros_like(state.alpha[:1]))
        size = np.linalg.norm(state.V, axis=1) * output_strengths(state.alpha)
        kept = size > NOTHING * np.max(size)
        kept[np.argmax(size)] = True
        if not np.all(kept):
            self.move_to_width(state, state.V[kept], state.alpha[kept])

    def move_to_width(self, state: State, V: FloatArray, alpha: FloatArray) -> None:
        """Move to a network of another width, if RegLoss does not rise by more than rounding."""
        if len(V) > 0:
            self.move(state, V, alpha, decrease=-1e-14 * self.objective(state))

    def residual(self, state: State) -> FloatArray:
        """Return the residual of the network."""
        left = self.white.y.copy()
        for rows in blocks(len(left)):
            left[rows] -= hidden_layer(self.white.Q[rows], state.V) @ state.alpha
        return left

    def gap(self, state: State, point: DualPoint) -> float:
        """Return RegLoss above a lower bound, as a fraction of RegLoss."""
        objective = self.objective(state)
        return max(1.0 - point.bound / objective, 0.0) if objective > 0.0 else 0.0

    def search_new_neurons(self, state: State) -> NewNeurons:
        """Search the directions in which new neurons lower RegLoss most, and update the lower bounds."""
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
        # An estimate may be too high, so it is replaced in the next round; proved bounds are kept.
        found = DualPoint.of_residual(self.white, residual, largest)
        if exact:
            self.proved = self.proved.combine(found)
        self.dual = self.proved if self.proved.bound > found.bound else found
        pays = (values > gamma) & self.has_time()  # without time, no neurons are added
        chosen = self.select_directions(state, residual, values[pays], directions[pays])
        return NewNeurons(largest / gamma, exact, thorough or exact, chosen)

    def climb(self, state: State, residual: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
        """Return values and directions of climbs, and whether the search was thorough.

        Climbs along the gradient suffice while much is left to gain. They miss maxima in the kinks of rows, which
        polished climbs find.
        """
        gamma = self.problem.gamma
        values, directions = self.climb_from(state, residual, STARTS)
        if self.is_enumerable or np.max(values) > NEAR * gamma or not self.has_time():
            return values, directions, False
        values, directions = self.climb_from(state, residual, STARTS, POLISHED)
        if np.max(values) > gamma * (1.0 + self.tolerance) or not self.has_time():
            return values, directions, False
        values, directions = self.climb_from(state, residual, MANY_STARTS, POLISHED)
        if np.max(values) <= gamma * (1.0 + self.tolerance) and can_search(self.white.Q, self.problem.n_outputs):
            values, directions = self.branch_and_bound(residual, values, directions)
        return values, directions, self.has_time()

    def climb_from(
        self, state: State, residual: FloatArray, n_starts: int, polished: int = FEW_POLISHED
    ) -> tuple[FloatArray, FloatArray]:
        """Climb from random starts and from the neurons, and polish some of the climbs."""
        starts = random_starts(state.V, n_starts, self.rng)
        fewer = max(1, min(polished, polished * POLISHED_ENTRIES // self.white.Q.size))
        return climb(self.white.Q, residual, starts, fewer, self.has_time)

    def has_time(self) -> bool:
        """Return whether time is left."""
        return self.clock.left() > 0.0

    def branch_and_bound(
        self, residual: FloatArray, values: FloatArray, directions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Prove a lower bound by branch and bound, and add its best direction to those found before."""
        limit = None if self.options.max_seconds is None else max(self.clock.left(), 0.0)
        first = directions[np.argmax(values)][None, :]
        bound, v = search_cones(self.white.Q, residual, first, max_parts=PARTS, max_seconds=limit)
        self.proved = self.proved.combine(DualPoint.of_residual(self.white, residual, bound))
        value = abs(float(residual @ np.maximum(self.white.Q @ v, 0.0)))
        return np.append(values, value), np.vstack([directions, v])

    @property
    def tolerance(self) -> float:
        """Relative gap at which growth ends; larger where the gap is an estimate."""
        return self.options.tol if self.is_enumerable else float(np.sqrt(self.options.tol))

    def select_directions(
        self, state: State, residual: FloatArray, values: FloatArray, directions: FloatArray
    ) -> FloatArray:
        """Select the best directions that differ from each other."""
        n_hidden = len(state.alpha)
        if self.problem.n_outputs == 1:
            groups = np.sign(np.maximum(directions @ self.white.Q.T, 0.0) @ residual)
        else:
            groups = np.zeros(len(values))
        angle = min(WIDEST_ANGLE, 1.0 / (n_hidden if self.is_enumerable else np.sqrt(n_hidden)))
        most = max(FEWEST_NEW, n_hidden)
        return np.asarray(directions[select_different(values, directions, groups, most, angle)])

    def add_neurons(self, state: State, directions: FloatArray) -> None:
        """Add neurons, with the lengths of all neurons that lower RegLoss most."""
        n_hidden = len(state.alpha) + len(directions)
        work = self.problem.n_rows * n_hidden**2
        has_lasso = self.problem.n_outputs == 1 and self.fits_in_memory(n_hidden)
        has_lasso &= work <= min(LARGEST_LASSO, SPEED * self.clock.left())
        if not (has_lasso and self.add_by_lasso(state, directions)):
            self.append_neurons(state, directions)

    def add_by_lasso(self, state: State, directions: FloatArray) -> bool:
        """Find the best lengths of all neurons; return False if rounding prevents it."""
        Q, y, gamma = self.white.Q, self.white.y, self.problem.gamma
        W, signs = neuron_vectors(state.V, state.alpha)
        lengths = np.linalg.norm(W, axis=1)
        new = np.sign(hidden_layer(Q, directions).T @ self.residual(state))
        U = np.vstack([W[lengths > 0.0] / lengths[lengths > 0.0, None], directions])
        signs = np.concatenate([signs[lengths > 0.0], new])
        best = solve_lengths(signs * hidden_layer(Q, U), y, gamma)
        if best is None:
            return False
        self.move_to_width(state, *balance_neurons(best[best > 0.0, None] * U[best > 0.0], signs[best > 0.0]))
        return True

    def append_neurons(self, state: State, directions: FloatArray) -> None:
        """Add neurons with the output weights that lower RegLoss most while all others stay fixed."""
        activations = hidden_layer(self.white.Q, directions)
        outputs = solve_output_vectors(activations, self.residual(state), self.problem.gamma)
        sizes = np.linalg.norm(outputs.reshape(len(outputs), -1), axis=1)
        useful = sizes > 0.0
        roots = np.sqrt(sizes[useful])
        alpha = (outputs[useful].T / roots).T
        V = roots[:, None] * directions[useful]
        self.move_to_width(state, np.vstack([state.V, V]), np.concatenate([state.alpha, alpha]))

    def fits_in_memory(self, n_hidden: int) -> bool:
        """Return whether the hidden layer of all rows fits in memory."""
        return self.problem.n_rows * n_hidden <= LARGEST_LAYER

    def has_converged(self, state: State) -> bool:
        """Return whether RegLoss has reached the lower bound or has stalled."""
        if self.new_neurons is None or state.was_undone:
            return False
        return self.has_reached_bound(state) or self.has_stalled(state)

    def find_status(self, state: State, validation: Validation | None) -> Status:
        """Return whether to continue, or why not."""
        found = super().find_status(state, validation)
        has_limit = self.options.max_seconds is not None or self.options.max_evaluations is not None
        is_spent = self.work > MOST_WORK and not has_limit
        return Status.WORK_LIMIT if found is Status.RUNNING and is_spent else found

    def has_reached_bound(self, state: State) -> bool:
        """Return whether RegLoss is close to the proved bound, or to the estimate of a thorough search."""
        if self.gap(state, self.proved) <= self.options.tol:
            return True
        is_thorough = self.new_neurons is not None and self.new_neurons.thorough and not self.is_enumerable
        return is_thorough and self.gap(state, self.dual) <= self.tolerance

    def has_stalled(self, state: State) -> bool:
        """Return whether RegLoss has hardly fallen in the last rounds."""
        last = state.history.objective[-STALLED_ROUNDS - 1 :]
        return len(last) > STALLED_ROUNDS and bool(last[0] - last[-1] <= self.least_fall * last[0])

    @property
    def least_fall(self) -> float:
        """Relative decrease of RegLoss in STALLED_ROUNDS rounds below which growth ends."""
        return STALLED * self.options.tol if self.is_enumerable else self.tolerance

    def describe_progress(self, state: State) -> str:
        """Describe width, gap and the reason to stop, for the message."""
        n_hidden, found = len(state.alpha), self.new_neurons
        width = count(n_hidden, "neuron") if state.alpha.any() else "all weights are zero"
        if found is None:
            return width
        none_found, has_reached = found.correlation <= 1.0 + self.options.tol, self.has_reached_bound(state)
        sentences = [width if none_found or has_reached else f"{width}, and new ones would lower RegLoss"]
        if not has_reached and self.has_stalled(state):
            sentences.append(f"RegLoss fell by less than {per_cent(self.least_fall)} in {STALLED_ROUNDS} rounds")
        estimated, proved = self.gap(state, self.dual), self.gap(state, self.proved)
        if proved >= 1.0 or proved > ALIKE * max(estimated, self.options.tol):
            guess = no_network_is_better(estimated, proved=False)
            sentences.append("No new neuron was found that lowers RegLoss" if none_found else guess)
        if proved < 1.0:
            sentences.append(no_network_is_better(proved, proved=True))
        return ". ".join(sentences)

    def step_norm(self, network: Network, before: Network) -> float:
        """Return the distance from the previous weights; NaN if the width has changed."""
        return super().step_norm(network, before) if network.n_hidden == before.n_hidden else float("nan")

    def snapshot(self, state: State, validation: Validation | None) -> Snapshot:
        """Return everything on which the descent depends after an epoch."""
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
        """Resume from a snapshot under the current limits; see `Descent.resume`."""
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
