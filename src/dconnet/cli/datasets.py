"""``dconnet datasets``: the data of the paper."""

from __future__ import annotations

import typer

from dconnet.cli.shared import DataHomeOption, user_errors


def datasets(data_home: DataHomeOption = None) -> None:
    """List the datasets of the paper, and where their files are."""
    with user_errors():
        from dconnet.paper.commands import list_datasets

        lines = [("name", "data", "rows", "features", "in paper", "target", "files"), *list_datasets(data_home)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            typer.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
