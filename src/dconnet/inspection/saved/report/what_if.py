"""What the page needs to answer "what if": the model as plain numbers, the features, and rows of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.inspection.saved.examination import Examination
from dconnet.inspection.saved.report.controls import N_PLACES, Controls, controls_of, places_of
from dconnet.inspection.saved.report.numbers import number
from dconnet.inspection.saved.report.optima import optima
from dconnet.inspection.saved.report.predictions import Predictions
from dconnet.inspection.saved.report.reliability import calibration_of
from dconnet.io.model_file import SavedModel
from dconnet.model.network import Network

# Share of new rows that the interval is to hold.
COVERAGE = 0.9
# Rows that the page carries, and how many numbers these may have.
MAX_ROWS, MAX_VALUES = 300, 30_000
# Rows that partial dependence is averaged over, and the features that have such a curve.
DEPENDENCE_ROWS, MAX_CURVES = 500, 100
# Levels of a list that have a mean.
MAX_PLACES = 60
# Numbers that one block of the computation holds.
BLOCK = 2_000_000
# Features that are not folded.
MAX_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval around predictions that is as wide on both sides.

    Attributes
    ----------
    half_widths : tuple of float
        Half the width for each output.
    rows : int
        Number of rows whose residuals it is from.
    kind : str
        ``"held-out"``, ``"training"`` or ``"other"``: what the training had to do with these rows.
    """

    half_widths: tuple[float, ...]
    rows: int
    kind: str

    @property
    def name(self) -> str:
        """What to call it."""
        return f"{100.0 * COVERAGE:.0f} % interval"

    @classmethod
    def of(cls, predictions: Predictions) -> Interval:
        """From the rows on which the model is judged.

        Of n rows that the training did not see, the half width is the ⌈0.9 (n + 1)⌉-th smallest distance of an observed
        value from its prediction: the interval holds a further row of the same kind with a probability of at least 0.9
        (split conformal prediction). Of few rows, it is the largest distance, and promises less.
        """
        rows = predictions.judged
        residuals = np.abs(predictions.observed[rows] - predictions.predicted[rows]).reshape(int(rows.sum()), -1)
        place = min(int(np.ceil(COVERAGE * (len(residuals) + 1))), len(residuals))
        kind = {0: "other", len(rows): "training"}.get(predictions.n_trained_on, "held-out")
        return cls(tuple(np.sort(residuals, axis=0)[place - 1].tolist()), len(residuals), kind)


def what_if(
    examination: Examination, predictions: Predictions, ranking: Sequence[int], *, with_rows: bool = True
) -> dict[str, Any]:
    """Return what the page computes with, as plain numbers, lists and texts.

    Parameters
    ----------
    examination : Examination
        The model and the data.
    predictions : Predictions
        Its predictions for all rows of the data.
    ranking : sequence of int
        The features by their influence; those that are not named follow.
    with_rows : bool, default=True
        Whether the page may hold rows of the data.
    """
    model, X, controls = examination.model, examination.X, controls_of(examination)
    fields = controls.fields
    leading = dict.fromkeys(controls.columns[j]["field"] for j in ranking)
    order = [*leading, *(i for i in range(len(fields)) if i not in leading)]
    is_regressor = model.classes is None
    interval = Interval.of(predictions) if is_regressor else None
    outputs = list(map(printable, model.names_of_targets)) if is_regressor else model.targets.column_labels
    return {
        "classes": None if model.classes is None else [printable(label) or "''" for label in model.classes],
        "outputs": outputs,
        "fields": fields,
        "order": order,
        "n_shown": MAX_SHOWN,
        "columns": controls.columns,
        "networks": [_weights(network) for network in model.networks],
        "scaling": _output_scaling(model),
        "calibration": _calibration(model),
        "interval": None if interval is None else {"name": interval.name, "half_widths": interval.half_widths},
        "typical": [entry["quartiles"][1] for entry in fields],
        "dependence": _dependences(model, X, controls, order[:MAX_CURVES]),
        "optima": optima(examination, outputs),
        "rows": _rows(examination, predictions, controls.values) if with_rows else None,
    }


def _weights(network: Network) -> dict[str, Any]:
    return {
        "W": network.W.tolist(),
        "b": network.b.tolist(),
        "alpha": network.alpha.reshape(network.n_hidden, -1).tolist(),
        "intercept": np.atleast_1d(network.intercept).tolist(),
    }


def _output_scaling(model: SavedModel) -> dict[str, list[float]]:
    """What brings the outputs to the units of the target."""
    n_outputs, scaling = sum(network.n_outputs for network in model.networks), model.target_scaling
    return {name: np.broadcast_to(getattr(scaling, name), n_outputs).tolist() for name in ("mean", "scale")}


def _calibration(model: SavedModel) -> dict[str, list[float]] | None:
    """Slope and offset that make logits of each output."""
    calibration = calibration_of(model)
    if calibration is None:
        return None
    n_outputs = model.targets.n_columns
    return {"slope": [calibration.slope] * n_outputs, "offset": [calibration.offset] * n_outputs}


def _dependences(model: SavedModel, X: FloatArray, controls: Controls, fields: Sequence[int]) -> dict[str, Any]:
    """Partial dependence of all outputs on these fields, to six digits."""
    n_rows = int(np.clip(BLOCK // (N_PLACES * X.shape[1]), 20, DEPENDENCE_ROWS))
    rows, found = X[_some_rows(len(X), n_rows)], {}
    for i in fields:
        at = places_of(controls.fields[i])[:MAX_PLACES]
        means = partial_dependence(model, rows, *controls.inputs_at(i, at))
        found[str(i)] = {"at": at.tolist(), "means": [[float(f"{value:.6g}") for value in line] for line in means]}
    return found


def partial_dependence(model: SavedModel, X: FloatArray, columns: NDArray[np.intp], at: FloatArray) -> FloatArray:
    """Mean outputs over rows in which some columns are replaced, of shape (n_places, n_outputs).

    Parameters
    ----------
    model : SavedModel
        The model, for inputs that are encoded already.
    X : array of shape (n_rows, n_features)
        The rows.
    columns : array of int, of shape (n_columns,)
        The columns to replace.
    at : array of shape (n_places, n_columns)
        What to put in their place.

    Returns
    -------
    array of shape (n_places, n_outputs)
        In the units of the target.
    """
    changed = np.tile(X, (len(at), 1))
    changed[:, columns] = np.repeat(at, len(X), axis=0)
    outputs = model.outputs(changed)
    if model.classes is None:
        outputs = model.target_scaling.undo(outputs)
    means: FloatArray = outputs.reshape(len(at), len(X), -1).mean(axis=1)
    return means


def _some_rows(n_rows: int, limit: int) -> NDArray[np.intp]:
    """At most so many rows, in their order, the same each time."""
    return np.sort(np.random.default_rng(0).permutation(n_rows)[:limit])


def _rows(examination: Examination, predictions: Predictions, values: Sequence[FloatArray]) -> list[dict[str, Any]]:
    """Rows of the data with what was observed and predicted."""
    limit = int(np.clip(MAX_VALUES // max(len(values), 1), 20, MAX_ROWS))
    part = {True: "training", False: "held out" if predictions.n_trained_on else "–"}
    return [
        {
            "number": int(i) + 1,
            "values": [None if np.isnan(column[i]) else float(column[i]) for column in values],
            "observed": _told(predictions.observed[i]),
            "predicted": _told(predictions.predicted[i]),
            "part": part[bool(predictions.trained_on[i])],
        }
        for i in _some_rows(len(examination.y), limit)
    ]


def _told(value: Any) -> str:
    """A target as the page shows it."""
    if isinstance(value, (float, np.floating)):
        return number(float(value))
    if isinstance(value, np.ndarray):
        return ", ".join(map(_told, value))
    return printable(value)
