"""Confusion of classes, and the reliability of predicted probabilities."""

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
# Bins of probabilities.
N_BINS = 10


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


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Observed frequencies of classes by their predicted probability, for all classes or the second of two."""

    predicted: FloatArray  # mean predicted probability of each bin that is not empty
    observed: FloatArray  # observed frequency of each bin
    counts: NDArray[np.int64]  # number of predictions of each bin
    of_observed_class: FloatArray  # predicted probability of the class that was observed, of shape (n_rows,)

    @classmethod
    def of(cls, probabilities: FloatArray, y: NDArray[Any], classes: NDArray[Any]) -> Reliability:
        """Count the probabilities, of shape (n_rows, n_classes), in bins of equal width."""
        is_class = y[:, None] == classes
        columns = slice(1, None) if len(classes) == 2 else slice(None)
        values, is_observed = probabilities[:, columns].ravel(), is_class[:, columns].ravel()
        bins = np.minimum((values * N_BINS).astype(np.intp), N_BINS - 1)
        counts = np.bincount(bins, minlength=N_BINS)
        full = counts > 0
        predicted, observed = (np.bincount(bins, each, N_BINS)[full] / counts[full] for each in (values, is_observed))
        return cls(predicted, observed, counts[full], probabilities[is_class])

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the observed frequencies."""
        return np.asarray(np.sqrt(self.observed * (1.0 - self.observed) / self.counts))
