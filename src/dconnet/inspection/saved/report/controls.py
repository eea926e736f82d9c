"""What the reader of the page can set: a control for each feature, and how the networks see what it is set to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.encoding.columns import RawColumn, as_dates, raw_columns
from dconnet.encoding.features import Feature, Levels, Linear, Ramps
from dconnet.encoding.matrix import TableEncoding
from dconnet.encoding.schema import HOUR, WEEKDAY, CategoryColumn, Column, DateColumn, DroppedColumn, NumberColumn
from dconnet.inspection.saved.examination import Examination
from dconnet.io.model_file import SavedModel

# A feature with so few different values, and so many rows for each, gets a list instead of a slider.
MAX_CHOICES, ROWS_PER_CHOICE = 8, 3
# Steps of a slider, about, and places at which its curve is averaged.
STEPS, N_PLACES = 100, 41
SECONDS_PER_DAY = 86400.0

Entry = dict[str, Any]


class Controls(Protocol):
    """The controls of a model."""

    @property
    def fields(self) -> list[Entry]:
        """What can be set, as the page needs it."""
        ...

    @property
    def columns(self) -> list[Entry]:
        """The inputs of the networks, each a function of one field."""
        ...

    @property
    def values(self) -> list[FloatArray]:
        """The value of each field in the rows of the data (n_rows,); NaN where it is missing."""
        ...

    def inputs_at(self, field: int, places: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """The inputs that depend on a field, and their values (n_places, n_inputs), before the scaling."""
        ...


def controls_of(examination: Examination) -> Controls:
    """Return the controls for the columns of the table that the model takes."""
    model, frame = examination.of_table, examination.frame
    if model is None or model.encoding is None or frame is None:
        return NumberControls.of(examination.model, examination.X)
    return TableControls.of(model, model.encoding, raw_columns(frame))


@dataclass(frozen=True, slots=True, eq=False)
class NumberControls:
    """Those of features that are numbers, and inputs of the networks as they are."""

    fields: list[Entry]
    columns: list[Entry]
    values: list[FloatArray]

    @classmethod
    def of(cls, model: SavedModel, X: FloatArray) -> NumberControls:
        """A control for each column of X."""
        steps = _steps(model)
        fields = [number_field(name, values, [j]) for j, (name, values) in enumerate(_named(model.feature_names, X))]
        columns = [{"field": j, "source": VALUE, "kind": "number", "steps": steps[j]} for j in range(len(fields))]
        return cls(fields, columns, list(X.T))

    def inputs_at(self, field: int, places: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """See `Controls`."""
        return np.array([field]), places[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class TableControls:
    """Those of the columns of a table that are encoded for the networks; columns that tell nothing have none."""

    fields: list[Entry]
    columns: list[Entry]
    values: list[FloatArray]
    encoding: TableEncoding
    raws: list[RawColumn]
    sources: list[int]

    @classmethod
    def of(cls, model: SavedModel, encoding: TableEncoding, raws: list[RawColumn]) -> TableControls:
        """A control for each column of the table that the networks see."""
        schema = encoding.schema.columns
        sources = [j for j, column in enumerate(schema) if not isinstance(column, DroppedColumn)]
        values = [_plain_values(schema[j], raws[j]) for j in sources]
        columns = _encoded_columns(model, encoding, sources)
        fields = []
        for i, j in enumerate(sources):
            own = [c for c, entry in enumerate(columns) if entry["field"] == i]
            fields.append(_field_of(schema[j], model.feature_names[j], values[i], own))
        return cls(fields, columns, values, encoding, raws, sources)

    def inputs_at(self, field: int, places: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """See `Controls`."""
        source = self.sources[field]
        column = self.encoding.schema.columns[source]
        first = [RawColumn(raw.name, np.repeat(raw.values[:1], len(places)), raw.is_category) for raw in self.raws]
        first[source] = RawColumn(self.raws[source].name, _raw_values(column, places))
        own = np.flatnonzero(self.encoding.sources == source)
        return own, self.encoding.read(first)[:, own]


# --- fields ---


def number_field(name: str, values: FloatArray, columns: Sequence[int]) -> Entry:
    """A number: its range and quartiles in the data, and how it is set, by a slider or from a list.

    Parameters
    ----------
    name : str
        Its name.
    values : array of shape (n_rows,)
        Its values in the data; NaN where they are missing.
    columns : sequence of int
        The inputs of the networks that depend on it.
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
        "min": _rounded(np.floor(low / step) * step),
        "max": _rounded(np.ceil(high / step) * step),
    }


def _field_of(column: Column, name: str, values: FloatArray, columns: Sequence[int]) -> Entry:
    if isinstance(column, CategoryColumn):
        levels = [printable(level) for level in column.levels]
        return {"name": printable(name), "kind": "category", "columns": list(columns), "names": levels, "choices": None,
                "has_gaps": bool(np.isnan(values).any()), "low": 0, "high": len(levels) - 1, "quartiles": [0, 0, 0],
                "unit": 1.0}  # fmt: skip
    entry = number_field(name, values, columns)
    if isinstance(column, DateColumn):
        has_hours = HOUR in column.parts
        step = 1.0 / 24.0 if has_hours and entry["high"] - entry["low"] < STEPS else max(round(entry["step"]), 1)
        ends = {"min": float(np.floor(entry["low"])), "max": float(np.ceil(entry["high"]))}
        return {**entry, "kind": "date", "choices": None, "has_hours": has_hours, "step": step, **ends}
    return entry


def places_of(field: Entry) -> FloatArray:
    """The values of a field at which its curve is averaged."""
    if field["names"] is not None:
        return np.arange(len(field["names"]), dtype=np.float64)
    if field["choices"] is not None:
        return np.array(field["choices"])
    places = np.linspace(field["low"], field["high"], N_PLACES)
    # A moment is known to the second.
    return np.round(places * SECONDS_PER_DAY) / SECONDS_PER_DAY if field["kind"] == "date" else places


def _step(width: float, is_whole: bool) -> float:
    """A round number of which about a hundred make up the width; a whole one for whole numbers."""
    if width <= 0.0:
        return 1.0
    rough = width / STEPS
    unit = 10.0 ** np.floor(np.log10(rough))
    step = _rounded(next(factor * unit for factor in (1.0, 2.0, 5.0, 10.0) if factor * unit >= 0.999 * rough))
    return max(step, 1.0) if is_whole else step


def _rounded(value: float) -> float:
    """Without the noise of multiplying decimal fractions."""
    return float(f"{value:.12g}")


# --- values ---


def _plain_values(column: Column, raw: RawColumn) -> FloatArray:
    """The values of a column as numbers: days for dates, numbers of levels for categories."""
    if isinstance(column, DateColumn):
        dates = as_dates(raw)
        seconds = dates.astype("datetime64[s]").astype(np.float64)
        return np.where(np.isnat(dates), np.nan, seconds / SECONDS_PER_DAY)
    return column.read(raw)[0]


def _raw_values(column: Column, values: FloatArray) -> NDArray[Any]:
    """The way back, for values that are not missing."""
    if isinstance(column, DateColumn):
        return np.round(values * SECONDS_PER_DAY).astype(np.int64).astype("datetime64[s]")
    if isinstance(column, CategoryColumn):
        return np.array([column.levels[int(value)] for value in values], dtype=object)
    return values


# --- inputs of the networks ---

VALUE = {"kind": "value"}


def _steps(model: SavedModel) -> list[list[list[float]]]:
    """What is subtracted from each input, and what it is divided by."""
    scaling = model.feature_scaling
    return [[[mean, scale]] for mean, scale in zip(scaling.mean.tolist(), scaling.scale.tolist(), strict=True)]


def _encoded_columns(model: SavedModel, encoding: TableEncoding, sources: Sequence[int]) -> list[Entry]:
    """The columns of the encoding, in its order."""
    coder, fields, last_steps = encoding.coder, encoding.schema.fields, _steps(model)
    of_field = coder.field_of_each()
    found: list[Entry] = []
    for f in encoding.order:
        place = sources.index(fields[of_field[f]].column)
        for column in _columns_of(coder.features[f]):
            j = len(found)
            own = [[float(encoding.mean[j]), float(encoding.scale[j])], *last_steps[j]]
            steps = column.pop("steps", []) + own
            found.append({"field": place, "source": _source(encoding, f), **column, "steps": steps})
    return found


def _columns_of(feature: Feature) -> list[Entry]:
    """The columns of a feature, as functions of its value."""
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


def _source(encoding: TableEncoding, f: int) -> Entry:
    """How the value of a feature comes from that of a column of the table."""
    coder, n_plain = encoding.coder, len(encoding.coder.plain)
    field = encoding.schema.fields[coder.field_of_each()[f]]
    column = encoding.schema.columns[field.column]
    if f >= n_plain:
        n_targets = (len(coder.features) - n_plain) // len(coder.means)
        which, target = divmod(f - n_plain, n_targets)
        return {"kind": "means", "means": coder.means[which].means[:, target].tolist()}
    part = field.name.removeprefix(f"{column.name}: ")
    if isinstance(column, DateColumn):
        return {"kind": part, "weekdays": list(column.weekdays)} if part == WEEKDAY else {"kind": part}
    return {"kind": "missing"} if isinstance(column, NumberColumn) and field.name != column.name else VALUE


def _named(names: Sequence[str], X: FloatArray) -> list[tuple[str, FloatArray]]:
    return list(zip(names, X.T, strict=True))
