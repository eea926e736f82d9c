"""Prediction intervals: out-of-fold errors, divided by a standard deviation that depends on the row.

This is conformal prediction with locally scaled errors. Boosted trees learn the size of the out-of-fold errors. Each
error is divided by the size that is predicted by trees that were not trained on it. The quantiles of these quotients
calibrate the intervals, so that these contain their share of rows like those of the training even if the trees have
learnt nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.schema import FieldTable
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.trees import Trees, boost
from dconnet.model.rows import ROWS, blocks

# Boosted trees of the error size: rounds, leaves of a tree, and parts of the rows. For each part, a model is trained on
# the other parts.
N_ROUNDS, N_LEAVES, N_PARTS = 50, 8, 5
# With fewer out-of-fold errors, all rows have the same width. With more fields, the width depends on the prediction
# alone, because trees on many fields take long and find differences by chance.
MIN_ROWS, MAX_FIELDS = 50, 50
# Errors below this share of the mean error are raised to it, because the trees need positive numbers.
MIN_ERROR = 1e-3
# Powers of the predicted sizes to choose from by the likelihood: 0 for the same width in all rows.
EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
# An end of the range of the training targets limits the intervals if at least one row in LIMIT_SHARE is there, and at
# least MIN_AT_LIMIT rows.
LIMIT_SHARE, MIN_AT_LIMIT = 50, 5


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Calibrated intervals and quantiles around predictions.

    Attributes
    ----------
    trees : tuple of Trees
        Each predicts the logarithm of the error size from the fields and the prediction; empty for equal widths.
    uses_fields : bool
        Whether the trees read the fields, or the prediction alone.
    exponent : float
        Power of the predicted sizes.
    unit : float
        Factor that makes the mean square of the scores one.
    scores : array of shape (n_held_out,)
        Out-of-fold errors, divided by the standard deviations of their rows, ascending.
    weights : array of shape (n_held_out,)
        Weights of the scores.
    low, high : float or None
        Limits of the target.
    """

    trees: tuple[Trees, ...]
    uses_fields: bool
    exponent: float
    unit: float
    scores: FloatArray
    weights: FloatArray
    low: float | None
    high: float | None

    @classmethod
    def fit(cls, data: TrainingSet, oof_predictions: FloatArray, seconds: Callable[[], float]) -> Intervals:
        """Calibrate intervals by out-of-fold predictions for ``data.held_out``, of shape (n_held_out,).

        ``seconds`` returns the time left. All rows have the same width if the time does not suffice for the trees.
        """
        rows = data.held_out
        y, weight = data.columns[rows, 0], data.weight[rows]
        errors = y - oof_predictions
        largest = np.abs(errors).max() or 1.0
        errors = errors / largest  # so that squares stay finite
        uses_fields = len(data.table.fields) <= MAX_FIELDS
        inputs = _collect_inputs(data.table.rows(rows), oof_predictions, uses_fields)
        trees, log_sizes = _fit_sizes(data, inputs, np.abs(errors), weight, seconds)

        def mean_square(exponent: float) -> float:
            return float(np.average((errors * np.exp(-exponent * log_sizes)) ** 2, weights=weight)) or 1.0

        def negative_log_likelihood(exponent: float) -> float:
            return float(0.5 * np.log(mean_square(exponent)) + exponent * np.average(log_sizes, weights=weight))

        exponent = min(EXPONENTS, key=negative_log_likelihood) if trees else 0.0
        unit = float(np.sqrt(mean_square(exponent)))
        scores = errors * np.exp(-exponent * log_sizes) / unit
        order = np.argsort(scores, kind="stable")
        return cls(
            trees if exponent > 0.0 else (),
            uses_fields,
            exponent,
            float(unit * largest),
            scores[order],
            weight[order],
            *find_limits(data.columns[:, 0]),
        )

    def predict_deviation(self, table: FieldTable, predictions: FloatArray) -> FloatArray:
        """Return the standard deviation of the error of each prediction, of shape (n_rows,)."""
        log_sizes = np.zeros(len(table))
        if self.trees:
            for rows in blocks(len(table), 8 * ROWS):
                inputs = _collect_inputs(table.rows(rows), predictions[rows], self.uses_fields)
                log_sizes[rows] = np.mean([_predict_log_sizes(trees, inputs) for trees in self.trees], axis=0)
        return self.unit * np.exp(self.exponent * log_sizes)

    def predict_interval(
        self, table: FieldTable, predictions: FloatArray, coverage: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of intervals that contain the share ``coverage`` of the targets."""
        sizes = np.abs(self.scores)
        order = np.argsort(sizes, kind="stable")
        half_width = _find_quantile(sizes[order], self.weights[order], coverage)
        half_widths = half_width * self.predict_deviation(table, predictions)
        return self._clip(predictions - half_widths), self._clip(predictions + half_widths)

    def predict_quantiles(self, table: FieldTable, predictions: FloatArray, shares: FloatArray) -> FloatArray:
        """Return the quantiles ``shares`` of the target, of shape (n_rows, n_shares)."""
        shifts = np.array([_find_quantile(self.scores, self.weights, share) for share in shares])
        return self._clip(predictions[:, None] + self.predict_deviation(table, predictions)[:, None] * shifts)

    def _clip(self, values: FloatArray) -> FloatArray:
        return values if self.low is None and self.high is None else np.clip(values, self.low, self.high)


def find_limits(y: FloatArray) -> tuple[float | None, float | None]:
    """Return the smallest and the largest value that a target can have by its training values, None for no limit.

    Zero is a limit if no value is beyond it. An end of the range is a limit if at least one row in 50 is there, and at
    least five rows: an instrument or a scale often ends there.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.ensemble.intervals import find_limits
    >>> find_limits(np.array([0.3, 2.0, 7.5]))
    (0.0, None)
    >>> find_limits(np.array([-1.0, 0.5, 4.0, 4.0, 4.0, 4.0, 4.0]))
    (None, 4.0)
    """
    low, high = float(y.min()), float(y.max())
    enough = max(MIN_AT_LIMIT, len(y) / LIMIT_SHARE)
    return (
        low if np.sum(y == low) >= enough else 0.0 if low >= 0.0 else None,
        high if np.sum(y == high) >= enough else 0.0 if high <= 0.0 else None,
    )


def _fit_sizes(
    data: TrainingSet, inputs: FloatArray, sizes: FloatArray, weight: FloatArray, seconds: Callable[[], float]
) -> tuple[tuple[Trees, ...], FloatArray]:
    """Return trees for each part of the rows, and the logarithm of the size that they predict for each row of the part.

    The trees of a part are trained on the other parts. Return no trees, and zeros, if rows or time are too few.
    """
    mean, equal_sizes = float(np.average(sizes, weights=weight)), np.zeros(len(sizes))
    parts = _split_rows(data)
    numbers = np.unique(parts)
    if len(sizes) < MIN_ROWS or mean == 0.0 or len(numbers) == 1:
        return (), equal_sizes
    found, log_sizes = [], np.empty(len(sizes))
    for part in numbers:
        others, own = np.flatnonzero(parts != part), np.flatnonzero(parts == part)
        trees = boost(
            inputs[others],
            np.maximum(sizes[others], MIN_ERROR * mean),
            weight[others],
            n_classes=0,
            n_leaves=N_LEAVES,
            n_rounds=N_ROUNDS,
            seconds=seconds,
            loss="gamma",
        )
        if trees is None:
            return (), equal_sizes
        found.append(trees)
        log_sizes[own] = _predict_log_sizes(trees, inputs[own])
    return tuple(found), log_sizes


def _split_rows(data: TrainingSet) -> NDArray[np.intp]:
    """Return the number of the part of each held-out row: whole folds, so that groups stay together."""
    part_of_row = np.zeros(len(data.table), dtype=np.intp)
    for fold in reversed(range(len(data.folds))):  # of several folds of a row, the first one counts
        part_of_row[data.folds[fold]] = fold % N_PARTS
    return part_of_row[data.held_out]


def _collect_inputs(table: FieldTable, predictions: FloatArray, uses_fields: bool) -> FloatArray:
    return np.column_stack([*(table.values if uses_fields else ()), predictions])


def _predict_log_sizes(trees: Trees, inputs: FloatArray) -> FloatArray:
    return trees.outputs(inputs)[:, 0]


def _find_quantile(values: FloatArray, weight: FloatArray, share: float) -> float:
    """Return a quantile of ascending values for a new row: the first value that reaches the share of n + 1 rows."""
    reached = np.cumsum(weight)
    wanted = share * (reached[-1] + weight.mean())
    return float(values[min(int(np.searchsorted(reached, wanted * (1.0 - 1e-12))), len(reached) - 1)])
