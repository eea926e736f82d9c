"""What an experiment is: cells, how to compute one, and how to show them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from reproduction.datasets.catalogue import entry_of
from reproduction.datasets.files import obtain
from reproduction.page import Section
from reproduction.processes import work_through
from reproduction.store import Result, Store, key_of, plain

# In the order of the paper; each is the module of that name, with the dash as an underscore.
NAMES = (
    "table1",
    "kinks",
    "controls",
    "scalers",
    "baselines",
    "convergence",
    "assumptions",
    "mnist",
    "solvers",
    "proximal",
    "runtime",
    "overparameterised",
    "overregularised",
)


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes
    ----------
    name, title : str
        The name on the command line, and a heading.
    cell_type : type
        The frozen dataclass of its cells.
    plan, quick_plan : frozen dataclass
        Which cells there are: datasets, widths, splits. A smaller plan gives fewer of the same cells.
    settings, quick_settings : frozen dataclass
        How each is computed: grids and limits. Cells of other settings are other results.
    cells : callable
        The cells of a plan.
    datasets : callable
        The names of the datasets that a plan needs.
    run : callable
        The result of a cell, given the settings and the home of the data.
    show : callable
        Fills a section of the page from what was found, if that is anything.
    """

    name: str
    title: str
    cell_type: type
    plan: Any
    quick_plan: Any
    settings: Any
    quick_settings: Any
    cells: Callable[[Any], Sequence[Any]]
    datasets: Callable[[Any], Sequence[str]]
    run: Callable[[Any, Any, Path], Result]
    show: Callable[[Findings, Section], None]

    def defaults(self, quick: bool) -> tuple[Any, Any]:
        """Plan and settings, complete or small."""
        return (self.quick_plan, self.quick_settings) if quick else (self.plan, self.settings)

    def section(self, folder: Path) -> Section:
        """A section of the page: what is in the folder, and what is missing."""
        findings = Findings(folder, self)
        section = Section(self.title, [*_status(findings)])
        if findings.store.records():
            self.show(findings, section)
        return section


@dataclass(frozen=True)
class Findings:
    """What there is to show of an experiment, and of the others that it refers to."""

    folder: Path
    experiment: Experiment

    @property
    def store(self) -> Store:
        """The results of the experiment."""
        return Store(self.folder, self.experiment.name)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings with which they were computed; for those that the results do not know of, the default."""
        defaults: dict[str, Any] = plain(self.experiment.settings)
        return defaults | (self.store.settings() or {})

    def results(self) -> dict[Any, Result]:
        """The results by their cells."""
        return self.store.results(self.experiment.cell_type)

    def of(self, name: str) -> Findings:
        """What there is of another experiment in the same folder."""
        return Findings(self.folder, get_experiment(name))


def get_experiment(name: str) -> Experiment:
    """The experiment of this name.

    Examples
    --------
    >>> from reproduction.experiment import get_experiment
    >>> get_experiment("table2")
    Traceback (most recent call last):
    ...
    ValueError: There is no experiment 'table2'. Choose one of table1, kinks, controls, scalers, baselines, \
convergence, assumptions, mnist, solvers, proximal, runtime, overparameterised, overregularised.
    """
    if name not in NAMES:
        raise ValueError(f"There is no experiment {name!r}. Choose one of {', '.join(NAMES)}.")
    experiment: Experiment = import_module(f"reproduction.{name}").EXPERIMENT
    return experiment


def adjusted(part: Any, changes: dict[str, Any]) -> Any:
    """A plan or settings with those changes that concern it."""
    own = {f.name for f in fields(part)}
    return replace(part, **{name: value for name, value in changes.items() if name in own})


def compute(
    experiment: Experiment, plan: Any, settings: Any, folder: Path, home: Path, jobs: int, console: Console
) -> list[str]:
    """Compute the cells of a plan that are not there yet; return a line for each that failed."""
    store = Store(folder, experiment.name)
    cells = experiment.cells(plan)
    waiting = store.missing(cells)
    store.claim(settings)
    console.print(f"{experiment.name}: {len(cells) - len(waiting)} of {len(cells)} cells are there.")
    if not waiting:
        return []
    for name in experiment.datasets(plan):
        for file in entry_of(name).files:
            obtain(file, home)
    return work_through(
        partial(_compute_cell, name=experiment.name, settings=settings, store=store, home=home),
        waiting,
        jobs,
        console,
        experiment.name,
    )


def _compute_cell(cell: Any, name: str, settings: Any, store: Store, home: Path) -> None:
    """Compute one cell and keep it, in a process of its own."""
    if store.path(cell).exists():
        return  # another run was faster
    from sklearn.exceptions import ConvergenceWarning

    began = time.perf_counter()
    with warnings.catch_warnings(), scratch_file(store.path(cell).with_suffix(".checkpoint")) as scratch:
        # Limits of epochs are part of the settings, and results tell where they were reached.
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = get_experiment(name).run(cell, settings, home)
        store.write(cell, result | {"cell_seconds": time.perf_counter() - began})
        scratch.unlink(missing_ok=True)


_SCRATCH: ContextVar[Path | None] = ContextVar("scratch file", default=None)


@contextmanager
def scratch_file(path: Path) -> Iterator[Path]:
    """Let the cell that is computed within keep the state of a long fit in this file, so that a kill loses little."""
    token = _SCRATCH.set(path)
    try:
        yield path
    finally:
        _SCRATCH.reset(token)


def checkpoint() -> Path | None:
    """Where the cell under way may keep the state of its fit, which goes on from there; None outside of a run."""
    return _SCRATCH.get()


def _status(findings: Findings) -> list[str]:
    """Sentences about what is there, what is missing, and which settings are not those of the complete run."""
    experiment, store = findings.experiment, findings.store
    planned = {key_of(cell) for cell in experiment.cells(experiment.plan)}
    found = store.records().keys()
    if not found:
        return [f"Not computed: none of its {len(planned)} cells is there."]
    sentences = [f"{len(planned & found)} of the {len(planned)} cells of the complete experiment are there."]
    if found - planned:
        sentences.append(f"{len(found - planned)} further cells are there.")
    complete = plain(experiment.settings)
    other = [
        f"{name} {value} in the place of {complete.get(name)}"
        for name, value in findings.settings.items()
        if value != complete.get(name)
    ]
    if other:
        sentences.append(f"Reduced settings: {'; '.join(other)}.")
    if store.builds() > 1:
        sentences.append(f"The cells were computed by {store.builds()} builds of the package.")
    return sentences
