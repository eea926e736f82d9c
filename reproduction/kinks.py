"""Algorithm 1 with two choices of the tangent at kinks: RegLoss and training error from the same starts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dconnet import DCONRegressor, PaperAlgorithm
from reproduction.datasets import TABLES, Split
from reproduction.experiment import Experiment, Findings
from reproduction.fits import FitSettings, mse, start_of
from reproduction.page import Section, Table, sheet_of_cells
from reproduction.store import Result

RULES = ("active", "random")
FIGURES = ("regloss", "training")


@dataclass(frozen=True, order=True)
class Cell:
    """One fit."""

    dataset: str
    dc_split: str
    gamma: float
    split: int
    kinks: str


@dataclass(frozen=True)
class Plan:
    """Which cells to compute."""

    datasets: tuple[str, ...] = TABLES
    dc_splits: tuple[str, ...] = ("paper", "net")
    gammas: tuple[float, ...] = (1e-2, 1e-4)
    splits: int = 10


@dataclass(frozen=True)
class Settings(FitSettings):
    """Width and number of epochs."""

    n_hidden: int = 10
    max_epochs: int = 200


def cells(plan: Plan) -> list[Cell]:
    """Return both rules for every dataset, DC split, gamma and split of the rows."""
    grid = itertools.product(range(plan.splits), plan.datasets, plan.dc_splits, plan.gammas, RULES)
    return [Cell(dataset, dc_split, gamma, split, kinks) for split, dataset, dc_split, gamma, kinks in grid]


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Fit one network from the start and in the order of the other rule."""
    parts = Split(cell.dataset, cell.split).load(home, settings)
    algorithm = PaperAlgorithm(split=cell.dc_split, kinks=cell.kinks, max_dca_iter=settings.max_dca_iter)
    model = DCONRegressor(
        settings.n_hidden,
        gamma=cell.gamma,
        scale=False,
        algorithm=algorithm,
        max_epochs=settings.max_epochs,
        tol=settings.tol,
        init=start_of(parts, settings.n_hidden, cell.split),
        random_state=cell.split,
    ).fit(*parts.training)
    programmes = int(model.history_.total("programmes"))
    return {"regloss": model.objective_, "training": mse(model.predict, parts.training), "programmes": programmes}


def ratios(results: dict[Cell, Result], figure: str, dc_split: str) -> dict[str, list[float]]:
    """Return the figure with random tangents over that with active rows, for each dataset."""
    found: dict[str, list[float]] = {}
    for cell, result in results.items():
        other = Cell(cell.dataset, cell.dc_split, cell.gamma, cell.split, "active")
        if cell.kinks == "random" and cell.dc_split == dc_split and other in results:
            found.setdefault(cell.dataset, []).append(result[figure] / results[other][figure])
    return found


def summary(values: Iterable[float]) -> list[str]:
    """Return geometric mean, median and share of fits that are lower, as texts."""
    array = np.array(list(values))
    return [f"{np.exp(np.log(array).mean()):.3f}", f"{np.median(array):.3f}", f"{100 * np.mean(array < 1.0):.0f} %"]


def show(findings: Findings, section: Section) -> None:
    """Show ratios for each DC split and dataset."""
    results = findings.results()
    rows = []
    for dc_split in ("paper", "net"):
        found = {figure: ratios(results, figure, dc_split) for figure in FIGURES}
        for dataset in [*sorted(found["regloss"]), "all"]:
            pick = [itertools.chain(*found[f].values()) if dataset == "all" else found[f][dataset] for f in FIGURES]
            rows.append([dc_split, dataset, *summary(pick[0]), *summary(pick[1])])
    section.parts += [
        Table(
            "Random over active, geometric mean, median and share of fits in which random is lower:",
            ("split", "dataset", "RegLoss", "median", "lower", "training MSE", "median", "lower"),
            rows,
        ),
    ]
    section.sheets = [sheet_of_cells("kinks", results, (*FIGURES, "programmes"))]


EXPERIMENT = Experiment(
    name="kinks",
    title="The tangent at a kink",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS4", "DS7"), splits=1),
    settings=Settings(),
    quick_settings=Settings(max_epochs=20),
    cells=cells,
    run=run,
    show=show,
)
