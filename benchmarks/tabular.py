"""Predict on tables, numeric and real ones, with the estimators that choose everything themselves and with rivals.

    python benchmarks/tabular.py [--sets ames ...] [--methods catboost ...] [--splits 5] [--jobs 1] [--smoke]
    python benchmarks/tabular.py --report [--ours catboost]
    python benchmarks/tabular.py --report --results docs/tabular --pack --page docs/tabular

Every cell, one method on one split of one dataset, is kept in a file of its own, so that a run can be stopped at any
time and goes on with the same command. Split 0 of all datasets comes first, then split 1, and so on. A cell that fails
keeps its error; --again computes such cells, or all that were chosen, once more.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

from rich.console import Console

from cells import add_run_options
from report import OUTPUT, make_console
from reproduction.processes import work_through
from reproduction.store import Store, key_of
from tables.datasets import BY_NAME, DATASETS, MOST_SPLITS
from tables.methods import METHODS, OURS
from tables.page import write
from tables.runs import Cell, Settings, cells, compute

NAME = "cells"
SMOKE = {"sets": ("iris", "hitters"), "methods": ("lightgbm", "linear", "histogram"), "splits": 1}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=BY_NAME, metavar="NAME", default=tuple(BY_NAME))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=tuple(METHODS), help="who predicts")
    parser.add_argument("--splits", type=int, default=MOST_SPLITS, help="splits of each dataset; large ones have fewer")
    parser.add_argument("--first-split", type=int, default=0, metavar="SPLIT", help="number of the first of them")
    parser.add_argument("--again", choices=("failed", "all"), help="compute cells that are there once more")
    parser.add_argument(
        "--ours", choices=METHODS, default=OURS, help="whose results the tables compare with the others"
    )
    parser.add_argument(
        "--page", type=Path, metavar="FOLDER", help="write tables and pictures there, for a page beside the folder"
    )
    parser.add_argument("--pack", action="store_true", help="collect all cells in one file")
    parser.add_argument("--smoke", action="store_true", help="two small datasets, in seconds")
    add_run_options(parser, "tabular")
    if parser.parse_known_args()[0].smoke:
        parser.set_defaults(**SMOKE, results=OUTPUT / "tabular-smoke", ours="linear")
    return parser.parse_args()


def waiting(store: Store, chosen: argparse.Namespace, console: Console) -> list[Cell]:
    """The cells to compute; what cannot take part here is told."""
    kept = {
        key
        for key, record in store.records().items()
        if chosen.again is None or (chosen.again == "failed" and "error" not in record["result"])
    }
    for name, what in [(n, BY_NAME[n]) for n in chosen.sets] + [(n, METHODS[n]) for n in chosen.methods]:
        if what.missing:
            console.print(f"{name} is left out: {what.missing}.", style="yellow", highlight=False)
    datasets = [dataset for dataset in DATASETS if dataset.name in chosen.sets and not dataset.missing]
    methods = [METHODS[name] for name in chosen.methods if not METHODS[name].missing]
    splits = range(chosen.first_split, chosen.first_split + chosen.splits)
    return [cell for cell in cells(datasets, methods, splits) if key_of(cell) not in kept]


def run(store: Store, chosen: argparse.Namespace, console: Console) -> None:
    """Compute what is missing."""
    store.claim(Settings())
    todo = waiting(store, chosen, console)
    try:
        failures = work_through(partial(compute, store=store), todo, chosen.jobs, console)
    except KeyboardInterrupt:
        sys.exit("Interrupted. What was computed is kept; the same command goes on from there.")
    if failures:
        sys.exit("\n".join(f"failed: {failure}" for failure in failures))


def main() -> None:
    chosen = arguments()
    console = make_console()
    store = Store(chosen.results, NAME)
    if not chosen.report:
        run(store, chosen, console)
    if chosen.pack:
        store.pack()
    if not store.records():
        sys.exit(f"There are no results in {chosen.results}.")
    folder = chosen.page or chosen.results
    write(store, folder, chosen.ours, links=f"{folder.name}/" if chosen.page else "")
    console.print(f"Tables and pictures are in {folder}.", highlight=False)


if __name__ == "__main__":
    main()
