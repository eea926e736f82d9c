"""A table as a matrix of standardised columns: the preparation of real tables for models that take numbers alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import Coder, Coding
from dconnet.encoding.columns import RawColumn
from dconnet.encoding.features import CATEGORY, LINEAR, Feature
from dconnet.encoding.schema import CategoryColumn, Column, DateColumn, Field, FieldTable, Schema

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True, eq=False)
class TargetColumns:
    """What categories with many levels may be coded by.

    Attributes
    ----------
    columns : array of shape (n_rows, n_columns)
        The target, or a column for each class.
    classes : array of int, of shape (n_rows,), or None
        The class of each row.
    seed : int
        Seed of the folds in which the rows of the training get means of the others.
    """

    columns: FloatArray
    classes: NDArray[np.intp] | None
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class TableEncoding:
    """From the columns of a table to those of a matrix.

    Every column of the table becomes fields, every field features, and every feature columns of the matrix, in the
    order of the table. Column j of the matrix is ``(x_j - mean_j) / scale_j``.

    Attributes
    ----------
    schema : Schema
        What each column of the table is.
    coder : Coder
        How its fields are coded.
    mean, scale : arrays of shape (n_columns,)
        What is subtracted from the coded columns, and what they are divided by.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.encoding.coder import Coding
    >>> from dconnet.encoding.columns import raw_columns
    >>> from dconnet.encoding.matrix import TableEncoding
    >>> raws = raw_columns(np.array([[1.0, "red"], [3.0, "blue"]], dtype=object))
    >>> encoding, _ = TableEncoding.learnt(Coding(), raws)
    >>> encoding.names(["size", "colour"])
    ['size', 'colour: blue']
    >>> encoding.encode(encoding.schema.read(raws))
    array([[-1., -1.],
           [ 1.,  1.]])
    """

    schema: Schema
    coder: Coder
    mean: FloatArray
    scale: FloatArray

    @classmethod
    def learnt(
        cls, coding: Coding, raws: Sequence[RawColumn], target: TargetColumns | None = None
    ) -> tuple[TableEncoding, FloatArray]:
        """Learn from the columns of a table; see `of`."""
        schema = Schema.fit(raws)
        return cls.of(coding, schema, schema.read(raws), target)

    @classmethod
    def of(
        cls, coding: Coding, schema: Schema, table: FieldTable, target: TargetColumns | None = None
    ) -> tuple[TableEncoding, FloatArray]:
        """Learn from rows that were read already.

        Parameters
        ----------
        coding : Coding
            How fields are to be coded.
        schema : Schema
            What each column of the table is.
        table : FieldTable
            Rows that it has read.
        target : TargetColumns, optional
            Needed if means of the target are to stand for the levels of some categories.

        Returns
        -------
        encoding : TableEncoding
        encoded : array of shape (n_rows, n_columns)
            These rows. Where means of the target stand for levels, they are those of other rows, so that this is not
            what `encode` gives.
        """
        coder = Coder.of(coding, table)
        if target is None:
            values = coder.values(table)
        else:
            weight = np.ones(len(table))
            coder, values = coder.cross_fitted(table, target.columns, weight, target.classes, target.seed)
        plain = cls(schema, coder, np.zeros(0), np.ones(0))
        encoded = plain._coded(values, len(table))
        mean, scale = plain._moments(encoded)
        encoded -= mean
        encoded /= scale
        return cls(schema, coder, mean, scale), encoded

    @property
    def order(self) -> list[int]:
        """The features in the order of the fields."""
        fields = self.coder.field_of_each()
        return sorted(range(len(fields)), key=fields.__getitem__)

    @property
    def n_columns(self) -> int:
        """Columns of the matrix."""
        return sum(feature.n_columns for feature in self.coder.features)

    @property
    def sources(self) -> NDArray[np.intp]:
        """The column of the table that each column of the matrix came from."""
        of_field, features, known = self.coder.field_of_each(), self.coder.features, self.schema.fields
        own = [np.full(features[f].n_columns, known[of_field[f]].column) for f in self.order]
        return np.concatenate([np.zeros(0, dtype=np.intp), *own]).astype(np.intp)

    def encode(self, table: FieldTable) -> FloatArray:
        """Rows that the schema has read, as rows of the matrix, of shape (n_rows, n_columns)."""
        encoded = self._coded(self.coder.values(table), len(table))
        encoded -= self.mean
        encoded /= self.scale
        return encoded

    def read(self, raws: Sequence[RawColumn]) -> FloatArray:
        """Rows of a table as rows of the matrix."""
        return self.encode(self.schema.read(raws))

    def names(self, columns: Sequence[str] | None = None) -> list[str]:
        """A name for each column of the matrix, all different.

        Parameters
        ----------
        columns : sequence of str, optional
            Names of the columns of the table; by default those of the training.

        Returns
        -------
        list of str
            For example "price", "price 2" for the second ramp of a price, or "colour: red".
        """
        given = [column.name for column in self.schema.columns] if columns is None else list(columns)
        of_field, fields = self.coder.field_of_each(), self.schema.fields
        found = []
        for f in self.order:
            field = fields[of_field[f]]
            column = self.schema.columns[field.column]
            stem = given[field.column] + field.name.removeprefix(column.name)
            found += list(self._names_of(f, stem, column, field))
        return _all_different(found)

    def _names_of(self, f: int, stem: str, column: Column, field: Field) -> Iterator[str]:
        feature, n_plain = self.coder.features[f], len(self.coder.plain)
        if feature.kind == CATEGORY:
            yield from (f"{stem}: {level}" for level in _level_names(column)[: feature.n_columns])
            return
        if f >= n_plain:
            n_targets = (len(self.coder.features) - n_plain) // len(self.coder.means)
            stem += ": target" if n_targets == 1 else f": target {(f - n_plain) % n_targets + 1}"
        yield from (stem if feature.n_columns == 1 else f"{stem} {j + 1}" for j in range(feature.n_columns))

    def _coded(self, values: Sequence[FloatArray], n_rows: int) -> FloatArray:
        """The columns of all features, not standardised."""
        coded = np.empty((n_rows, self.n_columns))
        for f, columns in self._places():
            feature = self.coder.features[f]
            coded[:, columns] = feature.columns(feature.code(values[f]))
        return coded

    def _places(self) -> Iterator[tuple[int, slice]]:
        """Each feature, and its columns of the matrix."""
        first = 0
        for f in self.order:
            last = first + self.coder.features[f].n_columns
            yield f, slice(first, last)
            first = last

    def _moments(self, coded: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, scale = np.zeros(coded.shape[1]), np.ones(coded.shape[1])
        for f, columns in self._places():
            feature = self.coder.features[f]
            if feature.kind != LINEAR:  # which is standardised already
                mean[columns], scale[columns] = _mean_and_scale(coded[:, columns], self._is_gentle(feature))
        return mean, scale

    def _is_gentle(self, feature: Feature) -> bool:
        """Whether rare columns are to count less: levels beside ramps, see `Coder.gentle`."""
        return feature.kind == CATEGORY and self.coder.coding.n_bins > 1


def _mean_and_scale(columns: FloatArray, gentle: bool) -> tuple[FloatArray, FloatArray]:
    mean, spread = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(spread > 1e-6, spread, 1.0)
    return mean, np.sqrt(scale / 2.0) if gentle else scale


def _level_names(column: Column) -> Sequence[str]:
    """What the levels of a category, or the weekdays of a date, are called."""
    if isinstance(column, CategoryColumn):
        return column.levels
    assert isinstance(column, DateColumn)
    return [WEEKDAYS[day] for day in column.weekdays]


def _all_different(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that occur before."""
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
