"""How networks are trained: the algorithm, its options and its backend, for one problem after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dconnet.convex.backend import Backend
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.checkpoint import Keeper
from dconnet.training.descent import Begin, Descent, Options, Stop, Visitor
from dconnet.training.early_stopping import Validation
from dconnet.training.growth import GrowingDescent
from dconnet.training.progress import progress_monitor
from dconnet.training.result import Solution, Status
from dconnet.training.row_work import PosedProblem

# The DC split that each algorithm uses by default.
DEFAULT_SPLITS = {"accelerated": "net", "paper": "paper"}


@dataclass(frozen=True, slots=True)
class Trainer:
    """Training with fixed settings.

    Parameters
    ----------
    algorithm : {"accelerated", "paper"}
        Which descent to run.
    backend : Backend
        Solver of the convex programmes.
    options : Options
        Limits and choices of the descent.
    verbose : int, default=0
        1 shows a progress bar, 2 prints a line for each epoch.
    several_at_once : bool, default=False
        Whether other networks are trained at the same time, in other threads.
    grows : bool, default=False
        Whether the network grows; the start is then only where it begins.
    """

    algorithm: str
    backend: Backend
    options: Options
    verbose: int = 0
    several_at_once: bool = False
    grows: bool = False

    def within(self, seconds: float) -> Trainer:
        """The same with a limit on the time of each network; infinity for none."""
        return replace(self, options=replace(self.options, max_seconds=None if seconds == np.inf else seconds))

    def train(
        self,
        problem: PosedProblem,
        start: Network,
        rng: np.random.Generator,
        *,
        label: str,
        validation: Validation | None = None,
        visit: Visitor | None = None,
        begin: Begin | None = None,
        stop: Stop | None = None,
        keeper: Keeper | None = None,
    ) -> Solution:
        """Train a network from ``start``; the arguments are those of `Descent.run`."""
        with progress_monitor(
            self.verbose, self.options.max_epochs, label, is_one_of_several=self.several_at_once
        ) as monitor:
            return self._descent(problem, rng).run(
                start, validation=validation, monitor=monitor, visit=visit, begin=begin, stop=stop, keeper=keeper
            )

    def sharing(self, n_threads: int, n_networks: int) -> Trainer:
        """The trainer for networks side by side: threads that these leave over share the rows of each."""
        each = max(1, n_threads // n_networks)
        return replace(self, options=replace(self.options, n_threads=each), several_at_once=n_networks > 1)

    def fit_output_layer(
        self, problem: PosedProblem, start: Network, rng: np.random.Generator, status: Status = Status.INTERRUPTED
    ) -> Solution:
        """Fit the output weights of ``start`` alone: what can still be done quickly after an interrupt."""
        return self._descent(problem, rng).output_layer_only(start, status)

    def _descent(self, problem: PosedProblem, rng: np.random.Generator) -> Descent:
        if self.grows:
            if not isinstance(problem, Problem):
                raise ValueError('n_hidden="auto" needs the rows in this process, not with workers. Give a number.')
            return GrowingDescent(problem, self.backend, self.options, rng)
        descent = AcceleratedDescent if self.algorithm == "accelerated" else Descent
        return descent(problem, self.backend, self.options, rng)
