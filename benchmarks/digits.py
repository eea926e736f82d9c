"""MNIST, ten digits with 30 neurons each: test accuracy of the estimator, and the work it takes.

    python benchmarks/digits.py [--evaluations 50 100] [--gammas 0.1] [--n-jobs 2] [--report]

As in the paper, 42,000 images of 10 x 10 pixels train, and 10,000 others test. The limit on evaluations is for each
network. Times are wall times of the whole fit.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import astuple, dataclass

import numpy as np

from dconnet import DCONClassifier
from paper_data import HOME
from report import Report, add_run_options, build_warnings, compute_cells
from reproduction import mnist
from reproduction.store import Result, Store


@dataclass(frozen=True)
class Cell:
    """One fit of all digits; ``evaluations`` is the limit for each network."""

    gamma: float
    evaluations: int
    n_hidden: int
    n_jobs: int
    seed: int


def run(cell: Cell) -> Result:
    """Fit all digits; return accuracies, times and the evaluations of all networks."""
    parts = mnist.load_parts(mnist.Cell("complete", 10, "accelerated", (cell.gamma,)), mnist.Settings(), HOME)
    model = DCONClassifier(
        cell.n_hidden,
        gamma=cell.gamma,
        scale=False,
        max_evaluations=cell.evaluations,
        n_jobs=cell.n_jobs,
        random_state=cell.seed,
    )
    began, used = time.perf_counter(), time.process_time()
    model.fit(parts.training.X, parts.training.digits)
    return {
        "seconds": time.perf_counter() - began,
        "processor_seconds": time.process_time() - used,
        "evaluations": int(sum(history.total("evaluations") for history in model.histories_)),
        "regloss": float(np.mean([solution.objective for solution in model.solutions_])),
        "validation": float(model.score(parts.validation.X, parts.validation.digits)),
        "test": float(model.score(parts.test.X, parts.test.digits)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gammas", nargs="+", type=float, default=[0.1], metavar="GAMMA")
    parser.add_argument("--evaluations", nargs="+", type=int, default=[50, 100, 150, 250], metavar="NUMBER")
    parser.add_argument("--hidden", nargs="+", type=int, default=[30], metavar="N", help="neurons for each digit")
    parser.add_argument("--n-jobs", nargs="+", type=int, default=[2], metavar="THREADS", help="threads of a fit")
    parser.add_argument("--seeds", type=int, default=1, help="number of fits with each setting")
    add_run_options(parser)
    options = parser.parse_args()
    store = Store(options.results, "digits")
    grid = (options.gammas, options.evaluations, options.hidden, options.n_jobs, range(options.seeds))
    compute_cells(store, [Cell(*values) for values in itertools.product(*grid)], run, options)
    settings = ("gamma", "max_evaluations", "neurons", "n_jobs", "seed")
    figures = ("validation", "test", "mean RegLoss", "evaluations", "seconds", "processor")
    report = Report("MNIST, 42,000 images of 10 x 10 pixels, a network for each digit", (*settings, *figures))
    for cell, found in store.results(Cell).items():
        reached = (f"{found[name]:.4f}" for name in ("validation", "test", "regloss"))
        times = (f"{found[name]:.1f} s" for name in ("seconds", "processor_seconds"))
        report.add(*astuple(cell), *reached, found["evaluations"], *times)
    report.notes += build_warnings(store)
    report.publish("digits", options.results)


if __name__ == "__main__":
    main()
