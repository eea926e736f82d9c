"""What the commands do with ensembles: training, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer

from dconnet._text import printable
from dconnet.cli.shared import fit_until_interrupted, print_score, print_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dconnet.io.ensemble import SavedEnsemble
    from dconnet.io.tables import Frame

# Of more columns than this, those that need no remark are only counted.
MAX_COLUMNS = 30
PLAIN = "as it is"


@dataclass(frozen=True, slots=True, eq=False)
class TrainedEnsemble:
    """An ensemble, how long its training took, and whether an interrupt has cut it short."""

    model: SavedEnsemble
    seconds: float
    interrupted: bool


def trained(
    X: Frame,
    y: NDArray[Any],
    train: NDArray[Any],
    test: NDArray[Any],
    target: str,
    classify: bool,
    parameters: dict[str, Any],
) -> TrainedEnsemble:
    """Train on some rows, and score the others."""
    from dconnet.estimators import AutoDCONClassifier, AutoDCONRegressor
    from dconnet.io.ensemble import SavedEnsemble
    from dconnet.io.model_file import Score

    estimator = (AutoDCONClassifier if classify else AutoDCONRegressor)(**parameters)
    begin = perf_counter()
    interrupted = fit_until_interrupted(estimator, X.rows(train), y[train])
    seconds = perf_counter() - begin
    model = SavedEnsemble.from_estimator(estimator, feature_names=X.columns, target_name=target)
    if len(test):
        model = model.with_scores({"test": Score.of(model, X.rows(test), y[test])})
    return TrainedEnsemble(model, seconds, interrupted)


def report(found: TrainedEnsemble, output: Path) -> None:
    """Print what was done and reached."""
    model = found.model
    print_parts(summary(model))
    typer.echo()
    for name, score in model.scores.items():
        print_score(name, score)
    part = "the training part of the data" if "test" in model.scores else "all the data"
    ended = "Interrupted after" if found.interrupted else "Trained in"
    typer.echo(f"{ended} {found.seconds:.1f} s. The model, trained on {part}, is in {output}.")


def summary(model: SavedEnsemble) -> dict[str, Any]:
    """The columns, with their importances, and the members of an ensemble, as plain values."""
    return {"columns": model.columns, "members": [dict(member) for member in model.estimator.members_]}


def print_parts(parts: dict[str, Any]) -> None:
    """Print the columns and the members of a summary as tables."""
    typer.echo()
    _print_columns(parts["columns"])
    typer.echo()
    _print_members(parts["members"])


def _print_columns(columns: Sequence[dict[str, Any]]) -> None:
    shown = list(columns)
    if len(columns) > MAX_COLUMNS:
        shown = [column for column in columns if column["treatment"] != PLAIN]
    lines = [
        (printable(c["column"]), c["kind"], printable(c["treatment"]), f"{100.0 * c['importance']:.1f} %")
        for c in shown
    ]
    if lines:
        print_table([("column", "kind", "what was done", "importance"), *lines], numbers=(3,))
    if len(shown) < len(columns):
        typer.echo(f"{len(columns) - len(shown)} other columns are numbers and used as they are.")


def _print_members(members: Sequence[dict[str, Any]]) -> None:
    from dconnet.io.ensemble import with_weight

    used = with_weight(members)
    lines = [
        (m["family"], m["kind"], f"{m['gamma']:g}", str(m["n_hidden"]), f"{m['oof_error']:.5g}", f"{m['weight']:.3f}")
        for m in used
    ]
    print_table([("member", "learns", "gamma", "neurons", "error", "weight"), *lines], numbers=(2, 3, 4, 5))
    if len(used) < len(members):
        typer.echo(f"{len(members) - len(used)} other members got no weight.")
