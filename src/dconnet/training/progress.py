"""Progress of a fit: a bar, or a line for each epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from dconnet.training.descent import Monitor
from dconnet.training.result import Epoch


@contextmanager
def progress_monitor(
    verbose: int, max_epochs: int | None, label: str, *, is_one_of_several: bool = False
) -> Iterator[Monitor | None]:
    """A monitor for ``Descent.run``: none at ``verbose=0``, a bar at 1, a line for each epoch from 2 on.

    Of several networks that are trained at the same time, none has a bar, and each line begins with its label.
    """
    if verbose <= 0 or (verbose == 1 and is_one_of_several):
        yield None
    elif is_one_of_several:
        yield partial(_print_epoch, f"{label}: ")
    elif verbose == 1:
        with _progress_bar(max_epochs, label) as monitor:
            yield monitor
    else:
        print(f"{label}\n{'epoch':>6} {'RegLoss':>14} {'train MSE':>14} {'step':>9} {'seconds':>8}")
        yield partial(_print_epoch, "")


def _print_epoch(start: str, n_epochs: int, epoch: Epoch) -> None:
    figures = f"{epoch.objective:14.8g} {epoch.mse:14.8g} {epoch.step_norm:9.1e} {epoch.seconds:8.2f}"
    # In one piece with its end, so that lines of several threads do not mix.
    print(f"{start}{n_epochs:6d} {figures}\n", end="", flush=True)


@contextmanager
def _progress_bar(max_epochs: int | None, label: str) -> Iterator[Monitor]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs"),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=max_epochs, figures="")

        def show(n_epochs: int, epoch: Epoch) -> None:
            figures = f"RegLoss {epoch.objective:.6g}  step {epoch.step_norm:.1e}"
            bar.update(task, completed=n_epochs, figures=figures)

        yield show


@contextmanager
def work_bar(verbose: int, label: str, total: float) -> Iterator[Callable[[float], None]]:
    """A bar for work that is done in parts, with the time that is left; it is told the size of each part."""
    if verbose <= 0:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda size: bar.update(task, advance=size)
