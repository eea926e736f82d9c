"""Compare the auto estimators with other methods on numeric and real tables.

    python benchmarks/tabular.py [--sets ames ...] [--methods catboost ...] [--splits 5] [--jobs 1] [--smoke]
    python benchmarks/tabular.py --report [--ours catboost]
    python benchmarks/tabular.py --report --results docs/tabular --pack --page docs/tabular

Every cell, one method on one split of one dataset, is stored at once, so a run can be stopped and continued with the
same command. Split 0 of all datasets comes first, then split 1, and so on. A cell that fails stores its error; --again
computes failed or all chosen cells once more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from report import CONSOLE, OUTPUT, add_run_options, compute_cells
from reproduction.store import Result, Store
from tables.datasets import BY_NAME, MAX_SPLITS
from tables.methods import METHODS, OURS
from tables.page import write_page
from tables.runs import Cell, Settings, make_cells, run

SMOKE = {"sets": ("iris", "hitters"), "methods": ("lightgbm", "linear", "histogram"), "splits": 1}
REDO: dict[str | None, Callable[[Result], bool] | None] = {
    None: None,
    "failed": lambda result: "error" in result,
    "all": lambda result: True,
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=BY_NAME, metavar="NAME", default=tuple(BY_NAME))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=tuple(METHODS))
    parser.add_argument("--splits", type=int, default=MAX_SPLITS, help="splits of each dataset; large ones have fewer")
    parser.add_argument("--first-split", type=int, default=0, metavar="SPLIT", help="number of the first split")
    parser.add_argument("--again", choices=("failed", "all"), help="compute stored cells once more")
    parser.add_argument("--ours", choices=METHODS, default=OURS, help="the method compared with all others")
    parser.add_argument(
        "--page", type=Path, metavar="FOLDER", help="folder for tables and pictures of a page beside it"
    )
    parser.add_argument("--smoke", action="store_true", help="two small datasets, in seconds")
    add_run_options(parser)
    parser.set_defaults(results=OUTPUT / "tabular")
    if parser.parse_known_args()[0].smoke:
        parser.set_defaults(**SMOKE, results=OUTPUT / "tabular-smoke", ours="linear")
    return parser.parse_args()


def choose_cells(options: argparse.Namespace) -> list[Cell]:
    """Return the cells of the chosen grid; print which datasets and methods are left out."""
    datasets, methods = [BY_NAME[name] for name in options.sets], [METHODS[name] for name in options.methods]
    for one in (*datasets, *methods):
        if one.missing:
            CONSOLE.print(f"{one.name} is left out: {one.missing}.", style="yellow", highlight=False)
    splits = range(options.first_split, options.first_split + options.splits)
    return list(make_cells((d for d in datasets if not d.missing), (m for m in methods if not m.missing), splits))


def main() -> None:
    options = parse_arguments()
    store = Store(options.results, "cells")
    cells = [] if options.report else choose_cells(options)
    compute_cells(store, cells, run, options, REDO[options.again], Settings())
    if not store.records():
        sys.exit(f"There are no results in {options.results}.")
    folder = options.page or options.results
    write_page(store, folder, options.ours, links=f"{folder.name}/" if options.page else "")
    CONSOLE.print(f"Tables and pictures are in {folder}.", highlight=False)


if __name__ == "__main__":
    main()
