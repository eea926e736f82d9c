"""MNIST, ten digits with 30 neurons each: the test accuracy that the estimator reaches, and with how much work.

    python benchmarks/digits.py [--evaluations 50 100] [--gammas 0.1] [--n-jobs 2] [--report]

As in the paper, 42,000 images of 10 x 10 pixels train, and 10,000 others test. The limit on evaluations is for each
network. The time is that of the whole fit; nothing else should run.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
import warnings
from dataclasses import dataclass

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cells import Result, Store, add_run_options, builds
from dconnet import DCONClassifier
from paper_data import HOME
from report import Report, make_console
from reproduction import mnist


@dataclass(frozen=True)
class Cell:
    """One fit of all digits."""

    gamma: float
    evaluations: int
    n_hidden: int
    n_jobs: int
    seed: int


def run(cell: Cell) -> Result:
    """Accuracies, the seconds of the fit, and the evaluations that all networks took."""
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
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
    add_run_options(parser, "digits")
    chosen = parser.parse_args()
    grid = (chosen.gammas, chosen.evaluations, chosen.hidden, chosen.n_jobs, range(chosen.seeds))
    cells = [Cell(*fields) for fields in itertools.product(*grid)]
    store, console = Store(chosen.results), make_console()
    if not chosen.report:
        store.compute(cells, run, chosen.jobs, console)
    settings = ("gamma", "max_evaluations", "neurons", "n_jobs", "seed")
    figures = ("validation", "test", "mean RegLoss", "evaluations", "seconds", "processor")
    report = Report("MNIST, 42,000 images of 10 x 10 pixels, a network for each digit", (*settings, *figures))
    results = []
    for cell in cells:
        found = store.read(cell)
        if found is not None:
            results.append(found)
            reached = (f"{found[name]:.4f}" for name in ("validation", "test", "regloss"))
            times = (f"{found[name]:.1f} s" for name in ("seconds", "processor_seconds"))
            given = (f"{cell.gamma:g}", cell.evaluations, cell.n_hidden, cell.n_jobs, cell.seed)
            report.add(*given, *reached, found["evaluations"], *times)
    report.notes += builds(results)
    report.publish("digits", console, chosen.results)


if __name__ == "__main__":
    main()
