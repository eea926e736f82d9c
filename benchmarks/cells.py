"""Results that outlive their run: one file for each cell of a grid, computed by several processes.

A cell is a frozen dataclass whose fields say all that its result depends on. Its file is written in one stroke, so that
a run that was killed goes on where it stopped, and no cell is computed twice.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any

from rich.console import Console

import dconnet
from dconnet import _native
from dconnet._files import written_whole
from report import OUTPUT, progress_bar

Result = dict[str, Any]
Work = Callable[[Any], Result]


@cache
def fingerprint() -> str:
    """A hash of the package and its library: figures hold for one build alone."""
    sources = sorted(Path(dconnet.__file__).parent.rglob("*.py"))
    content = b"".join(path.read_bytes() for path in [*sources, Path(_native.__file__)])
    return hashlib.sha256(content).hexdigest()[:12]


@dataclass(frozen=True)
class Store:
    """A folder of results, one file a cell."""

    folder: Path

    def path(self, cell: Any) -> Path:
        """The file of a cell, named by all its fields."""
        fields = (f"{name}={_in_name(value)}" for name, value in asdict(cell).items())
        return self.folder / f"{'_'.join(fields)}.json"

    def read(self, cell: Any) -> Result | None:
        """The result of a cell; None if it has not been computed."""
        try:
            result: Result = json.loads(self.path(cell).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return result

    def fill(self, cell: Any, work: Work) -> None:
        """Compute the result of a cell and keep it."""
        result = work(cell) | {"build": fingerprint()}
        with written_whole(self.path(cell)) as file:
            json.dump(result, file)

    def compute(self, cells: Iterable[Any], work: Work, jobs: int, console: Console) -> None:
        """Fill all cells that are not there; those that fail are told at the end, and end the programme."""
        self.folder.mkdir(parents=True, exist_ok=True)
        waiting = [cell for cell in cells if not self.path(cell).exists()]
        # Processes of their own from the start: threads of the libraries do not survive a fork.
        pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_depend_on_the_parent)
        try:
            failures = _watch({pool.submit(self.fill, cell, work): cell for cell in waiting}, console)
        except KeyboardInterrupt:
            sys.exit("Interrupted. What was computed is kept; the same command goes on from there.")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        if failures:
            sys.exit("\n".join(f"failed: {failure}" for failure in failures))


def _in_name(value: object) -> str:
    return "-".join(f"{part:g}" for part in value) if isinstance(value, tuple) else str(value)


def _depend_on_the_parent() -> None:
    """Leave interrupts to the parent process, and do not outlive it where it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _watch(futures: dict[Future[None], Any], console: Console) -> list[str]:
    """Show the progress until all are done; return what went wrong."""
    failures = []
    with progress_bar(console) as progress:
        for future in progress.track(as_completed(futures), total=len(futures), description="Cells"):
            error = future.exception()
            if error is not None:
                failures.append(f"{futures[future]!r}: {error!r}")
    return failures


def add_run_options(parser: argparse.ArgumentParser, name: str) -> None:
    """The options of every benchmark that keeps its cells."""
    parser.add_argument("--results", type=Path, default=OUTPUT / name, help="folder for the cells and the tables")
    parser.add_argument("--jobs", type=int, default=1, help="processes; no more than there are free cores")
    parser.add_argument("--report", action="store_true", help="compute nothing, only show what is there")


def builds(results: Iterable[Result]) -> list[str]:
    """A sentence of warning where results of several builds are mixed, else none."""
    number = len({result["build"] for result in results})
    warning = f"These cells were computed by {number} builds of the package: delete those of the old ones."
    return [warning] if number > 1 else []
