"""From the fields of a table to coded features: how each field is coded, and what it needs to know for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet.encoding.columns import Field, Table
from dconnet.encoding.design import CodedDesign
from dconnet.encoding.features import CATEGORY, Feature, Levels, Linear, Ramps
from dconnet.encoding.folds import deal

# Levels with fewer rows than this have no column, and no category has more columns than that.
MIN_LEVEL, MAX_LEVELS = 10, 50
# Categories with more levels are the ones that the means of the target can stand for.
FEW_LEVELS = 12
# Folds in which the rows of the training get the means of the others, and the code of a level that is not known.
CROSS_FITS, UNKNOWN = 5, -1.0


@dataclass(frozen=True, slots=True)
class Coding:
    """How fields are coded.

    Attributes
    ----------
    n_bins : int
        Bins of a number; one leaves it as it is.
    every_value : bool
        Whether numbers with few distinct values get a knot at each of them.
    by_target : bool
        Whether the means of the target stand for the levels of categories that have many.
    """

    n_bins: int = 1
    every_value: bool = False
    by_target: bool = False

    def is_by_target(self, field: Field) -> bool:
        """Whether means of the target stand for this field."""
        return self.by_target and field.n_levels > FEW_LEVELS

    def feature(self, field: Field, values: FloatArray) -> Feature:
        """The feature of a field, by its values in the training."""
        if field.counts is not None and not self.is_by_target(field):
            return _levels(field.counts)
        if self.n_bins == 1:
            return Linear.of(values)
        return Ramps.of(values, self.n_bins, every_value=self.every_value)


def _levels(counts: tuple[int, ...]) -> Levels:
    if len(counts) == 2:
        return Levels(1)
    return Levels(min(sum(count >= MIN_LEVEL for count in counts), MAX_LEVELS))


@dataclass(frozen=True, slots=True, eq=False)
class TargetMeans:
    """Means of a target for the levels of a category, drawn to the mean of all rows where a level has few.

    Attributes
    ----------
    field : int
        The field of the table.
    means : array of shape (n_levels + 1, n_columns)
        For each level and each column of the target; the last row is for levels that are not known.
    """

    field: int
    means: FloatArray

    def values(self, table: Table) -> list[FloatArray]:
        """A column for each column of the target."""
        codes = table.values[self.field]
        known = np.where(np.isnan(codes), len(self.means) - 1, np.nan_to_num(codes)).astype(np.intp)
        return list(self.means[known].T)


@dataclass(frozen=True, slots=True, eq=False)
class Coder:
    """Fields to coded features.

    Attributes
    ----------
    coding : Coding
    plain : tuple of int
        Fields that are coded as they are.
    means : tuple of TargetMeans
        Fields that means of the target stand for.
    features : tuple of Feature
        Those of the plain fields, then those of the means.
    """

    coding: Coding
    plain: tuple[int, ...]
    means: tuple[TargetMeans, ...]
    features: tuple[Feature, ...]

    @classmethod
    def of(cls, coding: Coding, table: Table) -> Coder:
        """Learn to code fields without the target."""
        plain = tuple(j for j, field in enumerate(table.fields) if not coding.is_by_target(field))
        return cls(coding, plain, (), tuple(coding.feature(table.fields[j], table.values[j]) for j in plain))

    def with_target(
        self, table: Table, target: NDArray[np.float64], is_class: bool, seed: int
    ) -> tuple[Coder, CodedDesign]:
        """Learn the means of the target, too.

        Parameters
        ----------
        table : Table
            Rows of the training.
        target : array of shape (n_rows,)
            The target, or the number of the class.
        is_class : bool
            Whether it is the number of a class.
        seed : int
            Seed of the split by which the rows of the training get means of other rows.

        Returns
        -------
        coder : Coder
        design : CodedDesign
            The coded rows of the training, each with means in which its own target has no part.
        """
        chosen = [j for j, field in enumerate(table.fields) if self.coding.is_by_target(field)]
        means, columns = _target_means(table, chosen, target, is_class, seed)
        features = tuple(self.coding.feature(Field("", 0), values) for values in columns)
        coder = Coder(self.coding, self.plain, means, self.features + features)
        return coder, CodedDesign.of(coder.features, [*(table.values[j] for j in self.plain), *columns])

    def code(self, table: Table) -> CodedDesign:
        """Code rows."""
        columns = [table.values[j] for j in self.plain]
        columns += [values for means in self.means for values in means.values(table)]
        return CodedDesign.of(self.features, columns, n_rows=len(table))

    def sources(self, fields: Sequence[Field]) -> NDArray[np.intp]:
        """The column of the table that each feature of the design came from."""
        own = [(self.features[k].kind, fields[j].column) for k, j in enumerate(self._field_of_each())]
        return np.array([column for _, column in sorted(own, key=lambda pair: pair[0])], dtype=np.intp)

    def _field_of_each(self) -> list[int]:
        """The field of each feature; the means of several columns of a target have several."""
        n_means = (len(self.features) - len(self.plain)) // max(len(self.means), 1)
        return [*self.plain, *(means.field for means in self.means for _ in range(n_means))]

    def column_names(self, fields: Sequence[Field]) -> list[str]:
        """A name for each column of the design: that of the field, and a number if it has several."""
        sources = [fields[j].name for j in self._field_of_each()]
        ordered = sorted(zip(self.features, sources, strict=True), key=lambda pair: pair[0].kind)
        return [
            f"{name} {j + 1}" if feature.n_columns > 1 else name
            for feature, name in ordered
            for j in range(feature.n_columns)
        ]

    @property
    def gentle(self) -> BoolArray:
        """The columns of the design whose scale is softened: levels beside ramps; rare ones then count less."""
        ordered = sorted(self.features, key=lambda feature: feature.kind)
        soft = [np.full(f.n_columns, f.kind == CATEGORY and self.coding.n_bins > 1) for f in ordered]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *soft])


def _target_means(
    table: Table, chosen: list[int], target: NDArray[np.float64], is_class: bool, seed: int
) -> tuple[tuple[TargetMeans, ...], list[FloatArray]]:
    """The means for later, and the columns of the training rows, each by the means of other rows."""
    codes = np.column_stack([np.nan_to_num(table.values[j], nan=UNKNOWN) for j in chosen])
    encoder = _encoder(codes, target, is_class)
    columns = encoder.transform(codes)
    for fold in deal(len(codes), CROSS_FITS, seed, target if is_class else None):
        others = np.setdiff1d(np.arange(len(codes)), fold)
        own = _encoder(codes[others], target[others], is_class).transform(codes[fold])
        if own.shape[1] == columns.shape[1]:  # but for a class that only this fold has
            columns[fold] = own
    n_each = columns.shape[1] // len(chosen)
    means = [
        TargetMeans(j, _means_of_levels(encoder, codes[:1], position, table.fields[j].n_levels, n_each))
        for position, j in enumerate(chosen)
    ]
    return tuple(means), list(np.ascontiguousarray(columns.T))


def _encoder(codes: FloatArray, target: FloatArray, is_class: bool) -> Any:
    from sklearn.preprocessing import TargetEncoder

    kind = "continuous" if not is_class else "binary" if target.max() <= 1 else "multiclass"
    return TargetEncoder(target_type=kind).fit(codes, target)


def _means_of_levels(encoder: Any, row: FloatArray, position: int, n_levels: int, n_each: int) -> FloatArray:
    """What the encoder makes of every level of one of its columns, and of one that it does not know."""
    every = np.tile(row, (n_levels + 1, 1))
    every[:, position] = np.append(np.arange(n_levels), UNKNOWN)
    means: FloatArray = encoder.transform(every)[:, position * n_each : (position + 1) * n_each]
    return means
