"""The kind of each column of a table, and tables as fields: arrays of numbers that can be coded.

The kind of a column is decided once, on the training rows. A column becomes zero or more fields, in which a missing
number is NaN and a category is the number of its level.

All columns have a ``name``; a ``kind``: number, category, date or text; a ``treatment``: how the column is used, in
words for users; ``fields``, which takes the index of the column in the table; and ``read``, which returns the values of
the fields in new rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet._text import count
from dconnet.encoding.cell_formats import PLAIN, CellFormat
from dconnet.encoding.columns import RawColumn, as_dates, as_labels, as_numbers, infer_type
from dconnet.encoding.design import FEW_VALUES

# A column with at least this many missing values gets a field that marks them.
MIN_GAPS = 5
# Text is dropped if no level has this many rows and most rows have a level of their own.
MIN_LEVEL_ROWS = 10
DATE_PARTS = DAY, YEAR, HOUR, WEEKDAY, GAP = "day", "day of year", "hour", "weekday", "missing"

Level = TypeVar("Level", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Field:
    """An array of numbers that a column became, for example "sold" or "sold: weekday".

    ``column`` is the index of the column in the table. ``counts`` are the training rows of each level of a category,
    most frequent first, and None for numbers.
    """

    name: str
    column: int
    counts: tuple[int, ...] | None = None

    @property
    def is_category(self) -> bool:
        """True if the values are numbers of levels."""
        return self.counts is not None

    @property
    def n_levels(self) -> int:
        """Number of levels of a category; zero for numbers."""
        return 0 if self.counts is None else len(self.counts)


@dataclass(frozen=True, slots=True)
class DroppedColumn:
    """A column without information; it has no fields."""

    name: str
    kind: str
    reason: str

    @property
    def treatment(self) -> str:
        """How the column is used."""
        return f"dropped: {self.reason}"

    def fields(self, index: int) -> list[Field]:
        """Return the fields of the column."""
        return []

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """Return the values of the fields in new rows."""
        return []


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Numbers, with a second field that marks missing values if there are at least `MIN_GAPS`."""

    name: str
    n_gaps: int = 0
    format: CellFormat = PLAIN
    kind: str = "number"

    @property
    def has_indicator(self) -> bool:
        """True if a field marks missing values."""
        return self.n_gaps >= MIN_GAPS

    @property
    def treatment(self) -> str:
        """How the column is used."""
        notes = list(self.format.notes)
        if self.n_gaps:
            notes.append(f"median for {count(self.n_gaps, 'missing value')}")
        return ", ".join(notes + ["and an indicator"] * self.has_indicator) or "as it is"

    def fields(self, index: int) -> list[Field]:
        """Return the fields of the column."""
        gaps = [Field(f"{self.name}: missing", index)] if self.has_indicator else []
        return [Field(self.name, index), *gaps]

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """Return the values of the fields in new rows."""
        values = as_numbers(raw, self.format)
        return [values, np.isnan(values).astype(np.float64)] if self.has_indicator else [values]


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """Levels, most frequent first; missing values are a level if the training had any."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    kind: str = "category"

    @property
    def treatment(self) -> str:
        """How the column is used."""
        return count(len(self.levels), "level")

    def fields(self, index: int) -> list[Field]:
        """Return the fields of the column."""
        return [Field(self.name, index, self.counts)]

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """Return the number of the level of each row; NaN for an unknown level."""
        codes = {level: float(code) for code, level in enumerate(self.levels)}
        labels = as_labels(raw)
        return [np.fromiter((codes.get(label, np.nan) for label in labels), dtype=np.float64, count=len(labels))]


@dataclass(frozen=True, slots=True)
class DateColumn:
    """Dates and times as those of `DATE_PARTS` that vary in the training.

    ``weekdays`` are those of the training, most frequent first, with Monday as zero; ``weekday_counts`` are their rows.
    """

    name: str
    parts: tuple[str, ...]
    weekdays: tuple[int, ...]
    weekday_counts: tuple[int, ...]
    format: CellFormat = PLAIN
    kind: str = "date"

    @property
    def treatment(self) -> str:
        """How the column is used."""
        return ", ".join([*self.parts, *self.format.notes])

    def fields(self, index: int) -> list[Field]:
        """Return the fields of the column."""
        counts = {WEEKDAY: self.weekday_counts}
        return [Field(f"{self.name}: {part}", index, counts.get(part)) for part in self.parts]

    def read(self, raw: RawColumn) -> list[FloatArray]:
        """Return the values of the fields in new rows."""
        values = split_dates(as_dates(raw, self.format))
        codes = np.full(8, np.nan)  # the last one is for missing dates
        codes[list(self.weekdays)] = np.arange(len(self.weekdays))
        values[WEEKDAY] = codes[np.nan_to_num(values[WEEKDAY], nan=7.0).astype(np.intp)]
        return [values[part] for part in self.parts]


Column = DroppedColumn | NumberColumn | CategoryColumn | DateColumn


def split_dates(dates: NDArray[np.datetime64]) -> dict[str, FloatArray]:
    """Return each of `DATE_PARTS` as numbers, NaN where a date is missing."""
    gaps = np.isnat(dates)
    days = dates.astype("datetime64[D]")
    midnight = days.astype("datetime64[s]")
    seconds = np.where(gaps, np.nan, (dates.astype("datetime64[s]") - midnight).astype(np.float64))
    numbers = np.where(gaps, np.nan, days.astype(np.float64))
    first = days.astype("datetime64[Y]").astype("datetime64[D]")
    of_year = np.where(gaps, np.nan, (days - first).astype(np.float64) + 1.0)
    return {
        DAY: numbers + seconds / 86400.0,
        YEAR: of_year,
        HOUR: seconds / 3600.0,
        WEEKDAY: (numbers + 3.0) % 7.0,  # 1 January 1970 was a Thursday
        GAP: gaps.astype(np.float64),
    }


def _fit_column(raw: RawColumn) -> Column:
    kind, cell_format = infer_type(raw)
    if kind == "number":
        return NumberColumn(raw.name, int(np.isnan(as_numbers(raw, cell_format)).sum()), cell_format)
    if kind == "date":
        return _fit_dates(raw, cell_format)
    levels, counts = _count_levels(as_labels(raw))
    n_rows = len(raw.values)
    if counts[0] < MIN_LEVEL_ROWS and len(levels) > n_rows / 2 and n_rows > MIN_LEVEL_ROWS:
        return DroppedColumn(raw.name, "text", "nearly every row has a value of its own")
    return CategoryColumn(raw.name, levels, counts)


def _fit_dates(raw: RawColumn, cell_format: CellFormat) -> DateColumn:
    values = split_dates(as_dates(raw, cell_format))
    known = values[GAP] == 0.0
    varying = [part for part, own in values.items() if len(np.unique(own[known])) > 1]
    if np.sum(~known) >= MIN_GAPS:
        varying.append(GAP)
    weekdays, counts = _count_levels(values[WEEKDAY][known].astype(np.intp).tolist())
    return DateColumn(raw.name, tuple(varying), weekdays, counts, cell_format)


def _count_levels(labels: list[Level]) -> tuple[tuple[Level, ...], tuple[int, ...]]:
    """Return the distinct labels, most frequent first, and their numbers of rows."""
    ordered = sorted(Counter(labels).items(), key=lambda item: (-item[1], item[0]))
    return tuple(label for label, _ in ordered), tuple(count for _, count in ordered)


@dataclass(frozen=True, slots=True, eq=False)
class FieldTable:
    """Rows of fields, with an array of shape (n_rows,) for each field."""

    fields: tuple[Field, ...]
    values: tuple[FloatArray, ...]
    n_rows: int

    def __len__(self) -> int:
        return self.n_rows

    def rows(self, chosen: IndexArray | BoolArray | slice) -> FieldTable:
        """Return some of the rows."""
        some = tuple(values[chosen] for values in self.values)
        return FieldTable(self.fields, some, len(np.arange(self.n_rows)[chosen]))

    def append(self, other: FieldTable) -> FieldTable:
        """Return these rows followed by those of a table with the same fields."""
        pairs = zip(self.values, other.values, strict=True)
        return FieldTable(self.fields, tuple(np.concatenate(pair) for pair in pairs), len(self) + len(other))

    def duplicate_groups(self) -> IndexArray | None:
        """Return a number for each row that is equal for duplicate rows; None if there are no duplicates.

        Equal rows are not duplicates if no number varies much: different cases may then look alike.
        """
        numbers = [own for field, own in zip(self.fields, self.values, strict=True) if not field.is_category]
        if not any(len(np.unique(own)) > FEW_VALUES for own in numbers):
            return None
        hashes: NDArray[np.uint64] = np.zeros(len(self), dtype=np.uint64)
        for values in self.values:
            plain = np.where(np.isnan(values), np.nan, values) + 0.0  # one NaN, and no negative zero
            hashes = (hashes ^ plain.view(np.uint64)) * np.uint64(0xFF51AFD7ED558CCD)  # wraps around at 64 bits
            hashes ^= hashes >> np.uint64(32)
        _, groups = np.unique(hashes, return_inverse=True)
        return groups if groups.max() + 1 < self.n_rows else None


@dataclass(frozen=True, slots=True)
class Schema:
    """The fitted columns of a table."""

    columns: tuple[Column, ...]

    @classmethod
    def fit(cls, raws: Sequence[RawColumn]) -> Schema:
        """Decide what each column is; drop constant columns and copies of other columns."""
        first_with: dict[bytes, Column] = {}
        columns: list[Column] = []
        for raw in raws:
            column = _fit_column(raw)
            arrays = column.read(raw)
            same = [(values == values[0]) | (np.isnan(values) & np.isnan(values[0])) for values in arrays]
            if not isinstance(column, DroppedColumn) and np.all(same):
                is_empty = len(arrays) > 0 and np.isnan(arrays[0]).all()
                column = DroppedColumn(column.name, column.kind, "all values are missing" if is_empty else "constant")
            if not isinstance(column, DroppedColumn):
                content = b"".join([column.kind.encode(), *(values.tobytes() for values in arrays)])
                first = first_with.setdefault(sha256(content).digest(), column)
                if first is not column:
                    column = DroppedColumn(column.name, column.kind, f"the same as {first.name}")
            columns.append(column)
        return cls(tuple(columns))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of all columns."""
        return tuple(field for index, column in enumerate(self.columns) for field in column.fields(index))

    def describe(self) -> list[dict[str, str]]:
        """Return name, kind and treatment of each column."""
        return [{"column": c.name, "kind": c.kind, "treatment": c.treatment} for c in self.columns]

    def read(self, raws: Sequence[RawColumn]) -> FieldTable:
        """Return the fields of the rows of a table."""
        values = [array for column, raw in zip(self.columns, raws, strict=True) for array in column.read(raw)]
        return FieldTable(self.fields, tuple(values), len(raws[0].values))
