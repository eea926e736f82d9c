"""How many steps the walk takes, and how many it must take, from one programme of a DCA to the next.

A step of the walk brings at most one row to its kink. From the answer to one programme of a DCA to the answer to the
next one, some rows stay at their kinks, others leave, and those that come need a step each, whatever the order. One
line for each programme goes to a CSV file.

    python benchmarks/steps.py [--neurons 3] [--split net] [--output benchmark-output]
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dconnet import Problem
from dconnet.convex.backend import ConvexSolution, Solver, get_backend
from dconnet.convex.programme import Programme
from dconnet.io.files import written_whole
from dconnet.training.initialization import xavier
from dconnet.training.sweep import make_sweep
from paper_data import mnist

N_HIDDEN = 30
HEADER = ("programme", "follows", "kinks", "stayed", "came", "steps")
# A multiplier this close to a bound, as a fraction of its largest value, is there.
ROUNDING = 1e-9


def at_kinks(programme: Programme, solution: ConvexSolution) -> np.ndarray:
    """The rows whose multipliers are between their bounds."""
    noise = ROUNDING * np.abs(solution.multipliers).max(initial=0.0)
    return (solution.multipliers > noise) & (solution.multipliers < programme.slope - noise)


@dataclass
class Watched:
    """A backend that keeps a line of numbers for each programme."""

    solver: Solver | None = None
    last: tuple[ConvexSolution, np.ndarray] | None = None
    lines: list[tuple[int, ...]] = field(default_factory=list)

    def prepare(self, design: np.ndarray) -> Watched:
        """Prepare the native backend."""
        self.solver = get_backend("native").prepare(design)
        return self

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve the programme and look at its kinks."""
        assert self.solver is not None
        solution = self.solver.solve(programme, start)
        kinks = at_kinks(programme, solution)
        follows = self.last is not None and start is self.last[0]
        stayed = int((kinks & self.last[1]).sum()) if self.last is not None and follows else 0
        n_kinks = int(kinks.sum())
        self.lines.append((len(self.lines), int(follows), n_kinks, stayed, n_kinks - stayed, solution.iterations))
        self.last = solution, kinks
        return solution


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--neurons", type=int, default=3, help="how many neurons of the first epoch are visited")
    parser.add_argument("--split", default="net", choices=("net", "paper"))
    parser.add_argument("--output", type=Path, default=Path("benchmark-output"))
    arguments = parser.parse_args()
    X, y = mnist()
    problem = Problem(X, y, gamma=1e-2)
    start = xavier(X.shape[1], N_HIDDEN, np.random.default_rng(0))
    backend = Watched()
    sweep = make_sweep(problem.whitened, backend, N_HIDDEN, arguments.split, max_dca_iter=50)
    order = np.random.default_rng(0).permutation(N_HIDDEN)[: arguments.neurons]
    sweep.run(problem.whitened.whiten(start), start.alpha.copy(), order, np.inf)
    arguments.output.mkdir(parents=True, exist_ok=True)
    with written_whole(arguments.output / f"steps-{arguments.split}.csv") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([HEADER, *backend.lines])
    follows, kinks, stayed, came, steps = np.array(backend.lines).T[1:].astype(float)
    later = follows > 0
    print(f"{len(follows)} programmes, {later.sum():.0f} of them from the answer to the one before.")
    print(f"These: {kinks[later].mean():.1f} rows at their kinks, of which {stayed[later].mean():.1f} stayed and")
    print(f"{came[later].mean():.1f} came; {steps[later].mean():.1f} steps. All programmes: {steps.mean():.1f} steps.")


if __name__ == "__main__":
    main()
