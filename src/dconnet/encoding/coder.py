"""From the fields of a table to coded features: how each field is coded, and the fitted coder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet.encoding.design import CATEGORY, CodedDesign, Feature, Levels, Linear, Ramps
from dconnet.encoding.schema import Field, FieldTable

# A level needs at least MIN_LEVEL rows for a column of its own, and a category has at most MAX_LEVELS columns.
MIN_LEVEL, MAX_LEVELS = 10, 50
# Categories with more levels can be coded by target means.
FEW_LEVELS = 12
# All numbers together have at most about RAMPS_PER_ROW ramps per row and at most MAX_RAMPS, because the work grows with
# their square.
RAMPS_PER_ROW, MAX_RAMPS = 0.5, 512
# Folds in which training rows get target means of other rows.
CROSS_FITS = 5


@dataclass(frozen=True, slots=True)
class Coding:
    """How fields are coded."""

    n_bins: int = 1  # of a number; 1 leaves numbers as they are
    every_value: bool = False  # numbers with few distinct values get a knot at each of them
    by_target: bool = False  # categories with many levels are coded by target means

    def is_by_target(self, field: Field) -> bool:
        """Return whether target means replace the levels of this field."""
        return self.by_target and field.n_levels > FEW_LEVELS

    def for_table(self, table: FieldTable) -> Coding:
        """Return the coding with fewer bins if the numbers of the table would have too many ramps."""
        n_numbers = sum(not field.is_category or self.is_by_target(field) for field in table.fields)
        most = max(1, int(min(RAMPS_PER_ROW * len(table), MAX_RAMPS) / max(n_numbers, 1)))
        return self if self.n_bins <= most else replace(self, n_bins=most, every_value=False)

    def fit_feature(self, field: Field, values: FloatArray) -> Feature:
        """Return the feature of a field, fitted to its training values."""
        counts = field.counts
        if counts is not None and not self.is_by_target(field):
            n_frequent = sum(count >= MIN_LEVEL for count in counts)
            return Levels(1 if len(counts) == 2 else min(n_frequent, MAX_LEVELS))
        return Linear.of(values) if self.n_bins == 1 else Ramps.of(values, self.n_bins, every_value=self.every_value)


@dataclass(frozen=True, slots=True, eq=False)
class TargetMeans:
    """Smoothed means of the target for the levels of a category, from `compute_level_means`."""

    field: int  # index of the field
    means: FloatArray  # (n_levels + 1, n_columns of the target)

    def values(self, table: FieldTable) -> list[FloatArray]:
        """Return the means of each row, one array for each column of the target."""
        codes = table.values[self.field]
        known = np.where(np.isnan(codes), len(self.means) - 1, np.nan_to_num(codes)).astype(np.intp)
        return list(self.means[known].T)


@dataclass(frozen=True, slots=True, eq=False)
class Coder:
    """Fitted map from fields to coded features."""

    coding: Coding
    plain: tuple[int, ...]  # fields that are coded by their own values
    means: tuple[TargetMeans, ...]  # of the fields that are coded by target means
    features: tuple[Feature, ...]  # of the plain fields, then of the means

    @classmethod
    def of(cls, coding: Coding, table: FieldTable) -> Coder:
        """Fit the features that do not need the target."""
        coding = coding.for_table(table)
        plain = tuple(j for j, field in enumerate(table.fields) if not coding.is_by_target(field))
        return cls(coding, plain, (), tuple(coding.fit_feature(table.fields[j], table.values[j]) for j in plain))

    def cross_fit(
        self, table: FieldTable, target: FloatArray, weight: FloatArray, classes: IndexArray | None, seed: int
    ) -> tuple[Coder, list[FloatArray]]:
        """Fit the target means as well; return the coder, and the values of each feature in the training rows.

        The target has shape (n_rows, n_columns). In the values, the target means of a row are those of rows in other
        folds, so that they do not depend on its own target. The folds are stratified by ``classes``.
        """
        folds = deal(len(table), CROSS_FITS, seed, classes)
        means, columns = [], []
        for j, field in enumerate(table.fields):
            if not self.coding.is_by_target(field):
                continue
            codes = table.values[j].astype(np.intp)
            means.append(TargetMeans(j, compute_level_means(codes, field.n_levels, target, weight)))
            crossed = np.empty_like(target)
            for fold in folds:
                others = np.setdiff1d(np.arange(len(codes)), fold)
                found = compute_level_means(codes[others], field.n_levels, target[others], weight[others])
                crossed[fold] = found[codes[fold]]
            columns += list(np.ascontiguousarray(crossed.T))
        features = tuple(self.coding.fit_feature(Field("", 0), values) for values in columns)
        coder = Coder(self.coding, self.plain, tuple(means), self.features + features)
        return coder, [*(table.values[j] for j in self.plain), *columns]

    def code(self, table: FieldTable) -> CodedDesign:
        """Code rows."""
        return CodedDesign.of(self.features, self.values(table), n_rows=len(table))

    def values(self, table: FieldTable) -> list[FloatArray]:
        """Return the values of each feature before coding: plain fields, then target means."""
        plain = [table.values[j] for j in self.plain]
        return plain + [values for means in self.means for values in means.values(table)]

    def fields_of_features(self) -> list[int]:
        """Return the field of each feature."""
        n_means = (len(self.features) - len(self.plain)) // max(len(self.means), 1)
        return [*self.plain, *(means.field for means in self.means for _ in range(n_means))]

    def sources(self, fields: Sequence[Field]) -> IndexArray:
        """Return the column of the table that each feature of the design came from."""
        own = [(self.features[k].kind, fields[j].column) for k, j in enumerate(self.fields_of_features())]
        return np.array([column for _, column in sorted(own, key=lambda pair: pair[0])], dtype=np.intp)

    @property
    def gentle(self) -> BoolArray:
        """Mask of the design columns that are scaled gently: levels beside ramps, see `Standardisation.of`."""
        ordered = sorted(self.features, key=lambda feature: feature.kind)
        soft = [np.full(f.n_columns, f.kind == CATEGORY and self.coding.n_bins > 1) for f in ordered]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *soft])


def compute_level_means(codes: IndexArray, n_levels: int, target: FloatArray, sample_weight: FloatArray) -> FloatArray:
    """Return means of the target (n_rows, n_columns) for each level, shrunk to the overall mean.

    The empirical Bayes estimate of scikit-learn's `TargetEncoder`, with sample weights: levels with fewer rows or more
    variance are shrunk more. The result has shape (n_levels + 1, n_columns); its last row is the overall mean, for
    unknown levels.
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


def deal(
    n_rows: int,
    n_folds: int,
    seed: int,
    labels: NDArray[Any] | None = None,
    groups: IndexArray | None = None,
) -> list[IndexArray]:
    """Return the rows of each fold, in ascending order.

    The rows of every class in ``labels`` are spread over all folds. Rows of the same group, numbered from zero, are in
    the same fold; some folds are empty if there are fewer groups than folds.
    """
    if groups is not None:
        first = np.unique(groups, return_index=True)[1]
        parts = deal(len(first), n_folds, seed, None if labels is None else labels[first])
        return [np.flatnonzero(np.isin(groups, part)) for part in parts]
    order = np.random.default_rng(seed).permutation(n_rows)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[first::n_folds]) for first in range(n_folds)]
