"""What accompanies a fit: its seeds, those who watch it, and the checkpoint from which it may go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dconnet.estimators.callbacks import FitTasks, NetworkTask
from dconnet.estimators.data import Rows
from dconnet.estimators.fingerprint import fingerprint
from dconnet.estimators.gamma_choice import GammaChoice
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.checkpoint import REMEDY, Checkpoint, NetworkKeeper, Snapshot
from dconnet.training.clock import Clock
from dconnet.training.descent import State, Stop, Visitor
from dconnet.training.result import TrainingEpoch
from dconnet.training.row_work import PosedProblem

# How the names of the entries of networks in a checkpoint begin.
NETWORK = "network"

VisitorOf = Callable[[Problem], Visitor]
Callback = Callable[[TrainingEpoch], object]


class Session:
    """One call of `fit`.

    Parameters
    ----------
    random_state : int, RandomState or None
        Where the seeds come from.
    visitor : callable, optional
        Sees the networks of all epochs; a function of the problem that they solve.
    callback : callable, optional
        Called after each epoch; the fit stops if it returns True.
    checkpoint : Checkpoint, optional
        Where the state is kept.
    tasks : FitTasks, optional
        The fit as scikit-learn's callbacks see it.
    max_seconds : float, optional
        Limit on the time of the fit, which begins now.
    n_threads : int, default=1
        How many networks are trained at once.
    """

    def __init__(
        self,
        random_state: Any,
        visitor: VisitorOf | None = None,
        callback: Callback | None = None,
        checkpoint: Checkpoint | None = None,
        tasks: FitTasks | None = None,
        max_seconds: float | None = None,
        n_threads: int = 1,
    ) -> None:
        self.random_state, self.visitor, self.callback, self.checkpoint = random_state, visitor, callback, checkpoint
        self.tasks = tasks
        self.ended = checkpoint is not None and checkpoint.get("ended") is not None
        entries = {} if checkpoint is None else checkpoint.entries
        seconds = [seconds_of(entry) for name, entry in entries.items() if name.startswith(NETWORK)]
        self.clock = Clock(max_seconds, spent=sum(seconds) / max(1, min(n_threads, len(seconds))))
        self._lock, self._n_seeds = Lock(), 0

    @property
    def is_plain(self) -> bool:
        """Whether nobody accompanies the fit, and it may take as long as it likes."""
        watchers = (self.visitor, self.callback, self.checkpoint, self.tasks)
        return not self.clock.has_limit and all(watcher is None for watcher in watchers)

    def seed(self) -> int:
        """The next seed; the one of the checkpoint if there is one.

        Raises
        ------
        ValueError
            If the checkpoint has another seed than ``random_state`` gives.
        """
        drawn = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if self.checkpoint is None:
            return drawn
        name = f"seed {self._n_seeds}"
        self._n_seeds += 1
        found = self.checkpoint.get(name)
        if found is None:
            self.checkpoint.put(name, Snapshot({"seed": drawn}), write=self.checkpoint.fingerprint is not None)
            return drawn
        seed = int(found.values["seed"])
        if self.random_state is not None and seed != drawn:
            raise ValueError(f"The checkpoint {self.checkpoint.path} belongs to another random_state. {REMEDY}")
        return seed

    def begin(
        self, parameters: Mapping[str, Any], rows: Rows, validation: Rows | None, starts: Iterable[Network]
    ) -> None:
        """Make sure that the checkpoint, if there is one, belongs to this fit and can be written."""
        if self.checkpoint is not None:
            self.begin_with(fingerprint(parameters, rows, validation, starts))

    def begin_with(self, fingerprint: Mapping[str, Any]) -> None:
        """The same by a fingerprint of the parameters and the data."""
        if self.checkpoint is not None:
            self.checkpoint.begin(fingerprint)

    def choice(self, compute: Callable[[], GammaChoice | None]) -> GammaChoice | None:
        """The choice of gamma, from the checkpoint if it is there."""
        found = None if self.checkpoint is None else self.checkpoint.get("gamma")
        if found is not None:
            # Without what a classifier calibrates by: that is computed again, to the same bits.
            gammas, errors, weights = (np.array(found.arrays[name]) for name in ("gammas", "errors", "weights"))
            return GammaChoice(gammas, errors, weights)
        choice = compute()
        if self.checkpoint is not None and choice is not None:
            arrays = {"gammas": choice.gammas, "errors": choice.errors, "weights": choice.weights}
            self.checkpoint.put("gamma", Snapshot(arrays=arrays))
        return choice

    def visit(self, problem: PosedProblem) -> Visitor | None:
        """Who sees the networks on the way to a solution of this problem."""
        if self.visitor is None:
            return None
        assert isinstance(problem, Problem)  # a visitor looks at the data
        return self.visitor(problem)

    def keeper(self, depth: int, column: int, below: str = "") -> NetworkKeeper | None:
        """Who keeps the state of a network; ``below`` tells networks apart that see other things."""
        return None if self.checkpoint is None else self.checkpoint.network(f"{NETWORK} {depth}.{column}{below}")

    def stop(self, column: int, label: str, task: NetworkTask | None = None) -> Stop | None:
        """What is asked after each epoch of a network whether to stop; the threads ask one after the other.

        The plain callback stops the whole fit, and those of scikit-learn the network whose epoch it is.
        """
        if self.callback is None and task is None:
            return None

        def stop(state: State) -> bool:
            with self._lock:
                wants_end = task is not None and task.end_epoch(state)
                if not self.ended and self.callback is not None:
                    epoch = state.history.epochs[-1]
                    if bool(self.callback(TrainingEpoch.of(epoch, state.n_epochs, column, label, state.network))):
                        self.end()
            return wants_end or self.ended

        return stop

    def end(self) -> None:
        """No network trains any further."""
        self.ended = True
        if self.checkpoint is not None:
            self.checkpoint.put("ended", Snapshot())


def seconds_of(network: Snapshot) -> float:
    """How long a network has been trained, as its snapshot says; of one that is no such snapshot, nothing is known."""
    seconds = network.values.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0
