"""Tables of named columns: read from CSV or Parquet, turned into matrices, written as CSV."""

from __future__ import annotations

import csv
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray
from dconnet.persistence.files import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = (",", ";", "\t")
PARQUET_SUFFIXES = (".parquet", ".pq")

# Numbers take eight bytes each and their text seven times as much: cells are converted as they are read.
CHUNK_ROWS = 8192

TextArray: TypeAlias = NDArray[np.object_]
Column: TypeAlias = FloatArray | TextArray
Fault: TypeAlias = tuple[str, str]  # what is wrong with a cell, and how to mend it


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Named columns of equal length.

    Attributes
    ----------
    names : tuple of str
        Names of the columns, all different.
    columns : tuple of arrays of shape (n_rows,)
        float64 where every cell is a number or missing (NaN); otherwise objects: text, or whatever the
        file holds, and None where a cell is missing.
    source : str
        Name of the file, for messages.
    lines : array of shape (n_rows,), optional
        Line of the text file on which each row begins.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.persistence.tables import Table
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
        duplicates = [name for name, count in Counter(self.names).items() if count > 1]
        if duplicates:
            raise ValueError(
                f"{self.source} has more than one column named {_listed(duplicates)}. Give each column its own name."
            )
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
        self.require([name])
        return self.columns[self.names.index(name)]

    def require(self, names: Iterable[str]) -> None:
        """Raise a ValueError that lists which of ``names`` are no columns here."""
        missing = [name for name in names if name not in self.names]
        if missing:
            word = "column" if len(missing) == 1 else "columns"
            raise ValueError(f"{self.source} has no {word} {_listed(missing)}. Its columns are {_listed(self.names)}.")

    def is_numeric(self, name: str) -> bool:
        """Whether every cell of the column is a number or missing."""
        return self.column(name).dtype != object

    def share_of_numbers(self, name: str) -> float:
        """Part of the cells of the column that are numbers or missing."""
        column = self.column(name)
        if column.dtype != object:
            return 1.0
        return float(np.mean([cell is None or _is_number(cell) for cell in column]))

    def numeric(self, names: Sequence[str], *, needed: bool = False) -> FloatArray:
        """The named columns as a matrix of shape (n_rows, n_names), all finite.

        Parameters
        ----------
        names : sequence of str
            The columns, in the order of the matrix.
        needed : bool
            Whether none of them can be left out; only the advice in the messages depends on it.

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
            # Beyond 2**53 float64 skips integers; scikit-learn takes decimals for a regression.
            if np.all(numbers == np.round(numbers)) and np.all(np.abs(numbers) < 2.0**53):
                return numbers.astype(np.int64)
        else:
            self._refuse(name, [cell is None for cell in cells], _missing, needed=True)
        return np.array([str(cell) for cell in cells.tolist()])

    def _numbers(self, name: str, needed: bool) -> FloatArray:
        column = self.column(name)
        if column.dtype == object:
            faulty = [cell is not None and not _is_number(cell) for cell in column]
            self._refuse(name, faulty, _not_a_number, needed)
            column = np.array([np.nan if cell is None else str(cell) for cell in column], dtype=np.float64)
        numbers = column.astype(np.float64, copy=False)
        self._refuse(name, np.isnan(numbers), _missing, needed)
        self._refuse(name, np.isinf(numbers), _not_finite, needed)
        return numbers

    def _refuse(self, name: str, faulty: ArrayLike, describe: Callable[[object], Fault], needed: bool) -> None:
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


def read_table(path: str | os.PathLike[str]) -> Table:
    """Read a CSV or, by its suffix (.parquet, .pq), a Parquet file.

    CSV: UTF-8, the first line names the columns, the delimiter (comma, semicolon or tab) is recognised,
    blank lines are skipped.

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
    return _read_parquet(path) if path.suffix.lower() in PARQUET_SUFFIXES else _read_csv(path)


def write_csv(path: str | os.PathLike[str], names: Sequence[str], columns: Sequence[Iterable[object]]) -> None:
    """Write columns to a CSV file that appears whole or not at all."""
    with written_whole(path) as file:
        write_rows(file, names, columns)


def write_rows(file: TextIO, names: Sequence[str], columns: Sequence[Iterable[object]]) -> None:
    """Write columns as CSV to an open stream. Numbers are written with all their digits."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))


# --- CSV ---


def _read_csv(path: Path) -> Table:
    with _explained(path):
        delimiter = _sniffed_delimiter(path)
        names = _checked_names(path, delimiter)
        columns, lines, mixed = _parsed(path, delimiter, len(names), as_text=frozenset())
        if mixed:
            # These columns begin with numbers, whose text is gone: "01" must not come back as "1.0".
            columns, lines, _ = _parsed(path, delimiter, len(names), as_text=mixed)
    return Table(names, columns, path.name, lines)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the errors of decoding and splitting into ones that name the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text. Save it as CSV in UTF-8.") from error


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line of the beginning and cells of every record; blank lines are skipped."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        line = 1
        try:
            for cells in reader:
                if cells:
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(f"{path.name}, line {line}: not a row of a CSV file ({error}).") from error


def _sniffed_delimiter(path: Path) -> str:
    """The delimiter under which the first records have the same length, and that a long one."""

    def quality(delimiter: str) -> tuple[bool, int]:
        try:
            lengths = [len(cells) for _, cells in islice(_records(path, delimiter), 20)]
        except ValueError:
            # A quoted field ends before some other delimiter: a sign that this is not the one.
            return False, 0
        return len(set(lengths)) == 1, lengths[0] if lengths else 0

    qualities = {delimiter: quality(delimiter) for delimiter in DELIMITERS}
    several = {delimiter: found for delimiter, found in qualities.items() if found[1] > 1}
    return max(several, key=lambda delimiter: several[delimiter], default=DELIMITERS[0])


def _checked_names(path: Path, delimiter: str) -> tuple[str, ...]:
    _, cells = next(_records(path, delimiter), (0, None))
    if cells is None:
        raise ValueError(f"{path.name} is empty. Its first line must name the columns.")
    names = tuple(cell.strip() for cell in cells)
    if "" in names:
        raise ValueError(
            f"{path.name}: column {names.index('') + 1} has no name in the first line. "
            "Name it or take it out (pandas leaves the index out with to_csv(..., index=False))."
        )
    # Whole numbers alone may well be names (years, positions); 5.1, 3.5 are a row of data.
    if all(map(_is_number, names)) and not all(name.isdecimal() for name in names):
        raise ValueError(f"{path.name}: the first line holds numbers. It must name the columns.")
    return names


def _parsed(
    path: Path, delimiter: str, width: int, as_text: frozenset[int]
) -> tuple[tuple[Column, ...], NDArray[np.int64], frozenset[int]]:
    """Columns, lines, and which columns are text with numbers in an earlier chunk."""
    chunks: list[list[Column]] = [[] for _ in range(width)]
    lines: list[NDArray[np.int64]] = []
    records = islice(_records(path, delimiter), 1, None)
    while chunk := list(islice(records, CHUNK_ROWS)):
        _check_widths(path, chunk, width)
        lines.append(np.array([line for line, _ in chunk]))
        for position, cells in enumerate(zip(*(cells for _, cells in chunk), strict=True)):
            chunks[position].append(_converted(cells, position in as_text))
    kinds = [{chunk.dtype == object for chunk in column} for column in chunks]
    mixed = frozenset(position for position, kind in enumerate(kinds) if len(kind) == 2)
    return tuple(map(_joined, chunks)), np.concatenate([np.empty(0, np.int64), *lines]), mixed


def _joined(chunks: list[Column]) -> Column:
    return np.concatenate(chunks) if chunks else np.empty(0)  # type: ignore[return-value]


def _check_widths(path: Path, chunk: list[tuple[int, list[str]]], width: int) -> None:
    for line, cells in chunk:
        if len(cells) != width:
            raise ValueError(f"{path.name}, line {line}: {len(cells)} cells, but the first line names {width} columns.")


def _converted(cells: Sequence[str], as_text: bool) -> Column:
    """Numbers where all cells are numbers or blank, otherwise the stripped text with None for blank."""
    if not as_text and "_" not in "".join(cells):  # float("1_0") is 10.0; in a table it is a name
        try:
            return np.array([float(cell) if cell and not cell.isspace() else np.nan for cell in cells])
        except ValueError:
            pass
    text = np.empty(len(cells), dtype=object)
    text[:] = [cell.strip() or None for cell in cells]
    return text


# --- Parquet ---


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'dconnet[parquet]'") from error
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise ValueError(f"{path.name} is not a Parquet file that can be read: {error}") from error
    return Table(tuple(table.column_names), tuple(map(_from_arrow, table.columns)), path.name)


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
    if re.fullmatch(r"[+-]?\d+,\d+", str(cell)):
        return f"{cell!r} has a decimal comma", "Write the column with decimal points"
    return f"{_shortened(cell)} is not a number", "Encode the column as numbers"


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
