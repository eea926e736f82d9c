"""Training of all families over all folds in threads, with a time limit, and with Ctrl-C keeping what has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from dconnet._native import Stop
from dconnet._threads import has_external_backend, in_threads, one_blas_thread, run_on_backend
from dconnet.ensemble.families import AnyFamily
from dconnet.ensemble.fold_fits import TrainedFold, TrainingSet, fit_fold
from dconnet.training.clock import Clock

# Family and fold of the fit that is always made, so that there is a model.
FIRST = (0, 0)


@dataclass(slots=True)
class FoldRunner:
    """Trains families fold by fold.

    Attributes
    ----------
    families : sequence of Family, TreeFamily or ConstantFamily
    data : TrainingSet
    n_threads : int
    clock : Clock
        When the time is over, no other fit begins, and fits that have not ended are dropped.
    report_progress : callable
        Receives the cost of each fit that has ended.
    trained : dict
        What has been trained, by family and fold.
    chosen : dict
        Indices of the settings that each family is trained with.
    is_interrupted : bool
        True after Ctrl-C, which ends all fits that run.
    """

    families: Sequence[AnyFamily]
    data: TrainingSet
    n_threads: int = 1
    clock: Clock = field(default_factory=lambda: Clock(None))
    report_progress: Callable[[float], None] = lambda _: None
    trained: dict[tuple[int, int], TrainedFold] = field(default_factory=dict)
    chosen: dict[int, Sequence[int]] = field(default_factory=dict)
    is_interrupted: bool = False
    _stop: Stop = field(default_factory=Stop)
    _lock: Lock = field(default_factory=Lock)

    def train(self, chosen: dict[int, Sequence[int]], folds: Sequence[int]) -> None:
        """Train families, each with the chosen settings, on the rows outside each of the folds."""
        self.chosen = chosen
        tasks = [(f, fold) for f in chosen for fold in folds]
        if self.is_interrupted:
            return
        try:
            if has_external_backend() and not self.clock.has_limit:
                for number, trained in run_on_backend(self._make_task(), [(f, fold, chosen[f]) for f, fold in tasks]):
                    self._store(tasks[number], trained)
            else:
                in_threads(self._train_one, tasks, self.n_threads, self._stop)
        except KeyboardInterrupt:
            self._stop.set()
        self.is_interrupted = self._stop.is_set()

    def complete_families(self) -> list[int]:
        """Return the families that are trained on all folds."""
        folds = range(len(self.data.folds))
        return [f for f in self.chosen if all((f, fold) in self.trained for fold in folds)]

    def keep_first_fold(self) -> FoldRunner:
        """Return a runner whose only fold is the first."""
        return replace(self, data=replace(self.data, folds=self.data.folds[:1]))

    def _train_one(self, task: tuple[int, int]) -> None:
        if self._stop.is_set() or (task != FIRST and self.clock.left() <= 0.0):
            return
        f, fold = task
        chosen = self.chosen[f]
        # The networks of the first fit share the time; those of others are dropped unless there is time for all.
        n_turns = len(chosen) * self.data.columns.shape[1] if task == FIRST else 1
        seconds = self.clock.turns(n_turns).next if self.clock.has_limit else None
        try:
            trained = fit_fold(self.families[f], f, self.data, fold, chosen, seconds, task == FIRST)
        except KeyboardInterrupt:
            self._stop.set()
        else:
            self._store(task, trained)

    def _store(self, task: tuple[int, int], trained: TrainedFold | None) -> None:
        with self._lock:
            if trained is not None:
                self.trained[task] = trained
            self.report_progress(self.families[task[0]].cost)

    def _make_task(self) -> Callable[[tuple[int, int, Sequence[int]]], TrainedFold | None]:
        """Return a function of family, fold and settings that can be sent to another machine."""
        families, data = self.families, self.data

        def fit(task: tuple[int, int, Sequence[int]]) -> TrainedFold | None:
            f, fold, chosen = task
            with one_blas_thread():
                return fit_fold(families[f], f, data, fold, chosen)

        return fit
