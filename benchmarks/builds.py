"""Compare two builds of dconnet on the same descents, at equal epochs and at equal CPU time.

    python benchmarks/builds.py --against PYTHON [--sizes 300x7 ... MNIST] [--algorithms net ...] [--seeds 10]
    python benchmarks/builds.py --report FILE

PYTHON is the interpreter of an environment with another build. Every run is a process of its own, and the builds
alternate. Seeds vary the data, the start, the order of the neurons and their number. MNIST needs `DCONNET_DATA`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from new_process import run_python
from report import OUTPUT, Report, geometric_mean

SIZES = ("300x7", "900x10", "5000x20", "20000x40", "MNIST")
ALGORITHMS = ("net", "paper", "accelerated")
N_HIDDEN = (10, 20, 30)  # one after the other for successive seeds

# Prints the CPU and wall seconds and RegLoss after each epoch, and the work of all epochs.
CHILD = """
import json, sys, time, warnings
import numpy as np
from dconnet import Problem
from dconnet.convex.programme import get_backend
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.observer import Observer

warnings.simplefilter("ignore")
size, algorithm, seed, n_hidden, n_threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
rng = np.random.default_rng(seed)
if size == "MNIST":
    from reproduction.datasets.mnist import load_mnist

    images, _ = load_mnist()
    X, y = images.X[:42_000], images.signs(seed % 10)[:42_000]
else:
    n_rows, n_columns = map(int, size.split("x"))
    X = rng.standard_normal((n_rows, n_columns))
    y = np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + np.sin(2.0 * X[:, 3]) + 0.1 * rng.standard_normal(n_rows)
is_large = X.size > 500_000
if algorithm == "accelerated":
    kind, limits = AcceleratedDescent, {"split": "net", "max_evaluations": 1500 if is_large else 4000}
else:
    n_epochs = 3 if size == "MNIST" else 5 if is_large else 20
    kind, limits = Descent, {"split": algorithm, "max_epochs": n_epochs, "tol": 0.0}
problem = Problem(X, y, gamma=1e-2)
problem.whitened.Q


class Curve(Observer):
    points = []

    def end_epoch(self, state):
        self.points.append((time.process_time() - cpu, time.perf_counter() - wall, self.descent.objective(state)))
        return False


descent = kind(problem, get_backend("native"), Options(**limits, n_threads=n_threads), np.random.default_rng(seed))
curve = Curve()
curve.descent = descent
start = xavier(X.shape[1], n_hidden, np.random.default_rng(seed))
cpu, wall = time.process_time(), time.perf_counter()
history = descent.run(start, observer=curve).history
work = {name: history.total(name) for name in ("programmes", "iterations", "unsolved")}
print(json.dumps({"curve": curve.points, **work}))
"""


def regloss_at(curve: list[list[float]], seconds: float) -> float:
    """Return RegLoss at these CPU seconds, interpolated between the ends of epochs."""
    return float(np.interp(seconds, [point[0] for point in curve], [point[2] for point in curve]))


def summarise_runs(runs: list[dict[str, Any]]) -> Iterator[tuple[object, ...]]:
    """Yield a line for each task: this build over the other one, as geometric means and medians over the seeds."""
    for task in dict.fromkeys((run["size"], run["algorithm"]) for run in runs):
        ours, theirs = (
            [run for run in runs if (run["size"], run["algorithm"]) == task and run["build"] == build]
            for build in ("this", "other")
        )
        ratios: list[list[float]] = [[], [], []]
        for own, other in zip(ours, theirs, strict=True):
            ends = own["curve"][-1], other["curve"][-1]
            equal = min(ends[0][0], ends[1][0])
            ratios[0].append(ends[0][0] / ends[1][0])
            ratios[1].append(ends[0][2] / ends[1][2])
            ratios[2].append(regloss_at(own["curve"], equal) / regloss_at(other["curve"], equal))
        figures = [f"{geometric_mean(each):.3f} ({statistics.median(each):.3f})" for each in ratios]
        wins = sum(ratio < 0.999 for ratio in ratios[2]), sum(ratio > 1.001 for ratio in ratios[2])
        yield *task, len(ours), *figures, f"{wins[0]} / {wins[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="PYTHON", help="interpreter of an environment with another build")
    parser.add_argument("--sizes", nargs="+", default=SIZES, choices=SIZES)
    parser.add_argument("--algorithms", nargs="+", default=("net", "accelerated"), choices=ALGORITHMS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=OUTPUT / "builds.jsonl")
    parser.add_argument("--report", type=Path, help="show stored runs, compute nothing")
    options = parser.parse_args()
    runs: list[dict[str, Any]] = []
    if options.report:
        runs = [json.loads(line) for line in options.report.read_text(encoding="utf-8").splitlines()]
    elif options.against:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        cells = [
            (size, kind, seed) for size in options.sizes for kind in options.algorithms for seed in range(options.seeds)
        ]
        for size, kind, seed in cells:
            n_hidden = N_HIDDEN[seed % len(N_HIDDEN)]
            for build, python in (("this", sys.executable), ("other", options.against)):
                found = run_python(CHILD, size, kind, seed, n_hidden, options.threads, python=python)
                cell = {"size": size, "algorithm": kind, "seed": seed, "n_hidden": n_hidden, "build": build}
                runs.append(cell | {"threads": options.threads} | found)
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(runs[-1]) + "\n")
    else:
        parser.error("--against or --report is needed")
    header = ("size", "algorithm", "seeds", "CPU time", "RegLoss, same epochs", "RegLoss, same time", "lower / higher")
    report = Report("This build over the other one: geometric means (medians)", header)
    for line in summarise_runs(runs):
        report.add(*line)
    report.publish("builds", options.output.parent)


if __name__ == "__main__":
    main()
