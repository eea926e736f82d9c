"""How the outputs of networks become what members say.

A member says something for every fold, the mean of which is taken in a space of its own: that of the target, of its
logarithm, or of log-odds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import special

from dconnet._arrays import FloatArray

# Scores of classes are clipped to these before they become log-odds, and log-odds to those.
MIN_SCORE, MAX_LOGIT = 0.02, 8.0


class Reading(Protocol):
    """From outputs to what a member says."""

    def read(self, outputs: FloatArray) -> FloatArray:
        """What the networks of a fold say, in the space in which folds are averaged."""
        ...

    def finish(self, mean: FloatArray) -> FloatArray:
        """What the mean of the folds says."""
        ...


@dataclass(frozen=True, slots=True)
class Value:
    """The target, never outside its range in the training: networks extrapolate."""

    low: float
    high: float

    def read(self, outputs: FloatArray) -> FloatArray:
        """See `Reading`."""
        return np.clip(outputs, self.low, self.high)

    def finish(self, mean: FloatArray) -> FloatArray:
        """See `Reading`."""
        return mean


@dataclass(frozen=True, slots=True)
class Logarithm:
    """The logarithm of the target, with the range of the target itself.

    The exponential of a mean is not the mean of exponentials: a factor, found out of fold, corrects for it.
    """

    low: float
    high: float
    factor: float = 1.0

    def read(self, outputs: FloatArray) -> FloatArray:
        """See `Reading`."""
        return np.clip(outputs, np.log(self.low), np.log(self.high))

    def finish(self, mean: FloatArray) -> FloatArray:
        """See `Reading`."""
        return np.clip(self.factor * np.exp(mean), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Score:
    """Zero to one for a class, as log-odds."""

    def read(self, outputs: FloatArray) -> FloatArray:
        """See `Reading`."""
        logits: FloatArray = special.logit(np.clip(outputs, MIN_SCORE, 1.0 - MIN_SCORE))
        return logits

    def finish(self, mean: FloatArray) -> FloatArray:
        """See `Reading`."""
        return mean


@dataclass(frozen=True, slots=True)
class LogOdds:
    """Log-odds of a class."""

    def read(self, outputs: FloatArray) -> FloatArray:
        """See `Reading`."""
        return np.clip(outputs, -MAX_LOGIT, MAX_LOGIT)

    def finish(self, mean: FloatArray) -> FloatArray:
        """See `Reading`."""
        return mean
