"""scikit-learn's callbacks, where the installed version has them: a fit as a tree of tasks, networks and their epochs.

`set_callbacks` came with scikit-learn 1.9; estimators do without it before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Protocol, TypeVar

from dconnet.training.descent import State
from dconnet.training.result import Solution

try:
    from sklearn import callback as protocol
except ImportError:  # scikit-learn 1.6 to 1.8
    protocol = None

Method = TypeVar("Method", bound=Callable[..., Any])


class _Nothing:
    """Takes the place of scikit-learn's mixin where there is none."""


CallbackSupport: Any = _Nothing if protocol is None else protocol.CallbackSupportMixin
# How many frames `with_callbacks` puts between a method and its caller.
FRAMES = 0 if protocol is None else 1


def with_callbacks(method: Method) -> Method:
    """Tear the callbacks down when the method ends, whether it fails or not."""
    return method if protocol is None else protocol.with_callbacks(method)


class Progress(Protocol):
    """What the networks of a level have reached while they are trained."""

    def note(self, column: int, state: State) -> None:
        """An epoch of a network has ended."""

    def finish(self, column: int, solution: Solution) -> None:
        """A network is trained."""

    def levels(self) -> Sequence[Any]:
        """The levels as they would be if the fit stopped now."""


class FitTasks:
    """The task "fit" of an estimator, whose subtasks are its networks; callbacks are called one at a time.

    Parameters
    ----------
    estimator : DCONEstimator
        The estimator, with callbacks.
    context : sklearn.callback.CallbackContext
        The context of its fit.
    """

    def __init__(self, estimator: Any, context: Any) -> None:
        self.estimator, self.context = estimator, context
        self.lock = Lock()  # threads train the networks
        self.given: dict[str, Any] = {}

    @classmethod
    def of(cls, estimator: Any) -> FitTasks | None:
        """Set the callbacks of an estimator up; None if it has none."""
        if protocol is None:
            return None
        # How many networks there are is known when the target is.
        context = estimator._init_callback_context(max_subtasks=None, sequential_subtasks=False)
        return cls(estimator, context) if getattr(estimator, "_skl_callbacks", None) else None

    def begin(
        self, n_networks: int, X: Any, y: Any, sample_weight: Any, attributes: Callable[[Sequence[Any]], dict[str, Any]]
    ) -> None:
        """The fit begins; ``attributes`` are the fitted attributes for given levels of networks."""
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.given = {"estimator": self.estimator, "X": X, "y": y, "metadata": metadata}
        self.attributes = attributes
        self.context.max_subtasks = n_networks
        with self.lock:
            self.context.call_on_fit_task_begin(**self.given)

    def begin_network(
        self, number: int, name: str, max_epochs: int | None, column: int, progress: Progress
    ) -> NetworkTask:
        """The training of a network begins."""
        with self.lock:
            context = self.context.subcontext(name, task_id=number, max_subtasks=max_epochs)
        task = NetworkTask(self, context, column, progress)
        task.begin()
        return task

    def end(self) -> None:
        """The estimator is fitted."""
        with self.lock:
            self.context.call_on_fit_task_end(**self.given, reconstruction_attributes={})


class NetworkTask:
    """The training of one network, whose subtasks are epochs."""

    def __init__(self, tasks: FitTasks, context: Any, column: int, progress: Progress) -> None:
        self.tasks, self.context, self.column, self.progress = tasks, context, column, progress
        self._epoch: Any = None

    def begin(self) -> None:
        """The training begins."""
        with self.tasks.lock:
            self.context.call_on_fit_task_begin(**self._given())

    def begin_epoch(self) -> None:
        """An epoch begins."""
        with self.tasks.lock:
            self._epoch = self.context.subcontext("epoch")
            self._epoch.call_on_fit_task_begin(**self._given())

    def end_epoch(self, state: State) -> bool:
        """An epoch has ended; whether this network is to stop."""
        self.progress.note(self.column, state)
        with self.tasks.lock:
            return self._end_epoch()

    def end(self, solution: Solution) -> bool:
        """The network is trained; whether to leave out those that are not."""
        self.progress.finish(self.column, solution)
        with self.tasks.lock:
            if self._epoch is not None:  # cut short by Ctrl-C
                self._end_epoch()
            return bool(self.context.call_on_fit_task_end(**self._given()))

    def _end_epoch(self) -> bool:
        epoch, self._epoch = self._epoch, None
        return bool(epoch.call_on_fit_task_end(**self._given()))

    def _given(self) -> dict[str, Any]:
        return self.tasks.given | {"reconstruction_attributes": self._attributes}  # computed only for those who ask

    def _attributes(self) -> dict[str, Any]:
        return self.tasks.attributes(self.progress.levels())
