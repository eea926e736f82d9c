"""The figures of the report as SVG images. They are drawn without pyplot."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.inspection.examination import COVERAGE, Examination
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
from dconnet.inspection.report.classification import N_BINS, Reliability
from dconnet.model.network import Network

# Further targets have no figures.
MAX_TARGETS = 6
# Makes the letters in the figures as large as those of the text.
REM_PER_INCH = 8.0
N_RESIDUAL_BINS = 40
PANEL_SIZE = (3.7, 3.1)

Draw = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG image in base64, its alternative text and caption, and its width in rem."""

    svg: str
    alt: str
    caption: str
    width: float


def draw_predictions(examination: Examination, half_widths: FloatArray | None) -> list[Picture]:
    """Draw observed values and residuals for each target, or the reliability of probabilities."""
    if half_widths is not None:
        return [_draw_residuals(examination, k, float(half)) for k, half in enumerate(half_widths[:MAX_TARGETS])]
    if examination.probabilities is None:
        return []
    rows, classes = examination.is_evaluated, examination.model.classes_
    return [_draw_reliability(Reliability.of(examination.probabilities[rows], examination.y[rows], classes))]


def _draw_residuals(examination: Examination, target: int, half_width: float) -> Picture:
    """Draw observed over predicted values, residuals over predicted values, and a histogram of the residuals."""
    name, n_rows = printable(examination.target_names[target]), len(examination.y)
    observed, predicted = (values.reshape(n_rows, -1)[:, target] for values in (examination.y, examination.predictions))
    residuals, groups = observed - predicted, _group_rows(examination)
    evaluated = examination.is_evaluated

    def draw(figure: Any) -> None:
        axes = make_panels(figure, 3, 3, (2.9, 2.8))
        ends = np.array([predicted.min(), predicted.max()])
        for axis, values, line in ((axes[0], observed, ends), (axes[1], residuals, np.zeros(2))):
            axis.plot(ends, line, color=INK, linewidth=1.0, zorder=3)
            for shift in (-half_width, half_width):
                axis.plot(ends, line + shift, color=INK, linewidth=0.8, linestyle="--", zorder=3)
            for rows, colour, label in groups:
                scatter(axis, predicted[rows], values[rows], color=colour, alpha=0.6, label=label)
            label_axes(axis, x=f"predicted {name}")
        axes[2].hist(
            [residuals[rows] for rows, _, _ in groups],
            bins=N_RESIDUAL_BINS,
            stacked=True,
            color=[colour for _, colour, _ in groups],
            orientation="horizontal",
        )
        for shift in (-half_width, half_width):
            axes[2].axhline(shift, color=INK, linewidth=0.8, linestyle="--", zorder=3)
        label_axes(axes[0], y=f"observed {name}")
        label_axes(axes[1], y="residual")
        label_axes(axes[2], x="rows", y="residual")
        if len(groups) > 1:
            legend_above(axes, axes[0].get_legend_handles_labels()[0], figure)

    share = np.mean(np.abs(residuals[evaluated]) <= half_width)
    held_out = "The orange rows were held out: they show how well new rows are predicted. " if len(groups) > 1 else ""
    caption = (
        "Left: observed over predicted values; a perfect prediction is on the line. Middle and right: the residuals, "
        f"observed minus predicted. {held_out}The dashed lines are the {100 * COVERAGE:.0f} % interval around "
        f"predictions, which contains {100.0 * share:.1f} % of the {examination.evaluated_rows}. A trend or a funnel "
        "in the residuals is structure that the model has missed."
    )
    return _draw_picture(draw, "Observed over predicted values, and the residuals.", caption)


def _group_rows(examination: Examination) -> list[tuple[Any, str, str]]:
    """Return rows, colour and name of the training rows and of the held-out rows."""
    training, shown = examination.is_training_row, examination.is_evaluated
    if not training.any() or training.all():
        return [(shown, BLUE, "rows")]
    if examination.is_auto:
        first = (training & shown, BLUE, f"training rows, out of fold ({int((training & shown).sum())})")
    else:
        first = (training, GREY, f"training rows ({int(training.sum())})")
    return [first, (~training, VERMILION, f"held-out rows ({int((~training).sum())})")]


def _draw_reliability(reliability: Reliability) -> Picture:
    """Draw observed frequencies over predicted probabilities, and a histogram of those of the observed class."""

    def draw(figure: Any) -> None:
        left, right = make_panels(figure, 2, 2, PANEL_SIZE)
        x, y = reliability.predicted, reliability.observed
        left.plot((0.0, 1.0), (0.0, 1.0), color=INK, linewidth=1.0)
        left.errorbar(x, y, reliability.standard_error, fmt="o-", color=BLUE, ecolor=GREY, markersize=4.0)
        for place, count in zip(zip(x, y, strict=True), reliability.counts.tolist(), strict=True):
            left.annotate(str(count), place, (6, -2), textcoords="offset points", fontsize=7, color=GREY, va="top")
        left.set(xlim=(-0.04, 1.1), ylim=(-0.08, 1.06))
        right.hist(reliability.of_observed_class, bins=np.linspace(0.0, 1.0, 2 * N_BINS + 1), color=BLUE)
        label_axes(left, x="predicted probability", y="observed frequency")
        label_axes(right, x="probability of the observed class", y="rows")

    caption = (
        "Left: how often a class was observed, over its predicted probability; on the line, the probabilities are "
        "reliable. The bars are one standard error, and the numbers count the predictions in a bin. Right: the "
        "predicted probability of the class that was observed."
    )
    return _draw_picture(draw, "Observed frequencies over predicted probabilities, and a histogram.", caption)


def draw_convergence(examination: Examination) -> Picture | None:
    """Draw RegLoss by epoch, and more if the fit was repeated; None without a record of the fit."""
    names = [f"class {each.name}" if len(examination.networks) > 1 else "" for each in examination.networks]
    runs = []
    for each, name in zip(examination.networks, names, strict=True):
        run = Run(each.solution.history.objective) if each.trajectory is None else Run.of_trajectory(each.trajectory)
        runs += [replace(run, label=name)] if len(run.objective) > 1 else []
    if not runs:
        return None
    shown = "RegLoss after each epoch"
    if runs[0].stationarity is not None:
        shown = (
            "RegLoss, the norm of a subgradient of RegLoss and the length of the step at each epoch, recorded by "
            "repeating the fit"
        )
    caption = (
        f"{shown}. The last panel estimates the order of convergence, the slope of ln e over ln e one epoch earlier, "
        "where e is the distance of RegLoss from its final value; 1 is linear convergence."
    )
    display = ConvergenceDisplay(runs)
    return _draw_picture(display.plot, display.alt_text, caption)


def draw_networks(examination: Examination) -> list[Picture]:
    """Draw the networks over one or two inputs, or the partial dependence on the most important inputs.

    Each target has a figure, at most 6 of them; all classes share one.
    """
    if not examination.is_single_layer:
        return []
    coding = examination.model.targets_
    networks = list_outputs(examination)
    targets = coding.columns(examination.y)
    if coding.classes is not None:
        return [_draw_network(examination, networks, targets, "network output", coding.column_labels)]
    return [
        _draw_network(examination, [networks[k]], targets[:, k : k + 1], name, None)
        for k, name in enumerate(examination.target_names[:MAX_TARGETS])
    ]


def list_outputs(examination: Examination) -> list[Network]:
    """Return a network with one output for each output of the estimator."""
    return [network.of_output(k) for network in examination.model.networks_ for k in range(network.n_outputs)]


def _draw_network(
    examination: Examination,
    networks: Sequence[Network],
    targets: FloatArray,
    target_name: str,
    labels: Sequence[str] | None,
) -> Picture:
    assert examination.inputs is not None
    features = [i for each in examination.importances for i in each.inputs][:MAX_FEATURES]
    display = NetworkDisplay(
        networks,
        examination.inputs,
        targets,
        features=features if examination.inputs.shape[1] > 2 else None,
        feature_names=[printable(name) for name in examination.input_names],
        target_name=printable(target_name),
        labels=labels,
    )
    caption = {
        "curve": "The network over the data. Circles mark its hinges, where a neuron bends it.",
        "map": "The network over the data, and its hinges, the lines along which a neuron bends it.",
        "partial dependence": (
            "Partial dependence: the mean prediction over all rows when one feature is set to a value. The ticks at "
            "the bottom are the deciles of the feature; beyond them, there are few rows."
        ),
    }[display.kind_]
    if examination.encoder is not None:
        caption += " The columns of the table are shown as the network sees them: as inputs in standard deviations."
    if examination.classes is not None:
        caption += " Targets are 1 for rows of the class and −1 for the others."
    return _draw_picture(display.plot, display.alt_text, caption)


def _draw_picture(draw: Draw, alt: str, caption: str) -> Picture:
    """Draw into an empty figure and return its SVG, the same bytes for the same numbers."""
    with style():
        import matplotlib as mpl
        from matplotlib.figure import Figure

        figure, file = Figure(), io.BytesIO()
        with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": "dconnet", "svg.fonttype": "path"}):
            # A name in a script that the font lacks is drawn as boxes; the page itself shows the name.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            draw(figure)
            figure.savefig(file, format="svg", metadata={"Date": None})
    svg = base64.b64encode(file.getvalue()).decode("ascii")
    return Picture(svg, alt, caption, REM_PER_INCH * figure.get_figwidth())
