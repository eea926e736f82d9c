"""Race the accelerated algorithm against other ways to lower the same RegLoss from the same scaled start.

    python benchmarks/race.py [--larger] [--datasets DS1 ...] [--rivals scipy ...] [--champion defaults] [--jobs 2]
                              [--report] [--pack FILE]

Every result is kept in a file of its own, so that a run can be stopped at any time and goes on with the same command.
Time is that of the clock on the wall: --jobs must not exceed the number of free cores.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

from rich.console import Console

from cells import Result, Store, add_pack_option, add_run_options
from contests import LARGER, Cell, Contest, add_grid_options, grid
from paper_data import has_mnist, require_data
from report import make_console
from rivals import RIVALS, missing
from standings import Standings

MARKS = (0.25, 1.0, 3.0)
OPPONENTS = tuple(rival for rival in RIVALS if rival != "accelerated")

# What --larger sets, unless an option says otherwise.
LARGER_GRID = {
    "datasets": tuple(LARGER),
    "hidden": (20,),
    "gammas": (1e-2, 1e-4),
    "marks": (1.0, 3.0, 10.0),
    "rivals": ("scipy", "scipy-brisk", "kernel"),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_grid_options(parser, hidden=(10, 20, 30), gammas=(1e-1, 1e-2, 1e-3, 1e-4, 1e-5), seeds=3)
    parser.add_argument("--marks", nargs="+", type=float, default=MARKS, metavar="SECONDS", help="when to compare")
    parser.add_argument("--rivals", nargs="+", choices=OPPONENTS, default=OPPONENTS, help="who races")
    parser.add_argument("--champion", choices=tuple(RIVALS), default="accelerated", help="who meets the others")
    add_pack_option(parser)
    parser.add_argument("--larger", action="store_true", help=f"race on larger data: {', '.join(LARGER)}")
    add_run_options(parser, "race")
    if parser.parse_known_args()[0].larger:
        parser.set_defaults(**LARGER_GRID)
    return parser.parse_args()


def run(cell: Cell) -> Result:
    """One who takes part in one contest."""
    return RIVALS[cell.runner](Contest.of(cell))


def fit_for_race(chosen: argparse.Namespace, console: Console) -> Iterator[str]:
    """Those who can race here; the reason why others cannot is told."""
    yield "accelerated"
    for rival in chosen.rivals:
        if missing(rival):
            console.print(f"{rival} is left out: {missing(rival)}", style="yellow", highlight=False)
        else:
            yield rival


def check_data(chosen: argparse.Namespace, console: Console) -> None:
    """End or warn where data are not at hand."""
    if set(chosen.datasets) - set(LARGER):
        require_data()
    if "MNIST" in chosen.datasets and not has_mnist():
        console.print("MNIST is left out: its files are not beside the paper's datasets.", style="yellow")


def main() -> None:
    chosen = arguments()
    console = make_console()
    store = Store(chosen.results)
    if chosen.report:
        cells = grid(chosen, ("accelerated", *chosen.rivals), chosen.marks)
    else:
        check_data(chosen, console)
        cells = grid(chosen, list(fit_for_race(chosen, console)), chosen.marks)
        store.compute(cells, run, chosen.jobs, console)
    if chosen.pack:
        store.pack(cells, chosen.pack)
    for name, report in Standings(store, cells, chosen.champion).reports("larger" if chosen.larger else "race"):
        report.publish(name, console, chosen.results)


if __name__ == "__main__":
    main()
