"""Race the accelerated algorithm against other optimisers of the same RegLoss from the same scaled start.

    python benchmarks/race.py [--larger] [--datasets DS1 ...] [--rivals scipy ...] [--champion defaults] [--jobs 2]
                              [--report] [--pack] [--name race-paper-adam]

Every result is stored at once, so a run can be stopped and continued with the same command. The tables show all stored
results: ``--report --results docs/benchmarks`` those of the documentation. Times are wall times.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

from paper_data import DATASETS, has_mnist, require_data
from report import CONSOLE, Report, add_run_options, build_warnings, compute_cells, geometric_mean
from reproduction.store import Result, Store
from rivals import DESCRIPTIONS, LARGER, RIVALS, Cell, make_contest

OPPONENTS = tuple(rival for rival in RIVALS if rival != "accelerated")
GAMMAS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)

# Defaults of the options with --larger.
LARGER_DEFAULTS = {
    "name": "race-larger",
    "datasets": tuple(LARGER),
    "hidden": (20,),
    "gammas": (1e-2, 1e-4),
    "marks": (1.0, 3.0, 10.0),
    "rivals": ("scipy", "scipy-brisk", "kernel"),
}

TIE = 1e-3  # relative difference of RegLoss up to which a contest is a tie
MUCH_WORSE = 0.05

LEGEND = (
    f"Ratio: geometric mean and median of RegLoss over the rival's, below one is better. Tie: within {100 * TIE:g} %. "
    f"Worse: contests in which RegLoss is more than {100 * MUCH_WORSE:g} % above the rival's."
)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = (*DATASETS, *LARGER)
    parser.add_argument("--datasets", nargs="+", choices=names, metavar="NAME", default=DATASETS, help=", ".join(names))
    parser.add_argument("--hidden", nargs="+", type=int, default=(10, 20, 30), metavar="N", help="numbers of neurons")
    parser.add_argument("--gammas", nargs="+", type=float, default=GAMMAS, metavar="GAMMA")
    parser.add_argument("--seeds", type=int, default=3, help="number of starts for each problem")
    parser.add_argument("--first-seed", type=int, default=0, metavar="SEED", help="seed of the first start")
    parser.add_argument("--marks", nargs="+", type=float, default=(0.25, 1.0, 3.0), metavar="SECONDS")
    parser.add_argument("--rivals", nargs="+", choices=OPPONENTS, default=OPPONENTS)
    parser.add_argument("--champion", choices=tuple(RIVALS), default="accelerated", help="compared with all others")
    parser.add_argument("--larger", action="store_true", help=f"race on larger data: {', '.join(LARGER)}")
    parser.add_argument("--name", default="race", help="name of the stored results")
    add_run_options(parser)
    if parser.parse_known_args()[0].larger:
        parser.set_defaults(**LARGER_DEFAULTS)
    return parser.parse_args()


def make_cells(options: argparse.Namespace) -> list[Cell]:
    """Return the cells of the chosen grid; print which rivals and data are left out."""
    rivals, datasets = list(options.rivals), list(options.datasets)
    if set(datasets) - set(LARGER):
        require_data()
    if "adam" in rivals and find_spec("torch") is None:
        CONSOLE.print("adam is left out: it needs PyTorch (pip install torch).", style="yellow")
        rivals.remove("adam")
    if "MNIST" in datasets and not has_mnist():
        CONSOLE.print("MNIST is left out: its files are not beside the paper's datasets.", style="yellow")
        datasets.remove("MNIST")
    marks, seeds = tuple(sorted(options.marks)), range(options.first_seed, options.first_seed + options.seeds)
    grid = itertools.product(datasets, options.hidden, options.gammas, seeds, ("accelerated", *rivals))
    return [Cell(*values, marks) for values in grid]


def run(cell: Cell) -> Result:
    """Run one contestant."""
    return RIVALS[cell.runner](make_contest(cell))


def summarise(ratios: list[float]) -> tuple[str, ...]:
    """Return wins, ties and losses, the mean and median ratio, and the number of clear losses."""
    if not ratios:
        return "-", "-", "-", "-"
    wins, losses = sum(ratio < 1.0 - TIE for ratio in ratios), sum(ratio > 1.0 + TIE for ratio in ratios)
    much_worse = sum(ratio > 1.0 + MUCH_WORSE for ratio in ratios)
    tally = f"{wins} / {len(ratios) - wins - losses} / {losses}"
    return tally, f"{geometric_mean(ratios):.3f}", f"{np.median(ratios):.3f}", str(much_worse)


Duel = tuple[Cell, float, float]  # cell of the rival, mark, RegLoss of the champion over the rival's


def compare(found: dict[Cell, Result], champion: str) -> Iterator[Duel]:
    """Pair the champion with every rival on the same problem and seed."""
    for cell, theirs in found.items():
        ours = found.get(replace(cell, runner=champion))
        if ours is not None and cell.runner != champion:
            for mark, own, other in zip(cell.marks, ours["regloss"], theirs["regloss"], strict=True):
                yield cell, mark, own / other


def make_notes(found: dict[Cell, Result]) -> Iterator[str]:
    """Describe how times were measured, and by how much runs exceeded their marks."""
    yield (
        "Wall time, without whitening. The accelerated algorithm and the kernel run once for every mark, the others "
        "once for all marks."
    )
    for runner in ("accelerated", "defaults", "kernel"):
        late = [
            100.0 * (seconds / mark - 1.0)
            for cell, result in found.items()
            if cell.runner == runner
            for mark, seconds in zip(cell.marks, result["seconds"], strict=True)
        ]
        if late:
            yield f"{runner} ended {np.mean(late):.1f} % after its mark on average, {max(late):.0f} % at most."


def make_reports(store: Store, champion: str, opponents: set[str]) -> Iterator[tuple[str, Report]]:
    """Yield the tables of all stored contests with the endings of their file names."""
    found = {cell: result for cell, result in store.results(Cell).items() if cell.runner in {champion, *opponents}}
    duels = list(compare(found, champion))
    runners = list(dict.fromkeys(cell.runner for cell, _, _ in duels))
    marks = sorted({mark for _, mark, _ in duels})

    def score(runner: str, mark: float, belongs: Callable[[Cell], bool] = lambda cell: True) -> tuple[str, ...]:
        return summarise([ratio for cell, at, ratio in duels if cell.runner == runner and at == mark and belongs(cell)])

    header = ("against", "mark", "win / tie / loss", "ratio", "median", f"worse by > {100 * MUCH_WORSE:g} %")
    lines = [(runner, f"{mark:g} s", *score(runner, mark)) for runner in runners for mark in marks]
    descriptions = [f"{runner}: {DESCRIPTIONS[runner]}." for runner in (champion, *runners)]
    notes = [LEGEND, *descriptions, *make_notes(found), *build_warnings(store)]
    yield "", Report(f"{champion} against its rivals", header, lines, notes)
    for title in ("dataset", "gamma"):
        groups = dict.fromkeys(getattr(cell, title) for cell, _, _ in duels)
        header = ("against", title, *(t for mark in marks for t in (f"{mark:g} s", "ratio", "median", "worse")))
        lines = []
        for runner, group in itertools.product(runners, groups):
            scores = (score(runner, mark, lambda cell: getattr(cell, title) == group) for mark in marks)  # noqa: B023
            lines.append((runner, str(group), *itertools.chain(*scores)))
        yield f"-{title}s", Report(f"{champion} against its rivals, by {title}", header, lines, [LEGEND])


def main() -> None:
    options = parse_arguments()
    store = Store(options.results, options.name)
    compute_cells(store, [] if options.report else make_cells(options), run, options)
    for ending, report in make_reports(store, options.champion, {"accelerated", *options.rivals}):
        report.publish(f"{options.name}{ending}", options.results)


if __name__ == "__main__":
    main()
