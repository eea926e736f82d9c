"""Predictions against observed values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet.inspection.saved.examination import Examination
from dconnet.io.model_file import Score

# With more classes, the confusion matrix is too large to read and is left out.
MAX_CLASSES = 30


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Observed and predicted values of all rows of the data.

    Attributes
    ----------
    observed, predicted : array of shape (n_rows,) or (n_rows, n_targets)
        Numbers or class labels.
    trained_on : array of bool, of shape (n_rows,)
        Rows that the model is known to be trained on.
    judged : array of bool, of shape (n_rows,)
        The rows on which the model is judged: those held out from training, or all rows if none are known.
    score : Score
        The score on the judged rows.
    """

    observed: NDArray[Any]
    predicted: NDArray[Any]
    trained_on: BoolArray
    judged: BoolArray
    score: Score

    @classmethod
    def of(cls, examination: Examination) -> Predictions:
        """Predict all rows of an examination."""
        X, y, model = examination.X, examination.y, examination.model
        trained_on = np.zeros(len(y), dtype=bool)
        if examination.is_training_data:
            trained_on[examination.rows] = True
        judged = np.ones(len(y), dtype=bool) if trained_on.all() else ~trained_on
        return cls(y, model.predict(X), trained_on, judged, Score.of(model, X[judged], y[judged]))

    def of_target(self, k: int) -> Predictions:
        """Those of one of several targets."""
        return replace(self, observed=self.observed[:, k], predicted=self.predicted[:, k], score=self.score.each[k])

    @property
    def n_trained_on(self) -> int:
        """Number of rows that the model is known to be trained on."""
        return int(self.trained_on.sum())

    @property
    def judged_name(self) -> str:
        """The judged rows, in words."""
        kind = {0: "", len(self.trained_on): "training "}.get(self.n_trained_on, "held-out ")
        return f"{self.score.rows} {kind}rows"


@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """How often each class was taken for which.

    Attributes
    ----------
    classes : tuple of labels
        The class labels.
    counts : array of int, of shape (n_classes, n_classes)
        Rows of the class ``classes[i]`` that were predicted to be of the class ``classes[j]``.
    """

    classes: Sequence[object]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, predictions: Predictions, classes: Sequence[object]) -> Confusion:
        """Count the judged rows."""
        position = {label: i for i, label in enumerate(np.array(classes).tolist())}
        counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
        for observed, predicted in zip(
            predictions.observed[predictions.judged].tolist(),
            predictions.predicted[predictions.judged].tolist(),
            strict=True,
        ):
            counts[position[observed], position[predicted]] += 1
        return cls(classes, counts)

    @property
    def is_readable(self) -> bool:
        """Whether the matrix is small enough to be shown."""
        return len(self.classes) <= MAX_CLASSES

    @property
    def observed(self) -> NDArray[np.int64]:
        """Rows of each class."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def shares(self) -> FloatArray:
        """The counts as parts of the rows of each class."""
        return np.asarray(self.counts / np.maximum(self.observed, 1)[:, None])

    @property
    def most_frequent(self) -> float:
        """Accuracy of always predicting the most frequent class."""
        return float(self.observed.max() / self.observed.sum())

    @property
    def entropy(self) -> float:
        """Log loss of always giving each class its share of the rows."""
        shares = self.observed[self.observed > 0] / self.observed.sum()
        return -float(shares @ np.log(shares))

    def by_class(self) -> list[tuple[object, int, float, float, float]]:
        """Label, rows, precision, recall and F1 of each class; NaN where there is nothing to divide by."""
        right, observed, predicted = np.diag(self.counts), self.observed, self.counts.sum(axis=0)
        with np.errstate(invalid="ignore"):
            measures = right / predicted, right / observed, 2 * right / (observed + predicted)
        return list(zip(self.classes, observed.tolist(), *(values.tolist() for values in measures), strict=True))
