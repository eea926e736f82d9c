"""The paper's example of superlinear convergence: estimated orders of the proximal-point algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dconnet.certificates import proximal_point_order
from reproduction import printed
from reproduction.experiment import Experiment, Findings
from reproduction.page import Section, Sheet, Table
from reproduction.store import Result


@dataclass(frozen=True, order=True)
class Cell:
    """One function ``|x|^(2q / (2q - 1))``."""

    q: int


@dataclass(frozen=True)
class Plan:
    """Which cells to compute."""

    qs: tuple[int, ...] = tuple(printed.PROXIMAL_ORDERS)


@dataclass(frozen=True)
class Settings:
    """Starts and limits; the paper tells the first three, neither its seed nor where it stopped.

    Attributes
    ----------
    n_starts, dimension, step :
        Random starts, length of x, and λ of the algorithm.
    smallest : float
        Moves shorter than this are left out.
    seed : int
        Seed of the starts.
    """

    n_starts: int = 100
    dimension: int = 10
    step: float = 0.1
    smallest: float = 1e-12
    seed: int = 0


def cells(plan: Plan) -> list[Cell]:
    """Every q."""
    return [Cell(q) for q in plan.qs]


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Estimate the order from many starts."""
    found = proximal_point_order(
        cell.q,
        n_starts=settings.n_starts,
        dimension=settings.dimension,
        step=settings.step,
        smallest=settings.smallest,
        random_state=settings.seed,
    )
    return {"expected": found.expected, "mean": found.mean, "std": found.std}


def show(findings: Findings, section: Section) -> None:
    """The table of Appendix E."""
    results, settings = findings.results(), findings.settings
    section.parts += [
        f"The proximal-point algorithm on |x|^(2q/(2q-1)) from {settings['n_starts']} starts in "
        f"{settings['dimension']} dimensions, whose order is 2q-1. It has nothing to do with networks: the paper shows "
        "by it that its bounds on the order are met. The starts here are standard normal, and the last three moves "
        f"longer than {settings['smallest']:g} count.",
        Table(
            "Estimated order, mean and standard deviation over the starts:",
            ("q", "order", "ours", "printed"),
            [_row(cell, results[cell]) for cell in sorted(results)],
        ),
    ]
    header = ("q", "expected", "mean", "std")
    section.sheets = [
        Sheet("proximal", header, [[cell.q, *(results[cell][name] for name in header[1:])] for cell in sorted(results)])
    ]


def _row(cell: Cell, found: Result) -> list[object]:
    pairs = ((found["mean"], found["std"]), printed.PROXIMAL_ORDERS[cell.q])
    return [cell.q, found["expected"], *(f"{mean:.4f} ({std:.4f})" for mean, std in pairs)]


EXPERIMENT = Experiment(
    name="proximal",
    title="Order of the proximal-point algorithm",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan((2, 3)),
    settings=Settings(),
    quick_settings=Settings(n_starts=10),
    cells=cells,
    datasets=lambda plan: (),
    run=run,
    show=show,
)
