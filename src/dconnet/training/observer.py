"""Observers of the training of a network: callbacks, checkpoints, progress and recorded networks."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dconnet.model.network import Network
from dconnet.training.checkpoint import Snapshot
from dconnet.training.progress import EpochProgress

if TYPE_CHECKING:
    from dconnet.training.descent import State


class Observer:
    """Observes the training of one network by `Descent.run`; this base class only shows progress.

    ``snapshot`` is the state from which the training resumes, if any.
    """

    snapshot: Snapshot | None = None

    def __init__(self, progress: EpochProgress | None = None) -> None:
        self.progress = progress

    def __enter__(self) -> Self:
        if self.progress is not None:
            self.progress.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.progress is not None:
            self.progress.close()

    def begin(self, network: Network) -> None:
        """Receive the network before the first epoch."""

    def begin_epoch(self) -> None:
        """Receive the begin of an epoch."""

    def end_epoch(self, state: State) -> bool:
        """Receive the state after an epoch; return True to stop the training."""
        if self.progress is not None:
            self.progress.show(state.n_epochs, state.history.epochs[-1])
        return False

    def keep(self, take_snapshot: Callable[[], Snapshot], *, is_last: bool) -> None:
        """Store the state after an epoch, if needed."""

    def interrupt(self) -> None:
        """Receive Ctrl-C."""


class Recorder(Observer):
    """Records the network before the first epoch and after each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.networks: list[Network] = []

    def begin(self, network: Network) -> None:
        """Record the start."""
        self.networks.append(network)

    def end_epoch(self, state: State) -> bool:
        """Record the network of an epoch."""
        self.networks.append(state.network)
        return super().end_epoch(state)
