"""``dconnet reproduce``: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dconnet.cli.shared import USER_ERROR, DataHomeOption, complain, user_errors


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="An experiment; all; or render, to write the page from what is there.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small version, in the subfolder quick of the results.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Number of processes, each with one thread.")] = 1,
    results: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("reproduction"),
    data_home: DataHomeOption = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help='Change a setting: splits=10, datasets=["DS1"]. Repeatable.'),
    ] = None,
    pack: Annotated[
        bool, typer.Option("--pack", help="Move the results of each experiment into one file at the end.")
    ] = False,
    page: Annotated[Path | None, typer.Option(help="Page to write. [default: reproduction.md in the folder]")] = None,
) -> None:
    """Repeat an experiment of the paper.

    The experiments are table1, controls, scalers, baselines, convergence, assumptions, mnist, solvers, proximal,
    runtime, overparameterised and overregularised.
    Every result is saved as soon as it is computed. A run that was stopped continues where it stopped.
    """
    with user_errors():
        from rich.console import Console

        from dconnet.paper.commands import Order, grouped
        from dconnet.paper.commands import reproduce as run

        order = Order(name, quick, jobs, results, data_home, change or (), pack, page)
        failures = run(order, Console(stderr=True))
        for failure in grouped(failures):
            complain("Failed", failure)
        if failures:
            raise typer.Exit(USER_ERROR)
