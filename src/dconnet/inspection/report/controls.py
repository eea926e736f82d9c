"""The controls of the what-if tool: how each feature is set, and how the networks see its value.

The script of the page computes with the numbers of `ReportFeature`; null is a missing value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dconnet._text import printable
from dconnet.encoding.design import Feature, Levels, Linear, Ramps
from dconnet.encoding.matrix import TableEncoding
from dconnet.encoding.schema import WEEKDAY, CategoryColumn, DateColumn, NumberColumn
from dconnet.inspection.report.dependence import ReportFeature

# Approximate number of steps of a slider.
N_STEPS = 100
VALUE = {"kind": "value"}

Entry = dict[str, Any]


def describe_control(feature: ReportFeature, columns: Sequence[int]) -> Entry:
    """Return how a feature is set: its range and quartiles in the data, and a slider or a list.

    ``columns`` are the inputs of the networks that depend on the feature.
    """
    entry: Entry = {
        "name": printable(feature.name),
        "kind": feature.kind,
        "columns": list(columns),
        "names": None,
        "choices": None,
        "has_gaps": bool(np.isnan(feature.values).any()),
    }
    known = feature.known
    if feature.kind == "category":
        names = [printable(level) for level in feature.levels]
        usual = np.bincount(known.astype(np.intp)).argmax()
        return entry | {"names": names, "low": 0, "high": len(names) - 1, "quartiles": [int(usual)] * 3, "unit": 1.0}
    low, high = float(known.min()), float(known.max())
    step = _round_step(high - low, is_whole=bool(np.all(known == np.round(known))))
    ends = {"min": _drop_noise(np.floor(low / step) * step), "max": _drop_noise(np.ceil(high / step) * step)}
    if feature.kind == "date":
        step = 1.0 / 24.0 if feature.has_hours and high - low < N_STEPS else max(round(step), 1)
        ends = {"min": float(np.floor(low)), "max": float(np.ceil(high)), "has_hours": feature.has_hours}
    return entry | {
        "choices": None if feature.choices is None else feature.choices.tolist(),
        "low": low,
        "high": high,
        "quartiles": np.quantile(known, [0.25, 0.5, 0.75], method="inverted_cdf").tolist(),
        "unit": float(known.std()) or 1.0,
        "step": step,
        **ends,
    }


def _round_step(width: float, is_whole: bool) -> float:
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


# --- inputs of the networks ---


def describe_inputs(encoding: TableEncoding | None, features: Sequence[ReportFeature]) -> list[Entry]:
    """Return each input of the networks as a function of one feature, with its standardisation."""
    if encoding is None:
        return [{"field": j, "source": VALUE, "kind": "number", "steps": []} for j in range(len(features))]
    places = {feature.position: place for place, feature in enumerate(features)}
    fields, of_feature = encoding.schema.fields, encoding.coder.fields_of_features()
    found: list[Entry] = []
    for f in encoding.order:
        place = places[fields[of_feature[f]].column]
        shown = _shown_places(encoding, features[place])
        source = _describe_source(encoding, f, shown)
        for column in _describe_columns(encoding.coder.features[f], shown if source == VALUE else []):
            j = len(found)
            steps = [*column.pop("steps", []), [float(encoding.mean[j]), float(encoding.scale[j])]]
            found.append({"field": place, "source": source, **column, "steps": steps})
    return found


def _shown_places(encoding: TableEncoding, feature: ReportFeature) -> list[int]:
    """Return the place of each level of the encoding among the levels as they are shown; empty without levels."""
    column = encoding.schema.columns[feature.position]
    return [feature.levels.index(level) for level in column.levels] if isinstance(column, CategoryColumn) else []


def _describe_columns(feature: Feature, shown: Sequence[int]) -> list[Entry]:
    """Return the columns of a coded feature as functions of its value."""
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
    return [{"kind": "level", "level": shown[level] if shown else level} for level in range(feature.n_columns)]


def _describe_source(encoding: TableEncoding, f: int, shown: Sequence[int]) -> Entry:
    """Return how the value of a coded feature is computed from that of its column of the table."""
    coder, n_plain = encoding.coder, len(encoding.coder.plain)
    field = encoding.schema.fields[coder.fields_of_features()[f]]
    column = encoding.schema.columns[field.column]
    if f >= n_plain:
        n_targets = (len(coder.features) - n_plain) // len(coder.means)
        which, target = divmod(f - n_plain, n_targets)
        means = coder.means[which].means[:, target]  # the last one is for other levels
        return {"kind": "means", "means": [*means[np.argsort(shown)].tolist(), float(means[-1])]}
    part = field.name.removeprefix(f"{column.name}: ")
    if isinstance(column, DateColumn):
        return {"kind": part, "weekdays": list(column.weekdays)} if part == WEEKDAY else {"kind": part}
    return {"kind": "missing"} if isinstance(column, NumberColumn) and field.name != column.name else VALUE
