"""Algorithm 1 on one digit of MNIST with exact convex programmes and with the paper's ADMM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dconnet import PaperAlgorithm
from dconnet.convex.admm import ADMM
from dconnet.estimators import DCONRegressor
from dconnet.training.initialization import xavier
from reproduction import mnist
from reproduction.experiment import Experiment, Findings, full_grid
from reproduction.page import MISSING, Section, Table, sheet_of_cells
from reproduction.store import Result, checkpoint

SOLVERS = ("native", "literal", "admm")
NAMES = {
    "native": "exact",
    "literal": "the paper's ADMM, literally",
    "admm": "ADMM, scaled",
}


@dataclass(frozen=True, order=True)
class Cell:
    """One digit and solver."""

    digit: int
    solver: str


@dataclass(frozen=True)
class Plan:
    """Which cells to compute: exact programmes, and ADMM in the paper's units or in those of the package."""

    digits: tuple[int, ...] = (8,)
    solvers: tuple[str, ...] = SOLVERS


@dataclass(frozen=True)
class Settings:
    """Number of neurons, training images and outer iterations; the seed is that of the start and the order."""

    n_hidden: int = 30
    gamma: float = 0.01
    rows: int = 2000
    epochs: int = 3
    seed: int = 0


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Fit one digit against all others."""
    images = mnist.Settings(n_hidden=settings.n_hidden, subset_rows=settings.rows, seed=settings.seed)
    parts = mnist.load_parts(mnist.Cell("subset", 10, "paper", (settings.gamma,)), images, home)
    solver: Any = ADMM(inputs=parts.training.X) if cell.solver == "literal" else cell.solver
    model = DCONRegressor(
        settings.n_hidden,
        gamma=settings.gamma,
        scale=False,
        algorithm=PaperAlgorithm(solver=solver),
        max_epochs=settings.epochs,
        init=xavier(parts.training.X.shape[1], settings.n_hidden, np.random.default_rng(settings.seed)),
        random_state=settings.seed,
        checkpoint=checkpoint(),
    )
    model.fit(parts.training.X, parts.training.signs(cell.digit))
    history = model.history_
    return {
        "objective": history.objective.tolist(),
        "seconds": float(history.seconds[-1]),
        "programmes": history.total("programmes"),
        "unsolved": history.total("unsolved"),
        "refused": history.total("refused"),
        "test": float(np.mean((model.predict(parts.test.X) > 0.0) == (parts.test.signs(cell.digit) > 0.0))),
        "weights": model.network_.parameters.tolist(),
    }


def show(findings: Findings, section: Section) -> None:
    """Show RegLoss after every epoch, and the distance of the weights from those of our own solver."""
    results = findings.results()
    rows = [_row(cell, found, results.get(Cell(cell.digit, "native"))) for cell, found in sorted(results.items())]
    section.parts += [
        Table("RegLoss after each epoch, and the end:", HEADER, rows),
    ]
    epochs = {c: found | {f"epoch {k}": v for k, v in enumerate(found["objective"])} for c, found in results.items()}
    names = (f"epoch {k}" for k in range(max(len(found["objective"]) for found in results.values())))
    section.sheets = [sheet_of_cells("solvers", epochs, (*COUNTS, "seconds", "test", *names))]


COUNTS = ("programmes", "unsolved", "refused")
HEADER = ("", "programmes solved by", "RegLoss", "distance", *COUNTS, "seconds", "accuracy on test images")


def _row(cell: Cell, found: Result, ours: Result | None) -> list[object]:
    curve = ", ".join(f"{value:.5g}" for value in found["objective"][1:])
    distance = MISSING
    if ours is not None and found is not ours:
        ends = np.array(found["weights"]), np.array(ours["weights"])
        distance = f"{np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1]):.2g}"
    figures = (*(found[name] for name in COUNTS), f"{found['seconds']:.0f}", f"{found['test']:.4f}")
    return [f"digit {cell.digit}", NAMES[cell.solver], curve, distance, *figures]


EXPERIMENT = Experiment(
    name="solvers",
    title="MNIST with the paper's solver",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(solvers=("native", "literal")),
    settings=Settings(),
    quick_settings=Settings(n_hidden=3, rows=300, epochs=1),
    cells=full_grid(Cell),
    datasets=lambda plan: ("MNIST",),
    run=run,
    show=show,
)
