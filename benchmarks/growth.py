"""Growth of the width: proved gaps on few features, and default fits.

    python benchmarks/growth.py [--part proofs bounds defaults] [--gammas 0.01 1] [--report] [--pack]

proofs: the two features that correlate most with the target, at most 1000 rows, grown to the proved optimum.
bounds: three to five features and at most 300 rows, with a lower bound by branch and bound.
defaults: all features of the paper's tables and of synthetic tables, default settings; gamma 0 stands for "auto".
The tables show all stored results: ``--report --results docs/benchmarks`` those of the documentation.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_friedman1

from dconnet import DCONRegressor, Network, Problem
from dconnet.certificates import global_gap
from dconnet.convex.programme import get_backend
from dconnet.training.descent import Options, State
from dconnet.training.growth import START, GrowingDescent
from dconnet.training.initialization import xavier
from dconnet.training.observer import Observer
from paper_data import DATASETS, load_table, require_data
from report import Report, add_run_options, build_warnings, compute_cells
from reproduction.store import Result, Store

PARTS = ("proofs", "bounds", "defaults")
MAX_ROWS = {"proofs": 1000, "bounds": 300}
SYNTHETIC = {"500x8": (500, 8), "2000x10": (2000, 10), "5000x20": (5000, 20)}  # rows and features
NOISY = "noisy"


@dataclass(frozen=True)
class Cell:
    """One fit; ``n_features`` and ``seconds`` are for the part "bounds"."""

    part: str
    dataset: str
    gamma: float
    n_features: int = 0
    seconds: float = 0.0


def load_few_features(dataset: str, n_features: int, max_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the features that correlate most with the target, and the target, standardised."""
    X, y = make_noisy_table(max_rows) if dataset == NOISY else load_table(dataset)
    X, y = X[:max_rows], y[:max_rows]
    X = X[:, X.std(axis=0) > 0.0]
    correlations = np.abs(np.corrcoef(X.T, y)[-1, :-1])
    X = X[:, np.sort(np.argsort(-correlations)[:n_features])]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def make_noisy_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two features and a target with enough noise to make networks with a small gamma wide."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2))
    return X, np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) + 0.5 * rng.normal(size=n_rows)


def make_descent(cell: Cell, n_features: int) -> tuple[Problem, GrowingDescent, Network]:
    problem = Problem(*load_few_features(cell.dataset, n_features, MAX_ROWS[cell.part]), cell.gamma)
    rng = np.random.default_rng(0)
    descent = GrowingDescent(problem, get_backend("native"), Options(split="net"), rng)
    return problem, descent, xavier(n_features, START, rng)


def run_proof(cell: Cell) -> Result:
    """Grow to the proved optimum; return width, RegLoss and both bounds after each round."""
    problem, descent, start = make_descent(cell, 2)
    rounds: list[tuple[int, float, float, float]] = []

    class Bounds(Observer):
        def end_epoch(self, state: State) -> bool:
            rounds.append((len(state.alpha), descent.objective(state), descent.dual.bound, descent.proved.bound))
            return False

    began, cpu = time.perf_counter(), time.process_time()
    solution = descent.run(start, observer=Bounds())
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


def run_bound(cell: Cell) -> Result:
    """Grow with three to five features, then bound the gap by branch and bound for a limited time."""
    problem, descent, start = make_descent(cell, cell.n_features)
    began = time.process_time()
    solution = descent.run(start)
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


def run_defaults(cell: Cell) -> Result:
    """Fit with default settings to the end."""
    if cell.dataset in SYNTHETIC:
        X, y = make_friedman1(*SYNTHETIC[cell.dataset], noise=1.0, random_state=0)
    else:
        X, y = load_table(cell.dataset)
    model = DCONRegressor("auto", gamma=cell.gamma or "auto", random_state=0)
    began = time.process_time()
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


RUNNERS = {"proofs": run_proof, "bounds": run_bound, "defaults": run_defaults}


def run(cell: Cell) -> Result:
    """Compute one cell."""
    return RUNNERS[cell.part](cell)


Found = dict[Cell, Result]


def describe_end(result: Result) -> str:
    """Return which criterion ended growth."""
    if result["status"] != "CONVERGED":
        return str(result["status"]).lower().replace("_", " ")
    if "RegLoss fell by less" in result["message"]:
        return "slow rounds"
    return "estimated gap" if "estimated" in result["message"] else "proved gap or nothing found"


TITLES = {
    "proofs": "Growth on two features of real data, up to 1000 rows",
    "bounds": "Growth and branch and bound with three to five features, up to 300 rows",
    "defaults": "Growth with default settings",
}
HEADERS = {
    "proofs": ("data", "different rows", "gamma", "neurons", "RegLoss", "proved gap", "seconds of CPU"),
    "bounds": ("data", "rows", "rank", "gamma", "neurons", "estimated gap", "proved gap", "growth, s", "bound, s"),
    "defaults": ("data", "rows", "features", "gamma", "neurons", "RegLoss", "rounds", "ended by", "seconds of CPU"),
}
NOTES = {
    "proofs": "The gap to the best network of any width, as a share of RegLoss.",
    "bounds": "Gaps to the best network of any width, as shares of RegLoss; seconds of CPU.",
    "defaults": "RegLoss in units of the variance of the target, gamma in units of its standard deviation.",
}


def make_line(cell: Cell, result: Result) -> tuple[object, ...]:
    """Return the line of a cell in the table of its part."""
    if cell.part == "proofs":
        figures = (f"{result['regloss']:.6g}", f"{result['proved_gap']:.1e}", f"{result['cpu_seconds']:.1f}")
        return cell.dataset, result["rows"], cell.gamma, result["width"], *figures
    if cell.part == "bounds":
        gaps = (f"{result[name]:.1e}" for name in ("estimated_gap", "proved_gap"))
        seconds = (f"{result[name]:.1f}" for name in ("growth_cpu_seconds", "bound_cpu_seconds"))
        return cell.dataset, result["rows"], result["rank"], cell.gamma, result["neurons"], *gaps, *seconds
    gamma = f"{result['gamma']:.3g}" + (" (auto)" if cell.gamma == 0.0 else "")
    figures = (f"{result['regloss']:.6f}", result["rounds"], describe_end(result), f"{result['cpu_seconds']:.1f}")
    return cell.dataset, result["rows"], result["features"], gamma, result["neurons"], *figures


def make_report(part: str, found: Found) -> Report:
    """Return the table of one part."""
    report = Report(TITLES[part], HEADERS[part], notes=[NOTES[part]])
    for cell, result in found.items():
        report.add(*make_line(cell, result))
    return report


def make_cells(options: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells of the chosen parts; synthetic tables are in some parts only."""
    for part, dataset, gamma in itertools.product(options.part, options.datasets, options.gammas):
        if (part == "proofs" and dataset not in SYNTHETIC) or (part == "defaults" and dataset != NOISY):
            yield Cell(part, dataset, gamma)
        elif part == "bounds" and dataset in DATASETS:
            yield from (Cell(part, dataset, gamma, n, options.seconds) for n in options.features)


def draw_bounds(found: Found, path: Path) -> None:
    """Draw bound and RegLoss over the width for the three largest tables and the smallest gamma."""
    from matplotlib.figure import Figure

    real = {cell: result for cell, result in found.items() if cell.dataset in DATASETS}
    smallest = [(cell, result) for cell, result in real.items() if cell.gamma == min(c.gamma for c in real)]
    shown = sorted(smallest, key=lambda pair: -pair[1]["rows"])[:3]
    figure = Figure(figsize=(3.4 * len(shown), 3.2), layout="constrained")
    axes = figure.subplots(1, len(shown), squeeze=False)[0]
    for ax, (cell, result) in zip(axes, shown, strict=True):
        rounds = np.array(result["rounds"])
        ax.plot(rounds[:, 0], rounds[:, 1], "o-", ms=3, label="RegLoss")
        ax.plot(rounds[:, 0], rounds[:, 2], "s", ms=3, label="bound by the residual of each round")
        ax.axhline(rounds[-1, 3], color="black", lw=0.8, label="bound at the end, proved")
        ax.set_title(f"{cell.dataset}, {result['rows']} rows, gamma = {cell.gamma:g}", fontsize=9)
        ax.set(xlabel="neurons", ylim=(0.0, 1.3 * rounds[-1, 1]))
    axes[0].set_ylabel("RegLoss")
    axes[0].legend(fontsize=7, loc="lower right")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    names = [*DATASETS, *SYNTHETIC, NOISY]
    parser.add_argument("--datasets", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--gammas", nargs="+", type=float, default=[1.0, 0.1, 0.01, 0.001], metavar="GAMMA")
    parser.add_argument("--features", nargs="+", type=int, default=[3, 4, 5], help="for part bounds", metavar="N")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each bound")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw bound and RegLoss over the width")
    add_run_options(parser)
    options = parser.parse_args()
    require_data()
    store = Store(options.results, "growth")
    compute_cells(store, make_cells(options), run, options)
    by_part: dict[str, Found] = {part: {} for part in PARTS}
    for cell, result in store.results(Cell).items():
        by_part[cell.part][cell] = result
    for part in options.part:
        report = make_report(part, by_part[part])
        report.notes += build_warnings(store)
        report.publish(f"growth-{part}", options.results)
    if options.picture:
        draw_bounds(by_part["proofs"], options.picture)


if __name__ == "__main__":
    main()
