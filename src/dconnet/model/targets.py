"""Coding of a target as columns of numbers, and decoding of network outputs as predictions and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from dconnet._arrays import FloatArray
from dconnet._text import printable

# The ridge on the slope, in rows: it keeps the slope finite where a threshold on the outputs separates the classes.
RIDGE = 0.05
# Keeps the probabilities in the order of the outputs, even where the networks have learnt nothing.
LEAST_SLOPE = 0.01
# Slope without data for calibration: least-squares outputs are 2p - 1, and near p = 1/2 the log-odds are twice that.
PLAIN_SLOPE = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The coding of a target.

    The target of a regression is its own column. With more than two classes, each has a column with plus one for its
    rows and minus one for all others, and the class with the largest output is predicted. Two classes need one column;
    the second class is predicted where the output is positive.

    Several targets of a regression are the outputs of one network. More than two classes may also share one network;
    otherwise, there is a network for each column.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), optional
        The class labels of a classification; None for a regression.
    n_targets : int, default=1
        Number of targets of a regression.
    shared : bool, default=False
        Whether one network has all columns of a classification as its outputs.

    Examples
    --------
    >>> from dconnet.model.targets import Targets
    >>> colours = Targets(["blue", "green", "red"])
    >>> colours.columns(["red", "blue"])
    array([[-1., -1.,  1.],
           [ 1., -1., -1.]])
    >>> colours.predictions([[-0.9, 0.3, 0.7]]).tolist()
    ['red']
    >>> Targets(["no", "yes"]).columns(["yes", "no"])
    array([[ 1.],
           [-1.]])
    """

    classes: NDArray[Any] | None
    n_targets: int
    shared: bool

    def __init__(self, classes: ArrayLike | None = None, *, n_targets: int = 1, shared: bool = False) -> None:
        object.__setattr__(self, "classes", None if classes is None else np.asarray(classes))
        object.__setattr__(self, "n_targets", n_targets)
        several = n_targets > 1 if self.classes is None else shared and len(self.classes) > 2
        object.__setattr__(self, "shared", several)

    @classmethod
    def of_labels(cls, labels: NDArray[Any], weight: FloatArray, *, shared: bool = False) -> Targets:
        """Code class labels, ignoring rows of weight zero.

        Raises ValueError for fewer than two classes, and for floats that are neither single nor double precision.
        """
        if labels.dtype.kind == "f" and labels.dtype.itemsize not in (4, 8):
            raise ValueError(f"y holds class labels of type {labels.dtype}. Convert them to float64, integers or text.")
        classes = np.unique(labels[weight > 0.0]) if np.any(weight > 0.0) else np.unique(labels)
        if len(classes) < 2:
            raise ValueError(
                f"A classifier needs at least two classes, but y holds only one class: {classes.tolist()[0]!r}."
            )
        return cls(classes, shared=shared)

    def equals(self, other: Targets) -> bool:
        """Return whether classes, number of targets and number of networks are the same."""
        if (self.n_targets, self.shared) != (other.n_targets, other.shared):
            return False
        if self.classes is None or other.classes is None:
            return self.classes is other.classes
        return np.array_equal(self.classes, other.classes)

    @property
    def positives(self) -> NDArray[Any] | None:
        """The class with plus one in each column; None for a regression."""
        return self.classes[1:] if self.classes is not None and len(self.classes) == 2 else self.classes

    @property
    def n_columns(self) -> int:
        """Number of columns, over all networks."""
        return self.n_targets if self.positives is None else len(self.positives)

    @property
    def n_networks(self) -> int:
        """Number of networks."""
        return 1 if self.shared else self.n_columns

    @property
    def names(self) -> list[str]:
        """The class of each network as text; empty for a regression or a shared network."""
        if self.positives is None or self.shared:
            return [""]
        return [printable(label) or "''" for label in self.positives.tolist()]

    @property
    def column_labels(self) -> list[str]:
        """Title of each column: "class " and its name, "target " and its number, or empty."""
        if self.positives is not None:
            return [f"class {printable(label) or repr('')}" for label in self.positives.tolist()]
        return [f"target {k}" for k in range(self.n_targets)] if self.n_targets > 1 else [""]

    @property
    def labels(self) -> list[str]:
        """Title of each network: "class " and its name, or empty."""
        return [f"class {name}" if name else "" for name in self.names]

    def columns(self, y: ArrayLike, weight: FloatArray | None = None) -> FloatArray:
        """Return the columns of shape (n_samples, n_columns); labels in rows of weight zero are ignored.

        Raises ValueError if y contains an unknown class or another number of targets.
        """
        labels = np.asarray(y)
        if self.n_targets > 1:
            if labels.ndim != 2 or labels.shape[1] != self.n_targets:
                raise ValueError(f"y must have {self.n_targets} columns, got shape {labels.shape}.")
            return labels.astype(np.float64)
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.ndim != 1:
            raise ValueError(f"y must have one dimension, got shape {labels.shape}.")
        if self.classes is None or self.positives is None:
            return labels.astype(np.float64)[:, None]
        self._check_known(labels if weight is None else labels[weight > 0.0])
        return np.column_stack([np.where(labels == positive, 1.0, -1.0) for positive in self.positives])

    def _check_known(self, labels: NDArray[Any]) -> None:
        """Raise ValueError for labels that are not among the classes; the text "1" is not the number 1."""
        known = [] if self.classes is None else self.classes.tolist()
        unknown = sorted(printable(repr(label)) for label in set(labels.tolist()) - set(known))
        if unknown:
            raise ValueError(
                f"y holds classes that the training data did not have: {', '.join(unknown[:5])}. "
                f"Known classes: {', '.join(printable(repr(label)) for label in known[:20])}."
            )

    def predictions(self, outputs: ArrayLike) -> NDArray[Any]:
        """Return predictions of shape (n_samples,) or (n_samples, n_targets) for outputs (n_samples, n_columns)."""
        outputs = np.asarray(outputs, dtype=np.float64)
        if self.classes is None:
            return outputs if self.n_targets > 1 else outputs[:, 0]
        winners = outputs[:, 0] > 0.0 if outputs.shape[1] == 1 else outputs.argmax(axis=1)
        return self.classes[winners.astype(np.intp)]


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

    The ``logits`` (n_rows, n_columns) have a column for each class, or one for the second of two. ``hot`` has the same
    shape, with one in the column of the class of a row and zero elsewhere, or with the class probabilities of the row.
    ``share`` (n_rows,) are the weights of the rows; their sum is one.
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
    >>> from dconnet.model.targets import Calibration
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
