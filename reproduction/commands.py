"""The command line ``python -m reproduction``: run experiments, write the page, list the data.

Every result is stored as soon as it is computed. A run that was stopped continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console

from dconnet._files import write_atomically
from reproduction.datasets import CATALOGUE, data_home, is_present
from reproduction.experiment import NAMES, Experiment, apply_changes, compute, get_experiment
from reproduction.store import Store

ALL, RENDER, DATASETS = "all", "render", "datasets"


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
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("docs/reproduction"),
        help="folder of the results; the page is the file of this name with the ending .md beside it",
    )
    parser.add_argument("--data-home", type=Path, help="folder of the raw data [default: DCONNET_DATA]")
    parser.add_argument(
        "--set", dest="changes", action="append", default=[], metavar="NAME=VALUE", help='a setting: datasets=["DS1"]'
    )
    parser.add_argument("--pack", action="store_true", help="move the results of each experiment into one file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = parse_arguments(arguments)
    if options.name == DATASETS:
        print("name\tdata\trows\tfeatures\tin paper\ttarget\tfiles")
        for line in list_datasets(data_home(options.data_home)):
            print("\t".join(line))
        return 0
    try:
        failures = reproduce(options, Console(stderr=True))
    except (ValueError, OSError, ImportError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    for failure in failures:
        print(f"Failed: {failure}", file=sys.stderr)
    return 2 if failures else 0


def reproduce(options: argparse.Namespace, console: Console) -> list[str]:
    """Compute missing cells and write the page; return a line for each cell that failed."""
    names = NAMES if options.name in (ALL, RENDER) else (options.name,)
    experiments = [get_experiment(name) for name in names]
    changes = parse_changes(options.changes, experiments)
    folder = options.results / "quick" if options.quick else options.results
    if options.name == RENDER and not folder.is_dir():
        raise ValueError(f"There is nothing to render: no folder {folder}. Name that of the results by --results.")
    failures = []
    try:
        for experiment in experiments if options.name != RENDER else []:
            plan, settings = (apply_changes(part, changes) for part in experiment.defaults(options.quick))
            home = data_home(options.data_home)
            failures += compute(experiment, plan, settings, folder, home, options.jobs, console)
    finally:
        # After Ctrl-C, too, the page shows what is stored.
        if folder.is_dir():
            console.print(f"The page is {render(folder)}.")
    if options.pack:
        for name in names:
            Store(folder, name).pack()
    return failures


def render(folder: Path) -> Path:
    """Write tables and pictures into the folder of the results, and the page of all experiments beside the folder.

    Files NAME.md in the folder are the texts of the experiments; a line {tables} separates what stands above and below
    the tables. summary.md and left.md begin and end the page.
    """

    def read(name: str) -> str:
        path = folder / f"{name}.md"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    texts = ["# Reproduction of the paper", read("summary")]
    for name in NAMES:
        section = get_experiment(name).section(folder)
        above, _, below = read(name).partition("{tables}")
        section.parts = [above.strip(), *section.parts, below.strip()]
        section.save(folder)
        texts.append(section.markdown(f"{folder.name}/"))
    texts.append(read("left"))
    page = folder.parent / f"{folder.name}.md"
    with write_atomically(page) as file:
        file.write("\n\n".join(text.strip() for text in texts if text) + "\n")
    return page


def list_datasets(home: Path) -> list[tuple[str, ...]]:
    """Return name, content, shape, printed number of columns, target and folder of every dataset."""
    lines: list[tuple[str, ...]] = []
    for entry in CATALOGUE.values():
        place = str(home / Path(entry.files[0].path).parent) if is_present(entry.name, home) else "missing"
        in_paper = "" if entry.printed_columns is None else str(entry.printed_columns)
        lines.append((entry.name, entry.title, str(entry.rows), str(entry.columns), in_paper, entry.target, place))
    return lines


def parse_changes(texts: Sequence[str], experiments: Sequence[Experiment]) -> dict[str, Any]:
    """Parse NAME=VALUE with values in JSON; each name must be a field of a plan or of settings."""
    parts = [part for experiment in experiments for part in experiment.defaults(False)]
    known = {f.name for part in parts for f in fields(part)}
    changes = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in known:
            raise ValueError(f"There is no setting {name!r}. Choose one of {', '.join(sorted(known))}.")
        try:
            parsed = json.loads(value)
        except json.JSONDecodeError:
            raise ValueError(
                f'{text!r} is not of the form NAME=VALUE with a value in JSON, such as splits=10 or datasets=["DS1"].'
            ) from None
        changes[name] = tuple(parsed) if isinstance(parsed, list) else parsed
    return changes
