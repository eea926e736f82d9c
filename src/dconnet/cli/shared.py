"""Arguments, checks and messages that the commands have in common."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dconnet._text import printable

if TYPE_CHECKING:
    from dconnet.io.ensemble import SavedEnsemble
    from dconnet.io.model_file import SavedModel, Score

USER_ERROR = 2
INTERRUPTED = 130  # 128 + SIGINT, as in shells

DataArgument = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="CSV (first line: column names) or Parquet file; - for standard input."),
]
# readable=False leaves the check to the opening of the file, whose error is one line.
ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", readable=False, help="Model file written by dconnet fit.")
]
MaxBytesOption = Annotated[
    int | None, typer.Option(min=1, help="Largest model file to read. [default: 33554432, which is 32 MiB]")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
DataHomeOption = Annotated[
    Path | None,
    typer.Option("--data-home", help="Folder of the raw data files. [default: $DCONNET_DATA, or the user's cache]"),
]


def load(path: Path, max_bytes: int | None) -> SavedModel | SavedEnsemble:
    """The model of a file."""
    from dconnet.io.model_file import MAX_BYTES, load_model

    return load_model(path, max_bytes=MAX_BYTES if max_bytes is None else max_bytes)


def fit_until_interrupted(estimator: Any, X: Any, y: Any) -> bool:
    """Fit an estimator; return whether Ctrl-C ended it, with networks to keep."""
    from sklearn.exceptions import ConvergenceWarning

    from dconnet.estimators.tables import MixedColumnWarning

    with warnings.catch_warnings():
        # The report says how the training ended, and slips were told with their lines.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", MixedColumnWarning)
        try:
            estimator.fit(X, y)
        except KeyboardInterrupt:
            if not estimator.__sklearn_is_fitted__():
                raise
            return True
    return False


def check_output(output: Path, force: bool) -> None:
    """Refuse an output that cannot be written, before the work and not after it."""
    from dconnet.io.files import is_stream

    if str(output) == "-":
        raise ValueError("The output cannot be '-'. Name a file, or /dev/stdout.")
    if output.is_dir():
        raise ValueError(f"{output} is a folder. Name a file.")
    if output.is_file() and not force:
        raise ValueError(f"{output} exists already. Name another file, or replace it with --force.")
    if is_stream(output):
        return
    folder = output.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"The folder of {output} does not exist.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"The folder of {output} cannot be written to.")


def counted(count: int, noun: str) -> str:
    """A number of things, such as "1 row" or "2 rows"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def print_table(lines: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> None:
    """Print lines of cells below each other, those of the columns with ``numbers`` to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            text.rjust(width) if place in numbers else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())


def shortened(values: Sequence[object], limit: int = 12) -> str:
    """Values on one line, of which those beyond the limit are only counted."""
    listed = ", ".join(printable(value) for value in values[:limit])
    return listed if len(values) <= limit else f"{listed} and {len(values) - limit} more"


def print_score(part: str, score: Score, targets: Sequence[str] = ()) -> None:
    """Print a score on one line; of several targets, one more for each."""
    typer.echo(f"{printable(part)}: {_measures(score)} on {counted(score.rows, 'row')}")
    for name, own in zip(targets, score.each, strict=False):  # there is none of a single target
        typer.echo(f"  {printable(name)}: {_measures(own)}")


def _measures(score: Score) -> str:
    titles = {"mse": "MSE", "r2": "R2", "accuracy": "accuracy", "log_loss": "log loss"}
    kind = "mean " if score.each else ""
    return ", ".join(f"{kind}{titles[name]} {value:.6g}" for name, value in score.measures.items()) or "no score"


@contextmanager
def user_errors() -> Iterator[None]:
    """Report warnings, and errors that the user can correct, as one line each on standard error."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        except BrokenPipeError:
            raise  # the reader of the output has stopped: not an error of the user
        except OSError as error:
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error), error)
        except (ValueError, ImportError, OverflowError) as error:
            _fail(str(error), error)
        except KeyboardInterrupt:
            # During the training, fit keeps what was reached; this interrupt came before or after it.
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(INTERRUPTED) from None


def complain(kind: str, message: object) -> None:
    """Print one line on standard error."""
    typer.echo(f"{kind}: {printable(' '.join(str(message).split()))}", err=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    complain("warning", message)


def _fail(message: str, error: Exception) -> NoReturn:
    complain("Error", message)
    raise typer.Exit(USER_ERROR) from error
