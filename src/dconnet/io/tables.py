"""Tables of named columns: read from CSV or Parquet, turned into matrices, written as CSV.

CSV is read with the standard library, so that the command line needs neither pandas nor pyarrow, and so that a faulty
cell is reported with its line.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.columns import RawColumn, raw_columns
from dconnet.io.files import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

STANDARD_INPUT = "-"
DELIMITERS = (",", ";", "\t")
PARQUET_SUFFIXES = (".parquet", ".pq")
PARQUET_MAGIC = b"PAR1"

# A number takes eight bytes and its text seven times as much: cells are converted chunk by chunk.
CHUNK_ROWS = 8192

# What float() takes for a number, but a table does not: 1_0 is a name, and 01 a code that is not the same as 1.
NAMES = re.compile(r"_|^\s*[+-]?0\d+\s*$", re.MULTILINE)

# Dates as ISO 8601 has them, with or without a time; and what stands in a table for a number or a date that is missing.
DATES = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
GAPS = frozenset({"na", "n/a", "#n/a", "nan", "nat", "null", "none", "?", "-"})

TextArray: TypeAlias = NDArray[np.object_]
Column: TypeAlias = FloatArray | TextArray
Fault: TypeAlias = tuple[str, str]  # what is wrong with a cell, and how to correct it


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Named columns of equal length.

    Attributes
    ----------
    names : tuple of str
        Names of the columns, all different.
    columns : tuple of arrays of shape (n_rows,)
        float64 if every cell is a number or missing (NaN); otherwise objects, with None for a missing cell.
    source : str
        Name of the file, for messages.
    lines : array of shape (n_rows,), optional
        Line of the text file on which each row begins.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.io.tables import Table
    >>> table = Table(("height", "kind"), (np.array([1.5, 2.0]), np.array(["a", "b"], dtype=object)))
    >>> table.numeric(["height"])
    array([[1.5],
           [2. ]])
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    source: str = "the table"
    lines: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        require_columns(self.source, self.names, self.names)
        if len(self.names) != len(self.columns) or len({len(column) for column in self.columns}) > 1:
            raise ValueError(f"{self.source}: every name needs one column, all of the same length.")
        if self.n_rows == 0:
            raise ValueError(f"{self.source} has no rows below its column names.")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0]) if self.columns else 0

    def column(self, name: str) -> Column:
        """The column of that name."""
        if name not in self.names:
            self.require([name])
        return self.columns[self.names.index(name)]

    def require(self, names: Iterable[str]) -> None:
        """Raise a ValueError if any of ``names`` is not a column."""
        require_columns(self.source, self.names, names)

    def is_numeric(self, name: str) -> bool:
        """Whether every cell of the column is a number or missing."""
        return self.column(name).dtype != object

    def is_plain(self, name: str) -> bool:
        """Whether every cell of the column is a number, and none is missing."""
        return self.is_numeric(name) and not np.isnan(self.column(name).astype(np.float64, copy=False)).any()

    def share_of_numbers(self, name: str) -> float:
        """Fraction of the cells of the column that are numbers or missing."""
        column = self.column(name)
        if column.dtype != object:
            return 1.0
        return float(np.mean([cell is None or _is_number(cell) for cell in column]))

    def refuse_slips(self, name: str, *, needed: bool = False) -> None:
        """Raise a ValueError that names the first cell for which a column of numbers or dates is taken as text.

        Columns of which no more than half are numbers or dates are text, and so are codes such as 01.
        """
        column = self.column(name)
        if _typed(column, None).dtype != object:
            return
        known = [not _stands_for_nothing(cell) for cell in column]
        for intended, is_one, describe in (
            (_is_meant_as_number, _is_number, _not_a_number),
            (_is_date, _is_date, _not_a_date),
        ):
            if 2 * sum(intended(cell) for cell in column) > sum(known):
                faulty = [cell_known and not is_one(cell) for cell_known, cell in zip(known, column, strict=True)]
                self.refuse(name, faulty, describe, needed)

    def numeric(self, names: Sequence[str], *, needed: bool = False) -> FloatArray:
        """The named columns as a matrix of shape (n_rows, n_names), all finite.

        Parameters
        ----------
        names : sequence of str
            The columns, in the order of the matrix.
        needed : bool
            Whether the columns are indispensable; if not, the error messages suggest to drop a faulty one.

        Raises
        ------
        ValueError
            If a column or a cell is missing, or a cell is not a finite number.
        """
        self.require(names)
        matrix = np.empty((self.n_rows, len(names)))
        for position, name in enumerate(names):
            matrix[:, position] = self._numbers(name, needed)
        return matrix

    def frame(self, names: Sequence[str], kinds: Sequence[str] | None = None) -> Frame:
        """The named columns with their types: numbers, dates, or text; what is missing is NaN, NaT or None.

        Text is taken as numbers, or as dates, if every cell is one but for those that stand for nothing, such as NA.

        Parameters
        ----------
        names : sequence of str
            The columns, in the order of the frame.
        kinds : sequence of str, optional
            What they were in a training: "number", "date", "category" or "text".
        """
        self.require(names)
        known = [None] * len(names) if kinds is None else kinds
        return Frame(tuple(names), tuple(map(_typed, map(self.column, names), known)))

    def labels(self, name: str) -> NDArray[Any]:
        """The column as class labels: integers where all are whole numbers, otherwise text.

        Raises
        ------
        ValueError
            If the column or a cell is missing.
        """
        cells = self.column(name)
        if self.is_numeric(name):
            numbers = self._numbers(name, needed=True)
            size = np.abs(numbers)
            if np.any((size >= 2.0**53) & (size < 2.0**64)):
                raise ValueError(
                    f"The column {name!r} of {self.source} has whole numbers beyond 2**53, which cannot all be told "
                    "apart as numbers. Write these labels as text, for example with a letter before them."
                )
            # scikit-learn takes decimals for a regression.
            if np.all(numbers == np.round(numbers)) and np.all(size < 2.0**53):
                return numbers.astype(np.int64)
        else:
            self.refuse(name, [cell is None for cell in cells], _missing, needed=True)
        return np.array([str(cell) for cell in cells.tolist()])

    def _numbers(self, name: str, needed: bool) -> FloatArray:
        column = self.column(name)
        if column.dtype == object:
            faulty = [cell is not None and not _is_number(cell) for cell in column]
            self.refuse(name, faulty, _not_a_number, needed)
            column = np.array([np.nan if cell is None else str(cell) for cell in column], dtype=np.float64)
        numbers = column.astype(np.float64, copy=False)
        self.refuse(name, np.isnan(numbers), _missing, needed)
        self.refuse(name, np.isinf(numbers), _not_finite, needed)
        return numbers

    def refuse(self, name: str, faulty: ArrayLike, describe: Callable[[object], Fault], needed: bool) -> None:
        """Raise the described fault of the first faulty row, if there is one."""
        rows = np.flatnonzero(faulty)
        if len(rows) == 0:
            return
        fault, remedy = describe(self.column(name)[rows[0]])
        others = f" ({len(rows)} such cells in this column)" if len(rows) > 1 else ""
        alternative = "" if needed else f", or leave it out with --drop {shlex.quote(name)}"
        place = f"{self.source}, {self._place(int(rows[0]))}, column {name!r}"
        raise ValueError(f"{place}: {fault}{others}. {remedy}{alternative}.")

    def _place(self, row: int) -> str:
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A column of a `Frame`."""

    values: NDArray[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.values.dtype

    def to_numpy(self) -> NDArray[Any]:
        """The values."""
        return self.values


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Named columns of any type, with as much of a DataFrame as the auto estimators need.

    Attributes
    ----------
    columns : tuple of str
        The names.
    values : tuple of arrays of shape (n_rows,)
    """

    columns: tuple[str, ...]
    values: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.values[0])

    def __getitem__(self, name: str) -> Series:
        return Series(self.values[self.columns.index(name)])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self), len(self.columns)

    @property
    def dtypes(self) -> list[np.dtype[Any]]:
        """Types of the columns."""
        return [values.dtype for values in self.values]

    def rows(self, chosen: NDArray[Any]) -> Frame:
        """Some of the rows."""
        return Frame(self.columns, tuple(values[chosen] for values in self.values))


def require_columns(source: str, names: Sequence[str], wanted: Iterable[str]) -> None:
    """Raise a ValueError unless each wanted column occurs exactly once among ``names``, the columns of ``source``."""
    counts = Counter(names)
    wanted = list(wanted)
    missing = [name for name in wanted if name not in counts]
    if missing:
        word = "column" if len(missing) == 1 else "columns"
        raise ValueError(f"{source} has no {word} {_listed(missing)}. Its columns are {_listed(list(names))}.")
    repeated = [name for name in dict.fromkeys(wanted) if counts[name] > 1]
    if repeated:
        raise ValueError(f"{source} has more than one column named {_listed(repeated)}. Give each column its own name.")


def text_names(X: Any) -> list[str] | None:
    """The column names of a DataFrame; None for an array, and for a DataFrame whose names are not text.

    Raises
    ------
    ValueError
        If only some of the names are text.
    """
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    others = [name for name in names if not isinstance(name, str)]
    if len(others) == len(names):
        return None
    if others:
        raise ValueError(
            f"Some column names of X are text, but {others[0]!r:.40} is not. Columns are matched by name or by "
            "position: make all names text, for example with X.columns = X.columns.astype(str), or none."
        )
    return names


def matched_columns(X: Any, wanted: Sequence[str]) -> list[RawColumn]:
    """The columns of a table in the order in which they are wanted: by name, or by place if they have no names.

    Raises
    ------
    ValueError
        If a column is missing.
    """
    names = text_names(X)
    if not hasattr(X, "columns") and np.ndim(X) != 2:
        raise ValueError(f"X must have two dimensions, got {np.ndim(X)}.")
    found = raw_columns(X)
    if names is not None:
        require_columns("X", names, wanted)
        found = [found[names.index(name)] for name in wanted]
    if len(found) != len(wanted):
        raise ValueError(f"X has {len(found)} columns, but the model has {len(wanted)} features.")
    return found


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a CSV or Parquet file.

    CSV: UTF-8, column names in the first line, delimited by commas, semicolons or tabs; blank lines are skipped.
    A file is read as Parquet if its name ends in .parquet or .pq, or if it begins like a Parquet file.

    Parameters
    ----------
    path : str or path-like
        The file, which may be a pipe; "-" is the standard input.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If it is not such a table; the message says where and why.
    ImportError
        If it is a Parquet file and pyarrow is not installed.
    """
    path = Path(path)
    source = "standard input" if str(path) == STANDARD_INPUT else path.name
    with _opened(path) as file:
        begins_like_parquet = file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC
        file.seek(0)
        if begins_like_parquet or path.suffix.lower() in PARQUET_SUFFIXES:
            return _read_parquet(file, source)
        with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            try:
                return _Csv(text, source).table()
            except UnicodeDecodeError as error:
                raise ValueError(f"{source} is not UTF-8 text. Save it as CSV in UTF-8.") from error


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that is read more than once: the content of a pipe is copied to a temporary file."""
    is_standard_input = str(path) == STANDARD_INPUT
    with nullcontext(sys.stdin.buffer) if is_standard_input else path.open("rb") as file:
        if file.seekable() and not is_standard_input:
            yield file
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield copy


def write_csv(path: str | os.PathLike[str], names: Sequence[str], columns: Sequence[Iterable[object]]) -> None:
    """Write columns to a CSV file that appears whole or not at all."""
    with written_whole(path) as file:
        write_rows(file, names, columns)


def write_rows(file: TextIO, names: Sequence[str], columns: Sequence[Iterable[object]]) -> None:
    """Write columns as CSV to an open stream. Numbers are written with all their digits."""
    plain = csv.writer(file, lineterminator="\n")
    quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for row in chain([names], zip(*columns, strict=True)):
        (quoted if any(map(_needs_quotes, row)) else plain).writerow(row)


def _needs_quotes(cell: object) -> bool:
    """Whether a cell holds a delimiter or line end that the csv module would not quote."""
    return isinstance(cell, str) and any(character in cell for character in ";\t\r")


# --- what text stands for ---


def _typed(column: Column, kind: str | None) -> NDArray[Any]:
    """Text as numbers or dates, if every cell that stands for something is one; never text that is known as such."""
    if column.dtype != object or kind in ("category", "text"):
        return column
    cells = [None if _stands_for_nothing(cell) else cell for cell in column.tolist()]
    known = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, str) for cell in known) and (known or kind is not None):
        if not NAMES.search("\n".join(known)) and all(map(_is_number, known)):
            return np.array([np.nan if cell is None else float(cell) for cell in cells])
        if all(map(DATES.fullmatch, known)):
            with suppress(ValueError):  # the 31st of April is text
                return np.array(cells, dtype="datetime64[s]")
    return column if kind is None else np.array(cells, dtype=object)


def _stands_for_nothing(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and cell.lower() in GAPS)


# --- CSV ---


@dataclass(frozen=True, slots=True)
class _Csv:
    """A CSV file that has been opened."""

    file: TextIO
    source: str

    def table(self) -> Table:
        """All columns."""
        delimiter = self._delimiter()
        names = self._names(delimiter)
        columns, lines, mixed = self._columns(delimiter, len(names), as_text=frozenset())
        if mixed:
            # These columns begin with numbers, whose text is gone: "01" must not come back as "1.0".
            columns, lines, _ = self._columns(delimiter, len(names), as_text=mixed)
        return Table(names, columns, self.source, lines)

    def _records(self, delimiter: str) -> Iterator[tuple[int, list[str]]]:
        """First line and cells of every record; blank lines are skipped."""
        self.file.seek(0)
        reader = csv.reader(self.file, delimiter=delimiter, skipinitialspace=True, strict=True)
        line = 1
        try:
            for cells in reader:
                if cells:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(f"{self.source}, line {line}: not a row of a CSV file ({error}).") from error

    def _delimiter(self) -> str:
        """The delimiter that splits the first records into equally many cells, and into the most."""
        qualities = {delimiter: self._quality(delimiter) for delimiter in DELIMITERS}
        several = {delimiter: found for delimiter, found in qualities.items() if found[1] > 1}
        return max(several, key=lambda delimiter: several[delimiter], default=DELIMITERS[0])

    def _quality(self, delimiter: str) -> tuple[bool, int]:
        try:
            lengths = [len(cells) for _, cells in islice(self._records(delimiter), 20)]
        except ValueError:
            # A quoted cell ends before another delimiter: a sign that this is not the right one.
            return False, 0
        return len(set(lengths)) == 1, lengths[0] if lengths else 0

    def _names(self, delimiter: str) -> tuple[str, ...]:
        _, cells = next(self._records(delimiter), (0, None))
        if cells is None:
            raise ValueError(f"{self.source} is empty. Its first line must name the columns.")
        names = tuple(cell.strip() for cell in cells)
        if "" in names:
            raise ValueError(
                f"{self.source}: column {names.index('') + 1} has no name in the first line. "
                "Name it or take it out (pandas leaves out the index with to_csv(..., index=False))."
            )
        # Whole numbers alone may well be names (years, positions); 5.1, 3.5 are a row of data.
        if all(map(_is_number, names)) and not all(name.isdecimal() for name in names):
            raise ValueError(f"{self.source}: the first line holds numbers. It must name the columns.")
        return names

    def _columns(
        self, delimiter: str, width: int, as_text: frozenset[int]
    ) -> tuple[tuple[Column, ...], NDArray[np.int64], frozenset[int]]:
        """Columns, lines, and which columns are text with numbers in an earlier chunk."""
        chunks: list[list[Column]] = [[] for _ in range(width)]
        lines: list[NDArray[np.int64]] = []
        records = islice(self._records(delimiter), 1, None)
        while chunk := list(islice(records, CHUNK_ROWS)):
            self._check_widths(chunk, width)
            lines.append(np.array([line for line, _ in chunk]))
            for position, cells in enumerate(zip(*(cells for _, cells in chunk), strict=True)):
                chunks[position].append(_converted(cells, position in as_text))
        kinds = [{chunk.dtype == object for chunk in column} for column in chunks]
        mixed = frozenset(position for position, kind in enumerate(kinds) if len(kind) == 2)
        return tuple(map(_joined, chunks)), np.concatenate([np.empty(0, np.int64), *lines]), mixed

    def _check_widths(self, chunk: list[tuple[int, list[str]]], width: int) -> None:
        for line, cells in chunk:
            if len(cells) != width:
                raise ValueError(
                    f"{self.source}, line {line}: {len(cells)} cells, but the first line names {width} columns."
                )


def _joined(chunks: list[Column]) -> Column:
    return np.concatenate(chunks) if chunks else np.empty(0)  # type: ignore[return-value]


def _converted(cells: Sequence[str], as_text: bool) -> Column:
    """Numbers where all cells are numbers or blank, otherwise the stripped text with None for blank."""
    if not as_text and not NAMES.search("\n".join(cells)):
        try:
            return np.array([float(cell) if cell and not cell.isspace() else np.nan for cell in cells])
        except ValueError:
            pass
    text = np.empty(len(cells), dtype=object)
    text[:] = [cell.strip() or None for cell in cells]
    return text


# --- Parquet ---


def _read_parquet(file: IO[bytes], source: str) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'dconnet[parquet]'") from error
    try:
        table = pq.read_table(file)
    except pa.ArrowException as error:
        raise ValueError(f"{source} is not a Parquet file that can be read: {error}") from error
    return Table(tuple(table.column_names), tuple(map(_from_arrow, table.columns)), source)


def _from_arrow(column: pa.ChunkedArray) -> Column:
    import pyarrow as pa

    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if is_number or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        numbers: FloatArray = np.array(column.cast(pa.float64(), safe=False).to_numpy())
        return numbers
    cells = np.empty(len(column), dtype=object)
    cells[:] = [None if cell == "" else cell for cell in column.to_pylist()]
    return cells


# --- faults and words ---


def _missing(cell: object) -> Fault:
    return "the value is missing", "Fill in the column or delete the row"


def _not_finite(cell: object) -> Fault:
    return f"{cell} is not a finite number", "Correct the column or delete the row"


def _not_a_number(cell: object) -> Fault:
    if DECIMAL_COMMA.fullmatch(str(cell)):
        return f"{cell!r} has a comma", "Write decimals with a point, and thousands without a separator"
    return f"{_shortened(cell)} is not a number", "Encode the column as numbers"


def _not_a_date(cell: object) -> Fault:
    return f"{_shortened(cell)} is not a date", "Write all dates as 2024-02-29 and leave gaps empty"


def _is_date(cell: object) -> bool:
    if not isinstance(cell, str) or not DATES.fullmatch(cell):
        return False
    try:
        np.datetime64(cell)
    except ValueError:
        return False
    return True


def _is_meant_as_number(cell: object) -> bool:
    return _is_number(cell) or DECIMAL_COMMA.fullmatch(str(cell)) is not None


def _is_number(cell: object) -> bool:
    try:
        float(str(cell))
    except ValueError:
        return False
    return "_" not in str(cell)


def _shortened(cell: object, limit: int = 40) -> str:
    text = repr(cell)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _listed(names: Sequence[str], limit: int = 20) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
