"""What ``python -m reproduction`` and ``python -m reproduction datasets`` do."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console

from dconnet._files import write_atomically
from reproduction.datasets import CATALOGUE, data_home
from reproduction.datasets.files import is_present
from reproduction.experiment import NAMES, Experiment, adjusted, compute, get_experiment
from reproduction.store import Store

ALL = "all"
RENDER = "render"
PAGE = "reproduction.md"

INTRODUCTION = f"""# Reproduction of the paper

Every table and figure of the paper's experiments, computed by `python -m reproduction`, with the numbers of the paper
beside ours. On this page, «printed» is what the paper reports, and «Algorithm 1» is our run of its algorithm;
«accelerated» is the default of this package. A dash marks what was not computed or not printed.

```console
$ make venv
$ python -m reproduction datasets                    # what there is of the data, and where
$ python -m reproduction table1 --quick    # a small version, in minutes
$ python -m reproduction all --jobs 2      # everything; hours
$ python -m reproduction render            # this page from the results that are there
```

The experiments are {", ".join(f"`{name}`" for name in NAMES)}.
The raw files of the data are looked for in the folder `--data-home` or `DCONNET_DATA`, and are downloaded if they are
not there; a file whose checksum is not the published one is not read. Every cell of an experiment is one file in the
folder `--results`. A run that was stopped goes on from there, and `--pack` collects the files of each experiment in
one. `--set splits=10` and the like compute less: fewer splits, datasets or widths are fewer of the same cells. Other
limits or grids, as in `--set max_epochs=300`, are other results, which a folder does not mix.

Choices where the paper leaves something open, all of them parameters: the target of DS5 is the total number of
interactions; DS6 has the economic variables of lag 4 alone; scalers learn from all rows before the split, in the order
in which the paper tells it; every network starts from the same random weights for all methods; Adam has no more than
1000 epochs, an L2 penalty on both layers of weights but not on intercepts, and ends with the weights of the least
loss on validation data, which includes the penalty as in Keras; MNIST has 30 neurons a digit, and pixels that are
averages over areas.

The penalties of DCON and Adam have different units. A neuron can be scaled, `w` and `b` by `s` and `alpha` by `1/s`,
without a change of what the network computes. Where that is done for the least penalty, DCON's is `2 gamma / sqrt(m)`
times the sum of `|alpha|` times the root mean square of the preactivation over the `m` rows, and Adam's is `2 p` times
the sum of `|alpha|` times the length of `w`. So `gamma` acts like `gamma / sqrt(m)` in the place of `p`: with the 167
to 726 training rows of the nine datasets, the strongest penalty in the paper's grid for DCON, 0.01, acts like 0.0004 to
0.0008, and is weaker than the weakest in its grid for Adam, 0.001.

The numbers of covariates in the paper's list of datasets are those of the raw files, not those that its preprocessing
leaves; `python -m reproduction datasets` lists both. Its 297 training rows of DS7 do not follow from its split either:
80 % of 414 rows are 331, and 297 are those of DS6."""


@dataclass(frozen=True)
class Order:
    """What the user asked for.

    Attributes
    ----------
    name : str
        An experiment, "all" for every one, or "render" for the page alone.
    quick : bool
        Whether to compute the small version.
    jobs : int
        Processes.
    results : Path
        Folder of the results.
    home : Path or None
        Folder of the raw data.
    changes : sequence of str
        Changes of plan and settings, each as NAME=VALUE with the value in JSON.
    pack : bool
        Whether to move the cells into one file an experiment at the end.
    page : Path or None
        The page to write.
    """

    name: str
    quick: bool = False
    jobs: int = 1
    results: Path = Path("reproduction")
    home: Path | None = None
    changes: Sequence[str] = ()
    pack: bool = False
    page: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the results go; those of quick runs stand apart."""
        return self.results / "quick" if self.quick else self.results


def reproduce(order: Order, console: Console) -> list[str]:
    """Compute what is missing and write the page; return a line for each cell that failed."""
    experiments = [get_experiment(name) for name in _names(order.name)]
    changes = _changes(order.changes, experiments)
    if order.name == RENDER and not order.folder.is_dir():
        raise ValueError(
            f"There is nothing to render: no folder {order.folder}. Name that of the results by --results."
        )
    failures = []
    try:
        for experiment in experiments if order.name != RENDER else []:
            plan, settings = (adjusted(part, changes) for part in experiment.defaults(order.quick))
            home = data_home(order.home)
            failures += compute(experiment, plan, settings, order.folder, home, order.jobs, console)
    finally:
        # After Ctrl-C too: what is there is worth showing.
        if order.folder.is_dir():
            console.print(f"The page is {render(order.folder, order.page)}.")
    if order.pack:
        for experiment in experiments:
            Store(order.folder, experiment.name).pack()
    return failures


def grouped(failures: Sequence[str]) -> list[str]:
    """One line for each kind of failure, with the first cell that met it.

    Examples
    --------
    >>> from reproduction.commands import grouped
    >>> grouped(["Cell(1): ImportError: no torch", "Cell(2): ImportError: no torch"])
    ['2 cells, the first of them Cell(1): ImportError: no torch']
    """
    kinds: dict[str, list[str]] = {}
    for failure in failures:
        cell, _, reason = failure.partition(": ")
        kinds.setdefault(reason, []).append(cell)
    return [
        f"{len(cells)} cells, the first of them {cells[0]}: {reason}" if len(cells) > 1 else f"{cells[0]}: {reason}"
        for reason, cells in kinds.items()
    ]


def render(folder: Path, page: Path | None = None) -> Path:
    """Write tables, pictures and the page of all experiments that have results in the folder."""
    page = page or folder / PAGE
    sections = []
    for name in NAMES:
        section = get_experiment(name).section(folder)
        section.parts += _remarks(folder, name)
        section.save(folder)
        sections.append(section)
    prefix = "" if folder.resolve() == page.resolve().parent else f"{os.path.relpath(folder, page.parent)}/"
    with write_atomically(page) as file:
        file.write(
            "\n\n".join(
                [
                    INTRODUCTION,
                    *_remarks(folder, "remarks"),
                    *(section.markdown(prefix) for section in sections),
                    *_remarks(folder, "left"),
                ]
            )
            + "\n"
        )
    return page


def _remarks(folder: Path, name: str) -> list[str]:
    """What someone has written about the results, in a Markdown file beside them."""
    path = folder / f"{name}.md"
    return [path.read_text(encoding="utf-8").strip()] if path.is_file() else []


def list_datasets(home: Path | None) -> list[tuple[str, ...]]:
    """Name, content, shape, target and place of every dataset."""
    folder = data_home(home)
    lines: list[tuple[str, ...]] = []
    for entry in CATALOGUE.values():
        place = str(folder / Path(entry.files[0].path).parent) if is_present(entry.name, folder) else "missing"
        raw = "" if entry.printed_columns is None else str(entry.printed_columns)
        lines.append((entry.name, entry.title, str(entry.rows), str(entry.columns), raw, entry.target, place))
    return lines


def _names(name: str) -> tuple[str, ...]:
    return NAMES if name in (ALL, RENDER) else (name,)


def _changes(texts: Sequence[str], experiments: Sequence[Experiment]) -> dict[str, Any]:
    """Changes of plan and settings; each must be known to one of the experiments at least."""
    parts = [part for experiment in experiments for part in experiment.defaults(False)]
    known = {f.name for part in parts for f in fields(part)}
    changes = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in known:
            raise ValueError(f"There is no setting {name!r}. Choose one of {', '.join(sorted(known))}.")
        changes[name] = _value(text, value)
    return changes


def _value(text: str, value: str) -> Any:
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        raise ValueError(
            f'{text!r} is not of the form NAME=VALUE with a value in JSON, such as splits=10 or datasets=["DS1"].'
        ) from None
    return tuple(parsed) if isinstance(parsed, list) else parsed
