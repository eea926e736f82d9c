"""Width by growth: proved gaps on few features, fits with default settings, and growth against fixed widths.

    python benchmarks/growth.py [--part proofs bounds defaults widths] [--gammas 0.01 1] [--report] [--pack FILE]

The proofs are on the two features of each dataset that are most correlated with its target, at most 1000 rows of them;
the bounds, by branch and bound, on three to five features and at most 300 rows. The fits by default are on all features
of the datasets, and on synthetic tables; gamma is 0 for "auto". Fixed widths and growth get the same seconds;
RegLoss is compared on the training rows, errors on the test rows.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from sklearn.datasets import make_friedman1

from cells import Result, Store, add_run_options, builds
from dconnet import DCONRegressor, Problem
from dconnet.certificates import global_gap
from dconnet.convex.backend import get_backend
from dconnet.training.descent import Options, State
from dconnet.training.growth import START, GrowingDescent
from dconnet.training.initialization import xavier
from dconnet.training.observer import Observer
from paper_data import DATASETS, require_data, table
from report import Report, geometric_mean, make_console
from reproduction.datasets.splits import split_rows

MOST_ROWS, MOST_ROWS_OF_BOUNDS = 1000, 300
WIDTHS = (5, 20, 80)
# Rows and features of the synthetic tables, and of the table with two features.
TABLES = {"500x8": (500, 8), "2000x10": (2000, 10), "5000x20": (5000, 20)}
NOISY = "noisy"


@dataclass(frozen=True)
class Cell:
    """One fit: "proofs" with two features, "bounds" with more, "defaults" and "widths" with all.

    The width is 0 for growth, and the number of features for bounds.
    """

    part: str
    dataset: str
    gamma: float
    width: int = 0
    seconds: float = 0.0


def some_features(dataset: str, n_features: int, most_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The features that are most correlated with the target, and the target, standardised."""
    X, y = noisy_table(most_rows) if dataset == NOISY else table(dataset)
    X, y = X[:most_rows], y[:most_rows]
    X = X[:, X.std(axis=0) > 0.0]
    correlations = np.abs(np.corrcoef(X.T, y)[-1, :-1])
    X = X[:, np.sort(np.argsort(-correlations)[:n_features])]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def noisy_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Two features, and as much noise as makes a network of small gamma wide."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    return X, np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) + 0.5 * rng.normal(size=n_rows)


def whole_table(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """All features of a dataset, or a synthetic table by Friedman."""
    if dataset not in TABLES:
        return table(dataset)
    n_rows, n_features = TABLES[dataset]
    X, y = make_friedman1(n_rows, n_features, noise=1.0, random_state=0)
    return X, y


def prove(cell: Cell) -> Result:
    """Grow to the proved optimum, and keep what each round reached."""
    problem = Problem(*some_features(cell.dataset, 2, MOST_ROWS), cell.gamma)
    rng = np.random.default_rng(0)
    descent = GrowingDescent(problem, get_backend("native"), Options(split="net"), rng)
    rounds: list[tuple[int, float, float, float]] = []

    class Bounds(Observer):
        def end_epoch(self, state: State) -> bool:
            rounds.append((len(state.alpha), descent.objective(state), descent.dual.bound, descent.proved.bound))
            return False

    began, cpu = time.perf_counter(), time.process_time()
    solution = descent.run(xavier(2, START, rng), observer=Bounds())
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


def bound(cell: Cell) -> Result:
    """Grow with three to five features, and prove what branch and bound can in some seconds."""
    problem = Problem(*some_features(cell.dataset, cell.width, MOST_ROWS_OF_BOUNDS), cell.gamma)
    rng = np.random.default_rng(0)
    descent = GrowingDescent(problem, get_backend("native"), Options(split="net"), rng)
    began = time.process_time()
    solution = descent.run(xavier(cell.width, START, rng))
    grown = time.process_time()
    gap = global_gap(problem, solution.network, max_parts=None, max_seconds=cell.seconds)
    return {
        "rows": len(problem.whitened.Q),
        "rank": problem.whitened.Q.shape[1],
        "neurons": solution.network.n_hidden,
        "regloss": solution.objective,
        "estimated_gap": gap.relative_gap,
        "proved_gap": min(gap.proved_gap, max(1.0 - descent.proved.bound / solution.objective, 0.0)),
        "growth_cpu_seconds": grown - began,
        "bound_cpu_seconds": time.process_time() - grown,
        "message": solution.message,
    }


def fit_by_default(cell: Cell) -> Result:
    """Growth with default settings, to its end."""
    X, y = whole_table(cell.dataset)
    model = DCONRegressor("auto", gamma=cell.gamma or "auto", random_state=0)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return {
        "cpu_seconds": time.process_time() - began,
        "gamma": model.gamma_ / model.target_scale_,
        "rows": X.shape[0],
        "features": X.shape[1],
        "neurons": model.network_.n_hidden,
        "rounds": model.n_iter_,
        "regloss": model.objective_ / model.target_scale_**2,
        "rises": int(np.sum(np.diff(model.history_.objective) > 0.0)),
        "status": model.status_.name,
        "message": model.message_,
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
    return {"proofs": prove, "bounds": bound, "defaults": fit_by_default, "widths": compare}[cell.part](cell)


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


def bounds(store: Store, cells: list[Cell]) -> Report:
    """A line for each dataset, number of features and gamma."""
    report = Report(
        "Growth and branch and bound with three to five features, up to 300 rows",
        ("data", "rows", "rank", "gamma", "neurons", "estimated gap", "proved gap", "growth, s", "bound, s"),
        notes=["Gaps to the best network of any width, as shares of RegLoss; seconds of CPU."],
    )
    found = [(cell, result) for cell in cells if cell.part == "bounds" and (result := store.read(cell))]
    for cell, result in found:
        gaps = (f"{result[name]:.1e}" for name in ("estimated_gap", "proved_gap"))
        seconds = (f"{result[name]:.1f}" for name in ("growth_cpu_seconds", "bound_cpu_seconds"))
        report.add(cell.dataset, result["rows"], result["rank"], cell.gamma, result["neurons"], *gaps, *seconds)
    report.notes += builds(result for _, result in found)
    return report


def ended_by(result: Result) -> str:
    """Which criterion ended growth, in a few words."""
    if result["status"] != "CONVERGED":
        return str(result["status"]).lower().replace("_", " ")
    if "RegLoss fell by less" in result["message"]:
        return "slow rounds"
    return "estimated gap" if "estimated" in result["message"] else "proved gap or nothing found"


def defaults(store: Store, cells: list[Cell]) -> Report:
    """A line for each table and gamma."""
    report = Report(
        "Growth with default settings",
        ("data", "rows", "features", "gamma", "neurons", "RegLoss", "rounds", "ended by", "seconds of CPU"),
        notes=["RegLoss in units of the variance of the target; gamma in those of its standard deviation."],
    )
    found = [(cell, result) for cell in cells if cell.part == "defaults" and (result := store.read(cell))]
    for cell, result in found:
        gamma = f"{result['gamma']:.3g}" + (" (auto)" if cell.gamma == 0.0 else "")
        figures = (f"{result['regloss']:.6f}", result["rounds"], ended_by(result), f"{result['cpu_seconds']:.1f}")
        report.add(cell.dataset, result["rows"], result["features"], gamma, result["neurons"], *figures)
    report.notes += builds(result for _, result in found)
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


TABLES_OF = {"proofs": proofs, "bounds": bounds, "defaults": defaults, "widths": widths}


def grid(chosen: argparse.Namespace) -> Iterator[Cell]:
    """The cells of all parts that were asked for; synthetic tables are in some parts only."""
    for part, dataset, gamma in itertools.product(chosen.part, chosen.datasets, chosen.gammas):
        if (part == "proofs" and dataset not in TABLES) or (part == "defaults" and dataset != NOISY):
            yield Cell(part, dataset, gamma)
        elif part == "bounds" and dataset in DATASETS:
            yield from (Cell(part, dataset, gamma, n, chosen.seconds) for n in chosen.features)
        elif part == "widths" and dataset in DATASETS:
            yield from (Cell(part, dataset, gamma, width, chosen.seconds) for width in (0, *WIDTHS))


def draw(store: Store, cells: list[Cell], path: Path) -> None:
    """Bound and RegLoss against the width, for the three datasets with most rows and the smallest gamma."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    real = [cell for cell in cells if cell.part == "proofs" and cell.dataset in DATASETS]
    found = [(cell, result) for cell in real if (result := store.read(cell))]
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
    parts = ("proofs", "bounds", "defaults", "widths")
    parser.add_argument("--part", nargs="+", choices=parts, default=list(parts))
    names = [*DATASETS, *TABLES, NOISY]
    parser.add_argument("--datasets", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--gammas", nargs="+", type=float, default=[1.0, 0.1, 0.01, 0.001], metavar="GAMMA")
    parser.add_argument("--features", nargs="+", type=int, default=[3, 4, 5], help="for the bounds", metavar="N")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each bound, and each fit of the last part")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write all results into this file")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw bound and RegLoss against the width")
    add_run_options(parser, "growth")
    chosen = parser.parse_args()
    require_data()
    cells = list(grid(chosen))
    store, console = Store(chosen.results), make_console()
    if not chosen.report:
        store.compute(cells, run, chosen.jobs, console)
    for part in chosen.part:
        TABLES_OF[part](store, cells).publish(f"growth-{part}", console, chosen.results)
    if chosen.pack:
        store.pack(cells, chosen.pack)
    if chosen.picture:
        draw(store, cells, chosen.picture)


if __name__ == "__main__":
    main()
