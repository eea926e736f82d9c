"""The data of the what-if tool: the networks as plain numbers, controls, mean curves, optima, and rows of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.inspection.examination import COVERAGE, Examination
from dconnet.inspection.report.controls import N_POINTS, Controls, curve_points
from dconnet.inspection.report.figures import list_outputs
from dconnet.inspection.report.text import format_number
from dconnet.model.network import Network
from dconnet.optimisation import optimise

# Rows of the data in the page, and the numbers that these rows may have.
MAX_ROWS, MAX_VALUES = 300, 30_000
# Rows that partial dependence is averaged over, features with a mean curve, and levels of a list with a mean.
DEPENDENCE_ROWS, MAX_CURVES, MAX_LEVELS = 500, 100, 60
# Numbers in memory while a mean curve is computed.
BLOCK = 2_000_000
# Further features are folded.
N_SHOWN = 12
# Wall time for all optima in seconds, their number, and the largest number of inputs with a search.
MAX_SECONDS, MAX_OPTIMA, MAX_INPUTS = 8.0, 10, 60

Entry = dict[str, Any]


def build_what_if(examination: Examination, half_widths: FloatArray | None, *, with_rows: bool = True) -> Entry | None:
    """Return all that the script of the page computes with, as plain values; None without a single hidden layer.

    ``half_widths`` (n_targets,) belong to the intervals around predictions of a regressor. The page contains rows of
    the data only with ``with_rows``.
    """
    if not examination.is_single_layer:
        return None
    model, classes, controls = examination.model, examination.classes, Controls.of(examination)
    ranking = (controls.columns[i]["field"] for each in examination.importances for i in each.inputs)
    order = list(dict.fromkeys([*ranking, *range(len(controls.fields))]))
    is_regressor, calibration = classes is None, getattr(model, "calibration_", None)
    outputs = list(map(printable, examination.target_names)) if is_regressor else model.targets_.column_labels
    return {
        "classes": None if classes is None else _class_names(classes),
        "outputs": outputs,
        "fields": controls.fields,
        "order": order,
        "n_shown": N_SHOWN,
        "columns": controls.columns,
        "networks": [_network_weights(network) for network in model.networks_],
        "calibration": None if calibration is None else {"slope": calibration.slope, "offset": calibration.offset},
        "interval": None
        if half_widths is None
        else {"name": f"{100.0 * COVERAGE:.0f} % interval", "half_widths": half_widths.tolist()},
        "typical": [field["quartiles"][1] for field in controls.fields],
        "dependence": _mean_curves(examination, controls, order[:MAX_CURVES]),
        "optima": _find_optima(examination, outputs),
        "rows": _choose_rows(examination, controls.values) if with_rows else None,
    }


def _class_names(classes: Sequence[object]) -> list[str]:
    return [printable(label) or "''" for label in classes]


def _network_weights(network: Network) -> Entry:
    return {
        "W": network.W.tolist(),
        "b": network.b.tolist(),
        "alpha": network.alpha.reshape(network.n_hidden, -1).tolist(),
        "intercept": np.atleast_1d(network.intercept).tolist(),
    }


def _mean_curves(examination: Examination, controls: Controls, fields: Sequence[int]) -> Entry:
    """Return the partial dependence of all outputs on these fields, to six digits."""
    X = examination.inputs
    assert X is not None
    n_rows = int(np.clip(BLOCK // (N_POINTS * X.shape[1]), 20, DEPENDENCE_ROWS))
    rows, found = X[_draw_rows(len(X), n_rows)], {}
    for i in fields:
        points = curve_points(controls.fields[i])[:MAX_LEVELS]
        means = average_outputs(examination.model.networks_, rows, *controls.encode_values(i, points))
        found[str(i)] = {"at": points.tolist(), "means": [[float(f"{value:.6g}") for value in line] for line in means]}
    return found


def average_outputs(
    networks: Sequence[Network], X: FloatArray, columns: NDArray[np.intp], values: FloatArray
) -> FloatArray:
    """Return mean outputs (n_points, n_outputs) over rows whose ``columns`` are replaced by each row of ``values``."""
    changed = np.tile(X, (len(values), 1))
    changed[:, columns] = np.repeat(values, len(X), axis=0)
    outputs = np.column_stack([network.predict(changed) for network in networks])
    return np.asarray(outputs.reshape(len(values), len(X), -1).mean(axis=1))


def _draw_rows(n_rows: int, limit: int) -> NDArray[np.intp]:
    return np.sort(np.random.default_rng(0).permutation(n_rows)[:limit])


def _choose_rows(examination: Examination, values: Sequence[FloatArray]) -> list[Entry]:
    """Return some rows of the data with observed and predicted values."""
    limit = int(np.clip(MAX_VALUES // max(len(values), 1), 20, MAX_ROWS))
    part = {True: "training", False: "held out" if examination.is_training_data else "–"}
    return [
        {
            "number": int(i) + 1,
            "values": [None if np.isnan(column[i]) else float(column[i]) for column in values],
            "observed": _format_target(examination.y[i]),
            "predicted": _format_target(examination.predictions[i]),
            "part": part[bool(examination.is_training_row[i])],
        }
        for i in _draw_rows(len(examination.y), limit)
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
    networks, entries = list_outputs(examination), []
    bounds = list(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True))
    is_whole = np.all(np.round(X) == X, axis=0).astype(int)
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
        yield from ((k, "max", f"Largest output for {name}") for k, name in enumerate(names))
