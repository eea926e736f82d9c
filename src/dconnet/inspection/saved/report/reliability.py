"""Whether probabilities mean what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet.inspection.plotting.canvas import BLUE, GREY, INK, label_axes, make_panels
from dconnet.inspection.saved.report.figures import Picture, picture
from dconnet.io.model_file import SavedModel

# Bins of probabilities.
N_BINS = 10


def calibration_of(model: SavedModel) -> Any:
    """What makes probabilities of the outputs of a classifier; None if the model has no such thing."""
    return getattr(model, "calibration", None)


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """How often classes were observed that were given some probability.

    Attributes
    ----------
    given : array of shape (n_bins,)
        Mean probability in each bin, of those that are not empty.
    seen : array of shape (n_bins,)
        Share of these in which the class was observed.
    counts : array of int, of shape (n_bins,)
    of_observed : array of shape (n_rows,)
        The probability that was given to the class that was observed.
    """

    given: FloatArray
    seen: FloatArray
    counts: NDArray[np.int64]
    of_observed: FloatArray

    @classmethod
    def of(cls, probabilities: FloatArray, y: NDArray[Any], classes: Sequence[object]) -> Reliability:
        """By all classes, or by the second of two.

        Parameters
        ----------
        probabilities : array of shape (n_rows, n_classes)
            What each class was given.
        y : array of shape (n_rows,)
            What was observed.
        classes : sequence of labels
            The classes.
        """
        is_class = y[:, None] == np.array(classes)
        chosen = slice(1, None) if len(classes) == 2 else slice(None)
        return cls.between(probabilities[:, chosen].ravel(), is_class[:, chosen].ravel(), probabilities[is_class])

    @classmethod
    def between(cls, probabilities: FloatArray, happened: BoolArray, of_observed: FloatArray) -> Reliability:
        """Count probabilities in bins of equal width."""
        bins = np.minimum((probabilities * N_BINS).astype(np.intp), N_BINS - 1)
        counts = np.bincount(bins, minlength=N_BINS)
        full = counts > 0
        given = np.bincount(bins, probabilities, N_BINS)[full] / counts[full]
        seen = np.bincount(bins, happened, N_BINS)[full] / counts[full]
        return cls(given, seen, counts[full], of_observed)

    @property
    def spread(self) -> FloatArray:
        """Standard error of what was seen."""
        error: FloatArray = np.sqrt(self.seen * (1.0 - self.seen) / self.counts)
        return error

    @property
    def log_loss(self) -> float:
        """Mean of the negative logarithm of the probability of what was observed."""
        return -float(np.mean(np.log(np.maximum(self.of_observed, np.finfo(float).tiny))))


def reliability_figure(reliability: Reliability) -> Picture:
    """Draw how often classes were observed, over the probabilities that they were given."""
    caption = (
        "Left: how often a class was observed, over the probability that it was given; on the line, probabilities mean "
        "what they say. The bars are one standard error, and numbers count what is in a bin. Right: the probability "
        "that was given to the class that was observed."
    )
    return picture(_ReliabilityPlot(reliability), caption)


@dataclass(eq=False)
class _ReliabilityPlot:
    """Shares of classes over the probabilities that they were given, and a histogram of those of what was observed."""

    reliability: Reliability
    figure_: Any = field(default=None, init=False)

    alt_text = "Observed shares over given probabilities, and a histogram of the probability of what was observed."

    def plot(self, ax: Any) -> Self:
        """Draw into an empty figure."""
        left, right = make_panels(ax, 2, 2, (3.7, 3.1))
        self.figure_ = left.figure
        found = self.reliability
        left.plot((0.0, 1.0), (0.0, 1.0), color=INK, linewidth=1.0)
        left.errorbar(found.given, found.seen, found.spread, fmt="o-", color=BLUE, ecolor=GREY, markersize=4.0)
        for x, y, count in zip(found.given, found.seen, found.counts.tolist(), strict=True):
            left.annotate(str(count), (x, y), (6, -2), textcoords="offset points", fontsize=7, color=GREY, va="top")
        left.set(xlim=(-0.04, 1.1), ylim=(-0.08, 1.06))
        right.hist(found.of_observed, bins=np.linspace(0.0, 1.0, 2 * N_BINS + 1), color=BLUE)
        label_axes(left, x="given probability", y="share observed")
        label_axes(right, x="probability of the observed class", y="rows")
        return self
