"""The accelerated algorithm: joint steps and hops by the kernel between the sweeps of the paper's block descent.

An epoch is a round: the kernel explores (a race of starts or samples of the rows in the first round, bursts of L-BFGS
on all weights, hops out of the minimum reached, new neurons in place of dead ones), then every neuron gets its DCA, the
output weights their ridge regression, and every neuron is balanced. RegLoss never rises, and the sweeps keep the
convergence argument of the paper, which the documentation writes out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.convex.native import as_columns
from dconnet.convex.programme import Backend
from dconnet.model.piecewise import output_strengths
from dconnet.training.checkpoint import Snapshot
from dconnet.training.descent import Descent, Options, State
from dconnet.training.newton import LARGEST_WORK, newton_step, newton_work
from dconnet.training.observer import Validation
from dconnet.training.row_work import DataProblem
from dconnet.training.sweep import Tally

# The least work of a round, in evaluations of the objective; a sweep is to take a small part of it.
ROUND = 500
SWEEP_SHARE = 0.1
# With fewer evaluations in all, there is no race of starts and no hop, each of which may take more than half of them.
# In a large design there is no sweep at their end either: it takes as long as several hundred evaluations.
FEW = 1200
# What an iteration of the convex solver costs for one neuron, in evaluations of the objective for one neuron.
ITERATION = 4.0
# The larger the design, the fewer starts race and the fewer unsuccessful hops are tried.
MEDIUM, LARGE = 10_000, 100_000
STARTS = {"small": 8, "medium": 3, "large": 1}
PATIENCE = {"small": 16, "medium": 16, "large": 4}
# A burst that gains less than this share of F has stalled: time to hop. A new start needs more patience.
STALLED = {"small": 1e-2, "medium": 1e-2, "large": 1e-3}
STALLED_BEFORE_RESTART = 1e-4
# A step counts if it lowers F by at least this share of gamma times its squared length.
SUFFICIENT_DECREASE = _native.SUFFICIENT_DECREASE
# Multiplications for an evaluation of the objective and its gradient, for each neuron and entry of the design; an
# output beyond the first costs the same as a column of the design.
EVALUATION = 2
# If the limits allow no more evaluations than these, this share of them begins the search on samples of the rows: with
# more, it hardly matters where L-BFGS begins. Seconds become evaluations by a number of multiplications in one, not by
# the clock, so that the same limit gives the same plan. Current processors do several times more; with 2e10, races
# on larger data ended no lower.
MOST_WITH_SAMPLES = 250
SAMPLE_SHARE = 0.35
SPEED = 5e9
# The parts of a Newton step that are tried, and how near to a kink a row is taken to it.
NEWTON_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03)
NEWTON_WIDTHS = (1e-9, 1e-6, 1e-4, 1e-3)
# Gains below this share of RegLoss are rounding, and would let Newton steps continue forever.
NEWTON_GAIN = 1e-14


@dataclass(frozen=True, slots=True)
class Moves:
    """Switches for parts of the algorithm, which growth and comparisons do without."""

    race: bool = True  # random starts compete with the given one
    samples: bool = True  # L-BFGS begins on samples of the rows, where the design is large
    hop: str = "perturb"  # leave a minimum by a perturbation ("perturb"), a new start ("restart"), or not ("none")
    sweep: bool = True  # a DCA for each neuron and ridge regression for the output layer; nothing is guaranteed without
    revive: bool = True  # replace neurons that carry nothing


class AcceleratedDescent(Descent):
    """The accelerated algorithm on one problem; an epoch is a round."""

    def __init__(
        self,
        problem: DataProblem,
        backend: Backend,
        options: Options,
        rng: np.random.Generator,
        moves: Moves | None = None,
    ) -> None:
        super().__init__(problem, backend, options, rng)
        self.moves = Moves() if moves is None else moves
        self.budget = ROUND
        self.width = 0  # of the band about a kink, in NEWTON_WIDTHS
        # Work that Newton steps may take, beginning with one of them: no more than that of a round, or of one step if
        # that is more. What rounds leave over does not pile up: the moves of a round are bounded in number.
        self.credit: float | None = None

    def prepare(self, state: State) -> None:
        """Prepare the kernel for steps from this state."""
        super().prepare(state)
        entries = self.problem.n_rows * self.problem.rank
        size = "small" if entries <= MEDIUM else "medium" if entries <= LARGE else "large"
        patience = PATIENCE[size] if self.options.patience == "auto" else self.options.patience
        is_short = self.evaluations_left(state) < FEW
        self.ends_without_sweep = is_short and size == "large"
        if self.ends_without_sweep:
            self.budget = max(ROUND, int(self.evaluations_left(state)))
        self.kernel = self.rows.explorer(
            len(state.alpha),
            starts=STARTS[size] if self.moves.race and not is_short else 1,
            samples=self.sample_evaluations(state) if size == "large" else 0,
            burst=True,
            hop="none" if is_short else self.moves.hop,
            stalled=STALLED_BEFORE_RESTART if self.moves.hop == "restart" else STALLED[size],
            patience=np.iinfo(np.intp).max if patience is None else patience,
            revive=self.moves.revive,
            seed=int(self.rng.integers(np.iinfo(np.int64).max)),
        )

    def sample_evaluations(self, state: State) -> int:
        """Return the number of evaluations on samples at the begin: a share of those that the limits allow, if few."""
        entries = self.n_entries()
        limit = self.options.max_seconds
        by_time = np.inf if limit is None else limit * SPEED / (EVALUATION * entries * len(state.alpha))
        expected = min(self.evaluations_left(state), by_time)
        is_on = self.moves.samples and expected <= MOST_WITH_SAMPLES
        return round(SAMPLE_SHARE * expected) if is_on else 0

    def n_entries(self) -> int:
        """Return the number of entries of the design, and of the targets beyond the first output."""
        return self.problem.n_rows * (self.problem.rank + self.problem.n_outputs - 1)

    def snapshot(self, state: State, validation: Validation | None) -> Snapshot:
        """Return everything on which the descent depends after an epoch."""
        values = {"budget": self.budget, "width": self.width, "credit": self.credit}
        kernel = {"explorer": np.array(self.kernel.state(), dtype="<u8")}
        return super().snapshot(state, validation) | Snapshot(values, kernel)

    def resume(self, state: State, found: Snapshot, validation: Validation | None) -> None:
        """Resume from a snapshot under the current limits; see `Descent.resume`."""
        credit, width, budget = found.values["credit"], int(found.values["width"]), int(found.values["budget"])
        if not 0 <= width < len(NEWTON_WIDTHS) or not 0 <= budget < 2**53:
            raise ValueError(f"'width' is {width}, and 'budget' is {budget!r:.40}")
        self.budget, self.width = budget, width
        self.credit = None if credit is None else float(credit)
        self.kernel.restore(found.arrays["explorer"].tolist())
        super().resume(state, found, validation)

    def step(self, state: State) -> None:
        """Take one round: explore, then a sweep with the output layer, then balance."""
        self.explore(state)
        if self.clock.left() <= 0.0:
            return
        # After few evaluations on a large design, a sweep would take longer than all of them.
        is_spent = self.ends_without_sweep and self.evaluations_left(state) <= state.tally.evaluations
        if self.moves.sweep and not is_spent:
            self.block_descent(state)
        else:
            if self.moves.sweep:
                self.improve_output_layer(state)
            state.n_epochs += 1
        self.balance(state)
        if self.kernel.settled:
            self.newton(state)

    def block_descent(self, state: State) -> None:
        """Take a sweep with the output layer, as in the paper, and extrapolate it."""
        V, alpha, found = state.V, state.alpha, state.tally
        state.V = V.copy()  # the sweep works in place
        super().step(state)
        self.extrapolate(state, V, alpha)
        sweep_cost = ITERATION * state.tally.iterations / len(alpha)
        self.budget = max(ROUND, round(sweep_cost / SWEEP_SHARE))
        state.tally = found.with_sweep(state.tally)

    def explore(self, state: State) -> None:
        """Let the kernel take bursts, hops and revivals."""
        root = np.sqrt(self.problem.unit)  # for s y and s gamma, all weights are √s times as large
        V, outputs = state.V / root, as_columns(state.alpha / root)
        try:
            budget = int(min(self.budget, self.evaluations_left(state)))
            counts = self.kernel.explore(evaluations=budget, seconds=self.clock.left(), V=V, alpha=outputs)
            evaluations, hops, accepted, revived, barren = counts
            state.tally = Tally(evaluations=evaluations, hops=hops, accepted=accepted, revived=revived, barren=barren)
        finally:  # an interrupt, too, leaves the best network in V and outputs
            self.move(state, root * V, root * outputs.reshape(state.alpha.shape))

    def extrapolate(self, state: State, V: FloatArray, alpha: FloatArray) -> None:
        """Continue in the direction of the sweep from these weights, twice as far each time, while RegLoss falls."""
        step_V, step_alpha = state.V - V, state.alpha - alpha
        length = 1.0
        while self.clock.left() > 0.0 and self.advance(state, length * step_V, length * step_alpha):
            length *= 2.0

    def newton(self, state: State) -> None:
        """Take Newton steps with rows held at their kinks, until none lowers RegLoss or their share of work is used."""
        cost = newton_work(self.problem.n_rows, self.problem.rank, self.problem.n_outputs, len(state.alpha))
        if cost > LARGEST_WORK:
            return
        round_work = self.budget * EVALUATION * self.n_entries() * len(state.alpha)
        most = max(cost, round_work)
        self.credit = most if self.credit is None else min(self.credit + round_work, most)
        n_failed = 0
        while self.credit >= cost and n_failed < len(NEWTON_WIDTHS) and self.clock.left() > 0.0:
            self.credit -= cost
            if self.newton_step(state, NEWTON_WIDTHS[self.width]):
                n_failed = 0
            else:
                n_failed += 1
                self.width = (self.width + 1) % len(NEWTON_WIDTHS)

    def newton_step(self, state: State, width: float) -> bool:
        """Take a Newton step, or a part of it, if RegLoss falls enough; return whether that was more than rounding."""
        step, before = newton_step(self.problem, state.V, state.alpha, width), self.objective(state)
        taken = step is not None and any(self.advance(state, t * step[0], t * step[1]) for t in NEWTON_LENGTHS)
        return taken and before - self.objective(state) > NEWTON_GAIN * before

    def advance(self, state: State, step_V: FloatArray, step_alpha: FloatArray) -> bool:
        """Move by this step if RegLoss falls by enough for its length; return whether it did."""
        square = float(np.sum(step_V**2)) + float(np.vdot(step_alpha, step_alpha))
        enough = SUFFICIENT_DECREASE * self.problem.gamma * square / self.problem.total_weight
        return square > 0.0 and self.move(state, state.V + step_V, state.alpha + step_alpha, decrease=enough)

    def balance(self, state: State) -> None:
        """Scale every neuron to its smallest penalty, which does not change the network."""
        hidden, output = np.linalg.norm(state.V, axis=1), output_strengths(state.alpha)
        scale = np.ones(len(hidden))
        alive = (hidden > 0.0) & (output > 0.0)
        scale[alive] = np.sqrt(output[alive] / hidden[alive])
        self.move(state, state.V * scale[:, None], state.alpha / (scale if state.alpha.ndim == 1 else scale[:, None]))

    def move(self, state: State, V: FloatArray, alpha: FloatArray, decrease: float = 0.0) -> bool:
        """Move to these weights if RegLoss falls by at least ``decrease``; return whether it did."""
        mse = self.problem.mse(V, alpha)
        lower = mse + self.problem.penalty(V, alpha) <= self.objective(state) - decrease
        if lower:
            state.V, state.alpha, state.mse, state.is_mse_outdated = V, alpha, mse, False
        return lower

    def has_converged(self, state: State) -> bool:
        """Return whether all hops are tried and a whole round gains at most the share ``tol``."""
        if not self.kernel.settled or not self.moves.sweep or state.was_undone:
            return False
        before, after = (epoch.objective for epoch in state.history.epochs[-2:])
        return before - after <= self.options.tol * before

    def describe_progress(self, state: State) -> str:
        """Return the distance from convergence, for the message."""
        before, after = (epoch.objective for epoch in state.history.epochs[-2:])
        share = (before - after) / before if before > 0.0 else 0.0
        settled = hasattr(self, "kernel") and self.kernel.settled  # without time for a step, there is no kernel
        hops = "no hop led lower" if settled else "hops may still lead lower"
        return f"relative decrease {share:.1e} (tol {self.options.tol:g}), {hops}"
