"""The paper's example of superlinear convergence: estimated orders of the proximal-point algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reproduction import printed
from reproduction.experiment import Experiment, Findings, full_grid
from reproduction.page import Section, Table, sheet_of_cells
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
    """Starts and limits; the paper states the first three, but neither its seed nor its stopping rule.

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


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Estimate the order from many random starts with standard normal entries."""
    rng = np.random.default_rng(settings.seed)
    # The iterates stay on the ray of their start, so their norms are enough.
    norms = np.linalg.norm(rng.standard_normal((settings.n_starts, settings.dimension)), axis=1)
    orders = [estimate_order(float(norm), cell.q, settings.step, settings.smallest) for norm in norms]
    return {"expected": 2 * cell.q - 1, "mean": float(np.mean(orders)), "std": float(np.std(orders, ddof=1))}


def show(findings: Findings, section: Section) -> None:
    """Show the table of Appendix E."""
    results = findings.results()
    section.parts += [
        Table(
            "Estimated order, mean and standard deviation over the starts:",
            ("q", "order", "ours", "printed"),
            [_row(cell, results[cell]) for cell in sorted(results)],
        ),
    ]
    section.sheets = [sheet_of_cells("proximal", results, ("expected", "mean", "std"))]


def _row(cell: Cell, found: Result) -> list[object]:
    pairs = ((found["mean"], found["std"]), printed.PROXIMAL_ORDERS[cell.q])
    return [cell.q, found["expected"], *(f"{mean:.4f} ({std:.4f})" for mean, std in pairs)]


def estimate_order(norm: float, q: int, step: float, smallest: float) -> float:
    """Run the proximal-point algorithm on ``|x|^(2q / (2q - 1))`` from a point of this norm; return its order.

    The order is ``ln(d_k / d_{k-1}) / ln(d_{k-1} / d_{k-2})`` with the lengths d of the last three moves that
    are not shorter than ``smallest``; ``step`` is λ of the algorithm.
    """
    moves: list[float] = []
    while True:
        shorter = _proximal_norm(norm, q, step)
        if norm - shorter < smallest:
            break
        moves.append(norm - shorter)
        norm = shorter
    if len(moves) < 3:
        return float("nan")
    last = np.log(moves[-3:])
    return float((last[2] - last[1]) / (last[1] - last[0]))


def _proximal_norm(norm: float, q: int, step: float) -> float:
    """Return the norm t of the next iterate, ``t + c t^(1 / (2q-1)) = norm`` with ``c = 2q step / (2q - 1)``."""
    power = 2 * q - 1
    slope = 2.0 * q * step / power
    # Newton's method for root^power + slope root = norm descends from above, because the function is convex.
    root = min(norm / slope, norm ** (1.0 / power))
    while True:
        excess = root**power + slope * root - norm
        lower = root - excess / (power * root ** (power - 1) + slope)
        if not 0.0 < lower < root:
            return float(root**power)
        root = lower


EXPERIMENT = Experiment(
    name="proximal",
    title="Table 3: order of the proximal-point algorithm",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan((2, 3)),
    settings=Settings(),
    quick_settings=Settings(n_starts=10),
    cells=full_grid(Cell),
    datasets=lambda plan: (),
    run=run,
    show=show,
)
