"""The preparation of a table in model files: its schema for msgspec, as plain data, and the checks of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from dconnet.encoding.coder import Coder, Coding, TargetMeans
from dconnet.encoding.features import Feature, Levels, Linear, Ramps
from dconnet.encoding.matrix import TableEncoding
from dconnet.encoding.schema import DATE_PARTS, CategoryColumn, Column, DateColumn, DroppedColumn, NumberColumn, Schema
from dconnet.io.entries import Count, Entry, Scale, Weight
from dconnet.io.parts import check


class NumberEntry(Entry, frozen=True, tag_field="kind", tag="number"):
    """A column of numbers: how many were missing in the training; from five on, there is a second field."""

    gaps: Count


class CategoryEntry(Entry, frozen=True, tag_field="kind", tag="category"):
    """A column of labels, the most frequent first, and their rows in the training."""

    levels: list[str]
    counts: list[Count]


class DateEntry(Entry, frozen=True, tag_field="kind", tag="date"):
    """A column of dates: the parts that are fields, and the weekdays, most frequent first, with their rows."""

    parts: list[str]
    weekdays: list[int]
    counts: list[Count]


class DroppedEntry(Entry, frozen=True, tag_field="kind", tag="dropped"):
    """A column that has no field."""

    was: str
    reason: str


class CodingEntry(Entry, frozen=True):
    """How fields were to be coded."""

    n_bins: Count
    every_value: bool
    by_target: bool


class LinearEntry(Entry, frozen=True, tag_field="kind", tag="linear"):
    """The values of a field, standardised; or the means of the target for its levels, the last for unknown ones."""

    field: Count
    center: Weight
    scale: Scale
    fill: Weight
    means: list[Weight] | UnsetType = UNSET


class RampsEntry(Entry, frozen=True, tag_field="kind", tag="ramps"):
    """Ramps between edges, of a field or of the means of the target for its levels."""

    field: Count
    edges: list[Weight]
    fill: Weight
    means: list[Weight] | UnsetType = UNSET


class LevelsEntry(Entry, frozen=True, tag_field="kind", tag="levels"):
    """A column for each of the first levels of a field."""

    field: Count
    columns: Count


class EncodingEntry(Entry, frozen=True):
    """From the columns of a table to those that the networks see."""

    columns: list[NumberEntry | CategoryEntry | DateEntry | DroppedEntry]
    coding: CodingEntry
    features: list[LinearEntry | RampsEntry | LevelsEntry]
    mean: list[Weight]
    scale: list[Scale]


def encoding_entries(encoding: TableEncoding) -> dict[str, Any]:
    """An encoding as plain data, as the model file and the report have it."""
    entry = EncodingEntry(
        columns=[_column_entry(column) for column in encoding.schema.columns],
        coding=CodingEntry(
            n_bins=encoding.coder.coding.n_bins,
            every_value=encoding.coder.coding.every_value,
            by_target=encoding.coder.coding.by_target,
        ),
        features=list(_feature_entries(encoding)),
        mean=encoding.mean.tolist(),
        scale=encoding.scale.tolist(),
    )
    plain: dict[str, Any] = msgspec.to_builtins(entry)
    return plain


def _column_entry(column: Column) -> NumberEntry | CategoryEntry | DateEntry | DroppedEntry:
    if isinstance(column, NumberColumn):
        return NumberEntry(gaps=column.n_gaps)
    if isinstance(column, CategoryColumn):
        return CategoryEntry(levels=list(column.levels), counts=list(column.counts))
    if isinstance(column, DateColumn):
        return DateEntry(parts=list(column.parts), weekdays=list(column.weekdays), counts=list(column.weekday_counts))
    assert isinstance(column, DroppedColumn)
    return DroppedEntry(was=column.kind, reason=column.reason)


def _feature_entries(encoding: TableEncoding) -> Iterator[LinearEntry | RampsEntry | LevelsEntry]:
    coder, fields = encoding.coder, encoding.coder.field_of_each()
    of_target = [column for means in coder.means for column in means.means.T.tolist()]
    for f in encoding.order:
        feature, place = coder.features[f], f - len(coder.plain)
        means: list[float] | UnsetType = of_target[place] if place >= 0 else UNSET
        if isinstance(feature, Levels):
            yield LevelsEntry(field=fields[f], columns=feature.n_columns)
        elif isinstance(feature, Ramps):
            yield RampsEntry(field=fields[f], edges=feature.edges.tolist(), fill=feature.fill, means=means)
        elif isinstance(feature, Linear):
            center, scale, fill = feature.center, feature.scale, feature.fill
            yield LinearEntry(field=fields[f], center=center, scale=scale, fill=fill, means=means)


def encoding_of(entry: EncodingEntry, names: Sequence[str]) -> TableEncoding:
    """The encoding that the entries describe, of a table with columns of these names.

    Raises
    ------
    ValueError
        If the parts do not fit together.
    """
    check(len(entry.columns) == len(names), f"{len(entry.columns)} columns are coded, but there are {len(names)}")
    schema = Schema(tuple(_column(column, name) for column, name in zip(entry.columns, names, strict=True)))
    for column in schema.columns:
        check_column(column)
    plain = [feature for feature in entry.features if getattr(feature, "means", UNSET) is UNSET]
    by_target = [feature for feature in entry.features if getattr(feature, "means", UNSET) is not UNSET]
    coding = Coding(entry.coding.n_bins, entry.coding.every_value, entry.coding.by_target)
    coder = Coder(
        coding,
        tuple(feature.field for feature in plain),
        tuple(_target_means(by_target)),
        tuple(_feature(feature) for feature in (*plain, *by_target)),
    )
    check_coder(coder, schema)
    check(len({means.means.shape[1] for means in coder.means}) < 2, "all categories need means of the same targets")
    encoding = TableEncoding(schema, coder, np.array(entry.mean), np.array(entry.scale))
    check(
        len(entry.mean) == len(entry.scale) == encoding.n_columns,
        f"{encoding.n_columns} columns need as many means and scales, got {len(entry.mean)} and {len(entry.scale)}",
    )
    return encoding


def _column(entry: NumberEntry | CategoryEntry | DateEntry | DroppedEntry, name: str) -> Column:
    if isinstance(entry, NumberEntry):
        return NumberColumn(name, entry.gaps)
    if isinstance(entry, CategoryEntry):
        return CategoryColumn(name, tuple(entry.levels), tuple(entry.counts))
    if isinstance(entry, DateEntry):
        return DateColumn(name, tuple(entry.parts), tuple(entry.weekdays), tuple(entry.counts))
    return DroppedColumn(name, entry.was, entry.reason)


def _target_means(features: Sequence[Any]) -> Iterator[TargetMeans]:
    """The means of each field, from those of its features, which follow each other."""
    for field, own in groupby(features, key=lambda feature: feature.field):
        columns = [feature.means for feature in own]
        check(len({len(column) for column in columns}) == 1, "the means of a field differ in length")
        yield TargetMeans(field, np.array(columns, dtype=np.float64).T.copy())


def _feature(entry: LinearEntry | RampsEntry | LevelsEntry) -> Feature:
    if isinstance(entry, LinearEntry):
        return Linear(entry.center, entry.scale, entry.fill)
    if isinstance(entry, RampsEntry):
        return Ramps(np.array(entry.edges, dtype=np.float64), entry.fill)
    return Levels(entry.columns)


# --- whether parts fit together ---


def check_column(column: Column) -> None:
    """Raise a ValueError unless a column can be read."""
    if isinstance(column, CategoryColumn):
        is_whole = len(column.levels) == len(column.counts) == len(set(column.levels))
        check(is_whole, f"the levels of {column.name!r:.40} must differ, and each needs its count")
    if isinstance(column, DateColumn):
        check(set(column.parts) <= set(DATE_PARTS), f"a part of {column.name!r:.40} is not known")
        days = set(column.weekdays)
        is_whole = len(column.weekdays) == len(column.weekday_counts) == len(days) and days <= set(range(7))
        check(is_whole, f"the weekdays of {column.name!r:.40} must differ, and each needs its count")


def check_coder(coder: Coder, schema: Schema) -> None:
    """Raise a ValueError unless the fields of a schema can be coded."""
    known = schema.fields
    n_features = len(coder.plain) + sum(means.means.shape[-1] for means in coder.means if means.means.ndim == 2)
    check(len(coder.features) == n_features, "every field needs a feature")
    check(all(0 <= j < len(known) for j in (*coder.plain, *(m.field for m in coder.means))), "a field is missing")
    for means in coder.means:
        check(
            known[means.field].is_category and means.means.shape[:-1] == (known[means.field].n_levels + 1,),
            f"every level of {known[means.field].name!r:.40} needs its means",
        )
    for place, feature in enumerate(coder.features):
        is_category = place < len(coder.plain) and known[coder.plain[place]].is_category
        _check_feature(feature, is_category)


def _check_feature(feature: Feature, is_category: bool) -> None:
    if isinstance(feature, Levels):
        check(is_category and feature.n_columns >= 0, "levels need a category")
    elif isinstance(feature, Ramps):
        is_ascending = feature.edges.ndim == 1 and len(feature.edges) > 1 and bool(np.all(np.diff(feature.edges) > 0.0))
        check(is_ascending, "the edges of bins must be ascending")
    elif isinstance(feature, Linear):
        check(feature.scale > 0.0, "a scale must be positive")
