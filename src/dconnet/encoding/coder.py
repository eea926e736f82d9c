"""From the fields of a table to coded features: how each field is coded, and what it needs to know for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet.encoding.design import CodedDesign
from dconnet.encoding.features import CATEGORY, Feature, Levels, Linear, Ramps
from dconnet.encoding.folds import deal
from dconnet.encoding.schema import Field, FieldTable

# Levels with fewer rows than this have no column, and no category has more columns than that.
MIN_LEVEL, MAX_LEVELS = 10, 50
# Categories with more levels are the ones that the means of the target can stand for.
FEW_LEVELS = 12
# Ramps of all numbers together, at most about: as many as half of the rows, and no more than this, as the work grows
# with their square.
RAMPS_PER_ROW, MAX_RAMPS = 0.5, 512
# Folds in which the rows of the training get the means of the others.
CROSS_FITS = 5


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

    def for_table(self, table: FieldTable) -> Coding:
        """The same with fewer bins, if the table has so many numbers that their ramps would be too many."""
        n_numbers = sum(not field.is_category or self.is_by_target(field) for field in table.fields)
        most = max(1, int(min(RAMPS_PER_ROW * len(table), MAX_RAMPS) / max(n_numbers, 1)))
        return self if self.n_bins <= most else replace(self, n_bins=most, every_value=False)

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

    def values(self, table: FieldTable) -> list[FloatArray]:
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
    def of(cls, coding: Coding, table: FieldTable) -> Coder:
        """Learn to code fields without the target."""
        coding = coding.for_table(table)
        plain = tuple(j for j, field in enumerate(table.fields) if not coding.is_by_target(field))
        return cls(coding, plain, (), tuple(coding.feature(table.fields[j], table.values[j]) for j in plain))

    def with_target(
        self, table: FieldTable, target: FloatArray, weight: FloatArray, classes: NDArray[np.intp] | None, seed: int
    ) -> tuple[Coder, CodedDesign]:
        """Learn the means of the target, too.

        Parameters
        ----------
        table : FieldTable
            Rows of the training.
        target : array of shape (n_rows, n_columns)
            The columns of the target.
        weight : array of shape (n_rows,)
            Weights of the rows.
        classes : array of int, of shape (n_rows,), or None
            The class of each row.
        seed : int
            Seed of the split by which the rows of the training get means of other rows.

        Returns
        -------
        coder : Coder
        design : CodedDesign
            The coded rows of the training, each with means in which its own target has no part.
        """
        coder, columns = self.cross_fitted(table, target, weight, classes, seed)
        return coder, CodedDesign.of(coder.features, columns)

    def cross_fitted(
        self, table: FieldTable, target: FloatArray, weight: FloatArray, classes: NDArray[np.intp] | None, seed: int
    ) -> tuple[Coder, list[FloatArray]]:
        """As `with_target`, and the values of each feature in the rows of the training, before they are coded."""
        chosen = [j for j, field in enumerate(table.fields) if self.coding.is_by_target(field)]
        means, columns = _target_means(table, chosen, target, weight, classes, seed)
        features = tuple(self.coding.feature(Field("", 0), values) for values in columns)
        coder = Coder(self.coding, self.plain, means, self.features + features)
        return coder, [*(table.values[j] for j in self.plain), *columns]

    def code(self, table: FieldTable) -> CodedDesign:
        """Code rows."""
        return CodedDesign.of(self.features, self.values(table), n_rows=len(table))

    def values(self, table: FieldTable) -> list[FloatArray]:
        """The values of each feature, before they are coded: fields as they are, and means of the target."""
        plain = [table.values[j] for j in self.plain]
        return plain + [values for means in self.means for values in means.values(table)]

    def sources(self, fields: Sequence[Field]) -> NDArray[np.intp]:
        """The column of the table that each feature of the design came from."""
        own = [(self.features[k].kind, fields[j].column) for k, j in enumerate(self.field_of_each())]
        return np.array([column for _, column in sorted(own, key=lambda pair: pair[0])], dtype=np.intp)

    def field_of_each(self) -> list[int]:
        """The field of each feature; the means of several columns of a target have several."""
        n_means = (len(self.features) - len(self.plain)) // max(len(self.means), 1)
        return [*self.plain, *(means.field for means in self.means for _ in range(n_means))]

    @property
    def gentle(self) -> BoolArray:
        """The columns of the design whose scale is softened: levels beside ramps; rare ones then count less."""
        ordered = sorted(self.features, key=lambda feature: feature.kind)
        soft = [np.full(f.n_columns, f.kind == CATEGORY and self.coding.n_bins > 1) for f in ordered]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *soft])


def _target_means(
    table: FieldTable,
    chosen: list[int],
    target: FloatArray,
    weight: FloatArray,
    classes: NDArray[np.intp] | None,
    seed: int,
) -> tuple[tuple[TargetMeans, ...], list[FloatArray]]:
    """The means for later, and the columns of the training rows, each by the means of other rows."""
    folds = deal(len(table), CROSS_FITS, seed, classes)
    means, columns = [], []
    for j in chosen:
        codes, n_levels = table.values[j].astype(np.intp), table.fields[j].n_levels
        means.append(TargetMeans(j, level_means(codes, n_levels, target, weight)))
        crossed = np.empty_like(target)
        for fold in folds:
            others = np.setdiff1d(np.arange(len(codes)), fold)
            crossed[fold] = level_means(codes[others], n_levels, target[others], weight[others])[codes[fold]]
        columns += list(np.ascontiguousarray(crossed.T))
    return tuple(means), columns


def level_means(codes: NDArray[np.intp], n_levels: int, target: FloatArray, sample_weight: FloatArray) -> FloatArray:
    """Means of a target for the levels of a category, drawn to the mean of all rows.

    A level is trusted the less, the fewer rows it has and the more they differ, by the empirical Bayes estimate of
    scikit-learn's `TargetEncoder`, which knows no sample weights.

    Parameters
    ----------
    codes : array of int, of shape (n_rows,)
        The level of each row.
    n_levels : int
        Number of levels; not all need have rows.
    target : array of shape (n_rows, n_columns)
    sample_weight : array of shape (n_rows,)
        A row of weight one counts as a row.

    Returns
    -------
    array of shape (n_levels + 1, n_columns)
        The last row is the mean of all rows, for levels that are not known.
    """
    counts = np.bincount(codes, sample_weight, n_levels)
    found = np.empty((n_levels + 1, target.shape[1]))
    for k, y in enumerate(target.T):
        overall = np.average(y, weights=sample_weight)
        variance = np.average((y - overall) ** 2, weights=sample_weight)
        with np.errstate(invalid="ignore"):
            means = np.bincount(codes, sample_weight * y, n_levels) / counts
            within = np.bincount(codes, sample_weight * (y - means[codes]) ** 2, n_levels) / counts
            trust = variance * counts / (variance * counts + within)
        found[:-1, k] = np.where(np.isnan(trust), overall, trust * means + (1.0 - trust) * overall)
        found[-1, k] = overall
    return found
