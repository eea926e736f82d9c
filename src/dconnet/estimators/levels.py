"""A level of networks: a problem and a solution for each column of the target."""

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
from dconnet.estimators.callbacks import NetworkTask
from dconnet.estimators.data import Rows
from dconnet.estimators.gamma_choice import GammaChoice
from dconnet.estimators.session import Session, seconds_of
from dconnet.estimators.units import Units
from dconnet.model.calibration import Calibration
from dconnet.model.network import Network
from dconnet.model.problem import Problem, check_outputs
from dconnet.training.checkpoint import NetworkKeeper
from dconnet.training.clock import Turns
from dconnet.training.descent import State
from dconnet.training.early_stopping import Validation
from dconnet.training.initialization import check_start
from dconnet.training.progress import work_bar
from dconnet.training.result import History, Solution, Status
from dconnet.training.row_work import PosedProblem
from dconnet.training.trainer import Trainer

# The stationarity of a network takes about as long as so many passes over the rows.
CERTIFICATE = 10.0
# What is reserved for it, with the passes that end the training of a network before it.
RESERVE = 1.5
# Seconds by which a fit may be late for the sake of a certificate.
GRACE = 0.1


def posed(
    rows: Rows,
    gamma: float,
    shrinkage: float = 0.0,
    units: Units | None = None,
    *,
    shared: bool = False,
    copy: bool = False,
) -> list[Problem]:
    """The problem of each column, with a gamma in the units of the data; scikit-learn has looked for NaN and infinity.

    By default, the data are taken as they are. Columns that share a network have one problem, with several outputs.
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
class Level:
    """A layer of networks: the problem of each column, and its solution; units, choice of gamma and probabilities.

    ``stopped`` tells whether Ctrl-C came while it was trained; by then, all networks may have been there already.
    ``least_seconds`` is the time without which the stationarity of all networks is left out.
    """

    problems: Sequence[PosedProblem]
    solutions: tuple[Solution, ...]
    units: Units | None = None
    choice: GammaChoice | None = None
    calibration: Calibration | None = None
    stopped: bool = False
    least_seconds: float = float("-inf")

    @classmethod
    def kept(cls, problems: Sequence[PosedProblem], solutions: tuple[Solution, ...]) -> Level:
        """Networks of an earlier fit, on the problems of this one."""
        pairs = zip(problems, solutions, strict=True)
        return cls(problems, tuple(replace(s, objective=problem.objective(s.network)) for problem, s in pairs))

    @property
    def networks(self) -> tuple[Network, ...]:
        """The trained networks."""
        return tuple(solution.network for solution in self.solutions)

    @property
    def objectives(self) -> FloatArray:
        """RegLoss of each network."""
        return np.array([solution.objective for solution in self.solutions])

    @property
    def stationarities(self) -> FloatArray:
        """Norm of a subgradient at each network."""
        return np.array([_stationarity(p, network) for p, network in zip(self.problems, self.networks, strict=True)])

    @property
    def is_interrupted(self) -> bool:
        """Whether the training was interrupted."""
        return self.stopped or any(solution.status is Status.INTERRUPTED for solution in self.solutions)


def _stationarity(problem: PosedProblem, network: Network) -> float:
    """Norm of a subgradient; a problem whose rows are elsewhere tells itself."""
    if isinstance(problem, Problem):
        return stationarity(problem, network).norm
    remote: Any = problem
    return float(remote.stationarity(network).norm)


# From the level under way to all levels of the estimator, as they would be if the fit stopped now.
Complete = Callable[[Level], list[Level]]


class _Reached:
    """What the networks of a level have reached while they are trained, maybe by several threads."""

    def __init__(
        self,
        trainer: Trainer,
        problems: Sequence[PosedProblem],
        starts: Sequence[Network],
        validations: Sequence[Validation | None],
        complete: Complete,
    ) -> None:
        self.problems, self.validations, self.complete = problems, validations, complete
        # The best output weights do not depend on the generator, and the true ones must not be touched.
        rng = np.random.default_rng(0)
        pairs = zip(problems, starts, strict=True)
        self._solutions: list[Callable[[], Solution]] = [
            cache(partial(trainer.fit_output_layer, problem, start, rng, Status.RUNNING)) for problem, start in pairs
        ]

    def note(self, column: int, state: State) -> None:
        """An epoch of a network has ended."""
        validation = self.validations[column]
        network = state.network if validation is None else validation.choose(state.network)
        history = History(list(state.history.epochs))
        self._solutions[column] = partial(_running, self.problems[column], network, history, state.n_epochs)

    def finish(self, column: int, solution: Solution) -> None:
        """A network is trained."""
        self._solutions[column] = lambda: solution

    def levels(self) -> list[Level]:
        """The levels as they would be if the fit stopped now."""
        return self.complete(Level(self.problems, tuple(solution() for solution in self._solutions)))


def _running(problem: PosedProblem, network: Network, history: History, n_epochs: int) -> Solution:
    message = Status.RUNNING.value.format(epochs=n_epochs)
    return Solution(network, history, Status.RUNNING, n_epochs, message, problem.objective(network))


def train_level(
    trainer: Trainer,
    problems: Sequence[PosedProblem],
    starts: Sequence[Network],
    generators: Sequence[np.random.Generator],
    labels: Sequence[str],
    validations: Sequence[Validation | None],
    session: Session,
    interrupted: bool = False,
    n_jobs: int = 1,
    depth: int = 0,
    below: str = "",
    title: str = "network",
    complete: Complete = lambda level: [level],
    levels_left: int = 1,
) -> Level:
    """Train a network for each column; after an interrupt, only the output layers of those that are left.

    The networks do not depend on ``n_jobs``, the number of threads: several networks at once come first, and what is
    left are threads over the rows of each. A visitor sees the networks in their order.
    ``title`` is what scikit-learn's callbacks call them, and ``complete`` tells these what the estimator would be. All
    networks of the ``levels_left``, this one included, get the same share of the time.
    """
    n_at_once = min(n_jobs, len(problems)) if session.visitor is None else 1
    trainer = trainer.sharing(n_jobs, n_at_once)
    _ = problems[0].whitened  # all share it: computed once, before threads begin
    certificates = _seconds_for_certificates(problems, starts[0]) if session.clock.has_limit else 0.0
    turns = session.clock.turns(levels_left * len(problems), n_at_once, reserve=RESERVE * certificates)
    columns = [_Column(*parts) for parts in zip(problems, starts, generators, labels, validations, strict=True)]
    reached = None if session.tasks is None else _Reached(trainer, problems, starts, validations, complete)
    training = _LevelTraining(trainer, columns, session, turns, depth, below, title, reached)
    if interrupted:
        training.stop.set()
    with work_bar(int(trainer.verbose == 1 and n_at_once > 1), "networks", len(problems)) as done:
        training.train_elsewhere()
        solutions = in_threads(partial(training.run, done=done), range(len(problems)), n_at_once, training.stop)
    least = 0.5 * certificates if certificates > GRACE else float("-inf")
    return Level(problems, tuple(solutions), stopped=training.stop.is_set(), least_seconds=least)


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """What the network of one column of the target is trained from."""

    problem: PosedProblem
    start: Network
    rng: np.random.Generator
    label: str
    validation: Validation | None


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """Trains the network of one column, and tells the state of its generator as well."""

    trainer: Trainer

    def __call__(self, column: _Column) -> tuple[Solution, dict[str, Any]]:
        with one_blas_thread():
            solution = self.trainer.train(
                column.problem, column.start, column.rng, label=column.label, validation=column.validation
            )
        return solution, dict(column.rng.bit_generator.state)


@dataclass(frozen=True, slots=True, eq=False)
class _LevelTraining:
    """The training of all networks of a level, maybe by several threads, with all that accompanies it."""

    trainer: Trainer
    columns: Sequence[_Column]
    session: Session
    turns: Turns
    depth: int
    below: str
    title: str
    reached: _Reached | None  # none unless callbacks want to know
    stop: Stop = field(default_factory=Stop)
    trained: dict[int, Solution] = field(default_factory=dict)  # elsewhere

    def train_elsewhere(self) -> None:
        """Train the networks where joblib carries the work, unless they need somebody here; Ctrl-C leaves some out."""
        plain = self.session.is_plain and all(isinstance(column.problem, Problem) for column in self.columns)
        if not is_carried() or len(self.columns) == 1 or not plain or self.stop.is_set():
            return
        train = _Elsewhere(self.trainer.sharing(1, len(self.columns)))
        try:
            for number, (solution, state) in as_carried(train, self.columns):
                self.columns[number].rng.bit_generator.state = state
                self.trained[number] = solution
        except KeyboardInterrupt:
            self.stop.set()

    def run(self, number: int, done: Callable[[float], None]) -> Solution:
        """The network of one column; after the end, its start with the best output weights."""
        found = self.trained.get(number) or self.run_here(number)
        done(1)
        return found

    def run_here(self, number: int) -> Solution:
        """The same for a network that was not trained elsewhere."""
        column, keeper = self.columns[number], self.session.keeper(self.depth, number, self.below)
        is_over = self.session.ended and (keeper is None or keeper.found is None)
        found = None if self.stop.is_set() or is_over else self.train(number, keeper)
        if found is None:
            status = Status.INTERRUPTED if self.stop.is_set() else Status.STOPPED_BY_CALLBACK
            found = self.trainer.fit_output_layer(column.problem, column.start, column.rng, status)
        return found

    def train(self, number: int, keeper: NetworkKeeper | None) -> Solution | None:
        """Train one network; none if Ctrl-C comes before its first epoch."""
        column = self.columns[number]
        try:
            task = self.begin_task(number)
            spent = 0.0 if keeper is None or keeper.found is None else seconds_of(keeper.found)
            found = self.trainer.within(spent + self.turns.next()).train(
                column.problem,
                column.start,
                column.rng,
                label=column.label,
                validation=column.validation,
                visit=self.session.visit(column.problem),
                begin=None if task is None else task.begin_epoch,
                stop=self.session.stop(number, column.label, task),
                keeper=keeper,
            )
        except KeyboardInterrupt:
            self.stop.set()
            return None
        if found.status is Status.INTERRUPTED:
            self.stop.set()
        if task is not None:
            self.end_task(task, found)
        return found

    def begin_task(self, number: int) -> NetworkTask | None:
        """Tell scikit-learn's callbacks that a network begins."""
        if self.session.tasks is None or self.reached is None:
            return None
        place = self.depth * len(self.columns) + number
        return self.session.tasks.begin_network(
            place, self.title, self.trainer.options.max_epochs, number, self.reached
        )

    def end_task(self, task: NetworkTask, found: Solution) -> None:
        """Tell scikit-learn's callbacks that a network is there."""
        try:
            if task.end(found):
                self.session.end()
        except KeyboardInterrupt:  # the network is there all the same
            self.stop.set()


def _seconds_for_certificates(problems: Sequence[PosedProblem], start: Network) -> float:
    """About how long the stationarity of all networks takes, from the time of a pass over the rows."""
    began = time.perf_counter()
    problems[0].objective(start)
    return CERTIFICATE * (time.perf_counter() - began) * len(problems)


def checked_start(problem: PosedProblem, start: Network, n_hidden: int | None) -> Network:
    """The network to start from, if it suits the problem, with its output intercept; None for any width."""
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
