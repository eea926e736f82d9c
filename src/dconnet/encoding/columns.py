"""A table as typed columns: numbers, categories and dates, with what is missing in them.

What a column of a table is, is decided once, on the rows of the training. A column then becomes one or more fields:
arrays of numbers, in which a missing number is NaN, and a category is the number of its level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet._text import printable
from dconnet.encoding.features import FEW_VALUES

# Gaps in a column of numbers get an indicator from this many on.
MIN_GAPS = 5
# A category of which no level has this many rows, and most rows a level of their own, tells nothing.
MIN_LEVEL = 10
MISSING = "(missing)"
# Larger numbers count as this, so that the difference of two is finite.
LARGEST = np.finfo(np.float64).max / 2.0


@dataclass(frozen=True, slots=True)
class Field:
    """An array of numbers that a column became.

    Attributes
    ----------
    name : str
        For example "sold" or "sold: weekday".
    column : int
        The column of the table that it came from.
    counts : tuple of int or None
        Rows of each level of a category in the training, most frequent first; None for numbers.
    """

    name: str
    column: int
    counts: tuple[int, ...] | None = None

    @property
    def is_category(self) -> bool:
        """Whether the values are the numbers of levels."""
        return self.counts is not None

    @property
    def n_levels(self) -> int:
        """Number of levels of a category."""
        return 0 if self.counts is None else len(self.counts)


@dataclass(frozen=True, slots=True, eq=False)
class RawColumn:
    """A column of a table as it came.

    Attributes
    ----------
    name : str
    values : array of shape (n_rows,)
        Of any type of NumPy.
    is_category : bool
        Whether the table says that it is a category, whatever its values.
    """

    name: str
    values: NDArray[Any]
    is_category: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, chosen: BoolArray | slice) -> RawColumn:
        """Some of the rows."""
        return RawColumn(self.name, self.values[chosen], self.is_category)


def raw_columns(table: Any) -> list[RawColumn]:
    """The columns of a DataFrame (pandas, polars), of an Arrow table, or of an array with two dimensions."""
    if hasattr(table, "column_names"):  # Arrow
        return [_of_arrow(str(name), column) for name, column in zip(table.column_names, table.columns, strict=True)]
    if hasattr(table, "columns") and hasattr(table, "dtypes"):
        names = list(table.columns)
        series = [table.iloc[:, j] if hasattr(table, "iloc") else table[name] for j, name in enumerate(names)]
        return [_of_series(str(name), column) for name, column in zip(names, series, strict=True)]
    array = np.asarray(table)
    return [RawColumn(f"x{j}", array[:, j]) for j in range(array.shape[1])]


def _of_series(name: str, series: Any) -> RawColumn:
    kind = str(series.dtype).lower()
    if kind.startswith("period"):
        series = series.dt.to_timestamp()
    return _flat(RawColumn(name, series.to_numpy(), kind.startswith(("categor", "enum"))))


def _of_arrow(name: str, column: Any) -> RawColumn:
    """A dictionary is a category; its codes would hide what is missing."""
    is_category = hasattr(column.type, "value_type") and hasattr(column.type, "index_type")
    values = column.cast(column.type.value_type) if is_category else column
    return _flat(RawColumn(name, values.to_numpy(zero_copy_only=False), is_category))


def _flat(raw: RawColumn) -> RawColumn:
    """The column, unless its cells have parts."""
    if raw.values.ndim > 1:
        raise _cells_with_parts(raw.name, "structs or arrays")
    return raw


# --- the kinds of columns ---


class Column(Protocol):
    """What a column of the table was found to be."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def kind(self) -> str:
        """One word for it."""
        ...

    @property
    def treatment(self) -> str:
        """What is done with it, for people."""
        ...

    def fields(self, index: int) -> list[Field]:
        """The fields that it becomes."""
        ...

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """The values of these fields in new rows."""
        ...


@dataclass(frozen=True, slots=True)
class DroppedColumn:
    """A column that tells nothing."""

    name: str
    kind: str
    reason: str

    @property
    def treatment(self) -> str:
        """See `Column`."""
        return f"dropped: {self.reason}"

    def fields(self, index: int) -> list[Field]:
        """See `Column`."""
        return []

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """See `Column`."""
        return []


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Numbers; where enough of them are missing, whether they are is a field too."""

    name: str
    n_gaps: int = 0
    kind: str = "number"

    @property
    def has_indicator(self) -> bool:
        """Whether a field says which values are missing."""
        return self.n_gaps >= MIN_GAPS

    @property
    def treatment(self) -> str:
        """See `Column`."""
        if not self.n_gaps:
            return "as it is"
        return f"median for {self.n_gaps} missing values" + (", and an indicator" if self.has_indicator else "")

    def fields(self, index: int) -> list[Field]:
        """See `Column`."""
        gaps = [Field(f"{self.name}: missing", index)] if self.has_indicator else []
        return [Field(self.name, index), *gaps]

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """See `Column`."""
        values = as_numbers(raw)
        return [values, np.isnan(values).astype(np.float64)] if self.has_indicator else [values]


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """Levels, the most frequent first; a missing value is a level of its own, if there was one in the training."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    kind: str = "category"

    @property
    def treatment(self) -> str:
        """See `Column`."""
        return f"{len(self.levels)} levels"

    def fields(self, index: int) -> list[Field]:
        """See `Column`."""
        return [Field(self.name, index, self.counts)]

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """See `Column`; a level that is not known is NaN."""
        codes = {level: float(code) for code, level in enumerate(self.levels)}
        labels = as_labels(raw)
        return [np.fromiter((codes.get(label, np.nan) for label in labels), dtype=np.float64, count=len(labels))]


DATE_PARTS = DAY, YEAR, HOUR, WEEKDAY, GAP = "day", "day of year", "hour", "weekday", "missing"


@dataclass(frozen=True, slots=True)
class DateColumn:
    """Dates and times, as days, day of year, hour and weekday, and whether they are missing, as far as these vary.

    Attributes
    ----------
    name : str
    parts : tuple of str
        The parts that vary.
    weekdays, weekday_counts : tuple of int
        The weekdays of the training, most frequent first, and their rows.
    """

    name: str
    parts: tuple[str, ...]
    weekdays: tuple[int, ...]
    weekday_counts: tuple[int, ...]
    kind: str = "date"

    @property
    def treatment(self) -> str:
        """See `Column`."""
        return ", ".join(self.parts)

    def fields(self, index: int) -> list[Field]:
        """See `Column`."""
        counts = {WEEKDAY: self.weekday_counts}
        return [Field(f"{self.name}: {part}", index, counts.get(part)) for part in self.parts]

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """See `Column`."""
        every = date_parts(as_dates(raw))
        codes = np.full(8, np.nan)  # the last one is for dates that are missing
        codes[list(self.weekdays)] = np.arange(len(self.weekdays))
        every[WEEKDAY] = codes[np.nan_to_num(every[WEEKDAY], nan=7.0).astype(np.intp)]
        return [every[part] for part in self.parts]


def date_parts(dates: NDArray[np.datetime64]) -> dict[str, FloatArray]:
    """Numbers that stand for dates; NaN where they are missing."""
    gaps = np.isnat(dates)
    days = dates.astype("datetime64[D]")
    midnight = days.astype("datetime64[s]")
    seconds = np.where(gaps, np.nan, (dates.astype("datetime64[s]") - midnight).astype(np.float64))
    numbers = np.where(gaps, np.nan, days.astype(np.float64))
    first = days.astype("datetime64[Y]").astype("datetime64[D]")
    of_year = np.where(gaps, np.nan, (days - first).astype(np.float64) + 1.0)
    # 1 January 1970 was a Thursday; Monday is zero.
    return {
        DAY: numbers + seconds / 86400.0,
        YEAR: of_year,
        HOUR: seconds / 3600.0,
        WEEKDAY: (numbers + 3.0) % 7.0,
        GAP: gaps.astype(np.float64),
    }


# --- values of all kinds of arrays ---


def as_numbers(raw: RawColumn) -> FloatArray:
    """The values as numbers, NaN where they are missing.

    Raises
    ------
    ValueError
        If a value is not a number, or infinite.
    """
    values = raw.values
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
    elif values.dtype.kind == "m":
        numbers = _days(values)
    elif values.dtype.kind == "M":
        raise ValueError(f"Column {printable(raw.name)!r} of X held numbers in the training, and now holds dates.")
    else:
        numbers = np.fromiter((_number(value, raw.name) for value in values.tolist()), np.float64, count=len(values))
    if np.isinf(numbers).any():
        raise ValueError(
            f"Column {printable(raw.name)!r} of X contains infinity or a value too large for dtype('float64'). "
            "Input X contains infinity: put NaN in its place if it stands for a missing value."
        )
    return np.clip(numbers, -LARGEST, LARGEST)


def _days(values: NDArray[np.timedelta64]) -> FloatArray:
    days: FloatArray = np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "D"))
    return days


def _number(value: Any, name: str) -> float:
    if is_missing(value):
        return np.nan
    if isinstance(value, (timedelta, np.timedelta64)):
        return float(np.timedelta64(value) / np.timedelta64(1, "D"))
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"Column {printable(name)!r} of X holds numbers, but also {printable(repr(value))[:60]}. "
            "Mend this value, or put NaN in its place."
        ) from None


def is_missing(value: Any) -> bool:
    """Whether a value stands for nothing: None, NaN, the NA and NaT of pandas, or an empty text."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    if isinstance(value, (Real, Decimal, np.datetime64)):  # times of NumPy are among the real numbers
        return bool(value != value)
    return type(value).__name__ in ("NAType", "NaTType")


def as_labels(raw: RawColumn) -> list[str]:
    """The values as text, with one text for all that is missing."""
    values = raw.values
    if values.dtype.kind in "M":
        values = np.datetime_as_string(values)
    return [_label(value, raw.name) for value in values.tolist()]


def _label(value: Any, name: str) -> str:
    if type(value) is str:
        return value if value.strip() else MISSING
    if is_missing(value):
        return MISSING
    if isinstance(value, float) and value.is_integer():  # integers become floats where some are missing
        return str(int(value))
    if isinstance(value, (dict, list, set, tuple, np.ndarray)):
        raise _cells_with_parts(name, f"{type(value).__name__}s")
    return str(value)


def _cells_with_parts(name: str, what: str) -> TypeError:
    return TypeError(
        f"Column {printable(name)!r} of X holds {what}. "
        "An argument must be a string or a number: make a column of each of their parts."
    )


def as_dates(raw: RawColumn) -> NDArray[np.datetime64]:
    """The values as moments without a time zone, to the second."""
    if raw.values.dtype.kind == "M":
        return raw.values.astype("datetime64[s]")
    return np.array([_moment(value, raw.name) for value in raw.values.tolist()], dtype="datetime64[s]")


def _moment(value: Any, name: str) -> Any:
    if is_missing(value):
        return np.datetime64("NaT")
    if isinstance(value, str) and _spells_date(value):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        ahead = value.utcoffset() or timedelta()
        # In NumPy, as the first and the last day of the calendar may lie outside it in UTC.
        return np.datetime64(value.replace(tzinfo=None), "s") - np.timedelta64(ahead)
    if not isinstance(value, (date, np.datetime64)):
        raise ValueError(
            f"Column {printable(name)!r} of X holds dates, but also {printable(repr(value))[:60]}. "
            "Convert the column to dates, for example with pandas.to_datetime."
        )
    return value


# --- what a column is ---


def kind_of(raw: RawColumn) -> type[NumberColumn] | type[CategoryColumn] | type[DateColumn]:
    """What a column is, by its type or by its values."""
    kind = raw.values.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: column {printable(raw.name)!r} of X is complex.")
    if raw.is_category:
        return CategoryColumn
    if kind in "biufm":
        return NumberColumn
    return DateColumn if kind == "M" else _kind_of_values(raw.values)


def _kind_of_values(values: NDArray[Any]) -> type[NumberColumn] | type[CategoryColumn] | type[DateColumn]:
    known = [value for value in values.tolist() if not is_missing(value)]
    if all(isinstance(value, (Real, Decimal, timedelta, np.bool_)) for value in known) or all(
        map(_spells_number, known)
    ):
        return NumberColumn
    is_date = all(isinstance(value, (date, np.datetime64)) for value in known) or all(map(_spells_date, known))
    return DateColumn if is_date else CategoryColumn


def _spells_date(value: Any) -> bool:
    """Whether a text is a date as ISO 8601 has it, such as 2024-05-31 or 2024-05-31T12:00."""
    if not isinstance(value, str) or value[4:5] + value[7:8] != "--":
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def slip_of(raw: RawColumn) -> str | None:
    """A text that keeps a column of text from being numbers, if more than half of its values are."""
    if raw.is_category or raw.values.dtype.kind not in "OUT" or kind_of(raw) is not CategoryColumn:
        return None
    known = [value for value in raw.values.tolist() if not is_missing(value)]
    others = [value for value in known if not _spells_number(value)]
    return str(others[0]) if 2 * len(others) < len(known) else None


def _spells_number(value: Any) -> bool:
    if not isinstance(value, (str, Real)):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except (ValueError, OverflowError):
        return False


def _fitted(raw: RawColumn) -> Column:
    """Decide what a column is."""
    kind = kind_of(raw)
    if kind is NumberColumn:
        numbers = as_numbers(raw)
        return NumberColumn(raw.name, int(np.isnan(numbers).sum()))
    return _fitted_dates(raw) if kind is DateColumn else _fitted_category(raw)


def _fitted_dates(raw: RawColumn) -> Column:
    every = date_parts(as_dates(raw))
    known = every[GAP] == 0.0
    varying = [part for part, values in every.items() if len(np.unique(values[known])) > 1]
    if np.sum(~known) >= MIN_GAPS:
        varying.append(GAP)
    weekdays = Counter(every[WEEKDAY][known].astype(np.intp).tolist())
    ordered = sorted(weekdays.items(), key=lambda item: (-item[1], item[0]))
    return DateColumn(raw.name, tuple(varying), tuple(day for day, _ in ordered), tuple(n for _, n in ordered))


def _fitted_category(raw: RawColumn) -> Column:
    counts = Counter(as_labels(raw))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if ordered[0][1] < MIN_LEVEL and len(ordered) > len(raw.values) / 2 and len(raw.values) > MIN_LEVEL:
        return DroppedColumn(raw.name, "text", "nearly every row has a value of its own")
    return CategoryColumn(raw.name, tuple(label for label, _ in ordered), tuple(count for _, count in ordered))


# --- the table ---


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows of fields.

    Attributes
    ----------
    fields : tuple of Field
    values : tuple of arrays of shape (n_rows,)
        One for each field.
    n_rows : int
    """

    fields: tuple[Field, ...]
    values: tuple[FloatArray, ...]
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    def rows(self, chosen: NDArray[np.intp] | BoolArray | slice) -> Table:
        """Some of the rows."""
        some = tuple(values[chosen] for values in self.values)
        return Table(self.fields, some, len(np.arange(self.n_rows)[chosen]))

    def copies(self) -> NDArray[np.intp] | None:
        """A number for each row, the same for rows that are copies of each other; None if there are none.

        Where no column has more than a few values, equal rows are no copies, but different cases that look alike.
        """
        if not any(not f.is_category and _varies_much(v) for f, v in zip(self.fields, self.values, strict=True)):
            return None
        _, numbers = np.unique(_hashes(self.values), return_inverse=True)
        return numbers if numbers.max() + 1 < self.n_rows else None

    def with_rows_of(self, other: Table) -> Table:
        """These rows, and then those of another table with the same fields."""
        pairs = zip(self.values, other.values, strict=True)
        return Table(self.fields, tuple(np.concatenate(pair) for pair in pairs), len(self) + len(other))


@dataclass(frozen=True, slots=True)
class Schema:
    """What each column of a table is.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.encoding.columns import Schema, raw_columns
    >>> columns = raw_columns(np.array([[1.5, "red", 7], [2.5, "blue", 7], [None, "red", 7]], dtype=object))
    >>> schema = Schema.of(columns)
    >>> [f"{column.kind}, {column.treatment}" for column in schema.columns]
    ['number, median for 1 missing values', 'category, 2 levels', 'number, dropped: constant']
    >>> schema.read(columns).values
    (array([1.5, 2.5, nan]), array([0., 1., 0.]))
    """

    columns: tuple[Column, ...]

    @classmethod
    def of(cls, raws: Sequence[RawColumn]) -> Schema:
        """Decide on the columns of a table."""
        fitted = [_fitted(raw) for raw in raws]
        seen: dict[bytes, Column] = {}
        useful = [_if_useful(column, raw, seen) for column, raw in zip(fitted, raws, strict=True)]
        return cls(tuple(useful))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields that the columns become."""
        return tuple(field for index, column in enumerate(self.columns) for field in column.fields(index))

    def described(self) -> list[dict[str, str]]:
        """What each column is, and what is done with it."""
        return [{"column": c.name, "kind": c.kind, "treatment": c.treatment} for c in self.columns]

    def read(self, raws: Sequence[RawColumn]) -> Table:
        """The fields of the rows of a table."""
        values = [array for column, raw in zip(self.columns, raws, strict=True) for array in column.read(raw)]
        return Table(self.fields, tuple(values), len(raws[0].values))


def _if_useful(column: Column, raw: RawColumn, seen: dict[bytes, Column]) -> Column:
    """The column itself, unless it does not vary or repeats one that was seen before."""
    arrays: Sequence[FloatArray] = column.read(raw)
    if isinstance(column, DroppedColumn):
        return column
    if all(_is_constant(values) for values in arrays):
        return DroppedColumn(column.name, column.kind, "constant")
    key = sha256(b"".join([column.kind.encode(), *(values.tobytes() for values in arrays)])).digest()
    first = seen.setdefault(key, column)
    return column if first is column else DroppedColumn(column.name, column.kind, f"the same as {first.name}")


def _hashes(arrays: Sequence[FloatArray]) -> NDArray[np.uint64]:
    """A number for each row that tells rows apart by the bits of their values; it wraps around at 64 bits."""
    hashes: NDArray[np.uint64] = np.zeros(len(arrays[0]), dtype=np.uint64)
    for values in arrays:
        plain = np.where(np.isnan(values), np.nan, values) + 0.0  # one NaN, and no negative zero
        hashes = (hashes ^ plain.view(np.uint64)) * np.uint64(0xFF51AFD7ED558CCD)
        hashes ^= hashes >> np.uint64(32)
    return hashes


def _varies_much(values: FloatArray) -> bool:
    return len(np.unique(values)) > FEW_VALUES


def _is_constant(values: FloatArray) -> bool:
    return bool(np.all((values == values[0]) | (np.isnan(values) & np.isnan(values[0]))))
