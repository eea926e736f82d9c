"""One layer of networks: a problem and a solution for each column of the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, cast

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._native import Stop
from dconnet._threads import has_external_backend, in_threads, one_blas_thread, run_on_backend
from dconnet.certificates import stationarity
from dconnet.estimators.data import Rows, Units
from dconnet.estimators.fit_observer import NETWORK, FitObserver, NetworkObserver, seconds_of
from dconnet.estimators.gamma_choice import GammaChoice
from dconnet.model.network import Network
from dconnet.model.problem import Problem, check_outputs
from dconnet.training.clock import Clock, Turns
from dconnet.training.descent import State
from dconnet.training.initialization import check_start
from dconnet.training.observer import EpochProgress, Observer, Recorder, Validation, work_bar
from dconnet.training.result import History, Solution, Status
from dconnet.training.row_work import DataProblem
from dconnet.training.trainer import Trainer

# Passes over the rows that the stationarity of a network takes, about.
CERTIFICATE_PASSES = 10.0
# Time reserved for the stationarity and the last passes of the training, in units of the stationarity.
RESERVE = 1.5
# Seconds by which a fit may exceed its limit for the stationarity.
GRACE = 0.1


def build_problems(
    rows: Rows,
    gamma: float,
    shrinkage: float = 0.0,
    units: Units | None = None,
    *,
    shared: bool = False,
    copy: bool = False,
) -> list[Problem]:
    """Return the problem of each column, or one problem of several outputs if the columns share a network.

    The gamma is in the units of the data. The rows were checked for NaN and infinity before.
    """
    units = Units.plain(rows) if units is None else units
    columns, intercepts = ([rows.Y], [units.intercepts]) if shared else (rows.Y.T, units.intercepts)
    first = Problem(
        rows.X,
        columns[0],
        gamma,
        rows.weight,
        shrinkage=shrinkage,
        intercept=intercepts[0],
        coordinates=units.coordinates,
        output_scale=units.output_scale if shared else None,
        copy=copy,
        check_finite=False,
    )
    others = zip(columns[1:], intercepts[1:], strict=True)
    return [first, *(first.with_targets(column, intercept) for column, intercept in others)]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The problems and solutions of a layer, with the units and the choice of gamma of the estimator.

    ``is_uncalibrated`` is True if there was no time for the calibration. ``is_stopped`` is True after Ctrl-C, even if
    all networks were trained by then. Without ``least_seconds`` left, the stationarity of the networks is not computed.
    """

    problems: Sequence[DataProblem]
    solutions: tuple[Solution, ...]
    units: Units | None = None
    choice: GammaChoice | None = None
    is_uncalibrated: bool = False
    is_stopped: bool = False
    least_seconds: float = float("-inf")

    @property
    def networks(self) -> tuple[Network, ...]:
        """The trained networks."""
        return tuple(solution.network for solution in self.solutions)

    def stationarities(self) -> FloatArray:
        """Return the norm of a subgradient at each network."""
        pairs = zip(self.problems, self.networks, strict=True)
        return np.array([stationarity(problem, network).norm for problem, network in pairs])

    @property
    def is_interrupted(self) -> bool:
        """Whether the training was interrupted."""
        return self.is_stopped or any(solution.status is Status.INTERRUPTED for solution in self.solutions)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkTask:
    """Everything that one network of a layer is trained from."""

    problem: DataProblem
    start: Network
    rng: np.random.Generator
    label: str
    validation: Validation | None


@dataclass(slots=True, eq=False)
class LayerTraining:
    """Trains all networks of a layer.

    The networks do not depend on the number of threads of the observer: several networks are trained at once, and
    remaining threads share the rows of each. All networks of the ``n_layers_left`` layers, this one included, get the
    same share of the time. ``name_below`` distinguishes checkpoints of networks with different inputs, ``title`` names
    the networks for scikit-learn's callbacks, and ``complete`` returns all layers of the estimator for this one.
    ``reached`` has a function for each network that returns its current solution; only scikit-learn's callbacks use it.
    """

    trainer: Trainer
    tasks: Sequence[NetworkTask]
    observer: FitObserver
    depth: int = 0
    name_below: str = ""
    title: str = "network"
    complete: Callable[[Layer], list[Layer]] = lambda layer: [layer]
    n_layers_left: int = 1
    stop: Stop = field(default_factory=Stop)
    n_at_once: int = field(init=False)
    turns: Turns = field(init=False)
    reached: list[Callable[[], Solution]] = field(init=False)

    def run(self) -> Layer:
        """Train all networks; after Ctrl-C, fit only the output layers of the networks that are left."""
        tasks, observer = self.tasks, self.observer
        self.n_at_once = min(observer.n_threads, len(tasks))
        self.trainer = self.trainer.with_threads(observer.n_threads, self.n_at_once)
        # The best output weights do not depend on the generator, and those of the tasks must not be used.
        rng = np.random.default_rng(0)
        self.reached = [cache(partial(self.fit_output_layer, task, Status.RUNNING, rng)) for task in tasks]
        problems = [task.problem for task in tasks]
        _ = problems[0].whitened  # shared by all problems: computed before threads begin
        seconds = _certificate_seconds(problems, tasks[0].start) if observer.clock.has_limit else 0.0
        self.turns = observer.clock.turns(self.n_layers_left * len(tasks), self.n_at_once, reserve=RESERVE * seconds)
        with work_bar(int(observer.verbose == 1 and self.n_at_once > 1), "networks", len(tasks)) as done:
            known = self.train_on_backend()

            def train(number: int) -> Solution:
                found = known.get(number)
                if found is None and not self.stop.is_set():
                    found = self.train(number)
                if found is None:
                    status = Status.INTERRUPTED if self.stop.is_set() else Status.STOPPED_BY_CALLBACK
                    found = self.fit_output_layer(tasks[number], status, tasks[number].rng)
                done(1)
                return found

            solutions = in_threads(train, range(len(tasks)), self.n_at_once, self.stop)
        least = 0.5 * seconds if seconds > GRACE else float("-inf")
        return Layer(problems, tuple(solutions), is_stopped=self.stop.is_set(), least_seconds=least)

    def fit_output_layer(self, task: NetworkTask, status: Status, rng: np.random.Generator) -> Solution:
        """Fit the output weights of the start alone, which is fast."""
        return self.trainer.descent(task.problem, rng).output_layer_only(task.start, status)

    def train_on_backend(self) -> dict[int, Solution]:
        """Train the networks on joblib's backend if it belongs to another package and nothing observes them."""
        solutions: dict[int, Solution] = {}
        is_plain = self.observer.is_plain and all(isinstance(task.problem, Problem) for task in self.tasks)
        if not has_external_backend() or len(self.tasks) == 1 or not is_plain or self.stop.is_set():
            return solutions
        train = partial(_train_remotely, self.trainer.with_threads(1, len(self.tasks)), self.observer.verbose)
        try:
            for number, (solution, state) in run_on_backend(train, self.tasks):
                self.tasks[number].rng.bit_generator.state = state
                solutions[number] = solution
        except KeyboardInterrupt:
            self.stop.set()
        return solutions

    def train(self, number: int) -> Solution | None:
        """Train one network; return None if the fit ends before its first epoch."""
        task, observer = self.tasks[number], self.make_observer(number)
        if self.observer.is_over and observer.snapshot is None:
            return None
        try:
            if isinstance(observer, NetworkObserver):
                place = self.depth * len(self.tasks) + number
                observer.begin_task(self.title, place, partial(self.store_state, number), self.build_layers)
            spent = 0.0 if observer.snapshot is None else seconds_of(observer.snapshot)
            descent = self.trainer.with_time_limit(spent + self.turns.next()).descent(task.problem, task.rng)
            found = descent.run(task.start, validation=task.validation, observer=observer)
        except KeyboardInterrupt:
            self.stop.set()
            return None
        if found.status is Status.INTERRUPTED:
            self.stop.set()
        if isinstance(observer, NetworkObserver):
            self.reached[number] = lambda: found
            try:
                observer.end_task()
            except KeyboardInterrupt:  # the network is trained all the same
                self.stop.set()
        return found

    def make_observer(self, number: int) -> Observer:
        """Return the observer of a network."""
        task, recorded = self.tasks[number], self.observer.estimator._recorded
        if recorded is not None:
            assert isinstance(task.problem, Problem)
            recorded.append((task.problem, Recorder()))
            return cast("Recorder", recorded[-1][1])
        return NetworkObserver(
            self.observer,
            f"{NETWORK} {self.depth}.{number}{self.name_below}",
            number,
            task.label,
            self.trainer.options.max_epochs,
            is_one_of_several=self.n_at_once > 1,
        )

    def store_state(self, number: int, state: State) -> None:
        """Remember what a network has reached after an epoch."""
        task = self.tasks[number]
        network = state.network if task.validation is None else task.validation.choose(state.network)
        history, n_epochs = History(list(state.history.epochs)), state.n_epochs
        message = Status.RUNNING.message(n_epochs)
        self.reached[number] = lambda: Solution(
            network, history, Status.RUNNING, n_epochs, message, task.problem.objective(network)
        )

    def build_layers(self) -> list[Layer]:
        """Return the layers of the estimator as if the fit stopped now."""
        problems = [task.problem for task in self.tasks]
        return self.complete(Layer(problems, tuple(reached() for reached in self.reached)))


def _train_remotely(trainer: Trainer, verbose: int, task: NetworkTask) -> tuple[Solution, dict[str, Any]]:
    """Train a network in another process; return also the state of its generator."""
    progress = EpochProgress(verbose, trainer.options.max_epochs, task.label, is_one_of_several=True)
    with one_blas_thread():
        descent = trainer.descent(task.problem, task.rng)
        solution = descent.run(task.start, validation=task.validation, observer=progress)
    return solution, dict(task.rng.bit_generator.state)


def _certificate_seconds(problems: Sequence[DataProblem], start: Network) -> float:
    """Estimate the time for the stationarity of all networks by the time of a pass over the rows."""
    clock = Clock(None)
    problems[0].objective(start)
    return CERTIFICATE_PASSES * clock.spent() * len(problems)


def prepare_start(problem: DataProblem, start: Network, n_hidden: int | None) -> Network:
    """Return the start with the output intercept of the problem.

    Raise ValueError if its shape does not fit the problem and ``n_hidden`` (None for any), or RegLoss is too large.
    """
    check_outputs(start, problem.output_shape)
    start = start.with_intercept(problem.intercept)
    n_features, n_hidden = problem.n_features, start.n_hidden if n_hidden is None else n_hidden
    if (start.n_hidden, start.n_features) != (n_hidden, n_features):
        raise ValueError(
            f"The network to start from has {start.n_hidden} neurons and {start.n_features} inputs, but {n_hidden} "
            f"neurons and {n_features} inputs are needed."
        )
    check_start(problem, start)
    return start
