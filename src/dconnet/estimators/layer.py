"""One layer of networks: a problem and a solution for each column of the target."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._native import Stop
from dconnet._threads import as_carried, in_threads, is_carried, one_blas_thread
from dconnet.certificates import stationarity
from dconnet.estimators.data import Rows, Units
from dconnet.estimators.gamma_choice import GammaChoice
from dconnet.estimators.observer import NETWORK, FitObserver, NetworkObserver, seconds_of
from dconnet.model.network import Network
from dconnet.model.problem import Problem, check_outputs
from dconnet.training.clock import Turns
from dconnet.training.descent import State
from dconnet.training.early_stopping import Validation
from dconnet.training.initialization import check_start
from dconnet.training.observer import Observer, Recorder
from dconnet.training.progress import EpochProgress, work_bar
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
    given = (rows.X, rows.Y, gamma, rows.weight)
    options: dict[str, Any] = {
        "shrinkage": shrinkage,
        "coordinates": units.coordinates,
        "copy": copy,
        "check_finite": False,
    }
    if shared:
        return [Problem(*given, intercept=units.intercepts, output_scale=units.output_scale, **options)]
    return Problem.of_columns(*given, intercepts=units.intercepts, **options)


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

    @property
    def objectives(self) -> FloatArray:
        """RegLoss of each network."""
        return np.array([solution.objective for solution in self.solutions])

    def stationarities(self) -> FloatArray:
        """Return the norm of a subgradient at each network."""
        pairs = zip(self.problems, self.networks, strict=True)
        return np.array(
            [
                (stationarity(p, network) if isinstance(p, Problem) else p.stationarity(network)).norm  # type: ignore[attr-defined]
                for p, network in pairs
            ]
        )

    @property
    def is_interrupted(self) -> bool:
        """Whether the training was interrupted."""
        return self.is_stopped or any(solution.status is Status.INTERRUPTED for solution in self.solutions)


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """Everything that the network of one column of the target is trained from."""

    problem: DataProblem
    start: Network
    rng: np.random.Generator
    label: str
    validation: Validation | None


@dataclass(frozen=True, slots=True)
class _RemoteTraining:
    """Trains the network of one column in another process; returns also the state of its generator."""

    trainer: Trainer
    verbose: int

    def __call__(self, column: _Column) -> tuple[Solution, dict[str, Any]]:
        progress = EpochProgress(self.verbose, self.trainer.options.max_epochs, column.label, is_one_of_several=True)
        with one_blas_thread():
            solution = self.trainer.train(
                column.problem, column.start, column.rng, validation=column.validation, observer=Observer(progress)
            )
        return solution, dict(column.rng.bit_generator.state)


def train_layer(
    trainer: Trainer,
    problems: Sequence[DataProblem],
    starts: Sequence[Network],
    generators: Sequence[np.random.Generator],
    labels: Sequence[str],
    validations: Sequence[Validation | None],
    observer: FitObserver,
    *,
    n_jobs: int = 1,
    depth: int = 0,
    name_below: str = "",
    title: str = "network",
    complete: Callable[[Layer], list[Layer]] = lambda layer: [layer],
    n_layers_left: int = 1,
    is_interrupted: bool = False,
) -> Layer:
    """Train a network for each column; after an interrupt, only the output layers of the networks that are left.

    The networks do not depend on ``n_jobs``, the number of threads: several networks are trained at once, and
    remaining threads share the rows of each. All networks of the ``n_layers_left`` layers, this one included, get the
    same share of the time. ``name_below`` distinguishes checkpoints of networks with different inputs, ``title`` names
    the networks for scikit-learn's callbacks, and ``complete`` returns all layers of the estimator for this one.
    """
    n_at_once = min(n_jobs, len(problems)) if observer.recorded is None else 1
    trainer = trainer.sharing(n_jobs, n_at_once)
    _ = problems[0].whitened  # shared by all problems: computed before threads begin
    seconds = _certificate_seconds(problems, starts[0]) if observer.clock.has_limit else 0.0
    turns = observer.clock.turns(n_layers_left * len(problems), n_at_once, reserve=RESERVE * seconds)
    columns = [_Column(*parts) for parts in zip(problems, starts, generators, labels, validations, strict=True)]
    training = _LayerTraining(trainer, columns, observer, turns, depth, name_below, title, complete, n_at_once)
    if is_interrupted:
        training.stop.set()
    with work_bar(int(observer.verbose == 1 and n_at_once > 1), "networks", len(problems)) as done:
        training.train_elsewhere()
        solutions = in_threads(partial(training.run, done=done), range(len(problems)), n_at_once, training.stop)
    least = 0.5 * seconds if seconds > GRACE else float("-inf")
    return Layer(problems, tuple(solutions), is_stopped=training.stop.is_set(), least_seconds=least)


def _certificate_seconds(problems: Sequence[DataProblem], start: Network) -> float:
    """Estimate the time for the stationarity of all networks by the time of a pass over the rows."""
    began = time.perf_counter()
    problems[0].objective(start)
    return CERTIFICATE_PASSES * (time.perf_counter() - began) * len(problems)


@dataclass(slots=True, eq=False)
class _LayerTraining:
    """Trains all networks of a layer, by several threads if there are any.

    ``reached`` has a function for each network that returns its current solution; only scikit-learn's callbacks use it.
    """

    trainer: Trainer
    columns: Sequence[_Column]
    observer: FitObserver
    turns: Turns
    depth: int
    name_below: str
    title: str
    complete: Callable[[Layer], list[Layer]]
    n_at_once: int
    stop: Stop = field(default_factory=Stop)
    trained_elsewhere: dict[int, Solution] = field(default_factory=dict)
    reached: list[Callable[[], Solution]] = field(init=False)

    def __post_init__(self) -> None:
        # The best output weights do not depend on the generator, and those of the columns must not be used.
        rng = np.random.default_rng(0)
        self.reached = [
            cache(partial(self.trainer.fit_output_layer, column.problem, column.start, rng, Status.RUNNING))
            for column in self.columns
        ]

    def train_elsewhere(self) -> None:
        """Train the networks with joblib's backend of another package, if nothing observes them; see `is_carried`."""
        is_plain = self.observer.is_plain and all(isinstance(column.problem, Problem) for column in self.columns)
        if not is_carried() or len(self.columns) == 1 or not is_plain or self.stop.is_set():
            return
        train = _RemoteTraining(self.trainer.sharing(1, len(self.columns)), self.observer.verbose)
        try:
            for number, (solution, state) in as_carried(train, self.columns):
                self.columns[number].rng.bit_generator.state = state
                self.trained_elsewhere[number] = solution
        except KeyboardInterrupt:
            self.stop.set()

    def run(self, number: int, done: Callable[[float], None]) -> Solution:
        """Train the network of one column; after the end of the fit, only its output layer."""
        found = self.trained_elsewhere.get(number)
        if found is None and not self.stop.is_set():
            found = self.train(number)
        if found is None:
            column, status = self.columns[number], Status.STOPPED_BY_CALLBACK
            status = Status.INTERRUPTED if self.stop.is_set() else status
            found = self.trainer.fit_output_layer(column.problem, column.start, column.rng, status)
        done(1)
        return found

    def train(self, number: int) -> Solution | None:
        """Train one network; return None if the fit ends before its first epoch."""
        column, observer = self.columns[number], self.observe(number)
        if self.observer.is_over and observer.snapshot is None:
            return None
        try:
            if self.observer.context is not None and isinstance(observer, NetworkObserver):
                place = self.depth * len(self.columns) + number
                limit = self.trainer.options.max_epochs
                observer.begin_task(self.title, place, limit, partial(self.note, number), self.layers)
            spent = 0.0 if observer.snapshot is None else seconds_of(observer.snapshot)
            found = self.trainer.within(spent + self.turns.next()).train(
                column.problem, column.start, column.rng, validation=column.validation, observer=observer
            )
        except KeyboardInterrupt:
            self.stop.set()
            return None
        if found.status is Status.INTERRUPTED:
            self.stop.set()
        if isinstance(observer, NetworkObserver):
            self.reached[number] = lambda: found
            try:
                observer.end_task(found)
            except KeyboardInterrupt:  # the network is trained all the same
                self.stop.set()
        return found

    def observe(self, number: int) -> Observer:
        """Return the observer of a network."""
        column, fit = self.columns[number], self.observer
        if fit.recorded is not None:
            assert isinstance(column.problem, Problem)
            fit.recorded.append((column.problem, Recorder()))
            return fit.recorded[-1][1]
        limit, is_one_of_several = self.trainer.options.max_epochs, self.n_at_once > 1
        progress = EpochProgress(fit.verbose, limit, column.label, is_one_of_several=is_one_of_several)
        return NetworkObserver(fit, f"{NETWORK} {self.depth}.{number}{self.name_below}", number, column.label, progress)

    def note(self, number: int, state: State) -> None:
        """Remember what a network has reached after an epoch."""
        column = self.columns[number]
        network = state.network if column.validation is None else column.validation.choose(state.network)
        history, n_epochs = History(list(state.history.epochs)), state.n_epochs
        message = Status.RUNNING.message(n_epochs)
        self.reached[number] = lambda: Solution(
            network, history, Status.RUNNING, n_epochs, message, column.problem.objective(network)
        )

    def layers(self) -> list[Layer]:
        """Return the layers of the estimator as if the fit stopped now."""
        problems = [column.problem for column in self.columns]
        return self.complete(Layer(problems, tuple(reached() for reached in self.reached)))


def kept_layer(problems: Sequence[DataProblem], solutions: tuple[Solution, ...]) -> Layer:
    """Return networks of an earlier fit as a layer of this one."""
    pairs = zip(problems, solutions, strict=True)
    return Layer(problems, tuple(replace(s, objective=problem.objective(s.network)) for problem, s in pairs))


def prepare_start(problem: DataProblem, start: Network, n_hidden: int | None) -> Network:
    """Return the start with the output intercept of the problem.

    Raises
    ------
    ValueError
        If its shape does not fit the problem and ``n_hidden``, unless that is None, or RegLoss is too large there.
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
