"""``dconnet datasets``: the data of the paper."""

from __future__ import annotations

from dconnet.cli.shared import DataHomeOption, print_table, user_errors


def datasets(data_home: DataHomeOption = None) -> None:
    """List the datasets of the paper, and where their files are."""
    with user_errors():
        from dconnet.paper.commands import list_datasets

        lines = [("name", "data", "rows", "features", "in paper", "target", "files"), *list_datasets(data_home)]
        print_table(lines)
