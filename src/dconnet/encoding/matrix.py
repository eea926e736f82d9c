"""A table as a matrix of standardised columns, in double precision, for models that take a matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dconnet._arrays import FloatArray, IndexArray
from dconnet.encoding.coder import Coder, Coding
from dconnet.encoding.columns import RawColumn
from dconnet.encoding.design import CATEGORY, LINEAR
from dconnet.encoding.schema import CategoryColumn, DateColumn, FieldTable, Schema

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True, eq=False)
class TargetColumns:
    """The target, for coding categories with many levels by its means.

    ``columns`` are the target, or an indicator of each class, of shape (n_rows, n_columns). ``seed`` determines the
    folds in which training rows get means of other rows.
    """

    columns: FloatArray
    classes: IndexArray | None
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class TableEncoding:
    """Fitted map from the columns of a table to those of a matrix.

    Columns of the table become fields, fields features, and features columns of the matrix, in the order of the table.
    Column j of the matrix is ``(x_j - mean_j) / scale_j`` for the coded column x_j.
    """

    schema: Schema
    coder: Coder
    mean: FloatArray
    scale: FloatArray

    @classmethod
    def of(
        cls, coding: Coding, schema: Schema, table: FieldTable, target: TargetColumns | None = None
    ) -> tuple[TableEncoding, FloatArray]:
        """Fit an encoding to training rows, and return it with the encoded rows, of shape (n_rows, n_columns).

        With a target, which a coding by target needs, the target means of a row are those of rows in other folds; the
        encoded rows then differ from those of `encode`.
        """
        coder = Coder.of(coding, table)
        if target is None:
            values = coder.values(table)
        else:
            weight = np.ones(len(table))
            coder, values = coder.cross_fit(table, target.columns, weight, target.classes, target.seed)
        plain = cls(schema, coder, np.zeros(0), np.ones(0))
        encoded = plain._code(values, len(table))
        mean, scale = np.zeros(encoded.shape[1]), np.ones(encoded.shape[1])
        for f, columns in plain._slices():
            kind = coder.features[f].kind
            if kind != LINEAR:  # linear features are standardised already
                own = encoded[:, columns]
                spread = own.std(axis=0)
                spread = np.where(spread > 1e-6, spread, 1.0)
                is_gentle = kind == CATEGORY and coder.coding.n_bins > 1  # as in `Coder.gentle`
                mean[columns], scale[columns] = own.mean(axis=0), np.sqrt(spread / 2.0) if is_gentle else spread
        encoded -= mean
        encoded /= scale
        return cls(schema, coder, mean, scale), encoded

    @property
    def order(self) -> list[int]:
        """The features in the order of the fields."""
        fields = self.coder.fields_of_features()
        return sorted(range(len(fields)), key=fields.__getitem__)

    @property
    def n_columns(self) -> int:
        """Number of columns of the matrix."""
        return sum(feature.n_columns for feature in self.coder.features)

    @property
    def sources(self) -> IndexArray:
        """The column of the table that each column of the matrix came from."""
        of_field, features, known = self.coder.fields_of_features(), self.coder.features, self.schema.fields
        own = [np.full(features[f].n_columns, known[of_field[f]].column) for f in self.order]
        return np.concatenate([np.zeros(0, dtype=np.intp), *own]).astype(np.intp)

    def encode(self, table: FieldTable) -> FloatArray:
        """Return rows of fields as rows of the matrix, of shape (n_rows, n_columns)."""
        encoded = self._code(self.coder.values(table), len(table))
        encoded -= self.mean
        encoded /= self.scale
        return encoded

    def read(self, raws: Sequence[RawColumn]) -> FloatArray:
        """Return rows of a table as rows of the matrix."""
        return self.encode(self.schema.read(raws))

    def describe(self) -> list[dict[str, str]]:
        """Return name, kind and treatment of each column of the table."""
        described = self.schema.describe()
        for means in self.coder.means:
            described[self.schema.fields[means.field].column]["treatment"] += ", by the target"
        return described

    def names(self, columns: Sequence[str] | None = None) -> list[str]:
        """Return a name for each column of the matrix, all different.

        For example "price", "price 2" for the second ramp of a price, or "colour: red". ``columns`` are names of the
        columns of the table, by default those of the training.
        """
        given = [column.name for column in self.schema.columns] if columns is None else list(columns)
        of_field, fields, n_plain = self.coder.fields_of_features(), self.schema.fields, len(self.coder.plain)
        n_targets = (len(of_field) - n_plain) // max(len(self.coder.means), 1)
        names: list[str] = []
        for f in self.order:
            feature, field = self.coder.features[f], fields[of_field[f]]
            column = self.schema.columns[field.column]
            stem = given[field.column] + field.name.removeprefix(column.name)
            if f >= n_plain:
                stem += ": target" if n_targets == 1 else f": target {(f - n_plain) % n_targets + 1}"
            if isinstance(column, CategoryColumn) and feature.kind == CATEGORY:
                names += [f"{stem}: {level}" for level in column.levels[: feature.n_columns]]
            elif isinstance(column, DateColumn) and feature.kind == CATEGORY:
                names += [f"{stem}: {WEEKDAYS[day]}" for day in column.weekdays[: feature.n_columns]]
            else:
                names += [stem] if feature.n_columns == 1 else [f"{stem} {j + 1}" for j in range(feature.n_columns)]
        return _make_unique(names)

    def _code(self, values: Sequence[FloatArray], n_rows: int) -> FloatArray:
        coded = np.empty((n_rows, self.n_columns))
        for f, columns in self._slices():
            feature = self.coder.features[f]
            coded[:, columns] = feature.columns(feature.code(values[f]))
        return coded

    def _slices(self) -> Iterator[tuple[int, slice]]:
        """Yield each feature and its columns of the matrix."""
        first = 0
        for f in self.order:
            last = first + self.coder.features[f].n_columns
            yield f, slice(first, last)
            first = last


def _make_unique(names: Sequence[str]) -> list[str]:
    """Append a number to names that occurred before."""
    taken, seen = set(names), Counter[str]()
    found = []
    for name in names:
        seen[name] += 1
        other = name
        while seen[name] > 1 and other in taken:
            other = f"{name} ({seen[name]})"
            seen[name] += other in taken
        taken.add(other)
        found.append(other)
    return found
