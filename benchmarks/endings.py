"""Where fits with default settings end: how near to a stationary point, with and without the Newton steps.

python benchmarks/endings.py [--hidden 10 20 30] [--gammas 1e-1 1e-3 1e-5] [--datasets DS1 ...]
"""

from __future__ import annotations

import argparse
import os

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np

from dconnet import Status
from dconnet.certificates import stationarity
from dconnet.convex.backend import get_backend
from dconnet.training.accelerated import AcceleratedDescent, Moves
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier
from paper_data import DATASETS, problem_of, require_data
from report import Report, geometric_mean, make_console
from timing import clock

VARIANTS = {"with": Moves(), "without": Moves(newton=False)}

Ending = tuple[float, float, float, bool]  # RegLoss, stationarity, seconds, whether it converged


def fit(dataset: str, n_hidden: int, gamma: float, moves: Moves) -> Ending:
    problem = problem_of(dataset, gamma)
    start = xavier(problem.X.shape[1], n_hidden, np.random.default_rng(0))
    _ = problem.whitened.Q
    descent = AcceleratedDescent(
        problem, get_backend("native"), Options(split="net"), np.random.default_rng(1), moves=moves
    )
    begin = clock()
    solution = descent.run(start)
    seconds = clock() - begin
    reached = stationarity(problem, solution.network).norm
    return solution.history.objective[-1], reached, seconds, solution.status is Status.CONVERGED


def line(name: str, endings: list[Ending]) -> tuple[str, ...]:
    reached = np.array([ending[1] for ending in endings])
    quartiles = (f"{value:.0e}" for value in np.quantile(reached, [0.0, 0.25, 0.5, 0.75, 1.0]))
    converged = sum(ending[3] for ending in endings)
    return name, f"{converged} of {len(endings)}", *quartiles, f"{sum(ending[2] for ending in endings):.3g} s"


def fits_of(grid: list[tuple[str, int, float]], endings: dict[str, list[Ending]]) -> Report:
    report = Report(
        "Each fit", ("dataset", "neurons", "gamma", "Newton steps", "RegLoss", "stationarity", "seconds", "converged")
    )
    for variant, found in endings.items():
        for cell, (loss, reached, seconds, converged) in zip(grid, found, strict=True):
            report.add(*cell, variant, f"{loss:.8g}", f"{reached:.3g}", f"{seconds:.3g}", converged)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, nargs="+", default=[10, 20, 30])
    parser.add_argument("--gammas", type=float, nargs="+", default=[1e-1, 1e-3, 1e-5])
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    chosen = parser.parse_args()
    require_data()
    grid = [(name, width, gamma) for name in chosen.datasets for width in chosen.hidden for gamma in chosen.gammas]
    endings = {variant: [fit(*cell, moves) for cell in grid] for variant, moves in VARIANTS.items()}
    ratio = geometric_mean([a[0] / b[0] for a, b in zip(*endings.values(), strict=True)])
    report = Report(
        "Stationarity at the end of fits with default settings",
        ("Newton steps", "converged", "least", "quartile", "median", "quartile", "largest", "time of all"),
        notes=[f"RegLoss with them over RegLoss without: {ratio:.4f}, as a geometric mean."],
    )
    for variant, found in endings.items():
        report.add(*line(variant, found))
    report.publish("endings", make_console())
    fits_of(grid, endings).publish("endings-fits", make_console())


if __name__ == "__main__":
    main()
