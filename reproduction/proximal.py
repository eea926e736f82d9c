"""The paper's example of superlinear convergence: estimated orders of the proximal-point algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dconnet._arrays import FloatArray
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


@dataclass(frozen=True, slots=True)
class ProximalOrder:
    """Estimated order of the proximal-point algorithm on ``|x|^(2q / (2q - 1))``, over random starts.

    ``expected`` is the order that can be proved, 2q - 1.
    """

    q: int
    expected: int
    mean: float
    std: float


def proximal_point_order(
    q: int,
    *,
    n_starts: int = 100,
    dimension: int = 10,
    step: float = 0.1,
    smallest: float = 1e-12,
    random_state: int = 0,
) -> ProximalOrder:
    """Run the proximal-point algorithm on ``|x|^(2q / (2q - 1))`` from random starts.

    The order is estimated from the last three moves before a move is shorter than ``smallest``, where d_k is the length
    of move k, as ``ln(d_k / d_{k-1}) / ln(d_{k-1} / d_{k-2})``.

    Starts have standard normal entries; ``step`` is λ of the algorithm.
    """
    if q < 2:
        raise ValueError(f"q must be at least 2, got {q}.")
    rng = np.random.default_rng(random_state)
    # The iterates stay on the ray of their start, so their norms are enough.
    norms = np.linalg.norm(rng.standard_normal((n_starts, dimension)), axis=1)
    orders = np.array([_estimated_order(_moves(float(norm), q, step, smallest)) for norm in norms])
    return ProximalOrder(q, 2 * q - 1, float(orders.mean()), float(orders.std(ddof=1)))


def _moves(norm: float, q: int, step: float, smallest: float) -> FloatArray:
    """Lengths of the moves of the algorithm, down to the smallest."""
    moves: list[float] = []
    while True:
        shorter = _proximal_norm(norm, q, step)
        if norm - shorter < smallest:
            return np.array(moves)
        moves.append(norm - shorter)
        norm = shorter


def _proximal_norm(norm: float, q: int, step: float) -> float:
    """Norm t of the next iterate, ``t + c t^(1 / (2q-1)) = norm`` with ``c = 2q step / (2q - 1)``."""
    power = 2 * q - 1
    slope = 2.0 * q * step / power
    # Newton's method for root^power + slope root = norm: from above it descends, the function being convex.
    root = min(norm / slope, norm ** (1.0 / power))
    while True:
        excess = root**power + slope * root - norm
        lower = root - excess / (power * root ** (power - 1) + slope)
        if not 0.0 < lower < root:
            return float(root**power)
        root = lower


def _estimated_order(moves: FloatArray) -> float:
    if len(moves) < 3:
        return float("nan")
    last = np.log(moves[-3:])
    return float((last[2] - last[1]) / (last[1] - last[0]))
