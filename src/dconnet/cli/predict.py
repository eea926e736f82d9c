"""``dconnet predict``: predictions for the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dconnet.cli.shared import DataArgument, ForceOption, MaxBytesOption, ModelArgument, check_output, load, user_errors

if TYPE_CHECKING:
    from dconnet.io.ensemble import SavedEnsemble
    from dconnet.io.model_file import SavedModel
    from dconnet.io.tables import Frame, Table


def predict(
    model: ModelArgument,
    data: DataArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write. [default: standard output]")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="Add the ends of intervals that hold this share of the targets, for example 0.9."),
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add the probability of each class.")] = False,
    force: ForceOption = False,
    max_bytes: MaxBytesOption = None,
) -> None:
    """Predict the rows of a table.

    Columns are matched by name; other columns are ignored. The output has a column with the predictions, with a line
    for each row. Classifiers can add the probabilities of classes, and ensembles intervals.
    """
    with user_errors():
        from dconnet.io.tables import read_table, write_csv, write_rows

        if output is not None:
            check_output(output, force)
        columns = _predictions(load(model, max_bytes), read_table(data), coverage, probabilities)
        names, values = list(columns), list(columns.values())
        if output is None:
            write_rows(sys.stdout, names, values)
        else:
            write_csv(output, names, values)


def _frame(model: SavedModel | SavedEnsemble, table: Table) -> Frame:
    """The columns of a model, with the types of its training."""
    return table.frame(model.feature_names, model.column_kinds)


_INTERVALS = " Use --coverage instead of --probabilities."


def _predictions(
    model: SavedModel | SavedEnsemble, table: Table, coverage: float | None, probabilities: bool
) -> dict[str, Sequence[Any]]:
    """The columns of the output, by name."""
    from dconnet.io.model_file import SavedModel

    name = model.target_name
    if coverage is not None and model.classes is not None:
        raise ValueError(f"There are no intervals: {name} is a class. Use --probabilities instead of --coverage.")
    if coverage is not None and isinstance(model, SavedModel):
        raise ValueError("--coverage needs an ensemble, but the model is a single network. Fit without --single.")
    if probabilities and model.classes is None:
        raise ValueError(
            f"There are no classes: {name} is a number." + _INTERVALS * (not isinstance(model, SavedModel))
        )
    is_plain = isinstance(model, SavedModel) and model.encoding is None
    X: Any = table.numeric(model.feature_names, needed=True) if is_plain else _frame(model, table)
    names = model.names_of_targets if isinstance(model, SavedModel) else (name,)
    predicted = model.predict(X)
    lists = predicted.T.tolist() if len(names) > 1 else [predicted.tolist()]
    columns = {f"predicted_{own}": values for own, values in zip(names, lists, strict=True)}
    if coverage is not None and not isinstance(model, SavedModel):
        low, high = model.predict_interval(X, coverage)
        columns |= {f"low_{name}": low.tolist(), f"high_{name}": high.tolist()}
    if probabilities:
        shares = model.predict_proba(X).T.tolist()
        columns |= {f"probability_{label}": own for label, own in zip(model.classes or (), shares, strict=True)}
    return columns
