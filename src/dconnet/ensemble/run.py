"""The run of all families over all folds, in threads, with a limit of time and a way out for an interrupt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from dconnet._arrays import FloatArray
from dconnet._threads import as_carried, is_carried, one_blas_thread
from dconnet.ensemble.families import Family
from dconnet.ensemble.fold_fits import FoldFit, Training, fit_fold
from dconnet.training.clock import Clock

# Networks of one fold: those of the gammas that were asked for, and their outputs in the rows of the fold.
Trained = tuple[FoldFit, FloatArray]
Done = Callable[[float], None]

# Family and fold of the fit that is always made.
FIRST = (0, 0)


@dataclass(slots=True)
class Run:
    """Families that are trained fold by fold.

    Attributes
    ----------
    families : sequence of Family
    training : Training
    n_threads : int
    clock : Clock
        The time of the run: when it is over, no other fit is begun, and what is under way is left out.
    done : callable
        Is told the share of the work of each fit that is done.
    trained : dict
        What is there, by family and fold.
    chosen : dict
        The gammas that each family is trained with.
    interrupted : bool
        Whether Ctrl-C ended the run.
    """

    families: Sequence[Family]
    training: Training
    n_threads: int = 1
    clock: Clock = field(default_factory=lambda: Clock(None))
    done: Done = lambda _: None
    trained: dict[tuple[int, int], Trained] = field(default_factory=dict)
    chosen: dict[int, Sequence[int]] = field(default_factory=dict)
    interrupted: bool = False

    def train(self, fold: int, chosen: dict[int, Sequence[int]]) -> None:
        """Train families, each with some of its gammas, on the rows outside a fold."""
        self.chosen = chosen
        self._all([(f, fold) for f in chosen])

    def train_rest(self, chosen: dict[int, Sequence[int]]) -> None:
        """The same for all folds but the first, a family after the other."""
        self.chosen = chosen
        self._all([(f, fold) for f in chosen for fold in range(1, len(self.training.folds))])

    def complete(self) -> list[int]:
        """The families that are trained on all folds."""
        folds = range(len(self.training.folds))
        return [f for f in self.chosen if all((f, fold) in self.trained for fold in folds)]

    def of_first_fold(self) -> Run:
        """The same as if no other fold had been asked for."""
        return replace(self, training=replace(self.training, folds=self.training.folds[:1]))

    def _all(self, tasks: list[tuple[int, int]]) -> None:
        try:
            for task, trained in self._results(tasks):
                if trained is not None:
                    self.trained[task] = trained
                self.done(self.cost(task[0]))
        except KeyboardInterrupt:
            self.interrupted = True

    def _results(self, tasks: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], Trained | None]]:
        """Results as they are ready; what begins does not depend on the number of threads, but for the clock."""
        if is_carried() and not self.clock.has_limit and not self.interrupted:
            fits = as_carried(self._fits(), [(f, fold, self.chosen[f]) for f, fold in tasks])
            yield from ((tasks[number], trained) for number, trained in fits)
            return
        if self.n_threads == 1 or len(tasks) == 1:
            for task in tasks:
                if self._may_begin(task):
                    yield task, self._fit(task)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            running: dict[Future[Trained | None], tuple[int, int]] = {}
            waiting = list(reversed(tasks))
            try:
                while waiting or running:
                    while waiting and len(running) < self.n_threads:
                        task = waiting.pop()
                        if self._may_begin(task):
                            running[pool.submit(self._fit, task)] = task
                    ready, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in ready:
                        yield running.pop(future), future.result()
            except KeyboardInterrupt:
                self.interrupted = True
                wait(running)  # the pool waits for them anyway
                yield from ((task, future.result()) for future, task in running.items() if not future.exception())
                raise

    def _fits(self) -> Callable[[tuple[int, int, Sequence[int]]], Trained | None]:
        """What trains a family, by its number, outside a fold with some gammas; it can be sent elsewhere."""
        families, training = self.families, self.training

        def fit(task: tuple[int, int, Sequence[int]]) -> Trained | None:
            family, fold, gammas = task
            with one_blas_thread():
                return fit_fold(families[family], family, training, fold, gammas)

        return fit

    def _may_begin(self, task: tuple[int, int]) -> bool:
        """One fit is always made, so that there is something to predict with."""
        return not self.interrupted and (task == FIRST or self.clock.left() > 0.0)

    def _fit(self, task: tuple[int, int]) -> Trained | None:
        """The networks of a family outside a fold; None if the time was over before, and they are not the first."""
        family, fold = task
        gammas = self.chosen[family]
        if not self.clock.has_limit:
            return fit_fold(self.families[family], family, self.training, fold, gammas)
        # The networks of the first fit are all needed, those of the others only if there is time for all of them.
        n_turns = len(gammas) * self.training.columns.shape[1] if task == FIRST else 1
        turns = self.clock.turns(n_turns)
        return fit_fold(self.families[family], family, self.training, fold, gammas, turns.next, task == FIRST)

    def cost(self, f: int) -> float:
        """About how long a fit of a family takes, in units of its own."""
        family = self.families[f]
        return float(family.n_hidden * family.evaluations * len(family.gammas))
