"""Compare two builds of dconnet, or numbers of threads, on the same tasks.

    python benchmarks/builds.py [--against PYTHON] [--threads 1 2] [--repetitions 3] [--tasks NAME ...] [--output FILE]

PYTHON is the interpreter of an environment with another build. Every measurement is a process of its own, and the
builds alternate. Times are wall times: nothing else should run. Tasks with 42,000 rows use MNIST (see `DCONNET_DATA`),
or random numbers if it is absent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

from dconnet._files import write_atomically
from report import Report
from timing import run_python

# Prints one JSON object: seconds, and figures that show whether both builds did the same work.
CHILD = """
import inspect, json, sys, time, warnings
import numpy as np
from dconnet import DCONRegressor, PaperAlgorithm, Problem, _native
from dconnet.convex.backend import get_backend
from dconnet.convex.native import as_columns, pad_rows
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier

warnings.simplefilter("ignore")
task, threads = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
has_threads = hasattr(_native, "Team")


def images():
    try:
        from reproduction.datasets.mnist import load_mnist

        training, _ = load_mnist()
        return training.X[:42_000], training.signs(3)[:42_000]
    except Exception:
        X = rng.standard_normal((42_000, 100))
        return X, np.sign(np.abs(X[:, 0]) + X[:, 1] - 1.0)


def synthetic(n_rows, n_columns):
    X = rng.standard_normal((n_rows, n_columns))
    return X, np.abs(X[:, 0]) + X[:, 1] * X[:, 2 % n_columns] + 0.1 * rng.standard_normal(n_rows)


def epochs(X, y, split, n_hidden, n_epochs):
    problem = Problem(X, y, gamma=1e-2)
    problem.whitened.Q
    more = {"n_threads": threads} if "n_threads" in inspect.signature(Options).parameters else {}
    options = Options(split=split, max_epochs=n_epochs, tol=0.0, **more)
    descent = Descent(problem, get_backend("native"), options, np.random.default_rng(0))
    begin = time.perf_counter()
    solution = descent.run(xavier(X.shape[1], n_hidden, np.random.default_rng(0)))
    seconds = time.perf_counter() - begin
    history = solution.history
    return {
        "seconds": seconds,
        "regloss": solution.objective,
        "programmes": history.total("programmes"),
        "iterations": history.total("iterations"),
    }


def evaluation(X, y, n_hidden):
    problem = Problem(X, y, gamma=1e-2).whitened
    V, alpha = rng.standard_normal((n_hidden, problem.Q.shape[1])), rng.standard_normal((n_hidden, 1))
    team = [_native.Team(threads)] if has_threads else []
    kernel = _native.Objective(pad_rows(problem.Q), problem.Q.shape[1], as_columns(problem.y), 0.01, n_hidden, *team)
    seconds = []
    for _ in range(40):
        begin = time.perf_counter()
        value = kernel.gradient(V, alpha, np.empty_like(V), np.empty_like(alpha))
        seconds.append(time.perf_counter() - begin)
    return {"seconds": float(np.median(seconds)), "regloss": value / len(X)}


def growth():
    X = rng.standard_normal((1_000_000, 10))
    y = np.abs(X[:, 0]) + rng.standard_normal(1_000_000)
    settings = {"gamma": 1e-3, "scale": False, "max_epochs": 2, "random_state": 0}
    model = DCONRegressor(10, algorithm=PaperAlgorithm(split="net", max_dca_iter=5), n_jobs=threads, **settings)
    begin = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "regloss": model.objective_, "iterations": model.history_.total("iterations")}


if task == "evaluation":
    result = evaluation(*images(), n_hidden=30)
elif task in ("net epoch", "paper epoch"):
    result = epochs(*images(), task.split()[0], 30, 1)
elif task == "two epochs, a million rows":
    result = growth()
else:
    size, split = task.rsplit(" ", 1)
    result = epochs(*synthetic(*map(int, size.split("x"))), split, 10, 20)
print(json.dumps(result))
"""

LARGE = ("evaluation", "net epoch", "paper epoch", "two epochs, a million rows")
SMALL = tuple(
    f"{size} {split}" for size in ("300x6", "1000x10", "5000x10", "300x105", "2000x40") for split in ("net", "paper")
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", metavar="PYTHON", help="interpreter of an environment with another build")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", default=[*LARGE, *SMALL], choices=[*LARGE, *SMALL], metavar="NAME")
    parser.add_argument("--output", type=Path, default=Path("benchmark-output/builds.jsonl"))
    options = parser.parse_args()
    runners = [(f"{threads} threads", sys.executable, threads) for threads in options.threads]
    if options.against:
        runners.insert(0, ("other build", options.against, 1))
    report = Report(
        f"Seconds, and as a share of those of: {runners[0][0]}", ("task", *(name for name, _, _ in runners))
    )
    lines = []
    for task in options.tasks:
        found: dict[str, list[dict[str, float]]] = {name: [] for name, _, _ in runners}
        for repetition in range(options.repetitions):
            for name, python, threads in runners:
                found[name].append(run_python(CHILD, task, threads, python=python))
                lines.append(json.dumps({"task": task, "runner": name, "repetition": repetition, **found[name][-1]}))
        seconds = {name: statistics.median(run["seconds"] for run in runs) for name, runs in found.items()}
        unit = seconds[runners[0][0]]
        report.add(task, *(f"{value:.3g} s ({value / unit:.2f})" for value in seconds.values()))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(options.output) as file:
            file.writelines(line + "\n" for line in lines)
    report.publish("builds", options.output.parent)


if __name__ == "__main__":
    main()
