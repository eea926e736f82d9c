"""Repeat the experiments of the paper: ``python -m reproduction table1``.

Every result is saved as soon as it is computed. A run that was stopped continues where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from reproduction.commands import ALL, RENDER, Order, grouped, list_datasets, reproduce
from reproduction.experiment import NAMES

DATASETS = "datasets"


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument(
        "name",
        choices=[*NAMES, ALL, RENDER, DATASETS],
        help=f"an experiment; {ALL}; {RENDER}, to write the page from stored results; {DATASETS}, to list the data",
    )
    parser.add_argument("--quick", action="store_true", help="run a small version into the subfolder quick")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="number of processes, each with one thread")
    parser.add_argument("--results", type=Path, default=Path("docs/reproduction"), help="folder of the results")
    parser.add_argument("--data-home", type=Path, help="folder of the raw data [default: DCONNET_DATA]")
    parser.add_argument(
        "--set", dest="changes", action="append", default=[], metavar="NAME=VALUE", help='a setting: datasets=["DS1"]'
    )
    parser.add_argument("--pack", action="store_true", help="move the results of each experiment into one file")
    parser.add_argument("--page", type=Path, help="page to write [default: reproduction.md in the folder]")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse_arguments(arguments)
    if options.name == DATASETS:
        header = ("name", "data", "rows", "features", "in paper", "target", "files")
        for line in [header, *list_datasets(options.data_home)]:
            print("\t".join(line))
        return 0
    order = Order(
        options.name,
        options.quick,
        options.jobs,
        options.results,
        options.data_home,
        options.changes,
        options.pack,
        options.page,
    )
    try:
        failures = reproduce(order, Console(stderr=True))
    except (ValueError, OSError, ImportError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    for failure in grouped(failures):
        print(f"Failed: {failure}", file=sys.stderr)
    return 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
