"""The command line: ``dconnet fit | predict | inspect | export``.

There is a module for each command. Everything heavy is imported inside the commands, so that ``dconnet --help`` answers
at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dconnet import __version__
from dconnet.cli import export, fit, inspect, predict

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="One-hidden-layer ReLU networks, trained to convergence without a learning rate.",
)
for command in (fit.fit, predict.predict, inspect.inspect, export.export):
    app.command()(command)


def main() -> None:
    """Entry point of the command ``dconnet``."""
    app(prog_name="dconnet")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dconnet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
