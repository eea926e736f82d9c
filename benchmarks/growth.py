"""Width by growth: proved gaps on two features, and growth against fixed widths at equal time.

    python benchmarks/growth.py [--part proofs widths] [--gammas 0.01 1] [--report] [--pack FILE] [--picture FILE]

The proofs are on the two features of each dataset that are most correlated with its target, at most 1000 rows of them.
Fixed widths and growth get the same seconds; RegLoss is compared on the training rows, errors on the test rows.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np

from cells import Result, Store, add_run_options, builds
from dconnet import DCONRegressor, Problem
from dconnet.convex.backend import get_backend
from dconnet.paper.datasets.splits import split_rows
from dconnet.training.descent import Options, State
from dconnet.training.growth import START, GrowingDescent
from dconnet.training.initialization import xavier
from paper_data import DATASETS, require_data, table
from report import Report, geometric_mean, make_console

MOST_ROWS = 1000
WIDTHS = (5, 20, 80)


@dataclass(frozen=True)
class Cell:
    """One fit: "proofs" with two features, or "widths" with all; the width is 0 for growth."""

    part: str
    dataset: str
    gamma: float
    width: int = 0
    seconds: float = 0.0


def two_features(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """The two features that are most correlated with the target, and the target, standardised."""
    X, y = table(dataset)
    X, y = X[:MOST_ROWS], y[:MOST_ROWS]
    X = X[:, X.std(axis=0) > 0.0]
    correlations = np.abs(np.corrcoef(X.T, y)[-1, :-1])
    X = X[:, np.sort(np.argsort(-correlations)[:2])]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def prove(cell: Cell) -> Result:
    """Grow to the proved optimum, and keep what each round reached."""
    problem = Problem(*two_features(cell.dataset), cell.gamma)
    rng = np.random.default_rng(0)
    descent = GrowingDescent(problem, get_backend("native"), Options(split="net"), rng)
    rounds: list[tuple[int, float, float, float]] = []

    def note(state: State) -> bool:
        rounds.append((len(state.alpha), descent.objective(state), descent.dual.bound, descent.proved.bound))
        return False

    began, cpu = time.perf_counter(), time.process_time()
    solution = descent.run(xavier(2, START, rng), stop=note)
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "rows": len(problem.whitened.Q),
        "width": solution.network.n_hidden,
        "regloss": solution.objective,
        "proved_gap": 1.0 - descent.proved.bound / solution.objective,
        "rounds": rounds,
        "message": solution.message,
    }


def compare(cell: Cell) -> Result:
    """RegLoss and test error of one width, or of growth, after some seconds."""
    X, y = table(cell.dataset)
    train, _, test = split_rows(len(y), 0)
    model = DCONRegressor(
        cell.width or "auto", gamma=cell.gamma, max_seconds=cell.seconds, max_epochs=None, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])
    return {
        "regloss": model.objective_,
        "width": model.network_.n_hidden,
        "test_mse": float(np.mean((model.predict(X[test]) - y[test]) ** 2)),
        "seconds": float(model.history_.seconds[-1]),
        "status": model.status_.name,
    }


def run(cell: Cell) -> Result:
    """The result of a cell."""
    return prove(cell) if cell.part == "proofs" else compare(cell)


def proofs(store: Store, cells: list[Cell]) -> Report:
    """A line for each dataset and gamma."""
    report = Report(
        "Growth on two features of real data, up to 1000 rows",
        ("data", "different rows", "gamma", "neurons", "RegLoss", "proved gap", "seconds of CPU"),
        notes=["The gap is that to the best network of any width, as a share of RegLoss."],
    )
    found = [(cell, store.read(cell)) for cell in cells if cell.part == "proofs"]
    for cell, result in found:
        if result:
            figures = (f"{result['regloss']:.6g}", f"{result['proved_gap']:.1e}", f"{result['cpu_seconds']:.1f}")
            report.add(cell.dataset, result["rows"], cell.gamma, result["width"], *figures)
    report.notes += builds(result for _, result in found if result)
    return report


def widths(store: Store, cells: list[Cell]) -> Report:
    """Fixed widths over growth: a line for each dataset and gamma, and geometric means."""
    names = [f"{width} neurons" for width in WIDTHS]
    report = Report(
        "Fixed widths against growth at equal time",
        ("data", "gamma", "neurons by growth", *(f"RegLoss, {n}" for n in names), *(f"test error, {n}" for n in names)),
        notes=["RegLoss and mean squared error of fixed widths over those of growth: above one, growth is better."],
    )
    found = {cell: result for cell in cells if cell.part == "widths" and (result := store.read(cell))}
    ratios: list[list[float]] = []
    for cell, grown in found.items():
        fixed = [found.get(Cell(cell.part, cell.dataset, cell.gamma, width, cell.seconds)) for width in WIDTHS]
        if cell.width or not all(fixed):
            continue
        line = [one[what] / grown[what] for what in ("regloss", "test_mse") for one in fixed if one]
        ratios.append(line)
        report.add(cell.dataset, cell.gamma, grown["width"], *(f"{ratio:.3f}" for ratio in line))
    if ratios:
        report.add(
            "geometric mean", "", "", *(f"{geometric_mean(list(each)):.3f}" for each in zip(*ratios, strict=True))
        )
    report.notes += builds(found.values())
    return report


def draw(store: Store, cells: list[Cell], path: Path) -> None:
    """Bound and RegLoss against the width, for the three datasets with most rows and the smallest gamma."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    found = [(cell, result) for cell in cells if cell.part == "proofs" and (result := store.read(cell))]
    smallest = min(cell.gamma for cell, _ in found)
    shown = sorted((each for each in found if each[0].gamma == smallest), key=lambda each: -each[1]["rows"])[:3]
    figure, axes = plt.subplots(1, len(shown), figsize=(3.4 * len(shown), 3.2), layout="constrained")
    for ax, (cell, result) in zip(np.atleast_1d(axes), shown, strict=True):
        rounds = np.array(result["rounds"])
        ax.plot(rounds[:, 0], rounds[:, 1], "o-", ms=3, label="RegLoss")
        ax.plot(rounds[:, 0], rounds[:, 2], "s", ms=3, label="bound by the residual of each round")
        ax.axhline(rounds[-1, 3], color="black", lw=0.8, label="bound at the end, proved")
        title = f"{cell.dataset}, {result['rows']} rows, gamma = {cell.gamma:g}"
        ax.set_title(title, fontsize=9)
        ax.set(xlabel="neurons", ylim=(0.0, 1.3 * rounds[-1, 1]))
    np.atleast_1d(axes)[0].set_ylabel("RegLoss")
    np.atleast_1d(axes)[0].legend(fontsize=7, loc="lower right")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=("proofs", "widths"), default=["proofs", "widths"])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS), metavar="NAME")
    parser.add_argument("--gammas", nargs="+", type=float, default=[1.0, 0.1, 0.01, 0.001], metavar="GAMMA")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each fit of the second part")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write all results into this file")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw bound and RegLoss against the width")
    add_run_options(parser, "growth")
    chosen = parser.parse_args()
    require_data()
    pairs = list(itertools.product(chosen.datasets, chosen.gammas))
    cells = [Cell("proofs", *pair) for pair in pairs] if "proofs" in chosen.part else []
    if "widths" in chosen.part:
        cells += [Cell("widths", *pair, width, chosen.seconds) for pair in pairs for width in (0, *WIDTHS)]
    store, console = Store(chosen.results), make_console()
    if not chosen.report:
        store.compute(cells, run, chosen.jobs, console)
    if "proofs" in chosen.part:
        proofs(store, cells).publish("growth-proofs", console, chosen.results)
    if "widths" in chosen.part:
        widths(store, cells).publish("growth-widths", console, chosen.results)
    if chosen.pack:
        store.pack(cells, chosen.pack)
    if chosen.picture:
        draw(store, cells, chosen.picture)


if __name__ == "__main__":
    main()
