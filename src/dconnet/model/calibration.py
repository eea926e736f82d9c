"""Class probabilities from logits and from network outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from dconnet._arrays import FloatArray

# The ridge on the slope, in rows: it keeps the slope finite where a threshold on the outputs separates the classes.
RIDGE = 0.05
# Keeps the probabilities in the order of the outputs, even where the networks have learnt nothing.
LEAST_SLOPE = 0.01
# Slope without data for calibration: least-squares outputs are 2p - 1, and near p = 1/2 the log-odds are twice that.
PLAIN_SLOPE = 2.0


def probabilities_of(logits: FloatArray) -> FloatArray:
    """Return class probabilities (n_rows, n_classes) from one logit per class, or that of the second of two."""
    if logits.shape[1] == 1:
        return special.expit(np.column_stack([-logits, logits]))
    return np.asarray(special.softmax(logits, axis=1))


def log_probabilities_of(logits: FloatArray) -> FloatArray:
    """Return the logarithms of `probabilities_of` without underflow."""
    if logits.shape[1] == 1:
        return special.log_expit(np.column_stack([-logits, logits]))
    return np.asarray(special.log_softmax(logits, axis=1))


def log_loss(logits: FloatArray, hot: FloatArray, share: FloatArray) -> tuple[float, FloatArray]:
    """Return the log loss and its derivative in the logits.

    Parameters
    ----------
    logits : array of shape (n_rows, n_columns)
        A column for each class, or one for the second of two.
    hot : array of shape (n_rows, n_columns)
        One in the column of the class of the row and zero elsewhere, or the class probabilities of the row.
    share : array of shape (n_rows,)
        Weight of each row; the sum is one.
    """
    logs = log_probabilities_of(logits)
    if logits.shape[1] == 1:
        value = -float(share @ (hot[:, 0] * logs[:, 1] + (1.0 - hot[:, 0]) * logs[:, 0]))
        return value, share[:, None] * (special.expit(logits) - hot)
    return -float(share @ np.sum(hot * logs, axis=1)), share[:, None] * (np.exp(logs) - hot)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Conversion of network outputs to probabilities: logits are ``slope * outputs + offset``.

    One positive slope for all classes keeps the order of the outputs, so that the class with the largest output is the
    most probable one. Fits have no offset: offsets for the classes lowered the log loss on held-out rows of some
    datasets as much as they raised it on others.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.model.calibration import Calibration
    >>> outputs = np.array([[-0.9], [-0.8], [0.2], [-0.1], [0.7], [1.1]])
    >>> classes = np.array([[-1.0], [-1.0], [-1.0], [1.0], [1.0], [1.0]])
    >>> calibration = Calibration.of(outputs, classes, np.ones(6))
    >>> round(calibration.slope, 2)
    2.3
    >>> calibration.probabilities(np.array([[0.0], [0.5]])).round(2)
    array([[0.5 , 0.5 ],
           [0.24, 0.76]])
    """

    slope: float
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.slope) and self.slope > 0.0 and np.isfinite(self.offset)):
            raise ValueError(f"A calibration needs a positive slope and a finite offset, got {self}.")

    @classmethod
    def of(cls, outputs: FloatArray, columns: FloatArray, weight: FloatArray) -> Calibration:
        """Fit the slope with the least log loss, with a small ridge.

        With n rows, it minimises the weighted mean of the log loss plus ``0.05 slope² / n``. Weights make n smaller:
        it is ``(Σ w)² / Σ w²``. The problem is convex, and its solution does not depend on the scale of the weights.

        The ``outputs`` (n_rows, n_columns) are for rows outside the training data. Each row of the targets ``columns``
        has plus one for its class and minus one for the others, or is a mean of such rows.
        """
        total = float(weight.sum())
        share, hot = weight / total, 0.5 * (1.0 + columns)
        ridge = RIDGE * float(share @ share)

        def derivative(slope: float) -> float:
            _, by_logits = log_loss(slope * outputs, hot, share)
            return float(np.vdot(by_logits, outputs)) + 2.0 * ridge * slope

        if derivative(LEAST_SLOPE) >= 0.0:
            return cls(LEAST_SLOPE)
        high = 2.0 * PLAIN_SLOPE
        while derivative(high) < 0.0:
            high *= 2.0
        return cls(float(optimize.brentq(derivative, LEAST_SLOPE, high, xtol=1e-12, rtol=1e-12)))

    def logits(self, outputs: FloatArray) -> FloatArray:
        """Return logits in the shape of the outputs."""
        return self.slope * outputs + self.offset

    def probabilities(self, outputs: FloatArray) -> FloatArray:
        """Return probabilities (n_rows, n_classes) for outputs (n_rows, n_columns)."""
        return probabilities_of(self.logits(outputs))

    def log_probabilities(self, outputs: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities."""
        return log_probabilities_of(self.logits(outputs))
