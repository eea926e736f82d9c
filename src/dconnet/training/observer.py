"""Observers of the training of a network: recorded networks, and progress on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dconnet.model.network import Network
from dconnet.training.checkpoint import Snapshot

if TYPE_CHECKING:
    from dconnet.training.descent import State


class Observer:
    """Observes the training of one network by `Descent.run`; this base class does nothing.

    ``snapshot`` is the state from which the training resumes, if any.
    """

    snapshot: Snapshot | None = None

    def begin(self, network: Network) -> None:
        """Receive the network before the first epoch."""

    def begin_epoch(self) -> None:
        """Receive the start of an epoch."""

    def end_epoch(self, state: State) -> bool:
        """Receive the state after an epoch; return True to stop the training."""
        return False

    def keep(self, take_snapshot: Callable[[], Snapshot], *, is_last: bool) -> None:
        """Store the state after an epoch, if needed."""

    def interrupt(self) -> None:
        """Receive Ctrl-C."""

    def end(self) -> None:
        """Receive the end of the training, also after an error."""


class Recorder(Observer):
    """Records the network before the first epoch and after each epoch."""

    def __init__(self) -> None:
        self.networks: list[Network] = []

    def begin(self, network: Network) -> None:
        """Record the start."""
        self.networks.append(network)

    def end_epoch(self, state: State) -> bool:
        """Record the network of an epoch."""
        self.networks.append(state.network)
        return False


class EpochProgress(Observer):
    """Shows the epochs of one network: a bar at ``verbose=1``, a line for each epoch from 2 on.

    If several networks are trained at the same time, there is no bar, and each line begins with the label.
    """

    def __init__(self, verbose: int, max_epochs: int | None, label: str, *, is_one_of_several: bool) -> None:
        self.has_lines, self.has_bar = verbose >= 2, verbose == 1 and not is_one_of_several
        self.max_epochs, self.label, self.is_one_of_several = max_epochs, label, is_one_of_several
        self._bar: Any = None

    def begin(self, network: Network) -> None:
        """Show the bar, or the titles of the columns."""
        if self.has_lines and not self.is_one_of_several:
            print(f"{self.label}\n{'epoch':>6} {'RegLoss':>14} {'train MSE':>14} {'step':>9} {'seconds':>8}")
        if self.has_bar:
            from rich.progress import MofNCompleteColumn, TextColumn

            self._bar = _make_bar(MofNCompleteColumn(), TextColumn("epochs"), TextColumn("{task.fields[figures]}"))
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.max_epochs, figures="")

    def end_epoch(self, state: State) -> bool:
        """Show an epoch."""
        epoch = state.history.epochs[-1]
        if self.has_lines:
            start = f"{self.label}: " if self.is_one_of_several else ""
            figures = f"{epoch.objective:14.8g} {epoch.mse:14.8g} {epoch.step_norm:9.1e} {epoch.seconds:8.2f}"
            # In one piece with its end, so that lines of several threads do not mix.
            print(f"{start}{state.n_epochs:6d} {figures}\n", end="", flush=True)
        if self._bar is not None:
            figures = f"RegLoss {epoch.objective:.6g}  step {epoch.step_norm:.1e}"
            self._bar.update(self._task, completed=state.n_epochs, figures=figures)
        return False

    def end(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def work_bar(verbose: int, label: str, total: float) -> Iterator[Callable[[float], None]]:
    """Show a bar with the remaining time; the yielded function receives the size of each finished part."""
    if verbose <= 0:
        yield lambda _: None
        return
    from rich.progress import TaskProgressColumn, TextColumn, TimeRemainingColumn

    with _make_bar(TaskProgressColumn(), TextColumn("left"), TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=total)
        yield lambda size: bar.update(task, advance=size)


def _make_bar(*columns: Any) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    shown = (TextColumn("{task.description}"), BarColumn(), *columns, TimeElapsedColumn())
    return Progress(*shown, console=Console(stderr=True))
