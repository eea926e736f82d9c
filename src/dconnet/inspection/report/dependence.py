"""The features of a report as numbers, and mean predictions as one feature takes other values (partial dependence).

The numbers are the values themselves, days since 1970 for dates, and positions of levels for categories. Missing values
are NaN.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from dconnet._arrays import FloatArray
from dconnet._threads import one_blas_thread
from dconnet.encoding.cell_formats import PLAIN
from dconnet.encoding.columns import RawColumn, as_dates, read_columns
from dconnet.encoding.schema import HOUR, CategoryColumn, DateColumn, DroppedColumn, FieldTable, NumberColumn, Schema
from dconnet.inspection.examination import Examination
from dconnet.model.targets import probabilities_of

SECONDS_PER_DAY, DAYS_PER_WEEK = 86400.0, 7
# A feature with at most 8 different values, and at least 3 rows for each, is treated as a list of these values.
MAX_CHOICES, ROWS_PER_CHOICE = 8, 3
# Points of a curve, levels with a mean, and rows that are averaged over: an ensemble needs more time for each row.
N_POINTS, MAX_LEVELS, MAX_ROWS, MAX_ENSEMBLE_ROWS = 41, 60, 500, 100
# Numbers in memory while a curve is computed.
BLOCK = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class ReportFeature:
    """A feature of the table in the rows of the data."""

    name: str
    position: int  # in the table
    kind: str  # "number", "date" or "category"
    values: FloatArray  # (n_rows,), NaN where they are missing
    levels: tuple[str, ...] = ()  # of a category, in the order in which they are shown
    has_hours: bool = False

    @property
    def known(self) -> FloatArray:
        """The values that are not missing, or zero if there are none."""
        found = self.values[~np.isnan(self.values)]
        return found if len(found) else np.zeros(1)

    @property
    def choices(self) -> FloatArray | None:
        """All values of a number that has few different ones; None for others."""
        distinct, n_known = np.unique(self.known), len(self.known)
        is_list = len(distinct) == 1 or (len(distinct) <= MAX_CHOICES and n_known >= ROWS_PER_CHOICE * len(distinct))
        return distinct if self.kind == "number" and is_list else None

    @property
    def points(self) -> FloatArray:
        """The values at which a curve is computed: all levels or choices, or values at equal distances."""
        if self.kind == "category":
            return np.arange(min(len(self.levels), MAX_LEVELS), dtype=np.float64)
        if self.choices is not None:
            return self.choices
        low, high = self.known.min(), self.known.max()
        if self.kind == "date" and high - low > 2 * DAYS_PER_WEEK * N_POINTS:  # the same weekday and hour
            return np.arange(low, high, DAYS_PER_WEEK * np.ceil((high - low) / (DAYS_PER_WEEK * N_POINTS)))
        return np.linspace(low, high, N_POINTS)

    def to_cells(self, values: FloatArray) -> NDArray[Any]:
        """Return values that are not missing as cells of a table."""
        if self.kind == "date":
            return np.round(values * SECONDS_PER_DAY).astype(np.int64).astype("datetime64[s]")
        if self.kind == "category":
            return np.array([self.levels[int(value)] for value in values], dtype=object)
        return values


def find_schema(examination: Examination) -> Schema | None:
    """Return the columns of the table; None if the features are the inputs of networks."""
    schema: Schema | None = getattr(examination.model, "schema_", None)
    return schema if examination.encoder is None else examination.encoder.encoding_.schema


def read_features(examination: Examination) -> list[ReportFeature]:
    """Return the features of the examined rows, without those that the estimator has dropped."""
    schema, names = find_schema(examination), examination.feature_names
    if schema is None:
        assert examination.inputs is not None
        return [ReportFeature(name, j, "number", examination.inputs[:, j]) for j, name in enumerate(names)]
    features, dtypes = [], list(getattr(examination.X, "dtypes", ()))
    for j, (column, raw) in enumerate(zip(schema.columns, read_columns(examination.X), strict=True)):
        if isinstance(column, DroppedColumn):
            continue
        if isinstance(column, DateColumn):
            dates = as_dates(raw, column.format)
            days = np.where(np.isnat(dates), np.nan, dates.astype("datetime64[s]").astype(np.float64) / SECONDS_PER_DAY)
            features.append(ReportFeature(names[j], j, "date", days, has_hours=HOUR in column.parts))
            continue
        values = column.read(raw)[0]
        if not isinstance(column, CategoryColumn):
            features.append(ReportFeature(names[j], j, "number", values))
            continue
        order = order_levels(column.levels, getattr(dtypes[j], "categories", ()) if dtypes else ())
        places = np.append(np.argsort(order), np.nan)
        codes = np.nan_to_num(values, nan=len(order)).astype(np.intp)
        features.append(ReportFeature(names[j], j, "category", places[codes], tuple(column.levels[i] for i in order)))
    return features


def order_levels(levels: Sequence[str], declared: Sequence[object] = ()) -> list[int]:
    """Return positions of levels in the order that the table declares, or that of their numbers and letters."""
    places = {str(level): place for place, level in enumerate(declared)}

    def key(i: int) -> tuple[int, list[tuple[int, int, str]]]:
        parts = re.split(r"(\d+)", levels[i].casefold())
        numbers_first = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]
        return places.get(levels[i], len(places)), numbers_first

    return sorted(range(len(levels)), key=key)


def draw_rows(n_rows: int, limit: int) -> NDArray[np.intp]:
    """Return some rows, drawn at random with a fixed seed, in ascending order."""
    return np.sort(np.random.default_rng(0).permutation(n_rows)[:limit])


class PartialDependence:
    """Mean predictions over some rows of the data in which one feature is replaced.

    The predictions of a classifier are probabilities, of the second of two classes or of all classes; without
    probabilities, they are the outputs of the networks.
    """

    def __init__(self, examination: Examination) -> None:
        self.examination, self.schema = examination, find_schema(examination)
        n_columns = 1 if examination.inputs is None else examination.inputs.shape[1]
        limit = MAX_ENSEMBLE_ROWS if examination.is_auto else MAX_ROWS
        rows = draw_rows(len(examination.y), int(np.clip(BLOCK // (N_POINTS * n_columns), 20, limit)))
        if self.schema is None:
            assert examination.inputs is not None
            self.sample: FieldTable | FloatArray = examination.inputs[rows]
        else:
            self.sample = self.schema.read(read_columns(examination.X)).rows(rows)

    def means(self, feature: ReportFeature, values: FloatArray) -> FloatArray:
        """Return the mean predictions (n_values, n_outputs) when the feature has each of the values."""
        n_values, sample = len(values), self.sample
        if self.schema is None or not isinstance(sample, FieldTable):
            changed: Any = np.tile(np.asarray(sample), (n_values, 1))
            changed[:, feature.position] = np.repeat(values, len(sample))
        else:
            column = self.schema.columns[feature.position]
            if isinstance(column, (NumberColumn, DateColumn)):  # the cells are not text
                column = replace(column, format=PLAIN)
            own = iter(column.read(RawColumn(column.name, feature.to_cells(values), feature.kind == "category")))
            arrays = [
                np.repeat(next(own), len(sample)) if field.column == feature.position else np.tile(array, n_values)
                for field, array in zip(sample.fields, sample.values, strict=True)
            ]
            changed = FieldTable(sample.fields, tuple(arrays), n_values * len(sample))
        predictions = self._predict(changed)
        return np.asarray(predictions.reshape(n_values, len(sample), -1).mean(axis=1))

    def _predict(self, rows: Any) -> FloatArray:
        model = self.examination.model
        with one_blas_thread(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            if self.examination.is_auto:
                outputs = model.ensemble_.predict(rows)
                found = probabilities_of(outputs) if is_classifier(model) else outputs
            else:
                inputs = rows if self.examination.encoder is None else self.examination.encoder.encoding_.encode(rows)
                method = "predict" if not is_classifier(model) else "predict_proba"
                method = method if hasattr(model, method) else "decision_function"
                found = getattr(model, method)(inputs)
        is_binary = is_classifier(model) and found.ndim == 2 and found.shape[1] == 2
        return np.asarray(found[:, 1:] if is_binary else found)
