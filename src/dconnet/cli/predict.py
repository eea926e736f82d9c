"""``dconnet predict``: predictions for the rows of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dconnet.cli.shared import DataArgument, ForceOption, MaxBytesOption, ModelArgument, check_output, load, user_errors


def predict(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write. [default: standard output]")
    ] = None,
    force: ForceOption = False,
    max_bytes: MaxBytesOption = None,
) -> None:
    """Predict the rows of a table.

    Columns are matched by name; other columns are ignored. The output has one column, with a line for each row.
    """
    with user_errors():
        from dconnet.persistence.tables import read_table, write_csv, write_rows

        if output is not None:
            check_output(output, force)
        loaded = load(model, max_bytes)
        X = read_table(data).numeric(loaded.feature_names, needed=True)
        names, columns = [f"predicted_{loaded.target_name}"], [loaded.predict(X).tolist()]
        if output is None:
            write_rows(sys.stdout, names, columns)
        else:
            write_csv(output, names, columns)
