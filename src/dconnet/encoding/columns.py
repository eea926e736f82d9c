"""Columns of a table and the type of their values: numbers, dates or categories, with missing values.

This is the only place where cells get a type. Tables may hold text alone (a CSV file read with ``dtype=str``) or typed
columns (pandas, polars, Arrow, NumPy); equal cells get equal types. `dconnet.encoding.schema` turns columns into fields
and `read_target` turns a column into targets.

Text is a number or a date if all cells are, in one of the formats of `dconnet.encoding.cell_formats`. Codes such as 01,
001 or 1_0 are not numbers, and one of them makes the whole column text. Whole numbers that floats cannot tell apart,
such as ids of twenty digits, are categories.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet._text import printable
from dconnet.encoding.cell_formats import (
    DATE_ORDERS,
    OTHER,
    PER_CENT,
    PLAIN,
    CellFormat,
    find_marks,
    infer_date_format,
    infer_number_format,
    read_date,
)

ColumnType = Literal["number", "date", "category"]

# Label of a missing value in a category.
MISSING = "(missing)"
# Text for a missing number or date, in lower case. In a column of text these are values: NA may be Namibia.
PLACEHOLDERS = frozenset({"na", "n/a", "#n/a", "nan", "nat", "null", "none", "?", "-"})
BOOLEANS = {"true": 1.0, "false": 0.0}
# Text that float() accepts although it is a code: 1_0 is not ten, and 01 differs from 1.
CODE = re.compile(r"_|^\s*[+-]?0\d+\s*$", re.MULTILINE)
WHOLE = re.compile(r"[+-]?\d+")
# Larger numbers are clipped to this, so that the difference of two is finite.
LARGEST = np.finfo(np.float64).max / 2.0
# Whole numbers below this are exact as floats.
EXACT = 2.0**53
OR_CLASSES = ", or use the values as classes with --task classification"


@dataclass(frozen=True, slots=True, eq=False)
class RawColumn:
    """A column of a table before its type is known; its values have any dtype.

    ``is_category`` is True if the table declares the column as categorical. ``has_zone`` is True if values of dtype
    datetime64 are times in UTC of a column with a time zone.
    """

    name: str
    values: NDArray[Any]
    is_category: bool = False
    has_zone: bool = False

    def __post_init__(self) -> None:
        if self.values.ndim > 1:
            raise _nested_cells(self.name, "structs or arrays")

    def rows(self, chosen: BoolArray | slice) -> RawColumn:
        """Return the column in some rows."""
        return RawColumn(self.name, self.values[chosen], self.is_category, self.has_zone)


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
    own = getattr(series.dtype, "pyarrow_dtype", series.dtype)
    has_zone = bool(getattr(own, "tz", None) or getattr(own, "time_zone", None))
    if has_zone and hasattr(series.dt, "tz_convert"):  # pandas; polars converts to UTC itself
        utc = series.dt.tz_convert(None).to_numpy("datetime64[us]", na_value=np.datetime64("NaT"))
        return RawColumn(name, utc, has_zone=True)
    return RawColumn(name, series.to_numpy(), dtype.startswith(("categor", "enum")), has_zone)


def _arrow_column(name: str, column: Any) -> RawColumn:
    # The codes of a dictionary would hide missing values.
    is_category = hasattr(column.type, "value_type") and hasattr(column.type, "index_type")
    values = column.cast(column.type.value_type) if is_category else column
    has_zone = bool(getattr(column.type, "tz", None))
    return RawColumn(name, values.to_numpy(zero_copy_only=False), is_category, has_zone)


def is_missing(value: Any) -> bool:
    """Return whether a cell is missing: None, NaN, pandas' NA or NaT, or blank text."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, Decimal):  # comparing a signalling NaN would raise
        return value.is_nan()
    if isinstance(value, (Real, np.datetime64)):  # NumPy's times are registered as real numbers
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def infer_type(raw: RawColumn) -> tuple[ColumnType, CellFormat]:
    """Return the type of a column, by its dtype or else by its cells, and how these are written.

    Text is a number or a date if all cells are, except missing ones and `PLACEHOLDERS`.
    """
    dtype = raw.values.dtype.kind
    if dtype == "c":
        raise ValueError(f"Complex data not supported: column {printable(raw.name)!r} of X is complex.")
    if raw.is_category:
        return "category", PLAIN
    if dtype == "M":
        return "date", CellFormat(has_zone=raw.has_zone)
    if dtype in "biufm":
        is_id = dtype in "iu" and np.any(raw.values >= EXACT) and _floats_merge(np.unique(raw.values).tolist())
        return "category" if is_id else "number", PLAIN
    cells = [cell for cell in raw.values.tolist() if not is_missing(cell)]
    others = [cell for cell in cells if not isinstance(cell, str)]
    texts = {cell: None for cell in cells if isinstance(cell, str) and not _is_placeholder(cell)}  # in order
    if len(cells) > 0 and not others and not texts:  # placeholders alone
        return "category", PLAIN
    if all(isinstance(cell, (Real, Decimal, timedelta, np.bool_)) for cell in others):
        if _are_numbers(texts):
            return "category" if _floats_merge([*others, *texts]) else "number", PLAIN
        number_format = None if others else infer_number_format(texts)
        if number_format is not None:
            return "number", number_format
    date_format = infer_date_format(texts) if all(isinstance(cell, (date, np.datetime64)) for cell in others) else None
    if date_format is None:
        return "category", PLAIN
    zones = {_has_zone(cell) for cell in others} | {
        _has_zone(read_date(text, date_format.date_order)) for text in texts
    }
    if len(zones) > 1:
        raise ValueError(
            f"Column {printable(raw.name)!r} of X mixes times with and without a time zone. Give all of them a time "
            "zone, or none."
        )
    return "date", replace(date_format, has_zone=True in zones)


def _is_placeholder(text: str) -> bool:
    return text.strip().lower() in PLACEHOLDERS


def _are_numbers(texts: Collection[str]) -> bool:
    try:
        for text in texts:
            float(text)
    except ValueError:
        return all(text.strip().lower() in BOOLEANS for text in texts)
    return not CODE.search("\n".join(texts))


def _floats_merge(cells: Sequence[Any]) -> bool:
    """Return whether some of the different whole numbers in cells are equal as floats, as ids of many digits are."""
    whole = {
        int(cell) for cell in cells if type(cell) is int or (isinstance(cell, str) and WHOLE.fullmatch(cell.strip()))
    }
    if max(map(abs, whole), default=0) < EXACT:
        return False
    with suppress(OverflowError):  # too large for a float: refused when the column is read
        return len(set(map(float, whole))) < len(whole)
    return False


def _has_zone(cell: object) -> bool:
    return getattr(cell, "tzinfo", None) is not None


def find_invalid_row(raw: RawColumn) -> int | None:
    """Return the first row whose text makes a category of a column in which most cells are numbers or dates.

    None if there is no such row, or if the column is not a category. Codes with leading zeros are valid text.
    """
    if raw.is_category or raw.values.dtype.kind not in "OUT":
        return None
    cells = {row: cell for row, cell in enumerate(raw.values.tolist()) if not is_missing(cell)}
    known = {row: cell for row, cell in cells.items() if not (isinstance(cell, str) and _is_placeholder(cell))}
    texts = {cell for cell in known.values() if isinstance(cell, str)}
    mark = "".join(find_marks(texts)[:1])
    readers: list[Callable[[str], object]] = [_read_plain_number]
    readers += [CellFormat(mark, decimal).read_number for decimal in OTHER]
    readers += [partial(read_date, order=order) for order in DATE_ORDERS]
    for read in readers:
        valid = {text for text in texts if read(text) is not None}
        invalid = [row for row, cell in known.items() if isinstance(cell, str) and cell not in valid]
        if 2 * (len(known) - len(invalid)) > len(known):
            return invalid[0] if invalid else None
    return None


def _read_plain_number(text: str) -> float | None:
    with suppress(ValueError):
        return float(text)
    return None


def as_numbers(raw: RawColumn, cell_format: CellFormat = PLAIN) -> FloatArray:
    """Return a column as numbers, NaN where they are missing, and days for spans of time."""
    values = raw.values
    if cell_format.mark == PER_CENT and values.dtype.kind in "biufm" and not np.all(np.isnan(values.astype(float))):
        raise ValueError(
            f"Column {printable(raw.name)!r} of X held text such as '12.3%' in the training and holds numbers without "
            "a percent sign now. Write the percent sign in these cells as well."
        )
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    elif values.dtype.kind == "m":
        numbers = np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "D"))
    elif values.dtype.kind == "M":
        raise ValueError(f"Column {printable(raw.name)!r} of X held numbers in the training and holds dates now.")
    else:
        read = (_number(cell, raw.name, cell_format) for cell in values.tolist())
        numbers = np.fromiter(read, np.float64, count=len(values))
    if np.isinf(numbers).any():
        raise ValueError(
            f"Column {printable(raw.name)!r} of X contains infinity or a value too large for dtype('float64') in row "
            f"{int(np.isinf(numbers).argmax()) + 1}. Replace infinite values with NaN, or drop the rows."
        )
    return np.clip(numbers, -LARGEST, LARGEST)


def _number(cell: Any, name: str, cell_format: CellFormat) -> float:
    text = cell.strip().lower() if isinstance(cell, str) else None
    if is_missing(cell) or text in PLACEHOLDERS:
        return np.nan
    if text in BOOLEANS:
        return BOOLEANS[text]
    if isinstance(cell, (timedelta, np.timedelta64)):
        return float(np.timedelta64(cell) / np.timedelta64(1, "D"))
    with suppress(TypeError, ValueError, OverflowError):
        if text is not None and cell_format.decimal:
            number = cell_format.read_number(cell)
        elif cell_format.mark == PER_CENT or (text is not None and "_" in text):
            number = None
        else:
            number = float(cell)
        if number is not None:
            return number
    raise ValueError(
        f"Column {printable(name)!r} of X holds numbers, but also {_shorten(cell)}. Correct this cell, or replace it "
        "with NaN."
    )


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


def as_dates(raw: RawColumn, cell_format: CellFormat = PLAIN) -> NDArray[np.datetime64]:
    """Return a column as times without a time zone, to the second, NaT where they are missing.

    Times with a time zone are converted to UTC. Raise ValueError unless the format has a time zone as well.
    """
    if raw.values.dtype.kind == "M":
        dates = raw.values.astype("datetime64[s]")
        zones = {raw.has_zone} if not np.all(np.isnat(dates)) else set()
    else:
        cells = [_date(cell, raw.name, cell_format.date_order) for cell in raw.values.tolist()]
        zones = {_has_zone(cell) for cell in cells if cell is not None}
        dates = np.array(list(map(_without_zone, cells)), dtype="datetime64[s]")
    if not zones <= {cell_format.has_zone}:
        before, now, remedy = ("with", "without", "Add") if cell_format.has_zone else ("without", "with", "Remove")
        raise ValueError(
            f"Column {printable(raw.name)!r} of X held times {before} a time zone in the training, and now holds times "
            f"{now} one. {remedy} the time zone, for example with the method dt.tz_localize of pandas."
        )
    return dates


def _date(cell: Any, name: str, order: str) -> Any:
    """Return a date, datetime or datetime64; None for a missing one."""
    if is_missing(cell) or (isinstance(cell, str) and _is_placeholder(cell)):
        return None
    found = read_date(cell, order) if isinstance(cell, str) else cell
    if not isinstance(found, (date, np.datetime64)):
        written = f" with the {DATE_ORDERS[order]}" if order else ""
        raise ValueError(
            f"Column {printable(name)!r} of X holds dates{written}, but also {_shorten(cell)}. "
            "Convert the column to dates, for example with pandas.to_datetime."
        )
    return found


def _without_zone(cell: Any) -> Any:
    if cell is None:
        return np.datetime64("NaT")
    if isinstance(cell, datetime):
        # Subtracted in NumPy, because the first and the last day of the calendar may lie outside of it in UTC.
        return np.datetime64(cell.replace(tzinfo=None), "s") - np.timedelta64(cell.utcoffset() or timedelta())
    return cell


def read_target(
    values: ArrayLike, name: str, task: Literal["regression", "classification"] | None = None
) -> NDArray[Any]:
    """Return a column of a table as targets: float64 for a regression, int64 or str labels for a classification.

    Without a task, the targets are numbers if all cells are, unless they are two different whole numbers, such as 0 and
    1. Labels are integers if all of them are whole numbers; codes such as 01 stay text. A ValueError names the column
    and the row, counted from 1, if a cell is missing, if it is not a finite number in a regression, or, without a task,
    if most other cells are numbers.

    Examples
    --------
    >>> from dconnet.encoding.columns import read_target
    >>> read_target(["1.5%", "2%"], "rate")
    array([1.5, 2. ])
    >>> read_target(["01", "1", "001"], "code")
    array(['01', '1', '001'], dtype='<U3')
    >>> read_target(["0", "1", "1"], "survived")
    array([0, 1, 1])
    """
    raw = RawColumn(name, np.asarray(values))
    cells = raw.values.tolist()
    for gap in (row for row, cell in enumerate(cells) if is_missing(cell)):
        raise _invalid_target(raw, gap, "the value is missing. Fill in the column or drop the row")
    kind, cell_format = infer_type(raw)
    is_number = kind == "number" and not any(map(_is_boolean_or_span, cells))
    if task != "classification" and (is_number or task == "regression"):
        numbers = _regression_target(raw, cells, cell_format)
        distinct = np.unique(numbers)
        if task == "regression" or len(distinct) != 2 or np.any(distinct != np.round(distinct)):
            return numbers
    if task is None and not is_number and (row := find_invalid_row(raw)) is not None:
        raise _invalid_target(raw, row, f"{_shorten(cells[row])} is not a number. Correct it{OR_CLASSES}")
    with suppress(ValueError):  # text such as NA or 12% among numbers
        numbers = np.array(cells if is_number else "text", dtype=np.float64)
        if np.all(numbers == np.round(numbers)) and np.all(np.abs(numbers) < EXACT):
            return numbers.astype(np.int64)
    return np.array([_label(cell, name) for cell in cells])


def _is_boolean_or_span(cell: Any) -> bool:
    return isinstance(cell, (bool, timedelta)) or (isinstance(cell, str) and cell.strip().lower() in BOOLEANS)


def _regression_target(raw: RawColumn, cells: list[Any], cell_format: CellFormat) -> FloatArray:
    numbers = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            numbers[row] = np.nan if _is_boolean_or_span(cell) else _number(cell, raw.name, cell_format)
        except ValueError:
            numbers[row] = np.nan
        if not np.isfinite(numbers[row]):
            number = "finite number" if np.isinf(numbers[row]) else "number"
            raise _invalid_target(raw, row, f"{_shorten(cell)} is not a {number}. Correct it, drop the row{OR_CLASSES}")
    if cell_format.is_assumed:
        warnings.warn(f"Target {printable(raw.name)!r}: {cell_format.explain_assumption(cells)}", stacklevel=3)
    return numbers


def _invalid_target(raw: RawColumn, row: int, fault: str) -> ValueError:
    return ValueError(f"Target {printable(raw.name)!r}, row {row + 1}: {fault}.")


def _shorten(cell: object, limit: int = 60) -> str:
    return printable(repr(cell))[:limit]
