"""Observed and predicted classes in figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score

from dconnet._arrays import FloatArray
from dconnet.inspection.examination import Examination

# With more classes, the confusion matrix is too large to read and is left out.
MAX_CLASSES = 30


@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """Counts of observed and predicted classes in the evaluated rows."""

    classes: list[Any]
    counts: NDArray[np.int64]  # counts[i, j] rows of classes[i] were predicted to be of classes[j]
    measures: list[tuple[Any, int, float, float, float]]  # label, rows, precision, recall and F1, or NaN
    auc: float | None  # area under the ROC curve, for several classes the mean over classes; None if it is not defined

    @classmethod
    def of(cls, examination: Examination) -> Confusion:
        """Count the evaluated rows of a classifier."""
        classes, rows = examination.classes or [], examination.is_evaluated
        pair, labels = (examination.y[rows], examination.predictions[rows]), examination.model.classes_
        counts = confusion_matrix(*pair, labels=labels)
        precision, recall, f1, n_rows = precision_recall_fscore_support(*pair, labels=labels, zero_division=np.nan)
        measures = zip(classes, n_rows.tolist(), precision.tolist(), recall.tolist(), f1.tolist(), strict=True)
        auc, probabilities = None, examination.probabilities
        if probabilities is not None and n_rows.all():
            scores = probabilities[rows][:, 1] if len(classes) == 2 else probabilities[rows]
            auc = float(roc_auc_score(pair[0], scores, multi_class="ovr", labels=labels))
        return cls(classes, counts, list(measures), auc)

    @property
    def is_readable(self) -> bool:
        """True if the matrix is small enough to be shown."""
        return len(self.classes) <= MAX_CLASSES

    @property
    def shares(self) -> FloatArray:
        """The counts as shares of the rows of each class."""
        return np.asarray(self.counts / np.maximum(self.counts.sum(axis=1), 1)[:, None])

    @property
    def majority_accuracy(self) -> float:
        """Accuracy of always predicting the most frequent class."""
        return float(self.counts.sum(axis=1).max() / self.counts.sum())

    @property
    def entropy(self) -> float:
        """Log loss of predicting the share of each class as its probability."""
        shares = self.counts.sum(axis=1) / self.counts.sum()
        return -float(shares[shares > 0.0] @ np.log(shares[shares > 0.0]))
