"""The observers of a fit: seeds, time limit, callback, checkpoint, progress, and scikit-learn's callbacks.

Callbacks of scikit-learn (`set_callbacks`) exist from version 1.9 on. They see a fit as a tree of tasks: the fit, its
networks, and their epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from dconnet.training.checkpoint import FORGED, REMEDY, Checkpoint, Snapshot
from dconnet.training.clock import Clock
from dconnet.training.descent import State
from dconnet.training.observer import EpochProgress
from dconnet.training.result import TrainingEpoch

try:
    from sklearn import callback as sklearn_callbacks
except ImportError:  # scikit-learn 1.6 to 1.8
    sklearn_callbacks = None

# Prefix of the names of networks in a checkpoint.
NETWORK = "network"

Callback = Callable[[TrainingEpoch], object]
Attributes = Callable[[Sequence[Any]], dict[str, Any]]
Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")


class _NoCallbackSupport:
    """Replaces scikit-learn's mixin before version 1.9."""


CallbackSupport: Any = _NoCallbackSupport if sklearn_callbacks is None else sklearn_callbacks.CallbackSupportMixin
# Number of frames that `with_callbacks` puts between a method and its caller.
FRAMES = 0 if sklearn_callbacks is None else 1


def with_callbacks(method: Method) -> Method:
    """Tear scikit-learn's callbacks down when the method ends."""
    return method if sklearn_callbacks is None else sklearn_callbacks.with_callbacks(method)


class FitObserver:
    """Observes one call of `fit`, whose time begins now.

    It draws seeds from the parameter ``random_state`` of the estimator, calls ``callback`` after each epoch, and writes
    the checkpoint. scikit-learn's callbacks are called if ``use_sklearn_callbacks`` is True.
    """

    def __init__(self, estimator: Any, *, use_sklearn_callbacks: bool = True) -> None:
        self.estimator, self.callback, self.verbose = estimator, estimator.callback, int(estimator.verbose)
        self.n_threads = int(effective_n_jobs(estimator.n_jobs))
        self.checkpoint = None if estimator.checkpoint is None else Checkpoint(estimator.checkpoint)
        self.is_over = self.checkpoint is not None and self.checkpoint.get("ended") is not None
        entries = {} if self.checkpoint is None else self.checkpoint.entries
        seconds = [seconds_of(entry) for name, entry in entries.items() if name.startswith(NETWORK)]
        self.clock = Clock(estimator.max_seconds, spent=sum(seconds) / max(1, min(self.n_threads, len(seconds))))
        self.lock = RLock()  # threads train the networks, and callbacks are called one at a time
        self.context: Any = None
        if sklearn_callbacks is not None and use_sklearn_callbacks:
            # The number of networks is known only after the target is checked.
            context = estimator._init_callback_context(max_subtasks=None, sequential_subtasks=False)
            self.context = context if getattr(estimator, "_skl_callbacks", None) else None
        self._task: dict[str, Any] = {"estimator": estimator}
        self._n_seeds = 0

    @property
    def is_plain(self) -> bool:
        """Whether there is no callback, checkpoint, recorder or time limit."""
        observers = (self.estimator._recorded, self.callback, self.checkpoint, self.context)
        return not self.clock.has_limit and all(observer is None for observer in observers)

    def seed(self) -> int:
        """Return the next seed; raise ValueError if the checkpoint has another one than ``random_state`` gives."""
        drawn = int(check_random_state(self.estimator.random_state).randint(np.iinfo(np.int32).max))
        name = f"seed {self._n_seeds}"
        self._n_seeds += 1
        seed: int = self.recall(
            name, lambda: drawn, lambda seed: Snapshot({"seed": seed}), lambda found: int(found.values["seed"])
        )
        if self.checkpoint is not None and self.estimator.random_state is not None and seed != drawn:
            raise ValueError(f"The checkpoint {self.checkpoint.path} belongs to another random_state. {REMEDY}")
        return seed

    def recall(
        self,
        name: str,
        compute: Callable[[], Result],
        to_snapshot: Callable[[Result], Snapshot | None],
        from_snapshot: Callable[[Snapshot], Result],
    ) -> Result:
        """Return a result from the checkpoint, or compute and store it unless its snapshot is None."""
        found = None if self.checkpoint is None else self.checkpoint.get(name)
        if found is not None:
            try:
                return from_snapshot(found)
            except FORGED as error:
                raise ValueError(f"{found.source} cannot be used: {error}. {REMEDY}") from error
        result = compute()
        snapshot = to_snapshot(result)
        if self.checkpoint is not None and snapshot is not None:
            self.checkpoint.put(name, snapshot)
        return result

    def begin_task(self, n_networks: int, X: Any, y: Any, sample_weight: Any, attributes: Attributes) -> None:
        """Begin the task of scikit-learn's callbacks; ``attributes`` maps layers to fitted attributes."""
        if self.context is not None:
            metadata = None if sample_weight is None else {"sample_weight": sample_weight}
            self._task |= {"X": X, "y": y, "metadata": metadata}
            self.attributes = attributes
            self.context.max_subtasks = n_networks
            with self.lock:
                self.context.call_on_fit_task_begin(**self._task)

    def end_task(self) -> None:
        """End the task of scikit-learn's callbacks."""
        if self.context is not None:
            with self.lock:
                self.context.call_on_fit_task_end(**self._task, reconstruction_attributes={})

    def stop(self) -> None:
        """Stop all networks."""
        self.is_over = True
        if self.checkpoint is not None:
            self.checkpoint.put("ended", Snapshot())


class NetworkObserver(EpochProgress):
    """Observes the training of one network for a `FitObserver`.

    ``name`` is that of the network in the checkpoint, ``column`` the column of the target that it learns, and
    ``label`` its class or layer, in words.
    """

    def __init__(
        self,
        fit: FitObserver,
        name: str,
        column: int,
        label: str,
        max_epochs: int | None,
        *,
        is_one_of_several: bool,
    ) -> None:
        super().__init__(fit.verbose, max_epochs, label, is_one_of_several=is_one_of_several)
        self.fit, self.name, self.column = fit, name, column
        self.snapshot = None if fit.checkpoint is None else fit.checkpoint.get(name)
        self._context: Any = None
        self._epoch: Any = None

    def begin_task(self, title: str, number: int, note: Callable[[State], None], layers: Callable[[], Any]) -> None:
        """Begin the task of scikit-learn's callbacks, if there are any.

        ``note`` receives the state after each epoch, and ``layers`` returns all layers as they are now.
        """
        fit = self.fit
        if fit.context is None:
            return
        with fit.lock:
            self._note = note
            self._context = fit.context.subcontext(title, task_id=number, max_subtasks=self.max_epochs)
            # The attributes are computed only if a callback uses them.
            self._task = fit._task | {"reconstruction_attributes": lambda: fit.attributes(layers())}
            self._context.call_on_fit_task_begin(**self._task)

    def begin_epoch(self) -> None:
        """Call scikit-learn's callbacks."""
        if self._context is not None:
            with self.fit.lock:
                self._epoch = self._context.subcontext("epoch")
                self._epoch.call_on_fit_task_begin(**self._task)

    def end_epoch(self, state: State) -> bool:
        """Call all callbacks; return True to stop.

        The plain callback stops the whole fit, and those of scikit-learn the network whose epoch it is.
        """
        super().end_epoch(state)
        with self.fit.lock:
            is_stopped = False
            if self._context is not None:
                self._note(state)
                is_stopped = self._end_epoch_task()
            if not self.fit.is_over and self.fit.callback is not None:
                epoch = TrainingEpoch(
                    **asdict(state.history.epochs[-1]),
                    number=state.n_epochs,
                    column=self.column,
                    label=self.label,
                    network=state.network,
                )
                if self.fit.callback(epoch):
                    self.fit.stop()
        return is_stopped or self.fit.is_over

    def keep(self, take_snapshot: Callable[[], Snapshot], *, is_last: bool) -> None:
        """Put the state into the checkpoint."""
        if self.fit.checkpoint is not None:
            self.fit.checkpoint.put(self.name, take_snapshot(), at_once=is_last)

    def interrupt(self) -> None:
        """Write the checkpoint."""
        if self.fit.checkpoint is not None:
            self.fit.checkpoint.write()

    def end_task(self) -> None:
        """End the task of scikit-learn's callbacks, which may stop the fit."""
        if self._context is not None:
            with self.fit.lock:
                if self._epoch is not None:  # cut short by Ctrl-C
                    self._end_epoch_task()
                if self._context.call_on_fit_task_end(**self._task):
                    self.fit.stop()

    def _end_epoch_task(self) -> bool:
        epoch, self._epoch = self._epoch, None
        return bool(epoch.call_on_fit_task_end(**self._task))


def seconds_of(network: Snapshot) -> float:
    """Return how long a network was trained according to its snapshot; zero for a forged one."""
    seconds = network.values.get("seconds")
    return float(seconds) if isinstance(seconds, (int, float)) else 0.0
