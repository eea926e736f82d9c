"""The controls of the what-if tool: how each feature is set, and how the networks see its value.

The page computes with plain values of the features: numbers, days since 1970 for dates, positions of levels for
categories, and null for missing values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.encoding.columns import RawColumn, as_dates, read_columns
from dconnet.encoding.features import Feature, Levels, Linear, Ramps
from dconnet.encoding.matrix import TableEncoding
from dconnet.encoding.schema import HOUR, WEEKDAY, CategoryColumn, Column, DateColumn, DroppedColumn, NumberColumn
from dconnet.inspection.examination import Examination

# A feature with at most 8 different values, and at least 3 rows for each, gets a list instead of a slider.
MAX_CHOICES, ROWS_PER_CHOICE = 8, 3
# Approximate number of steps of a slider, and points at which a mean curve is computed.
N_STEPS, N_POINTS = 100, 41
SECONDS_PER_DAY = 86400.0
VALUE = {"kind": "value"}

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Controls:
    """The controls for the features of a table; constant columns have none."""

    fields: list[Entry]  # the features that can be set, as the script of the page reads them
    columns: list[Entry]  # the inputs of the networks, each a function of one field
    values: list[FloatArray]  # the value of each field in the rows of the data; NaN where it is missing
    sources: list[int]  # the column of the table of each field
    encoding: TableEncoding | None = None  # from columns of the table to inputs; None if the features are the inputs
    first_row: Sequence[RawColumn] = ()  # the first row of the table

    @classmethod
    def of(cls, examination: Examination) -> Controls:
        """Make a control for each feature that the networks see."""
        names, inputs = examination.feature_names, examination.inputs
        assert inputs is not None
        if examination.encoder is None:
            fields = [number_field(name, inputs[:, j], [j]) for j, name in enumerate(names)]
            columns = [{"field": j, "source": VALUE, "kind": "number", "steps": []} for j in range(len(fields))]
            return cls(fields, columns, list(inputs.T), list(range(len(fields))))
        encoding, raws = examination.encoder.encoding_, read_columns(examination.X)
        schema = encoding.schema.columns
        sources = [j for j, column in enumerate(schema) if not isinstance(column, DroppedColumn)]
        values = [_plain_values(schema[j], raws[j]) for j in sources]
        columns = _encoded_columns(encoding, sources)
        fields = []
        for i, j in enumerate(sources):
            own = [c for c, entry in enumerate(columns) if entry["field"] == i]
            fields.append(_table_field(schema[j], names[j], values[i], own))
        return cls(fields, columns, values, sources, encoding, [raw.rows(slice(1)) for raw in raws])

    def encode_values(self, field: int, values: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Return the inputs that depend on a field, and these inputs (n_values, n_inputs) at values of the field."""
        if self.encoding is None:
            return np.array([field]), values[:, None]
        source = self.sources[field]
        raws = [RawColumn(raw.name, np.repeat(raw.values, len(values)), raw.is_category) for raw in self.first_row]
        raws[source] = RawColumn(raws[source].name, _raw_values(self.encoding.schema.columns[source], values))
        own = np.flatnonzero(self.encoding.sources == source)
        return own, self.encoding.read(raws)[:, own]


# --- fields ---


def number_field(name: str, values: FloatArray, columns: Sequence[int]) -> Entry:
    """Return the field of a number: its range and quartiles in the data, and a slider or a list to set it.

    ``columns`` are the inputs of the networks that depend on the number; missing ``values`` are NaN.
    """
    known = values[~np.isnan(values)]
    known = known if len(known) else np.zeros(1)
    distinct = np.unique(known)
    low, high = float(distinct[0]), float(distinct[-1])
    is_list = len(distinct) == 1 or (len(distinct) <= MAX_CHOICES and len(known) >= ROWS_PER_CHOICE * len(distinct))
    step = _step(high - low, is_whole=bool(np.all(distinct == np.round(distinct))))
    return {
        "name": printable(name),
        "kind": "number",
        "columns": list(columns),
        "names": None,
        "choices": distinct.tolist() if is_list else None,
        "has_gaps": len(known) < len(values),
        "low": low,
        "high": high,
        "quartiles": np.quantile(known, [0.25, 0.5, 0.75], method="inverted_cdf").tolist(),
        "unit": float(known.std()) or 1.0,
        "step": step,
        "min": _drop_noise(np.floor(low / step) * step),
        "max": _drop_noise(np.ceil(high / step) * step),
    }


def _table_field(column: Column, name: str, values: FloatArray, columns: Sequence[int]) -> Entry:
    if isinstance(column, CategoryColumn):
        levels = [printable(level) for level in column.levels]
        return {"name": printable(name), "kind": "category", "columns": list(columns), "names": levels, "choices": None,
                "has_gaps": bool(np.isnan(values).any()), "low": 0, "high": len(levels) - 1, "quartiles": [0, 0, 0],
                "unit": 1.0}  # fmt: skip
    entry = number_field(name, values, columns)
    if isinstance(column, DateColumn):
        has_hours = HOUR in column.parts
        step = 1.0 / 24.0 if has_hours and entry["high"] - entry["low"] < N_STEPS else max(round(entry["step"]), 1)
        ends = {"min": float(np.floor(entry["low"])), "max": float(np.ceil(entry["high"]))}
        return {**entry, "kind": "date", "choices": None, "has_hours": has_hours, "step": step, **ends}
    return entry


def curve_points(field: Entry) -> FloatArray:
    """Return the values of a field at which its mean curve is computed."""
    if field["names"] is not None:
        return np.arange(len(field["names"]), dtype=np.float64)
    if field["choices"] is not None:
        return np.array(field["choices"])
    points = np.linspace(field["low"], field["high"], N_POINTS)
    # Tables hold times to the second.
    return np.round(points * SECONDS_PER_DAY) / SECONDS_PER_DAY if field["kind"] == "date" else points


def _step(width: float, is_whole: bool) -> float:
    """Return 1, 2 or 5 times a power of ten, about a hundredth of the width; at least 1 for whole numbers."""
    if width <= 0.0:
        return 1.0
    rough = width / N_STEPS
    unit = 10.0 ** np.floor(np.log10(rough))
    step = _drop_noise(next(factor * unit for factor in (1.0, 2.0, 5.0, 10.0) if factor * unit >= 0.999 * rough))
    return max(step, 1.0) if is_whole else step


def _drop_noise(value: float) -> float:
    """Round to twelve digits, so that products of decimal fractions are short."""
    return float(f"{value:.12g}")


# --- values of table columns ---


def _plain_values(column: Column, raw: RawColumn) -> FloatArray:
    if isinstance(column, DateColumn):
        dates = as_dates(raw)
        seconds = dates.astype("datetime64[s]").astype(np.float64)
        return np.where(np.isnat(dates), np.nan, seconds / SECONDS_PER_DAY)
    return column.read(raw)[0]


def _raw_values(column: Column, values: FloatArray) -> NDArray[Any]:
    """Invert `_plain_values` for values that are not missing."""
    if isinstance(column, DateColumn):
        return np.round(values * SECONDS_PER_DAY).astype(np.int64).astype("datetime64[s]")
    if isinstance(column, CategoryColumn):
        return np.array([column.levels[int(value)] for value in values], dtype=object)
    return values


# --- inputs of the networks ---


def _encoded_columns(encoding: TableEncoding, sources: Sequence[int]) -> list[Entry]:
    """Return the columns of the encoding in its order, each with its field, source and standardisation."""
    coder, fields = encoding.coder, encoding.schema.fields
    field_of_feature = coder.fields_of_features()
    found: list[Entry] = []
    for f in encoding.order:
        place = sources.index(fields[field_of_feature[f]].column)
        for column in _feature_columns(coder.features[f]):
            j = len(found)
            steps = [*column.pop("steps", []), [float(encoding.mean[j]), float(encoding.scale[j])]]
            found.append({"field": place, "source": _feature_source(encoding, f), **column, "steps": steps})
    return found


def _feature_columns(feature: Feature) -> list[Entry]:
    """Return the columns of a feature as functions of its value."""
    if isinstance(feature, Linear):
        return [{"kind": "number", "fill": feature.fill, "steps": [[feature.center, feature.scale]]}]
    if isinstance(feature, Ramps):
        edges, last = feature.edges.tolist(), feature.n_columns - 1
        return [
            {"kind": "ramp", "fill": feature.fill, "from": edges[i], "to": edges[i + 1],
             "first": i == 0, "last": i == last}
            for i in range(feature.n_columns)
        ]  # fmt: skip
    assert isinstance(feature, Levels)
    return [{"kind": "level", "level": level} for level in range(feature.n_columns)]


def _feature_source(encoding: TableEncoding, f: int) -> Entry:
    """Return how the value of a feature is computed from that of its column of the table."""
    coder, n_plain = encoding.coder, len(encoding.coder.plain)
    field = encoding.schema.fields[coder.fields_of_features()[f]]
    column = encoding.schema.columns[field.column]
    if f >= n_plain:
        n_targets = (len(coder.features) - n_plain) // len(coder.means)
        which, target = divmod(f - n_plain, n_targets)
        return {"kind": "means", "means": coder.means[which].means[:, target].tolist()}
    part = field.name.removeprefix(f"{column.name}: ")
    if isinstance(column, DateColumn):
        return {"kind": part, "weekdays": list(column.weekdays)} if part == WEEKDAY else {"kind": part}
    return {"kind": "missing"} if isinstance(column, NumberColumn) and field.name != column.name else VALUE
