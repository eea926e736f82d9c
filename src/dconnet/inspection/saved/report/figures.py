"""The figures of the report, as SVG. They are drawn without pyplot."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.inspection.plotting import ConvergenceDisplay, NetworkDisplay, Run, style
from dconnet.inspection.plotting.canvas import (
    BLUE,
    GREY,
    INK,
    VERMILION,
    label_axes,
    legend_above,
    make_panels,
    scatter,
)
from dconnet.inspection.plotting.network import MAX_FEATURES
from dconnet.inspection.saved.examination import Examination, Finding, in_data_units, network_targets
from dconnet.inspection.saved.report.predictions import Predictions
from dconnet.io.model_file import Training
from dconnet.model.network import Network

# Of more targets than these, the rest has no pictures.
MAX_TARGETS = 6

# Gives the letters in the figures the size of those in the text.
REM_PER_INCH = 8.0


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure as the templates need it: the SVG in base64, the text in its place, the caption and the width in rem."""

    svg: str
    alt: str
    caption: str
    width: float


def prediction_figures(predictions: Predictions, names: Sequence[str]) -> list[Picture]:
    """Draw observed values and residuals over the predictions, a picture for each target."""
    if len(names) == 1:
        return [prediction_figure(predictions, names[0])]
    return [prediction_figure(predictions.of_target(k), name) for k, name in enumerate(names[:MAX_TARGETS])]


def prediction_figure(predictions: Predictions, target_name: str) -> Picture:
    """Draw observed values and residuals over the predictions."""
    display = _PredictionPlot(predictions, printable(target_name))
    rows = "The orange rows were held out from training: they show how well new rows are predicted. "
    caption = (
        "Left: observed values over predicted values; a perfect prediction is on the line. Right: residuals, observed "
        f"minus predicted. {rows if 0 < predictions.n_trained_on < len(predictions.judged) else ''}A trend or a funnel "
        "in the residuals is structure that the network has missed."
    )
    return picture(display, caption)


def convergence_figure(examination: Examination) -> Picture | None:
    """Draw the loss by epoch; None if the model file has no record of it."""
    several = len(examination.findings) > 1
    runs = [
        replace(_run(finding, training), label=f"class {finding.label}" if several else "")
        for finding, training in zip(examination.findings, examination.model.trainings, strict=True)
        if training.recorded_epochs > 0
    ]
    if not runs:
        return None
    shown = "RegLoss after each epoch, from the model file"
    if runs[0].stationarity is not None:
        shown = (
            "RegLoss, the norm of a subgradient of RegLoss and the length of the step at each epoch, found by "
            "repeating the training"
        )
    order = (
        "The last panel estimates the order of convergence, the slope of ln e over ln e one epoch earlier, where e is "
        "the distance of RegLoss from its final value; 1 is linear convergence."
    )
    return picture(ConvergenceDisplay(runs), f"{shown}. {order}")


def _run(finding: Finding, training: Training) -> Run:
    """The full record if the training was repeated, otherwise what the model file has."""
    if finding.trajectory is None:
        return Run(objective=np.array(training.objectives))
    return Run.of_trajectory(finding.trajectory)


def network_figures(examination: Examination, features: Sequence[int]) -> list[Picture]:
    """Draw the networks over one or two inputs, or the partial dependence on the first of ``features``.

    Targets have units of their own and a picture each, at most `MAX_TARGETS` of them; classes share one.
    """
    model = examination.model
    networks, offsets = in_data_units(model)
    targets = network_targets(model, examination.y)
    if model.classes is not None:
        return [
            _network_figure(examination, features, networks, targets, "network output", model.targets.column_labels)
        ]
    targets = model.target_scaling.undo(targets)
    return [
        _network_figure(examination, features, [networks[k]], targets[:, k : k + 1], name, None, float(offsets[k]))
        for k, name in enumerate(model.names_of_targets[:MAX_TARGETS])
    ]


def _network_figure(
    examination: Examination,
    features: Sequence[int],
    networks: Sequence[Network],
    targets: FloatArray,
    target_name: str,
    labels: Sequence[str] | None,
    offset: float = 0.0,
) -> Picture:
    model = examination.model
    display = NetworkDisplay(
        [Network(n.W, n.b, n.alpha, n.intercept + offset) for n in networks],
        examination.X,
        targets,
        features=features[:MAX_FEATURES] if len(model.feature_names) > 2 else None,
        feature_names=[printable(name) for name in model.feature_names],
        target_name=printable(target_name),
        labels=labels,
    )
    captions = {
        "curve": "The network over the data. Circles mark its hinges, where a neuron bends it.",
        "map": "The network over the data, and its hinges, the lines along which a neuron bends it.",
        "partial dependence": (
            "Partial dependence: the mean prediction over all rows when one feature is set to a value. The ticks at "
            "the bottom are the deciles of the feature; beyond them, there are few rows."
        ),
    }
    encoded = ""
    if examination.of_table is not None:
        encoded = " The columns of the table are shown as the network sees them: as inputs in standard deviations."
    meaning = "" if model.classes is None else " An output of 1 speaks for the class, −1 against it."
    return picture(display, captions[display.kind_] + encoded + meaning)


@dataclass(eq=False)
class _PredictionPlot:
    """Observed values and residuals over predicted values; rows held out from training in another colour."""

    predictions: Predictions
    target_name: str
    figure_: Any = field(default=None, init=False)

    alt_text = "Observed values over predicted values, and residuals over predicted values."

    def plot(self, ax: Any) -> Self:
        """Draw into an empty figure."""
        axes = make_panels(ax, 2, 2, (3.7, 3.1))
        self.figure_ = axes[0].figure
        found = self.predictions
        low, high = found.predicted.min(), found.predicted.max()
        for axis, values, perfect in (
            (axes[0], found.observed, (low, high)),
            (axes[1], found.observed - found.predicted, (0.0, 0.0)),
        ):
            axis.plot((low, high), perfect, color=INK, linewidth=1.0, zorder=3)
            for rows, colour, name in self._groups():
                scatter(axis, found.predicted[rows], values[rows], color=colour, alpha=0.6, label=name)
            label_axes(axis, x=f"predicted {self.target_name}")
        label_axes(axes[0], y=f"observed {self.target_name}")
        label_axes(axes[1], y="residual")
        handles = axes[0].get_legend_handles_labels()[0]
        if len(handles) > 1:
            legend_above(axes, handles, ax)
        return self

    def _groups(self) -> list[tuple[Any, str, str]]:
        found = self.predictions
        if not found.trained_on.any() or found.trained_on.all():
            return [(slice(None), BLUE, "rows")]
        n_held_out = int(found.judged.sum())
        return [
            (found.trained_on, GREY, f"training rows ({found.n_trained_on})"),
            (found.judged, VERMILION, f"held-out rows ({n_held_out})"),
        ]


def picture(display: Any, caption: str) -> Picture:
    """Draw a display as SVG."""
    svg = base64.b64encode(_svg(display)).decode("ascii")
    return Picture(svg, display.alt_text, caption, REM_PER_INCH * display.figure_.get_figwidth())


def _svg(display: Any) -> bytes:
    """The figure as SVG, the same bytes for the same numbers."""
    with style():
        import matplotlib as mpl
        from matplotlib.figure import Figure

        figure, file = Figure(), io.BytesIO()
        with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": "dconnet", "svg.fonttype": "path"}):
            # A name in a script that the font lacks is drawn as boxes; the page itself spells it out.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            display.plot(ax=figure)
            figure.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()
