"""The figures of the report as SVG images, one for each panel. They are drawn without pyplot."""

from __future__ import annotations

import base64
import io
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.calibration import calibration_curve

from dconnet._arrays import FloatArray
from dconnet._text import printable
from dconnet.inspection.examination import COVERAGE, Examination
from dconnet.inspection.plotting import ConvergenceDisplay, NetworkDisplay, Run, style
from dconnet.inspection.plotting.canvas import (
    BLUE,
    GREY,
    INK,
    VERMILION,
    add_legend,
    label_axes,
    line_styles,
    make_panels,
    scatter,
    shorten,
)
from dconnet.inspection.report.dependence import PartialDependence, ReportFeature, read_features

# Further targets have no figures; further features and classes have no curve.
MAX_TARGETS, MAX_CURVES, MAX_CLASSES, MAX_LEVELS = 6, 6, 6, 12
# Makes the letters in the figures as large as those of the text.
REM_PER_INCH = 8.0
N_RESIDUAL_BINS, N_PROBABILITY_BINS, N_INTERVAL_BINS = 40, 10, 12
PANEL = (2.5, 2.2)

Draw = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG image in base64, its alternative text, and its width in rem."""

    svg: str
    alt: str
    width: float


@dataclass(frozen=True, slots=True)
class Figure:
    """Pictures that stand side by side where there is room, and their caption."""

    pictures: tuple[Picture, ...]
    caption: str


def draw_predictions(examination: Examination, half_widths: FloatArray | None) -> list[Figure]:
    """Draw observed values and residuals for each target, or the reliability of probabilities."""
    if half_widths is not None:
        low, high = examination.intervals
        return [
            _draw_residuals(examination, k, float(half), np.column_stack([low[:, k], high[:, k]]))
            for k, half in enumerate(half_widths[:MAX_TARGETS])
        ]
    return [] if examination.probabilities is None else [_draw_reliability(examination, examination.probabilities)]


def _draw_residuals(examination: Examination, target: int, half_width: float, intervals: FloatArray) -> Figure:
    """Draw observed over predicted values, residuals over predicted values, and a histogram of the residuals.

    ``half_width`` is that of the intervals (n_rows, 2), or their median if they differ.
    """
    name, n_rows = printable(examination.target_names[target]), len(examination.y)
    observed, predicted = (values.reshape(n_rows, -1)[:, target] for values in (examination.y, examination.predictions))
    residuals, groups = observed - predicted, _group_rows(examination)
    ends, shifts = np.array([predicted.min(), predicted.max()]), (-half_width, half_width)
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(N_INTERVAL_BINS, n_rows))
    places = np.array([np.median(predicted[rows]) for rows in parts])
    limits = np.array([np.median(intervals[rows] - predicted[rows, None], axis=0) for rows in parts])

    def draw_points(axis: Any, values: FloatArray, line: FloatArray) -> None:
        axis.plot(ends, line, color=INK, linewidth=1.0, zorder=3)
        for limit in limits.T:
            heights = limit + np.interp(places, ends, line)
            axis.plot(places, heights, color=INK, linewidth=0.8, linestyle="--", zorder=3)
        for rows, colour, label in groups:
            scatter(axis, predicted[rows], values[rows], color=colour, alpha=0.6, label=label)

    def draw_observed(axis: Any) -> None:
        draw_points(axis, observed, ends)
        label_axes(axis, x=f"predicted {name}", y=f"observed {name}")
        if len(groups) > 1:
            add_legend(axis)

    def draw_differences(axis: Any) -> None:
        draw_points(axis, residuals, np.zeros(2))
        label_axes(axis, x=f"predicted {name}", y="residual")

    def draw_histogram(axis: Any) -> None:
        parts, colours = [residuals[rows] for rows, _, _ in groups], [colour for _, colour, _ in groups]
        axis.hist(parts, bins=N_RESIDUAL_BINS, stacked=True, color=colours)
        for shift in shifts:
            axis.axvline(shift, color=INK, linewidth=0.8, linestyle="--", zorder=3)
        label_axes(axis, x="residual", y="rows")

    is_inside = (intervals[:, 0] <= observed) & (observed <= intervals[:, 1])
    is_new, new_rows = examination.is_evaluated, examination.evaluated_rows
    if examination.is_auto and examination.is_training_data:  # the widths of training rows have seen their errors
        is_new = ~examination.is_training_row
        new_rows = f"{int(is_new.sum())} held-out rows"
    contained = (
        f" The intervals contain {100.0 * np.mean(is_inside[is_new]):.1f} % of the {new_rows}." if any(is_new) else ""
    )
    intervals_in_words = f"the {'median ' if examination.is_auto else ''}{100 * COVERAGE:.0f} % interval"
    held_out = "The orange rows were held out: they show how well new rows are predicted. " if len(groups) > 1 else ""
    caption = (
        "First, observed over predicted values; a perfect prediction is on the line. Then the residuals, observed "
        f"minus predicted. {held_out}The dashed lines are the ends of {intervals_in_words}.{contained} "
        "A trend in the residuals is structure that the model has missed."
    )
    panels = {
        "Observed over predicted values.": draw_observed,
        "Residuals over predicted values.": draw_differences,
        "Histogram of the residuals.": draw_histogram,
    }
    return Figure(tuple(_draw_panel(draw, alt) for alt, draw in panels.items()), caption)


def _group_rows(examination: Examination) -> list[tuple[Any, str, str]]:
    """Return rows, colour and name of the training rows and of the held-out rows."""
    training, shown = examination.is_training_row, examination.is_evaluated
    if not training.any() or training.all():
        return [(shown, BLUE, "rows")]
    first = (training, GREY, f"training rows ({int(training.sum())})")
    if examination.is_auto:
        first = (training & shown, BLUE, f"training rows, out of fold ({int((training & shown).sum())})")
    return [first, (~training, VERMILION, f"held-out rows ({int((~training).sum())})")]


def _draw_reliability(examination: Examination, probabilities: FloatArray) -> Figure:
    """Draw observed frequencies over predicted probabilities, and a histogram of those of the observed class."""
    rows, classes = examination.is_evaluated, examination.model.classes_
    probabilities, is_class = probabilities[rows], examination.y[rows][:, None] == classes
    columns = slice(1 if len(classes) == 2 else 0, None)
    values = probabilities[:, columns].ravel()
    y, x = calibration_curve(is_class[:, columns].ravel(), values, n_bins=N_PROBABILITY_BINS)
    edges = np.linspace(0.0, 1.0, N_PROBABILITY_BINS + 1)
    counts = np.bincount(np.searchsorted(edges[1:-1], values))
    counts = counts[counts > 0]

    def draw_frequencies(axis: Any) -> None:
        axis.plot((0.0, 1.0), (0.0, 1.0), color=INK, linewidth=1.0)
        axis.errorbar(x, y, np.sqrt(y * (1.0 - y) / counts), fmt="o-", color=BLUE, ecolor=GREY, markersize=4.0)
        for place, count in zip(zip(x, y, strict=True), counts.tolist(), strict=True):
            axis.annotate(str(count), place, (6, -2), textcoords="offset points", fontsize=7, color=GREY, va="top")
        axis.set(xlim=(-0.04, 1.1), ylim=(-0.08, 1.06))
        label_axes(axis, x="predicted probability", y="observed frequency")

    def draw_histogram(axis: Any) -> None:
        axis.hist(probabilities[is_class], bins=np.linspace(0.0, 1.0, 21), color=BLUE)
        label_axes(axis, x="probability of the observed class", y="rows")

    caption = (
        "First, how often a class was observed, over its predicted probability; on the line, the probabilities are "
        "reliable. The bars are one standard error, and the numbers count the predictions in a bin. Then the "
        "predicted probability of the class that was observed."
    )
    pictures = (
        _draw_panel(draw_frequencies, "Observed frequencies over predicted probabilities."),
        _draw_panel(draw_histogram, "Histogram of the predicted probability of the observed class."),
    )
    return Figure(pictures, caption)


def draw_convergence(examination: Examination) -> Figure | None:
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
    return Figure((_draw_picture(display.plot, display.alt_text),), caption)


# --- the prediction as a function of the features ---


def draw_functions(examination: Examination) -> list[Figure]:
    """Draw networks of one or two inputs as they are, and otherwise the dependence on the most important features.

    Each target has a figure, at most 6 of them; all classes share one.
    """
    inputs = examination.inputs
    if examination.is_single_layer and examination.encoder is None and inputs is not None and inputs.shape[1] <= 2:
        return _draw_networks(examination)
    by_position = {feature.position: feature for feature in read_features(examination)}
    ranked = [by_position[each.feature] for each in examination.importances if each.feature in by_position]
    dependence, features = PartialDependence(examination), ranked[:MAX_CURVES]
    curves = [dependence.means(feature, feature.points) for feature in features]
    if not features:
        return []
    if examination.classes is None:
        names = [f"mean predicted {printable(name)}" for name in examination.target_names[:MAX_TARGETS]]
        return [_draw_curves(features, [own[:, [k]] for own in curves], name, [""]) for k, name in enumerate(names)]
    classes = [printable(label) or "''" for label in examination.classes]
    shown = "probability" if examination.probabilities is not None else "output"
    if curves[0].shape[1] == 1:
        return [_draw_curves(features, curves, f"mean {shown} of {classes[1]}", [""])]
    most = np.sort(np.argsort([-np.sum(examination.y == label) for label in examination.classes])[:MAX_CLASSES])
    return [_draw_curves(features, [own[:, most] for own in curves], f"mean {shown}", [classes[c] for c in most])]


def _draw_curves(
    features: Sequence[ReportFeature], curves: Sequence[FloatArray], name: str, labels: Sequence[str]
) -> Figure:
    """Draw mean predictions over each feature, all on the same scale: lines, or bars for the levels of a category."""
    low, high = min(own.min() for own in curves), max(own.max() for own in curves)
    margin = 0.05 * (high - low) or 0.05 * max(abs(high), 1.0)
    limits = (low - margin, high + margin)
    pictures = []
    for feature, means in zip(features, curves, strict=True):

        def draw(axis: Any, feature: ReportFeature = feature, means: FloatArray = means) -> None:
            draw_one = _draw_levels if feature.kind == "category" else _draw_lines
            draw_one(axis, feature, means, limits, name, labels)
            if len(labels) > 1 and feature is features[0]:
                add_legend(axis, fontsize=7)

        pictures.append(_draw_panel(draw, f"{name} over {shorten(feature.name)}."))
    caption = (
        "Partial dependence: the mean prediction over rows of the data when one feature is set to a value and all "
        "others stay as they are. A flat line means that the feature alone makes no difference. Ticks at the bottom "
        "are the deciles of the feature: beyond them there are few rows."
    )
    return Figure(tuple(pictures), caption)


def _draw_lines(
    axis: Any, feature: ReportFeature, means: FloatArray, limits: tuple[float, float], name: str, labels: Sequence[str]
) -> None:
    points: Any = feature.points if feature.kind == "number" else feature.to_cells(feature.points)
    deciles: Any = np.quantile(feature.known, np.arange(0.1, 0.95, 0.1))
    deciles = deciles if feature.kind == "number" else feature.to_cells(deciles)
    mark = {"marker": "o", "markersize": 4.0} if feature.choices is not None else {}
    for column, label, line in zip(means.T, labels, line_styles(len(labels)), strict=True):
        axis.plot(points, column, label=label or None, **mark, **line)
    axis.plot(deciles, np.zeros(9), "|", color=INK, ms=6, transform=axis.get_xaxis_transform(), clip_on=False)
    axis.set_ylim(*limits)
    if feature.kind == "date":
        ticks = points[[0, len(points) // 2, -1]]
        axis.set_xticks(ticks, np.datetime_as_string(ticks, unit="M" if np.ptp(feature.points) > 90.0 else "D"))
    label_axes(axis, x=printable(feature.name), y=name)


def _draw_levels(
    axis: Any, feature: ReportFeature, means: FloatArray, limits: tuple[float, float], name: str, labels: Sequence[str]
) -> None:
    """Draw a point for each level; of many levels, the most frequent ones."""
    counts = np.bincount(feature.known.astype(np.intp), minlength=len(feature.levels))[: len(means)]
    shown = np.sort(np.argsort(-counts, kind="stable")[:MAX_LEVELS])
    for column, label, line in zip(means.T, labels, line_styles(len(labels)), strict=True):
        axis.plot(column[shown], np.arange(len(shown)), "o", color=line["color"], ms=5, label=label or None)
    names = [f"{shorten(printable(feature.levels[i]), 18)} ({counts[i]})" for i in shown]
    axis.set_yticks(np.arange(len(shown)), names, parse_math=False)
    axis.set(xlim=limits, ylim=(len(shown) - 0.5, -0.5))
    label_axes(axis, x="", y=printable(feature.name))
    axis.set_xlabel("\n".join(textwrap.wrap(name, 18)), parse_math=False)


def _draw_networks(examination: Examination) -> list[Figure]:
    """Draw networks of one or two inputs, with their hinges."""
    coding, networks, inputs = examination.model.targets_, examination.output_networks, examination.inputs
    assert inputs is not None
    targets, names = coding.columns(examination.y), [printable(name) for name in examination.input_names]
    groups = [([k], name, None) for k, name in enumerate(examination.target_names[:MAX_TARGETS])]
    if coding.classes is not None:
        groups = [(list(range(len(networks))), "network output", coding.column_labels)]
    bend = (
        "Circles mark its hinges, where a neuron bends it."
        if inputs.shape[1] == 1
        else ("The lines are its hinges, along which a neuron bends it.")
    )
    caption = f"The network over the data. {bend}"
    if coding.classes is not None:
        caption += " Targets are 1 for rows of the class and −1 for the others."
    figures = []
    for own, target, labels in groups:
        display = NetworkDisplay(
            [networks[k] for k in own],
            inputs,
            targets[:, own],
            feature_names=names,
            target_name=printable(target),
            labels=labels,
        )
        figures.append(Figure((_draw_picture(display.plot, display.alt_text),), caption))
    return figures


def _draw_panel(draw: Draw, alt: str) -> Picture:
    """Draw on the axes of a figure with one panel."""
    return _draw_picture(lambda figure: draw(make_panels(figure, 1, 1, PANEL)[0]), alt)


def _draw_picture(draw: Draw, alt: str) -> Picture:
    """Draw into an empty figure and return its SVG, the same bytes for the same numbers."""
    with style():
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas

        figure, file = Canvas(), io.BytesIO()
        with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": "dconnet", "svg.fonttype": "path"}):
            # A name in a script that the font lacks is drawn as boxes; the page itself shows the name.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            draw(figure)
            figure.savefig(file, format="svg", metadata={"Date": None})
    svg = base64.b64encode(file.getvalue()).decode("ascii")
    return Picture(svg, alt, REM_PER_INCH * figure.get_figwidth())
