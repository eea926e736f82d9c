"""Progress on the terminal: a bar, or a line for each epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dconnet.training.result import Epoch


class EpochProgress:
    """Shows the epochs of one network: a bar at ``verbose=1``, a line for each epoch from 2 on.

    If several networks are trained at the same time, there is no bar, and each line begins with the label.
    """

    def __init__(self, verbose: int, max_epochs: int | None, label: str, *, is_one_of_several: bool = False) -> None:
        self.has_lines, self.has_bar = verbose >= 2, verbose == 1 and not is_one_of_several
        self.max_epochs, self.label, self.is_one_of_several = max_epochs, label, is_one_of_several
        self._bar: Any = None

    def open(self) -> None:
        """Show the bar, or the titles of the columns."""
        if self.has_lines and not self.is_one_of_several:
            print(f"{self.label}\n{'epoch':>6} {'RegLoss':>14} {'train MSE':>14} {'step':>9} {'seconds':>8}")
        if self.has_bar:
            from rich.progress import MofNCompleteColumn, TextColumn

            self._bar = _make_bar(MofNCompleteColumn(), TextColumn("epochs"), TextColumn("{task.fields[figures]}"))
            self._bar.start()
            self._task = self._bar.add_task(self.label, total=self.max_epochs, figures="")

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.stop()

    def show(self, n_epochs: int, epoch: Epoch) -> None:
        """Show an epoch."""
        if self.has_lines:
            start = f"{self.label}: " if self.is_one_of_several else ""
            figures = f"{epoch.objective:14.8g} {epoch.mse:14.8g} {epoch.step_norm:9.1e} {epoch.seconds:8.2f}"
            # In one piece with its end, so that lines of several threads do not mix.
            print(f"{start}{n_epochs:6d} {figures}\n", end="", flush=True)
        if self._bar is not None:
            figures = f"RegLoss {epoch.objective:.6g}  step {epoch.step_norm:.1e}"
            self._bar.update(self._task, completed=n_epochs, figures=figures)


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
