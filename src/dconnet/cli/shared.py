"""Arguments, checks and messages that the commands share."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dconnet._text import count, printable

if TYPE_CHECKING:
    import pandas as pd

USER_ERROR = 2
INTERRUPTED, TERMINATED = 130, 143  # 128 + SIGINT and + SIGTERM, as in shells
MEASURES = {"mse": "MSE", "r2": "R2", "accuracy": "accuracy", "log_loss": "log loss"}


class CommandParser(argparse.ArgumentParser):
    """A parser without abbreviated options, whose errors are one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        complain("Error", f"{message}. See {self.prog} --help.")
        sys.exit(USER_ERROR)


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Declare how a CSV file is read."""
    group = parser.add_argument_group("CSV files")
    group.add_argument(
        "--sep", dest="separator", help="between cells [default: the comma, semicolon, tab or bar that fits]"
    )
    group.add_argument("--encoding", help="for example latin-1 [default: UTF-8, or by the byte order mark]")
    group.add_argument("--decimal", default=".", help="decimal point of the numbers [default: .]")


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Declare the table, its target, and what every fit needs."""
    add = parser.add_argument
    add("data", metavar="DATA", help="CSV, Parquet or Excel file; - for the standard input")
    add("--target", action="append", required=True, metavar="COL", help="column to predict; repeatable with --single")
    add(
        "--task",
        choices=("auto", "regression", "classification"),
        default="auto",
        help="auto: classification for text and for two whole numbers such as 0 and 1, else regression",
    )
    add("--drop", action="append", default=[], metavar="COL", help="column to leave out; repeatable")
    add("--seed", type=int, default=0, help="random seed of fits and splits [default: 0]")
    add("--jobs", type=int, default=1, help="number of threads; -1 for all cores [default: 1]")
    add_table_options(parser)


def read_table(options: argparse.Namespace) -> pd.DataFrame:
    """Read the table that the command line names."""
    from dconnet.io import table_files

    separator = {None: None, "tab": "\t", "\\t": "\t"}.get(options.separator, options.separator)
    if (separator is not None and len(separator) != 1) or len(options.decimal) != 1:
        raise ValueError("--sep and --decimal are one character each. Write tab for a tab.")
    return table_files.read_table(options.data, separator=separator, encoding=options.encoding, decimal=options.decimal)


def source_name(path: str) -> str:
    """Return the name of a table for messages."""
    return "the standard input" if path == "-" else Path(path).name


def check_output(output: Path, force: bool) -> None:
    """Refuse an output that cannot be written, before the work and not after it."""
    from dconnet._files import is_stream

    if str(output) == "-":
        raise ValueError("The output cannot be '-'. Name a file, or /dev/stdout.")
    if output.is_dir():
        raise ValueError(f"{output} is a folder. Name a file.")
    if output.is_file() and not force:
        raise ValueError(f"{output} exists already. Name another file, or replace it with --force.")
    folder = output.resolve().parent
    if not is_stream(output) and not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ValueError(f"The folder of {output} does not exist or cannot be written to. Name another file.")


def has_numbers_only(table: pd.DataFrame) -> bool:
    """Return whether every cell of a table is a plain number."""
    import numpy as np

    from dconnet.encoding.cell_formats import PLAIN
    from dconnet.encoding.columns import as_numbers, infer_type, read_columns

    return all(
        infer_type(raw) == ("number", PLAIN) and not np.isnan(as_numbers(raw)).any() for raw in read_columns(table)
    )


def takes_numbers(estimator: Any) -> bool:
    """Return whether an estimator takes numbers alone, neither text nor missing values."""
    from sklearn.utils import get_tags

    return not get_tags(estimator[0] if hasattr(estimator, "steps") else estimator).input_tags.allow_nan


def numbers_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose cells are numbers as floats; refuse missing values."""
    import numpy as np

    from dconnet.encoding.columns import as_numbers, read_columns

    numbers = {raw.name: as_numbers(raw) for raw in read_columns(table)}
    for name, values in numbers.items():
        if np.isnan(values).any():
            raise ValueError(
                f"Column {name!r}, row {int(np.isnan(values).argmax()) + 1}: the value is missing, but the model was "
                "trained without missing values. Fill in the column or drop the row."
            )
    return type(table)(numbers)


def as_features(estimator: Any, table: pd.DataFrame) -> Any:
    """Return the columns that an estimator takes, in its order and form."""
    from dconnet.io.model_file import metadata_of
    from dconnet.io.table_files import require_columns

    names = list(metadata_of(estimator).feature_names)
    require_columns(table, names)
    chosen = numbers_table(table[names]) if takes_numbers(estimator) else table[names]
    first = estimator[0] if hasattr(estimator, "steps") else estimator
    return chosen if hasattr(first, "feature_names_in_") else chosen.to_numpy()


def join(values: Sequence[object], limit: int = 12) -> str:
    """Return values on one line; those beyond the limit are only counted."""
    text = ", ".join(printable(value) for value in values[:limit])
    return text if len(values) <= limit else f"{text} and {len(values) - limit} more"


def print_table(lines: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> None:
    """Print rows of cells in aligned columns; the columns with these ``numbers`` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            text.rjust(width) if place in numbers else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def print_scores(scores: Mapping[str, Mapping[str, float]]) -> None:
    """Print the measures of each part of the data on one line."""
    for part, measures in scores.items():
        shown = [f"{title} {measures[name]:.6g}" for name, title in MEASURES.items() if name in measures]
        rows = f" on {count(int(measures['n_rows']), 'row')}" if measures.get("n_rows") else ""
        print(f"{printable(part)}: {', '.join(shown) or 'no score'}{rows}")


def complain(kind: str, message: object) -> None:
    """Print one line on standard error."""
    if sys.stderr is not None:  # print would take the standard output instead
        print(f"{kind}: {printable(' '.join(str(message).split()))}", file=sys.stderr)


@contextmanager
def report_errors() -> Iterator[None]:
    """Print warnings, and errors that the user can correct, as one line each on standard error."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain("warning", message)
        try:
            yield
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:  # the reader of the output has stopped, as head does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
            sys.exit(1)
        except OSError as error:
            complain("Error", f"{error.filename or 'standard output'}: {error.strerror or error}")
            sys.exit(USER_ERROR)
        except (ValueError, TypeError, ImportError, OverflowError) as error:
            complain("Error", error)
            sys.exit(USER_ERROR)
        except KeyboardInterrupt:
            # During the training, fit keeps what was reached; this interrupt came before or after it.
            complain("Error", "Interrupted.")
            sys.exit(INTERRUPTED)
