"""Columns of a table and the type of their values: numbers, dates or categories, with missing values.

This is the only place where cells get a type. Tables may hold text alone (a CSV file read with ``dtype=str``) or typed
columns (pandas, polars, Arrow, NumPy); equal cells get equal types. `dconnet.encoding.schema` turns columns into fields
and `read_target` turns a column into targets.

A cell of text is a number if it is a plain decimal number. Codes such as 01, 001 or 1_0 are not, and one of them makes
the whole column text. ISO 8601 dates in text are dates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet._text import printable

ColumnType = Literal["number", "date", "category"]

# Label of a missing value in a category.
MISSING = "(missing)"
# Text for a missing number or date, in lower case. In a column of text these are values: NA may be Namibia.
PLACEHOLDERS = frozenset({"na", "n/a", "#n/a", "nan", "nat", "null", "none", "?", "-"})
BOOLEANS = {"true": 1.0, "false": 0.0}
# Text that float() accepts although it is a code: 1_0 is not ten, and 01 differs from 1.
CODE = re.compile(r"_|^\s*[+-]?0\d+\s*$", re.MULTILINE)
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
# Text that is meant as a number but is none: 1,5 or 12 % or $3.50 or 1,234,567.
NUMBER_WITH_MARKS = re.compile(r"[+-]?[$€£]?\s?(\d+|\d{1,3}([,' ]\d{3})+)([.,]\d+)?\s?[%$€£]?")
# Larger numbers are clipped to this, so that the difference of two is finite.
LARGEST = np.finfo(np.float64).max / 2.0
# Whole numbers below this are exact as floats.
EXACT = 2.0**53


@dataclass(frozen=True, slots=True, eq=False)
class RawColumn:
    """A column of a table before its type is known; its values have any dtype.

    ``is_category`` is True if the table declares the column as categorical.
    """

    name: str
    values: NDArray[Any]
    is_category: bool = False

    def __post_init__(self) -> None:
        if self.values.ndim > 1:
            raise _nested_cells(self.name, "structs or arrays")

    def rows(self, chosen: BoolArray | slice) -> RawColumn:
        """Return the column in some rows."""
        return RawColumn(self.name, self.values[chosen], self.is_category)


def read_columns(table: Any) -> list[RawColumn]:
    """Return the columns of a DataFrame (pandas, polars), an Arrow table, or an array with two dimensions."""
    if hasattr(table, "column_names"):  # Arrow
        return list(map(_arrow_column, map(str, table.column_names), table.columns))
    if hasattr(table, "columns") and hasattr(table, "dtypes"):
        names = list(table.columns)
        series = [table.iloc[:, j] if hasattr(table, "iloc") else table[name] for j, name in enumerate(names)]
        return list(map(_series_column, map(str, names), series))
    array = np.asarray(table)
    return [RawColumn(f"x{j}", array[:, j]) for j in range(array.shape[1])]


def _series_column(name: str, series: Any) -> RawColumn:
    dtype = str(series.dtype).lower()
    if dtype.startswith("period"):
        series = series.dt.to_timestamp()
    return RawColumn(name, series.to_numpy(), dtype.startswith(("categor", "enum")))


def _arrow_column(name: str, column: Any) -> RawColumn:
    # The codes of a dictionary would hide missing values.
    is_category = hasattr(column.type, "value_type") and hasattr(column.type, "index_type")
    values = column.cast(column.type.value_type) if is_category else column
    return RawColumn(name, values.to_numpy(zero_copy_only=False), is_category)


def is_missing(value: Any) -> bool:
    """Return whether a cell is missing: None, NaN, pandas' NA or NaT, or blank text."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, Decimal):  # comparing a signalling NaN would raise
        return value.is_nan()
    if isinstance(value, (Real, np.datetime64)):  # NumPy's times are registered as real numbers
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def infer_type(raw: RawColumn) -> ColumnType:
    """Return the type of a column, by its dtype or else by its cells.

    Text is a number or a date if all cells are, except missing ones and `PLACEHOLDERS`.
    """
    dtype = raw.values.dtype.kind
    if dtype == "c":
        raise ValueError(f"Complex data not supported: column {printable(raw.name)!r} of X is complex.")
    if raw.is_category:
        return "category"
    if dtype in "biufmM":
        return "date" if dtype == "M" else "number"
    cells = [cell for cell in raw.values.tolist() if not is_missing(cell)]
    others = [cell for cell in cells if not isinstance(cell, str)]
    texts = [cell for cell in cells if isinstance(cell, str) and not _is_placeholder(cell)]
    if len(cells) > 0 and not others and not texts:  # placeholders alone
        return "category"
    if all(isinstance(cell, (Real, Decimal, timedelta, np.bool_)) for cell in others) and _are_numbers(texts):
        return "number"
    is_date = all(isinstance(cell, (date, np.datetime64)) for cell in others) and all(map(_is_date_text, texts))
    return "date" if is_date else "category"


def _is_placeholder(text: str) -> bool:
    return text.strip().lower() in PLACEHOLDERS


def _are_numbers(texts: Sequence[str]) -> bool:
    try:
        is_finite = np.isfinite([float(text) for text in texts]).all()
    except ValueError:
        return all(text.strip().lower() in BOOLEANS for text in texts)
    return bool(is_finite) and not CODE.search("\n".join(texts))


def _is_number_text(text: str) -> bool:
    """Return whether text is a finite number; codes with leading zeros are."""
    try:
        return bool(np.isfinite(float(text))) and "_" not in text
    except ValueError:
        return False


def _is_date_text(text: str) -> bool:
    """Return whether text is an ISO 8601 date such as 2024-05-31 or 2024-05-31T12:00."""
    text = text.strip()
    if text[4:5] + text[7:8] != "--":
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def find_invalid_row(raw: RawColumn) -> int | None:
    """Return the first row whose text makes a category of a column in which most cells are numbers or dates.

    None if there is no such row. Codes with leading zeros are valid text. Numbers with a decimal comma, a percent sign,
    a currency or separated thousands are invalid.
    """
    if raw.is_category or raw.values.dtype.kind not in "OUT" or infer_type(raw) != "category":
        return None
    cells = {row: cell for row, cell in enumerate(raw.values.tolist()) if not is_missing(cell)}
    known = {row: cell for row, cell in cells.items() if not (isinstance(cell, str) and _is_placeholder(cell))}
    n_marked = sum(
        isinstance(cell, str) and not _is_number_text(cell) and bool(NUMBER_WITH_MARKS.fullmatch(cell.strip()))
        for cell in known.values()
    )
    for is_valid, intended in ((_is_number_text, n_marked), (_is_date_text, 0)):
        invalid = [row for row, cell in known.items() if isinstance(cell, str) and not is_valid(cell)]
        if invalid and 2 * (len(known) - len(invalid) + intended) > len(known):
            return invalid[0]
    return None


def as_numbers(raw: RawColumn) -> FloatArray:
    """Return a column as numbers, NaN where they are missing, and days for spans of time."""
    values = raw.values
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    elif values.dtype.kind == "m":
        numbers = np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "D"))
    elif values.dtype.kind == "M":
        raise ValueError(f"Column {printable(raw.name)!r} of X held numbers in the training and holds dates now.")
    else:
        numbers = np.fromiter((_number(cell, raw.name) for cell in values.tolist()), np.float64, count=len(values))
    if np.isinf(numbers).any():
        raise ValueError(
            f"Column {printable(raw.name)!r} of X contains infinity or a value too large for dtype('float64'). "
            "Replace infinite values with NaN, or drop the rows."
        )
    return np.clip(numbers, -LARGEST, LARGEST)


def _number(cell: Any, name: str) -> float:
    text = cell.strip().lower() if isinstance(cell, str) else None
    if is_missing(cell) or text in PLACEHOLDERS:
        return np.nan
    if text in BOOLEANS:
        return BOOLEANS[text]
    if isinstance(cell, (timedelta, np.timedelta64)):
        return float(np.timedelta64(cell) / np.timedelta64(1, "D"))
    try:
        return float(cell if text is None or "_" not in text else "not a number")
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"Column {printable(name)!r} of X holds numbers, but also {_shorten(cell)}. Correct this cell, or replace "
            "it with NaN."
        ) from None


def as_labels(raw: RawColumn) -> list[str]:
    """Return a column as text, with `MISSING` for missing values."""
    values = raw.values
    if values.dtype.kind == "M":
        values = np.datetime_as_string(values)
    return [_label(cell, raw.name) for cell in values.tolist()]


def _label(cell: Any, name: str) -> str:
    if type(cell) is str:
        return cell if cell.strip() else MISSING
    if is_missing(cell):
        return MISSING
    if isinstance(cell, float) and cell.is_integer():  # integers become floats where some are missing
        return str(int(cell))
    if isinstance(cell, (dict, list, set, tuple, np.ndarray)):
        raise _nested_cells(name, f"{type(cell).__name__}s")
    return str(cell)


def _nested_cells(name: str, content: str) -> TypeError:
    return TypeError(
        f"Column {printable(name)!r} of X holds {content}. "
        "An argument must be a string or a number: make one column for each part."
    )


def as_dates(raw: RawColumn) -> NDArray[np.datetime64]:
    """Return a column as times in UTC without a time zone, to the second; NaT where they are missing."""
    if raw.values.dtype.kind == "M":
        return raw.values.astype("datetime64[s]")
    return np.array([_date(cell, raw.name) for cell in raw.values.tolist()], dtype="datetime64[s]")


def _date(cell: Any, name: str) -> Any:
    if is_missing(cell) or (isinstance(cell, str) and _is_placeholder(cell)):
        return np.datetime64("NaT")
    if isinstance(cell, str) and _is_date_text(cell):
        cell = datetime.fromisoformat(cell.strip())
    if isinstance(cell, datetime):
        # Subtracted in NumPy, because the first and the last day of the calendar may lie outside of it in UTC.
        return np.datetime64(cell.replace(tzinfo=None), "s") - np.timedelta64(cell.utcoffset() or timedelta())
    if not isinstance(cell, (date, np.datetime64)):
        raise ValueError(
            f"Column {printable(name)!r} of X holds dates, but also {_shorten(cell)}. "
            "Convert the column to dates, for example with pandas.to_datetime."
        )
    return cell


def read_target(
    values: ArrayLike, name: str, task: Literal["regression", "classification"] | None = None
) -> NDArray[Any]:
    """Return a column of a table as targets: float64 for a regression, int64 or str labels for a classification.

    Without a task, the targets are numbers if all cells are, and labels otherwise. Labels are integers if all of them
    are whole numbers; codes such as 01 stay text. A ValueError names the column and the row, counted from 1, if a cell
    is missing, if it is not a finite number in a regression, or, without a task, if most other cells are numbers.

    Examples
    --------
    >>> from dconnet.encoding.columns import read_target
    >>> read_target(["1.5", "2"], "price")
    array([1.5, 2. ])
    >>> read_target(["01", "1", "001"], "code")
    array(['01', '1', '001'], dtype='<U3')
    >>> read_target(["1", "2", "1"], "class", "classification")
    array([1, 2, 1])
    """
    raw = RawColumn(name, np.asarray(values))
    cells = raw.values.tolist()
    for gap in (row for row, cell in enumerate(cells) if is_missing(cell)):
        raise _invalid_target(raw, gap, "the value is missing. Fill in the column or drop the row")
    is_number = infer_type(raw) == "number" and not any(map(_is_boolean_or_span, cells))
    if task == "regression" or (task is None and is_number):
        return _regression_target(raw, cells)
    if task is None and (row := find_invalid_row(raw)) is not None:
        raise _invalid_target(raw, row, f"{_describe(cells[row])}. Correct it, or choose a classification")
    with suppress(ValueError):  # text such as NA among numbers
        numbers = np.array(cells if is_number else "text", dtype=np.float64)
        if np.all(numbers == np.round(numbers)) and np.all(np.abs(numbers) < EXACT):
            return numbers.astype(np.int64)
    return np.array([_label(cell, name) for cell in cells])


def _is_boolean_or_span(cell: Any) -> bool:
    return isinstance(cell, (bool, timedelta)) or (isinstance(cell, str) and cell.strip().lower() in BOOLEANS)


def _regression_target(raw: RawColumn, cells: list[Any]) -> FloatArray:
    for row, cell in enumerate(cells):
        try:
            is_finite = np.isfinite(float(cell)) and "_" not in str(cell)
        except (TypeError, ValueError, OverflowError):
            raise _invalid_target(raw, row, f"{_describe(cell)}. Correct it, or drop the row") from None
        if not is_finite:
            raise _invalid_target(raw, row, f"{cell} is not a finite number. Correct it, or drop the row")
    return np.array(cells, dtype=np.float64)


def _describe(cell: object) -> str:
    if DECIMAL_COMMA.fullmatch(str(cell)):
        return f"{cell!r} has a comma instead of a decimal point (for a CSV file, use --decimal ,)"
    return f"{_shorten(cell)} is not a number"


def _invalid_target(raw: RawColumn, row: int, fault: str) -> ValueError:
    return ValueError(f"Target {printable(raw.name)!r}, row {row + 1}: {fault}.")


def _shorten(cell: object, limit: int = 60) -> str:
    return printable(repr(cell))[:limit]
