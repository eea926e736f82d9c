"""What the report says about an ensemble: its numbers and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from dconnet._arrays import BoolArray, FloatArray
from dconnet._text import printable
from dconnet.inspection.plotting.canvas import (
    BLUE,
    INK,
    PALE,
    VERMILION,
    label_axes,
    legend_above,
    make_panels,
    scatter,
    shorten,
)
from dconnet.inspection.saved.ensemble import EnsembleExamination
from dconnet.inspection.saved.report.figures import Picture, picture
from dconnet.inspection.saved.report.predictions import Confusion, Predictions
from dconnet.inspection.saved.report.reliability import Reliability, reliability_figure
from dconnet.io.ensemble import with_weight

COVERAGE = 0.9
# Bins of residuals.
N_RESIDUAL_BINS = 40
# With more columns, the most important ones are drawn.
MAX_BARS = 20


def ensemble_parts(examination: EnsembleExamination) -> dict[str, Any]:
    """What the template needs."""
    estimator, columns = examination.model.estimator, examination.model.columns
    used = with_weight(estimator.members_)
    return {
        "columns": columns,
        "members": used,
        "n_unused": len(estimator.members_) - len(used),
        "n_folds": len(estimator.ensemble_.fits[0].folds),
        "importance_figure": _importance_figure(columns),
        **(_parts_of_classes if examination.probabilities is not None else _parts_of_numbers)(examination),
    }


def _parts_of_numbers(examination: EnsembleExamination) -> dict[str, Any]:
    residuals = Residuals.of(examination)
    plot = _ResidualPlot(residuals, examination.is_trained_on, printable(examination.model.target_name))
    caption = (
        f"Left: observed values over predicted values; a perfect prediction is on the line. Right: the residuals, "
        f"observed minus predicted. Between the dashed lines are the predictions that the interval of "
        f"{100 * COVERAGE:.0f} % holds: {100.0 * residuals.share_inside:.1f} % of these rows."
    )
    return {"confusion": None, "log_loss": None, "residuals": residuals, "prediction_figure": picture(plot, caption)}


def _parts_of_classes(examination: EnsembleExamination) -> dict[str, Any]:
    classes, rows = examination.model.classes or (), np.ones(len(examination.y), dtype=np.bool_)
    assert examination.probabilities is not None
    reliability = Reliability.of(examination.probabilities, examination.y, classes)
    predictions = Predictions(examination.y, examination.predicted, ~rows, rows, examination.score)
    return {
        "confusion": Confusion.of(predictions, classes),
        "log_loss": reliability.log_loss,
        "residuals": None,
        "prediction_figure": reliability_figure(reliability),
    }


def _importance_figure(columns: Sequence[dict[str, Any]]) -> Picture:
    ranked = sorted(columns, key=lambda column: -column["importance"])[:MAX_BARS]
    plot = _ImportancePlot([printable(c["column"]) for c in ranked], np.array([c["importance"] for c in ranked]))
    caption = (
        "What is lost out of fold if the values of a column are shuffled among the rows, as a share of all. Columns "
        "that carry the same information share their importance."
    )
    if len(ranked) < len(columns):
        caption += f" Of the {len(columns)} columns, the {len(ranked)} most important ones are shown."
    return picture(plot, caption)


# --- numbers ---


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Observed and predicted values, and the interval around the predictions.

    Attributes
    ----------
    observed, predicted : array of shape (n_rows,)
    half_width : float
        Half the width of the interval.
    """

    observed: FloatArray
    predicted: FloatArray
    half_width: float

    @classmethod
    def of(cls, examination: EnsembleExamination) -> Residuals:
        """Those of all rows."""
        half_width: float = examination.model.estimator._half_width(COVERAGE)
        return cls(examination.y, examination.predicted, half_width)

    @property
    def values(self) -> FloatArray:
        """Observed minus predicted values."""
        return self.observed - self.predicted

    @property
    def share_inside(self) -> float:
        """Share of the rows that the interval holds."""
        return float(np.mean(np.abs(self.values) <= self.half_width))


# --- figures ---


@dataclass(eq=False)
class _ResidualPlot:
    """Observed over predicted values, and the histogram of the residuals with the interval."""

    residuals: Residuals
    is_trained_on: BoolArray
    target_name: str
    figure_: Any = field(default=None, init=False)

    alt_text = "Observed values over predicted values, and a histogram of the residuals with the interval."

    def plot(self, ax: Any) -> Self:
        """Draw into an empty figure."""
        axes = make_panels(ax, 2, 2, (3.7, 3.1))
        self.figure_ = axes[0].figure
        found, half = self.residuals, self.residuals.half_width
        ends = np.array([found.predicted.min(), found.predicted.max()])
        axes[0].plot(ends, ends, color=INK, linewidth=1.0, zorder=3)
        for shift in (-half, half):
            axes[0].plot(ends, ends + shift, color=INK, linewidth=0.8, linestyle="--", zorder=3)
            axes[1].axvline(shift, color=INK, linewidth=0.8, linestyle="--", zorder=3)
        groups = self._groups()
        for rows, colour, name in groups:
            scatter(axes[0], found.predicted[rows], found.observed[rows], color=colour, alpha=0.6, label=name)
        values = [found.values[rows] for rows, _, _ in groups]
        axes[1].hist(values, bins=N_RESIDUAL_BINS, stacked=True, color=[colour for _, colour, _ in groups])
        label_axes(axes[0], x=f"predicted {self.target_name}", y=f"observed {self.target_name}")
        label_axes(axes[1], x="residual", y="rows")
        legend_above(axes, axes[0].get_legend_handles_labels()[0], ax)
        return self

    def _groups(self) -> list[tuple[Any, str, str]]:
        n_trained_on, n_rows = int(self.is_trained_on.sum()), len(self.is_trained_on)
        if not n_trained_on:
            return [(slice(None), BLUE, f"rows ({n_rows})")]
        out_of_fold = (self.is_trained_on, BLUE, f"training rows, out of fold ({n_trained_on})")
        held_out = (~self.is_trained_on, VERMILION, f"held-out rows ({n_rows - n_trained_on})")
        return [out_of_fold] if n_trained_on == n_rows else [out_of_fold, held_out]


@dataclass(eq=False)
class _ImportancePlot:
    """A bar for each column."""

    names: Sequence[str]
    shares: FloatArray
    figure_: Any = field(default=None, init=False)

    alt_text = "The importance of the columns, as bars."

    def plot(self, ax: Any) -> Self:
        """Draw into an empty figure."""
        (axis,) = make_panels(ax, 1, 1, (6.0, 0.6 + 0.24 * len(self.names)))
        self.figure_ = axis.figure
        places = np.arange(len(self.names))[::-1]
        axis.barh(places, 100.0 * self.shares, color=np.where(self.shares > 0.0, BLUE, PALE).tolist(), height=0.7)
        axis.set_yticks(places, [shorten(name, 30) for name in self.names], parse_math=False)
        axis.grid(visible=False, axis="y")
        label_axes(axis, x="importance in per cent")
        return self
