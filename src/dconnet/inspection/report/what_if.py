"""What the page needs to answer "what if": the model as plain numbers, the features, and rows of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.inspection.examination import Examination
from dconnet.inspection.report.numbers import number
from dconnet.inspection.report.predictions import Predictions
from dconnet.model.network import Network
from dconnet.persistence.model_file import SavedModel

# Share of new rows that the interval is to hold.
COVERAGE = 0.9
# Rows that the page carries, and how many numbers these may have.
MAX_ROWS, MAX_VALUES = 300, 30_000
# Rows that partial dependence is averaged over, its places for each feature, and the features that have a curve.
DEPENDENCE_ROWS, N_PLACES, MAX_CURVES = 500, 41, 100
# Numbers that one block of the computation holds.
BLOCK = 2_000_000
# A feature with so few different values, and so many rows for each, gets a list instead of a slider.
MAX_CHOICES, ROWS_PER_CHOICE = 8, 3
# Steps of a slider, about, and the features that are not folded.
STEPS, MAX_SHOWN = 100, 12


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
    model, X = examination.model, examination.X
    order = [*ranking, *sorted(set(range(X.shape[1])) - set(ranking))]
    fields = [field(name, values) for name, values in zip(model.feature_names, X.T, strict=True)]
    is_regressor = model.classes is None
    interval = Interval.of(predictions) if is_regressor else None
    return {
        "classes": None if model.classes is None else [printable(label) or "''" for label in model.classes],
        "outputs": [printable(model.target_name)] if is_regressor else model.targets.labels,
        "fields": [{**entry, "columns": [j]} for j, entry in enumerate(fields)],
        "order": order,
        "n_shown": MAX_SHOWN,
        "columns": _columns(model),
        "networks": [_weights(network) for network in model.networks],
        "scaling": _output_scaling(model),
        "calibration": None,
        "interval": None if interval is None else {"name": interval.name, "half_widths": interval.half_widths},
        "typical": [entry["quartiles"][1] for entry in fields],
        "dependence": _dependences(model, X, fields, order[:MAX_CURVES]),
        "optima": [],
        "rows": _rows(examination, predictions) if with_rows else None,
    }


def field(name: str, values: FloatArray) -> dict[str, Any]:
    """A feature: its range and quartiles in the data, and how it is set, by a slider or from a list.

    Parameters
    ----------
    name : str
        Its name.
    values : array of shape (n_rows,)
        Its values in the data.
    """
    distinct = np.unique(values)
    low, high = float(distinct[0]), float(distinct[-1])
    is_list = len(distinct) == 1 or (len(distinct) <= MAX_CHOICES and len(values) >= ROWS_PER_CHOICE * len(distinct))
    step = _step(high - low, is_whole=bool(np.all(distinct == np.round(distinct))))
    return {
        "name": printable(name),
        "kind": "number",
        "names": None,
        "choices": distinct.tolist() if is_list else None,
        "low": low,
        "high": high,
        "quartiles": np.quantile(values, [0.25, 0.5, 0.75], method="inverted_cdf").tolist(),
        "unit": float(values.std()) or 1.0,
        "step": step,
        "min": _rounded(np.floor(low / step) * step),
        "max": _rounded(np.ceil(high / step) * step),
    }


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


def _columns(model: SavedModel) -> list[dict[str, Any]]:
    """The inputs of the networks, each a function of one feature."""
    scaling = model.feature_scaling
    return [
        {"kind": "number", "field": j, "mean": mean, "scale": scale}
        for j, (mean, scale) in enumerate(zip(scaling.mean.tolist(), scaling.scale.tolist(), strict=True))
    ]


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


def _dependences(
    model: SavedModel, X: FloatArray, fields: Sequence[dict[str, Any]], features: Sequence[int]
) -> dict[str, dict[str, Any]]:
    """Partial dependence of all outputs on these features, to six digits."""
    n_rows = int(np.clip(BLOCK // (N_PLACES * X.shape[1]), 20, DEPENDENCE_ROWS))
    rows = X[_some_rows(len(X), n_rows)]
    found = {}
    for j in features:
        entry = fields[j]
        at = np.array(entry["choices"] or np.linspace(entry["low"], entry["high"], N_PLACES))
        means = partial_dependence(model, rows, j, at)
        found[str(j)] = {"at": at.tolist(), "means": [[float(f"{value:.6g}") for value in line] for line in means]}
    return found


def partial_dependence(model: SavedModel, X: FloatArray, feature: int, at: FloatArray) -> FloatArray:
    """Mean outputs over rows whose value of one feature is replaced, of shape (n_places, n_outputs).

    The outputs are in the units of the target.
    """
    changed = np.tile(X, (len(at), 1))
    changed[:, feature] = np.repeat(at, len(X))
    outputs = model.outputs(changed)
    if model.classes is None:
        outputs = model.target_scaling.undo(outputs)
    means: FloatArray = outputs.reshape(len(at), len(X), -1).mean(axis=1)
    return means


def _some_rows(n_rows: int, limit: int) -> NDArray[np.intp]:
    """At most so many rows, in their order, the same each time."""
    return np.sort(np.random.default_rng(0).permutation(n_rows)[:limit])


def _rows(examination: Examination, predictions: Predictions) -> list[dict[str, Any]]:
    """Rows of the data with what was observed and predicted."""
    limit = int(np.clip(MAX_VALUES // examination.X.shape[1], 20, MAX_ROWS))
    part = {True: "training", False: "held out" if predictions.n_trained_on else "–"}
    return [
        {
            "number": int(i) + 1,
            "values": examination.X[i].tolist(),
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
