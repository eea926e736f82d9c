"""The data of the what-if tool: the networks as plain numbers, controls, mean curves, optima, and rows of the data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.inspection.examination import COVERAGE, Examination
from dconnet.inspection.report.controls import describe_control, describe_inputs
from dconnet.inspection.report.dependence import PartialDependence, ReportFeature, draw_rows, read_features
from dconnet.inspection.report.text import format_number
from dconnet.optimisation import optimise

# Rows of the data in the page, and the numbers that these rows may have.
MAX_ROWS, MAX_VALUES = 300, 30_000
# Features with a mean curve.
MAX_CURVES = 100
# Further features are folded.
N_SHOWN = 12
# Wall time for all optima in seconds, their number, and the largest number of inputs with a search.
MAX_SECONDS, MAX_OPTIMA, MAX_INPUTS = 8.0, 10, 60

# Neurons of the network that imitates an ensemble, which would be too large for a page.
N_DISTILLED = 20

Entry = dict[str, Any]


def distil_ensemble(examination: Examination) -> tuple[Examination, float] | None:
    """Return the examination of a network that imitates an ensemble, and its R² against the ensemble.

    The R² is that of the predictions of a regressor, or of the probabilities of a classifier.

    None if the estimator is not an ensemble that can be distilled.
    """
    model = examination.model
    if not examination.is_auto or len(examination.y) < 2 or not model.schema_.fields:
        return None
    pipeline = model.distil(N_DISTILLED, X=examination.X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the ensemble has warned of the same rows
        inputs = np.asarray(pipeline[0].transform(examination.X))
    method = "predict" if examination.classes is None else "predict_proba"
    expected, found = getattr(model, method)(examination.X), getattr(pipeline[-1], method)(inputs)
    fidelity = float(r2_score(expected, found, multioutput="variance_weighted"))
    return replace(examination, model=pipeline[-1], encoder=pipeline[0], inputs=inputs), fidelity


def build_what_if(examination: Examination, half_widths: FloatArray | None, *, with_rows: bool = True) -> Entry | None:
    """Return all that the script of the page computes with, as plain values.

    None if there is no network with a single hidden layer, neither that of the estimator nor one that imitates it.
    ``half_widths`` (n_targets,) belong to the intervals around predictions of a regressor. The page contains rows of
    the data only with ``with_rows``.
    """
    distilled, intervals = distil_ensemble(examination), getattr(examination.model, "_intervals", None)
    examination, fidelity = (examination, None) if distilled is None else distilled
    if not examination.is_single_layer:
        return None
    model, classes, features = examination.model, examination.classes, read_features(examination)
    inputs = describe_inputs(None if examination.encoder is None else examination.encoder.encoding_, features)
    fields = [
        describe_control(feature, [j for j, column in enumerate(inputs) if column["field"] == i])
        for i, feature in enumerate(features)
    ]
    places = {feature.position: i for i, feature in enumerate(features)}
    ranking = (places[each.feature] for each in examination.importances if each.feature in places)
    order = list(dict.fromkeys([*ranking, *range(len(features))]))
    calibration, dependence = getattr(model, "calibration_", None), PartialDependence(examination)
    outputs = list(map(printable, examination.target_names)) if classes is None else model.targets_.column_labels
    return {
        "fidelity": fidelity,
        "classes": None if classes is None else _class_names(classes),
        "outputs": outputs,
        "fields": fields,
        "order": order,
        "n_shown": N_SHOWN,
        "columns": inputs,
        "networks": [
            {
                "W": network.W.tolist(),
                "b": network.b.tolist(),
                "alpha": network.alpha.reshape(network.n_hidden, -1).tolist(),
                "intercept": np.atleast_1d(network.intercept).tolist(),
            }
            for network in model.networks_
        ],
        "calibration": None if calibration is None else {"slope": calibration.slope, "offset": calibration.offset},
        "interval": None
        if half_widths is None
        else {
            "name": f"{100.0 * COVERAGE:.0f} % interval",
            "half_widths": half_widths.tolist(),
            "low": getattr(intervals, "low", None),
            "high": getattr(intervals, "high", None),
        },
        "typical": _find_typical_row(fields, features) if with_rows else [field["quartiles"][1] for field in fields],
        "dependence": {str(i): _mean_curve(dependence, features[i]) for i in order[:MAX_CURVES]},
        "optima": _find_optima(examination, outputs),
        "rows": _choose_rows(examination, features) if with_rows else None,
    }


def _class_names(classes: Sequence[object]) -> list[str]:
    return [printable(label) or "''" for label in classes]


def _mean_curve(dependence: PartialDependence, feature: ReportFeature) -> Entry:
    points = feature.points
    means = [[float(f"{value:.6g}") for value in line] for line in dependence.means(feature, points)]
    return {"at": points.tolist(), "means": means}


def _find_typical_row(fields: Sequence[Entry], features: Sequence[ReportFeature]) -> list[float | None]:
    """Return the values of the row nearest to the medians and the most frequent levels, without gaps if possible."""
    distance = np.zeros(len(features[0].values)) if features else np.zeros(1)
    for field, feature in zip(fields, features, strict=True):
        steps = (feature.values - field["quartiles"][1]) / field["unit"]
        squares = (steps != 0.0).astype(np.float64) if feature.kind == "category" else steps**2
        distance += np.where(np.isnan(feature.values), float(len(features)) ** 2, squares)
    return _row_values(features, int(distance.argmin()))


def _row_values(features: Sequence[ReportFeature], row: int) -> list[float | None]:
    values = [float(feature.values[row]) for feature in features]
    return [None if np.isnan(value) else value for value in values]


def _choose_rows(examination: Examination, features: Sequence[ReportFeature]) -> list[Entry]:
    """Return some rows of the data with observed and predicted values."""
    limit = int(np.clip(MAX_VALUES // max(len(features), 1), 20, MAX_ROWS))
    part = {True: "training", False: "held out" if examination.is_training_data else "–"}
    return [
        {
            "number": int(i) + 1,
            "values": _row_values(features, i),
            "observed": _format_target(examination.y[i]),
            "predicted": _format_target(examination.predictions[i]),
            "part": part[bool(examination.is_training_row[i])],
        }
        for i in draw_rows(len(examination.y), limit)
    ]


def _format_target(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return ", ".join(map(_format_target, value))
    return format_number(float(value)) if isinstance(value, (float, np.floating)) else printable(value)


# --- optima ---


def _find_optima(examination: Examination, outputs: Sequence[str]) -> list[Entry]:
    """Return the optima of each output within the convex hull of the data; none for an encoded table.

    Features whose values are whole numbers keep such values.
    """
    X, searches = examination.inputs, list(_list_searches(outputs, examination.classes))[:MAX_OPTIMA]
    assert X is not None
    if examination.encoder is not None or X.shape[1] > MAX_INPUTS:
        return []
    bounds = list(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True))
    is_whole = np.all(np.round(X) == X, axis=0).astype(int)
    networks, entries = examination.output_networks, []
    for k, sense, label in searches:
        seconds = MAX_SECONDS / len(searches)
        found = optimise(
            networks[k], bounds, integrality=is_whole, sense=sense, near=X, rel_gap=1e-4, max_seconds=seconds
        )
        if found.x is not None:
            gap = f"within {format_number(100.0 * found.gap, '.2g')} %"
            proved = "proved to be the optimum" if found.status.is_optimal else gap
            note = f"within the convex hull of the data, {proved}"
            entries.append({"label": label, "output": k, "values": found.x.tolist(), "note": note})
    return entries


def _list_searches(outputs: Sequence[str], classes: Sequence[object] | None) -> Iterator[tuple[int, str, str]]:
    """Yield output, sense and label; the smallest output for two classes means the first class."""
    if classes is None:
        for k, name in enumerate(outputs):
            which = name if len(outputs) > 1 else "prediction"
            yield from ((k, "max", f"Largest {which}"), (k, "min", f"Smallest {which}"))
        return
    names = _class_names(classes)
    if len(names) == 2:
        yield from ((0, "max", f"Most clearly {names[1]}"), (0, "min", f"Most clearly {names[0]}"))
    else:
        yield from ((k, "max", f"Largest score for {name}") for k, name in enumerate(names))
