"""The definition of an experiment: its cells, how to compute one, and how to show the results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from reproduction.datasets.files import get_entry, obtain
from reproduction.page import Section
from reproduction.store import Result, Store, key_of, to_json_types

# In the order of the paper; each is the module of that name.
NAMES = (
    "table1", "kinks", "controls", "baselines", "convergence", "assumptions", "mnist", "solvers", "proximal",
    "runtime", "overparameterised", "overregularised",
)  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes
    ----------
    name, title : str
        The name on the command line, and the heading on the page.
    cell_type : type
        The frozen dataclass of its cells.
    plan, quick_plan : frozen dataclass
        The grid of cells: datasets, widths, splits. A smaller plan has fewer of the same cells.
    settings, quick_settings : frozen dataclass
        How each cell is computed: grids of hyper-parameters and limits.
    cells : callable
        Returns the cells of a plan.
    run : callable
        Returns the result of a cell, given the settings and the folder of the data.
    show : callable
        Fills a section of the page from stored results.
    datasets : callable
        Returns the names of the datasets that a plan needs; ``plan.datasets`` by default.
    """

    name: str
    title: str
    cell_type: type
    plan: Any
    quick_plan: Any
    settings: Any
    quick_settings: Any
    cells: Callable[[Any], Sequence[Any]]
    run: Callable[[Any, Any, Path], Result]
    show: Callable[[Findings, Section], None]
    datasets: Callable[[Any], Sequence[str]] = lambda plan: plan.datasets

    def defaults(self, quick: bool) -> tuple[Any, Any]:
        """Return plan and settings, complete or small."""
        return (self.quick_plan, self.quick_settings) if quick else (self.plan, self.settings)

    def section(self, folder: Path) -> Section:
        """Return the section of the page: the number of stored cells, then their results."""
        findings = Findings(folder, self)
        section = Section(self.title, list(_describe_status(findings)))
        if findings.store.records():
            self.show(findings, section)
        return section


@dataclass(frozen=True)
class Findings:
    """The stored results of an experiment, and of the other experiments in the same folder."""

    folder: Path
    experiment: Experiment

    @property
    def store(self) -> Store:
        """The results of the experiment."""
        return Store(self.folder, self.experiment.name)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the stored results; the default for settings that were added later."""
        defaults: dict[str, Any] = to_json_types(self.experiment.settings)
        return defaults | (self.store.settings() or {})

    def results(self) -> dict[Any, Result]:
        """Return the results by their cells."""
        return self.store.results(self.experiment.cell_type)

    def of(self, name: str) -> Findings:
        """Return the stored results of another experiment."""
        return Findings(self.folder, get_experiment(name))


def get_experiment(name: str) -> Experiment:
    """Return the experiment of this name."""
    if name not in NAMES:
        raise ValueError(f"There is no experiment {name!r}. Choose one of {', '.join(NAMES)}.")
    experiment: Experiment = import_module(f"reproduction.{name}").EXPERIMENT
    return experiment


def full_grid(cell_type: type) -> Callable[[Any], list[Any]]:
    """Return a function from a plan to all combinations of its fields, in the order of the fields of the cell."""
    return lambda plan: [
        cell_type(*values) for values in itertools.product(*(getattr(plan, each.name) for each in fields(plan)))
    ]


def apply_changes(part: Any, changes: dict[str, Any]) -> Any:
    """Return a plan or settings with those changes that name one of its fields."""
    own = {f.name for f in fields(part)}
    return replace(part, **{name: value for name, value in changes.items() if name in own})


def compute(
    experiment: Experiment, plan: Any, settings: Any, folder: Path, home: Path, n_jobs: int, console: Console
) -> list[str]:
    """Compute the cells of a plan that are not stored yet; return a line for each failure."""
    store = Store(folder, experiment.name)
    cells = experiment.cells(plan)
    waiting = store.missing(cells)
    store.claim(settings)
    console.print(f"{experiment.name}: {len(cells) - len(waiting)} of {len(cells)} cells are there.")
    if waiting:
        for name in experiment.datasets(plan):
            for file in get_entry(name).files:
                obtain(file, home)
    return store.compute(cells, partial(run_cell, name=experiment.name, settings=settings, home=home), n_jobs, console)


def run_cell(cell: Any, name: str, settings: Any, home: Path) -> Result:
    """Compute one cell of the experiment of this name."""
    return get_experiment(name).run(cell, settings, home)


def _describe_status(findings: Findings) -> Sequence[str]:
    experiment, store = findings.experiment, findings.store
    planned = {key_of(cell) for cell in experiment.cells(experiment.plan)}
    found = store.records().keys()
    if not found:
        return [f"Not computed: none of its {len(planned)} cells is there."]
    sentences = [f"{len(planned & found)} of the {len(planned)} cells of the complete experiment are there."]
    if found - planned:
        sentences.append(f"{len(found - planned)} further cells are there.")
    complete = to_json_types(experiment.settings)
    other = [
        f"{name} {value} instead of {complete.get(name)}"
        for name, value in findings.settings.items()
        if value != complete.get(name)
    ]
    if other:
        sentences.append(f"Reduced settings: {'; '.join(other)}.")
    builds = ", ".join(f"{name} ({count})" for name, count in store.count_builds().most_common())
    sentences.append(f"Builds, with the number of their cells: {builds}.")
    return [" ".join(sentences)]
