"""What accompanies the training of a network: recorded networks, progress on the terminal, and early stopping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.model.network import Network
from dconnet.training.checkpoint import Snapshot

if TYPE_CHECKING:
    from dconnet.training.descent import State

_PARTS = ("W", "b", "alpha", "intercept")


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


@dataclass(slots=True, eq=False)
class Validation:
    """Validation data, and the best network seen on it."""

    X: FloatArray  # (n_rows, n_features)
    y: FloatArray  # (n_rows,) or (n_rows, n_outputs)
    sample_weight: FloatArray  # (n_rows,)
    patience: int | None  # epochs without a new best after which to stop; None only records the error
    scale: FloatArray | None = None  # the unit of the error of each of several outputs
    best: Network | None = None
    best_mse: float = field(default=float("inf"))
    epochs_since_best: int = 0

    def mse(self, network: Network) -> float:
        """Return the weighted mean over the rows of the squared error, summed over the outputs."""
        error = self.y - network.predict(self.X)
        if self.scale is not None:
            error = error / self.scale
        with np.errstate(over="ignore"):  # an infinite error is recorded as such
            squares = error**2 if error.ndim == 1 else np.sum(error**2, axis=1)
            return float(np.average(squares, weights=self.sample_weight))

    def observe(self, network: Network) -> float:
        """Measure a network after an epoch and remember it if it is the best so far."""
        mse = self.mse(network)
        if mse < self.best_mse or self.best is None:
            self.best, self.best_mse, self.epochs_since_best = network, mse, 0
        else:
            self.epochs_since_best += 1
        return mse

    def snapshot(self) -> Snapshot:
        """Return the state on which further observations depend."""
        assert self.best is not None
        best = {f"best_{name}": np.asarray(getattr(self.best, name), dtype=np.float64) for name in _PARTS}
        return Snapshot({"best_mse": self.best_mse, "epochs_since_best": self.epochs_since_best}, best)

    def restore(self, snapshot: Snapshot, like: Network) -> None:
        """Restore a snapshot; raise ValueError unless its network has the inputs and outputs of ``like``."""
        n_hidden = snapshot.arrays["best_b"].size
        shapes = [(n_hidden, *np.shape(getattr(like, name))[1:]) for name in _PARTS[:3]] + [np.shape(like.intercept)]
        self.best = Network(
            *(snapshot.array(f"best_{name}", shape) for name, shape in zip(_PARTS, shapes, strict=True))
        )
        self.best_mse = float(snapshot.values["best_mse"])
        self.epochs_since_best = int(snapshot.values["epochs_since_best"])

    @property
    def is_exhausted(self) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and self.epochs_since_best >= self.patience

    def choose(self, reached: Network) -> Network:
        """Return the best network if early stopping is on, else ``reached``."""
        return reached if self.patience is None or self.best is None else self.best
