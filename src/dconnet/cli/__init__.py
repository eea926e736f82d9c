"""The command line: ``dconnet fit | predict | inspect | compare | export``.

Each command is a module with ``add_parser``, which declares the options, and ``run``. Everything heavy is imported
inside ``run``, so that ``dconnet --help`` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dconnet import __version__
from dconnet.cli import compare, export, fit, inspect, predict
from dconnet.cli.shared import CommandParser, report_errors

__all__ = ["main"]

COMMANDS = (fit, predict, inspect, compare, export)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command ``dconnet`` and exit with its code.

    The code is 0, 2 for an error of the user, 130 after Ctrl-C, or 143 after SIGTERM during a fit with a checkpoint.
    """
    parser = CommandParser(
        prog="dconnet", description="One-hidden-layer ReLU networks, trained to convergence without a learning rate."
    )
    parser.add_argument("--version", action="version", version=f"dconnet {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for command in COMMANDS:
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        parser.print_help()
        sys.exit(2)
    with report_errors():
        sys.exit(options.run(options))
