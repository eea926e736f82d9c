"""The outer loop: block coordinate descent over the neurons and the output layer, Algorithm 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from dconnet._arrays import FloatArray, safe_norm
from dconnet._threads import check_stop
from dconnet.convex.programme import Backend
from dconnet.model.network import Network
from dconnet.model.problem import check_outputs
from dconnet.training.checkpoint import FORGED, REMEDY, Snapshot
from dconnet.training.clock import Clock
from dconnet.training.dc import ROUNDING
from dconnet.training.observer import Observer, Validation
from dconnet.training.result import Epoch, History, Solution, Status
from dconnet.training.row_work import DataProblem, rows_of
from dconnet.training.sweep import Tally, solve_output_weights

# RegLoss in the units of the data may differ by this share from the one in whitened coordinates.
LOST = 1e-3


@dataclass(frozen=True, slots=True)
class Options:
    """Limits and settings of a descent; see `DCONRegressor` and `PaperAlgorithm`."""

    split: str = "paper"
    kinks: str = "active"
    max_epochs: int | None = 1000
    max_seconds: float | None = None
    max_evaluations: int | None = None
    max_dca_iter: int = 50
    tol: float = 1e-6
    restart: bool = False
    inexact: bool = False
    patience: int | Literal["auto"] | None = "auto"  # unsuccessful hops before the accelerated algorithm stops hopping
    n_threads: int = 1  # they share the rows; the result does not depend on their number


@dataclass(slots=True, eq=False)
class State:
    """The iterate, and the counts of the current epoch.

    ``V`` (n_hidden, rank) and ``alpha`` (n_hidden,) or (n_hidden, n_outputs) are the network in whitened coordinates; a
    neuron changes in one assignment, so that an interrupt finds a whole network between any two lines. ``mse`` is its
    mean squared error. A sweep changes V alone, and an interrupt may end it early: ``is_mse_outdated`` is True then.
    ``recorded`` are V and alpha of the last record, and ``was_undone`` is True if the last epoch was undone because it
    would have raised RegLoss by more than rounding.
    """

    V: FloatArray
    alpha: FloatArray
    mse: float
    network: Network
    recorded: tuple[FloatArray, FloatArray]
    is_mse_outdated: bool = False
    was_undone: bool = False
    status: Status = Status.RUNNING
    n_epochs: int = 0
    history: History = field(default_factory=History)
    tally: Tally = field(default_factory=Tally)


class Descent:
    """Algorithm 1 on one problem with one convex backend; ``rng`` draws the order of the neurons."""

    def __init__(self, problem: DataProblem, backend: Backend, options: Options, rng: np.random.Generator) -> None:
        self.data = problem
        self.problem = problem.whitened
        self.backend = backend
        self.options = options
        self.rng = rng
        self.rows = rows_of(self.problem, options.n_threads)

    def run(
        self, start: Network, *, validation: Validation | None = None, observer: Observer | None = None
    ) -> Solution:
        """Descend from ``start`` until converged, stopped by a limit or the observer, or interrupted.

        The error on ``validation`` is recorded, and decides early stopping. If ``observer`` has a snapshot, the descent
        resumes from there, to the same bits as without the interruption.
        """
        observer = Observer() if observer is None else observer
        state = self.init(start, validation)
        has_time = observer.snapshot is not None or self.clock.left() > 0.0
        if has_time:
            self.prepare(state)
        if observer.snapshot is not None:
            try:
                self.resume(state, observer.snapshot, validation)
            except FORGED as error:
                raise ValueError(f"{observer.snapshot.source} cannot be used: {error}. {REMEDY}") from error
        observer.begin(state.network)
        try:
            if not has_time:
                self.finish_at_start(state, Status.TIME_LIMIT, validation)
            while state.status is Status.RUNNING:
                check_stop()
                observer.begin_epoch()
                self.step(state)
                self.record(state, validation)
                state.status = self.find_status(state, validation)
                if observer.end_epoch(state) and state.status is Status.RUNNING:
                    state.status = Status.STOPPED_BY_CALLBACK
                observer.keep(partial(self.snapshot, state, validation), is_last=state.status is not Status.RUNNING)
        except KeyboardInterrupt:
            observer.interrupt()
            state.status = Status.INTERRUPTED
            self.record(state, validation)
        finally:
            observer.end()
        return self.solution(state, validation)

    def snapshot(self, state: State, validation: Validation | None) -> Snapshot:
        """Return everything on which the descent depends after an epoch."""
        values = {
            "status": state.status.name,
            "n_epochs": state.n_epochs,
            "was_undone": bool(state.was_undone),
            "seconds": self.clock.spent(),
            "rng": self.rng.bit_generator.state,
        }
        arrays = {"V": state.V.copy(), "alpha": state.alpha.copy(), "history": state.history.table()}
        whole = Snapshot(values, arrays)
        if validation is not None:
            whole |= validation.snapshot()
        return whole

    def resume(self, state: State, found: Snapshot, validation: Validation | None) -> None:
        """Resume from a snapshot under the current limits."""
        state.status = Status[found.values["status"]]
        state.n_epochs, state.was_undone = int(found.values["n_epochs"]), bool(found.values["was_undone"])
        state.history = History.from_table(found.arrays["history"])
        state.V, state.alpha = found.array("V", state.V.shape), found.array("alpha", state.alpha.shape)
        state.is_mse_outdated = True
        self.update_mse(state)
        state.recorded = (state.V.copy(), state.alpha)
        state.network = self.problem.network(state.V, state.alpha)
        self.rng.bit_generator.state = found.values["rng"]
        self.clock = Clock(self.options.max_seconds, spent=float(found.values["seconds"]))
        if validation is not None:
            validation.restore(found, state.network)
        if state.status is Status.RUNNING or state.status.is_limit:
            state.status = self.find_status(state, validation)

    def output_layer_only(self, start: Network, status: Status = Status.INTERRUPTED) -> Solution:
        """Return the start with its best output weights, after an interrupt or the end of the fit by a callback."""
        state = self.init(start)
        self.finish_at_start(state, status)
        return self.solution(state, None)

    def finish_at_start(self, state: State, status: Status, validation: Validation | None = None) -> None:
        """Finish with the best output weights for the hidden weights of the start."""
        self.improve_output_layer(state)
        state.status = status
        self.record(state, validation)

    def solution(self, state: State, validation: Validation | None) -> Solution:
        """Return the result; with early stopping, with the best network instead of the last.

        Raise ValueError if rounding changes RegLoss of the network in the units of the data.
        """
        last, best = state.network, state.network if validation is None else validation.choose(state.network)
        trained, objective = state.history.epochs[-1].objective, self.data.objective(last)
        if not abs(objective - trained) <= LOST * (trained + LOST * self.data.zero_objective):
            # Neurons add up to no more than F / (2 gamma), and F is at most |y|² as a rule: from this gamma on, their
            # rounding is below the share LOST of |y|.
            enough = np.finfo(float).eps / (2.0 * LOST) * self.problem.target_norm
            raise ValueError(
                "Rounding makes the network inaccurate in the units of the data: "
                f"its RegLoss is {objective:.3g}, after training to {trained:.3g}. "
                "Standardise X, for example with sklearn.preprocessing.StandardScaler: its columns "
                "differ too much in scale, or are too far from zero for their spread. "
                + (f"Or raise gamma to at least {enough:.1e}." if self.problem.gamma < enough else "")
            )
        objective = objective if best is last else self.data.objective(best)
        patience = None if validation is None else validation.patience
        message = state.status.message(state.n_epochs, self.describe_progress(state), patience)
        return Solution(best, state.history, state.status, state.n_epochs, message, objective)

    def init(self, start: Network, validation: Validation | None = None) -> State:
        """Start the clock and return the state at the start, recorded as epoch 0."""
        self.clock = Clock(self.options.max_seconds)
        check_outputs(start, self.problem.output_shape)
        start = start.with_intercept(self.problem.intercept)
        V, alpha = self.problem.whiten(start), self.problem.output_weights(start).copy()
        state = State(V, alpha, self.problem.mse(V, alpha), start, recorded=(V.copy(), alpha))
        validation_mse = float("nan") if validation is None else validation.observe(start)
        state.history.epochs.append(Epoch(self.objective(state), state.mse, validation_mse=validation_mse))
        return state

    def prepare(self, state: State) -> None:
        """Prepare the solvers for steps from this state."""
        options = self.options
        self.sweep = self.rows.sweep(
            self.backend,
            len(state.alpha),
            split=options.split,
            max_dca_iter=options.max_dca_iter,
            restart=options.restart,
            inexact=options.inexact,
        )

    def objective(self, state: State) -> float:
        """Return RegLoss of the iterate."""
        return state.mse + self.problem.penalty(state.V, state.alpha)

    def update_mse(self, state: State) -> None:
        """Compute the error after a sweep."""
        if state.is_mse_outdated:
            state.mse = self.problem.mse(state.V, state.alpha)
            state.is_mse_outdated = False

    def step(self, state: State) -> None:
        """Take one epoch: all neurons in random order, then the output layer.

        A sweep that the clock cuts short ends with the output layer, too, but does not count as an epoch.
        """
        order = self.rng.permutation(len(state.alpha))
        kinks = self.rng.standard_normal(state.V.shape) if self.options.kinks == "random" else None
        state.is_mse_outdated = True
        state.tally = self.sweep.run(state.V, state.alpha, order, self.clock.left(), kinks)
        self.improve_output_layer(state)
        state.n_epochs += state.tally.visited == len(order)

    def improve_output_layer(self, state: State) -> None:
        """Solve the problem of the output weights."""
        alpha = solve_output_weights(self.problem, state.V)
        self.update_mse(state)
        mse = self.problem.mse(state.V, alpha)
        before, after = self.objective(state), mse + self.problem.penalty(state.V, alpha)
        if after <= before:
            state.alpha, state.mse = alpha, mse
        elif not after <= before * (1.0 + ROUNDING):
            state.tally = replace(state.tally, refused=state.tally.refused + 1)

    def record(self, state: State, validation: Validation | None) -> None:
        """Append what the epoch reached to the history."""
        self.update_mse(state)
        self.undo_rise(state)
        network = self.problem.network(state.V, state.alpha)
        step_norm = self.step_norm(network, state.network)
        state.network = network
        state.history.epochs.append(
            Epoch(
                objective=self.objective(state),
                mse=state.mse,
                step_norm=step_norm,
                seconds=self.clock.spent(),
                **state.tally.counts(),
                **self.rows.spent(),
                validation_mse=float("nan") if validation is None else validation.observe(network),
            )
        )
        state.tally, state.recorded = Tally(), (state.V.copy(), state.alpha)

    def step_norm(self, network: Network, before: Network) -> float:
        """Return the distance of the weights from those before."""
        return safe_norm(self.data.parameters(network) - self.data.parameters(before))

    def undo_rise(self, state: State) -> None:
        """Restore the weights of the last record if RegLoss is higher.

        For a tiny gamma, the outputs of large neurons cancel, and an epoch may change nothing but rounding.
        """
        before, after = state.history.epochs[-1].objective, self.objective(state)
        state.was_undone = not after <= before * (1.0 + ROUNDING)
        if not after <= before:
            state.V, state.alpha, state.is_mse_outdated = state.recorded[0].copy(), state.recorded[1], True
            state.tally = replace(state.tally, refused=state.tally.refused + state.was_undone)
            self.update_mse(state)

    def find_status(self, state: State, validation: Validation | None) -> Status:
        """Return the status after an epoch."""
        if self.clock.left() <= 0.0:
            return Status.TIME_LIMIT
        if self.has_converged(state):
            return Status.CONVERGED
        if validation is not None and validation.is_exhausted:
            return Status.EARLY_STOPPED
        if self.options.max_epochs is not None and state.n_epochs >= self.options.max_epochs:
            return Status.EPOCH_LIMIT
        if self.evaluations_left(state) <= 0:
            return Status.EVALUATION_LIMIT
        return Status.RUNNING

    def has_converged(self, state: State) -> bool:
        """Return whether the last epoch moved the weights by at most ``tol`` and was not undone."""
        return state.history.epochs[-1].step_norm <= self.options.tol and not state.was_undone

    def describe_progress(self, state: State) -> str:
        """Return the distance from convergence, for the message."""
        step, tol = state.history.epochs[-1].step_norm, self.options.tol
        return f"step {step:.1e} (tol {tol:g})"

    def evaluations_left(self, state: State) -> float:
        """Return the evaluations left of `max_evaluations`, without those of the current epoch."""
        limit = self.options.max_evaluations
        return float("inf") if limit is None else limit - state.history.total("evaluations")
