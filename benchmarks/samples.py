"""Whether to begin the search on samples of the rows: RegLoss after the same work, with them and without.

    python benchmarks/samples.py [--half report] [--hidden 10 30] [--evaluations 50 150] [--report] [--pack FILE]

The search alone is compared, without sweeps, at equal numbers of evaluations; one on a sample counts by its share of
the rows. Samples are drawn in all cells where rows are enough for the unknowns, also where the limits on evaluations
would turn them off. Half of the datasets have chosen the rule, and the others report on it.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from sklearn.datasets import make_friedman1

from cells import Result, Store, add_pack_option, add_run_options, builds
from contests import Contest
from dconnet import Problem
from dconnet.convex.backend import get_backend
from dconnet.training.accelerated import AcceleratedDescent, Moves
from dconnet.training.descent import Options
from neurons import regression
from paper_data import HOME, MNIST_ROWS
from report import Report, geometric_mean, make_console
from reproduction.datasets import load_mnist

HALVES = {
    "choice": ("MNIST 3", "network 5000x20", "network 10000x100", "network 100000x20"),
    "report": ("MNIST 8", "friedman 5000x20", "friedman 10000x100", "friedman 100000x20"),
}
DATASETS = tuple(itertools.chain(*HALVES.values()))
SEARCH_ALONE = Moves(sweep=False, newton=False)


class SamplesAlways(AcceleratedDescent):
    """The algorithm, with samples also where so many evaluations make them useless."""

    @staticmethod
    def samples_pay(evaluations: float) -> bool:
        """Whether to begin on samples."""
        return True


@dataclass(frozen=True)
class Cell:
    """One search: the data, the network, the work, and whether it begins on samples."""

    dataset: str
    n_hidden: int
    gamma: float
    seed: int
    evaluations: int
    samples: bool


def data_of(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and a target of mean zero and standard deviation one; of MNIST, plus and minus one."""
    kind, what = dataset.split()
    if kind == "MNIST":
        images = load_mnist(10, HOME)[0][:MNIST_ROWS]
        return images.X, images.signs(int(what))
    n_rows, n_features = map(int, what.split("x"))
    if kind == "network":
        return regression(n_rows, n_features)
    X, y = make_friedman1(n_rows, n_features, noise=1.0, random_state=0)
    return X, (y - y.mean()) / y.std()


def run(cell: Cell) -> Result:
    """RegLoss that the search reaches, and the evaluations that it took."""
    contest = Contest.on(Problem(*data_of(cell.dataset), cell.gamma), cell.n_hidden, cell.seed, ())
    options = Options(split="net", max_epochs=None, max_evaluations=cell.evaluations, tol=0.0)
    moves = replace(SEARCH_ALONE, samples=cell.samples)
    descent = SamplesAlways(
        contest.problem, get_backend("native"), options, np.random.default_rng((cell.seed, 1)), moves
    )
    solution = descent.run(contest.start)
    return {
        "regloss": solution.objective,
        "evaluations": solution.history.total("evaluations"),
        "by_default": AcceleratedDescent.samples_pay(cell.evaluations),
    }


def table(store: Store, cells: list[Cell], marks: list[int]) -> Report:
    """Ratios for each problem, as geometric means over the seeds; a star where the algorithm would draw samples."""
    report = Report(
        "RegLoss of searches that begin on samples of the rows, over RegLoss of those that do not",
        ("data", "neurons", "gamma", "seeds", *(f"{mark} evaluations" for mark in marks)),
        notes=[
            "Below one, samples pay. A star is where the limits allow them; if rows are too few for them, it is 1.000."
        ],
    )
    pairs = [(cell, store.read(cell), store.read(replace(cell, samples=False))) for cell in cells if cell.samples]
    found = [(cell, a["regloss"] / b["regloss"], a["by_default"]) for cell, a, b in pairs if a and b]

    def line(ratios: list[tuple[Cell, float, bool]]) -> Iterator[str]:
        for mark in marks:
            at_mark = [(ratio, star) for cell, ratio, star in ratios if cell.evaluations == mark]
            star = "*" if at_mark and all(star for _, star in at_mark) else ""
            yield f"{geometric_mean([ratio for ratio, _ in at_mark]):.3f}{star}" if at_mark else ""

    for key in dict.fromkeys((cell.dataset, cell.n_hidden, cell.gamma) for cell, *_ in found):
        here = [each for each in found if (each[0].dataset, each[0].n_hidden, each[0].gamma) == key]
        report.add(*key, len({cell.seed for cell, *_ in here}), *line(here))
    report.add("all", "", "", "", *line(found))
    report.add("where there is a star", "", "", "", *line([each for each in found if each[2]]))
    report.notes += builds(result for _, *both in pairs for result in both if result)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=HALVES, help="these datasets alone")
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, metavar="NAME", help=", ".join(DATASETS))
    parser.add_argument("--hidden", nargs="+", type=int, default=[10, 30], metavar="N", help="numbers of neurons")
    parser.add_argument("--gammas", nargs="+", type=float, default=[0.01, 0.1, 1.0], metavar="GAMMA")
    parser.add_argument("--seeds", type=int, default=1, help="number of starts for each problem")
    parser.add_argument("--evaluations", nargs="+", type=int, default=[50, 150, 400], metavar="NUMBER")
    add_pack_option(parser)
    add_run_options(parser, "samples")
    chosen = parser.parse_args()
    datasets = chosen.datasets or (HALVES[chosen.half] if chosen.half else DATASETS)
    grid = (datasets, chosen.hidden, chosen.gammas, range(chosen.seeds), chosen.evaluations, (True, False))
    cells = [Cell(*fields) for fields in itertools.product(*grid)]
    store, console = Store(chosen.results), make_console()
    if not chosen.report:
        store.compute(cells, run, chosen.jobs, console)
    table(store, cells, chosen.evaluations).publish("samples", console, chosen.results)
    if chosen.pack:
        store.pack(cells, chosen.pack)


if __name__ == "__main__":
    main()
