"""Output transforms: from the outputs of networks to predictions of a member.

The networks of several folds are averaged on a scale of their own: the target, its logarithm, or log-odds. A transform
maps outputs to this scale, and the average to the prediction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy import special

from dconnet._arrays import FloatArray

# Class scores are clipped to [MIN_SCORE, 1 - MIN_SCORE] before they become log-odds, and log-odds to ±MAX_LOG_ODDS.
MIN_SCORE, MAX_LOG_ODDS = 0.02, 8.0


class OutputTransform(Protocol):
    """From outputs of the networks of each fold to predictions."""

    kind: ClassVar[str]

    def to_average(self, outputs: FloatArray) -> FloatArray:
        """Map the outputs of one fold to the scale on which folds are averaged."""
        ...

    def from_average(self, average: FloatArray) -> FloatArray:
        """Map the average over the folds to the prediction."""
        ...


@dataclass(frozen=True, slots=True)
class TargetValue:
    """Outputs are the target, clipped to its range in the training because networks extrapolate."""

    low: float
    high: float

    kind: ClassVar[str] = "value"

    def to_average(self, outputs: FloatArray) -> FloatArray:
        """See `OutputTransform`."""
        return np.clip(outputs, self.low, self.high)

    def from_average(self, average: FloatArray) -> FloatArray:
        """See `OutputTransform`."""
        return np.clip(average, self.low, self.high)  # a mean of equal numbers may differ from them by rounding


@dataclass(frozen=True, slots=True)
class LogTarget:
    """Outputs are the logarithm of the target; low and high are the range of the target itself.

    The exponential of a mean is not the mean of exponentials. A factor, estimated out of fold, corrects for it.
    """

    low: float
    high: float
    factor: float = 1.0

    kind: ClassVar[str] = "logarithm"

    def to_average(self, outputs: FloatArray) -> FloatArray:
        """See `OutputTransform`."""
        return np.clip(outputs, np.log(self.low), np.log(self.high))

    def from_average(self, average: FloatArray) -> FloatArray:
        """See `OutputTransform`."""
        return np.clip(self.factor * np.exp(average), self.low, self.high)


@dataclass(frozen=True, slots=True)
class ClassScore:
    """Outputs are scores of a class between zero and one; predictions are log-odds."""

    kind: ClassVar[str] = "score"

    def to_average(self, outputs: FloatArray) -> FloatArray:
        """See `OutputTransform`."""
        log_odds: FloatArray = special.logit(np.clip(outputs, MIN_SCORE, 1.0 - MIN_SCORE))
        return log_odds

    def from_average(self, average: FloatArray) -> FloatArray:
        """See `OutputTransform`."""
        return average


@dataclass(frozen=True, slots=True)
class LogOdds:
    """Outputs and predictions are log-odds of a class."""

    kind: ClassVar[str] = "logodds"

    def to_average(self, outputs: FloatArray) -> FloatArray:
        """See `OutputTransform`."""
        return np.clip(outputs, -MAX_LOG_ODDS, MAX_LOG_ODDS)

    def from_average(self, average: FloatArray) -> FloatArray:
        """See `OutputTransform`."""
        return average
