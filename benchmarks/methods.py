"""Which method of the native backend settles the programmes of larger and of degenerate designs, and in what time.

The programmes are those of random neurons with random residuals, or of the targets where there are any; each is solved
without a start, and from the answer to a similar programme. One line for each answer goes to a CSV file. The
programmes of real fits are those of `harvest.py`, which reports the same by method.

    python benchmarks/methods.py [--seeds 3] [--output benchmark-output]
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.random import Generator, default_rng

from dconnet.convex.backend import get_backend
from dconnet.convex.programme import Programme
from dconnet.io.files import written_whole
from dconnet.model.whitening import Whitening
from harvest import Timed, timed
from paper_data import has_mnist, mnist

GAMMAS = (1e-5, 1e-3, 1e-1, 1.0)
MNIST_ROWS = 6_000
HEADER = ("design", "rows", "columns", "split", "gamma", "seed", "start", "method", "converged", "iterations", "gap",
          "kkt", "microseconds")  # fmt: skip


def normal(n_rows: int, n_features: int) -> Callable[[Generator], np.ndarray]:
    return lambda rng: np.column_stack([rng.standard_normal((n_rows, n_features)), np.ones(n_rows)])


def one_hot(rng: Generator) -> np.ndarray:
    """Five categories with all their levels: the different rows among 1,000."""
    levels = [np.eye(n)[rng.integers(0, n, size=1_000)] for n in (2, 3, 5, 12, 30)]
    return np.unique(np.column_stack([*levels, np.ones(1_000)]), axis=0)


def integers(rng: Generator) -> np.ndarray:
    return np.column_stack([rng.integers(-1, 2, size=(500, 6)), np.ones(500)])


def copies(n_rows: int, n_features: int, times: int) -> Callable[[Generator], np.ndarray]:
    return lambda rng: np.repeat(normal(n_rows, n_features)(rng), times, axis=0)


DESIGNS: dict[str, Callable[[Generator], np.ndarray]] = {
    "normal, 10,000 rows": normal(10_000, 100),
    "normal, 1,000 rows": normal(1_000, 20),
    "more features than rows": normal(60, 80),
    "as many columns as rows": normal(100, 99),
    "one-hot": one_hot,
    "integers": integers,
    "each row 10 times": copies(50, 8, 10),
    "each row 4 times, wide": copies(30, 20, 4),
}
if has_mnist():
    DESIGNS["MNIST"] = lambda rng: np.column_stack([mnist()[0][:MNIST_ROWS], np.ones(MNIST_ROWS)])


def programme_of(design: np.ndarray, split: str, gamma: float, rng: Generator) -> Programme:
    """The first programme of a random neuron, whose output weight is one, for a random residual."""
    slope = -2.0 * rng.standard_normal(len(design))
    shared = 10.0 * np.abs(rng.standard_normal(len(design))) if split == "paper" else 0.0
    active = design @ rng.standard_normal(design.shape[1]) >= 0.0
    linear = design.T @ ((np.maximum(-slope, 0.0) + shared) * active)
    return Programme(design, linear, np.maximum(slope, 0.0) + shared, 1.0, gamma)


def answers(programme: Programme, rng: Generator) -> Iterator[tuple[str, Timed]]:
    solver = get_backend("native").prepare(programme.design)
    yield "cold", timed(solver, programme)
    similar = replace(programme, slope=programme.slope * rng.uniform(0.8, 1.25, size=len(programme.slope)))
    yield "warm", timed(solver, programme, solver.solve(similar))


def lines(seeds: int) -> Iterator[tuple[object, ...]]:
    for (name, make), seed in product(DESIGNS.items(), range(seeds)):
        rng = default_rng(seed)
        design = Whitening.of(make(rng)).Q
        for split, gamma in product(("net", "paper"), GAMMAS):
            programme = programme_of(design, split, gamma, rng)
            for start, answer in answers(programme, rng):
                certificate = f"{answer.relative_gap(programme):.1e}", f"{answer.kkt_residual(programme):.1e}"
                what = answer.method, answer.converged, answer.iterations
                yield name, *design.shape, split, gamma, seed, start, *what, *certificate, round(1e6 * answer.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("benchmark-output"), help="folder for methods.csv")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    with written_whole(chosen.output / "methods.csv") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(lines(chosen.seeds))


if __name__ == "__main__":
    main()
