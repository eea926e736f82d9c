"""Fast convergence with strong regularisation: epochs and test error over gamma."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reproduction.datasets import Split
from reproduction.experiment import Experiment, Findings, full_grid
from reproduction.fits import FitSettings, dcon, errors
from reproduction.page import Picture, Section, Table, sheet_of_cells
from reproduction.store import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, order=True)
class Cell:
    """One dataset and gamma."""

    dataset: str
    gamma: float


@dataclass(frozen=True)
class Plan:
    """Which cells to compute."""

    datasets: tuple[str, ...] = ("DS1", "DS7")
    gammas: tuple[float, ...] = tuple(float(f"1e{power}") for power in range(-5, 5))


@dataclass(frozen=True)
class Settings(FitSettings):
    """One split and width, the tolerance of the paper, and a limit on epochs, which the paper does not have."""

    split: int = 0
    n_hidden: int = 30
    tol: float = 1e-4
    max_epochs: int = 50_000


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Fit until the weights hardly move."""
    parts = Split(cell.dataset, settings.split).load(home, settings)
    model = dcon(parts, settings.n_hidden, settings.split, "paper", cell.gamma, settings)
    return errors(model.predict, parts) | {"epochs": model.n_iter_, "status": model.status_.name}


def show(findings: Findings, section: Section) -> None:
    """Show epochs and test errors as a table and a picture."""
    results = findings.results()
    rows = []
    for cell, found in sorted(results.items()):
        epochs = f"{'' if found['status'] == 'CONVERGED' else '> '}{found['epochs']}"
        rows.append([cell.dataset, f"{cell.gamma:g}", epochs, f"{found['training']:.3g}", f"{found['test']:.3g}"])
    section.parts += [
        Table(
            "Epochs (> where the limit was reached) and MSE:", ("", "gamma", "epochs", "training MSE", "test MSE"), rows
        ),
        Picture("overregularised", "Epochs and test MSE over gamma.", lambda f: _draw(f, results), (9.0, 5.5)),
    ]
    section.sheets = [sheet_of_cells("overregularised", results, ("epochs", "status", "training", "test"))]


def _draw(figure: Figure, results: dict[Cell, Result]) -> None:
    names = sorted({cell.dataset for cell in results})
    axes = figure.subplots(2, len(names), sharex=True, squeeze=False)
    for k, dataset in enumerate(names):
        found = [cell for cell in sorted(results) if cell.dataset == dataset]
        gammas = [cell.gamma for cell in found]
        axes[0][k].loglog(gammas, [results[cell]["epochs"] for cell in found], marker="o")
        axes[1][k].loglog(gammas, [results[cell]["test"] for cell in found], marker="o", color="C1")
        axes[0][k].set(title=dataset, ylabel="epochs")
        axes[1][k].set(xlabel="gamma", ylabel="test MSE")


EXPERIMENT = Experiment(
    name="overregularised",
    title="Figure 16: over-regularised settings",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS7",), (1e-2, 1.0, 1e2, 1e4)),
    settings=Settings(),
    quick_settings=Settings(max_epochs=1000),
    cells=full_grid(Cell),
    run=run,
    show=show,
)
