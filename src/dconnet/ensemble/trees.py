"""Boosted trees, kept as arrays of nodes that a model file can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet._threads import check_stop
from dconnet.training.clock import NONE_LEFT

# Step size, ridge penalty of the leaves, and largest depth.
LEARNING_RATE, LEAF_PENALTY, MAX_DEPTH = 0.1, 1.0, 8
# A leaf has at least one in LEAF_SHARE of the rows, within these limits.
LEAF_SHARE, MIN_LEAF, MAX_LEAF = 50, 3, 20
# Bins of a column, in regressions and in classifications, which gain nothing by more.
N_BINS, N_BINS_OF_CLASSES = 255, 127
# Weight of a class without a training row, relative to that of all rows.
TINY_WEIGHT = 1e-6
LOSSES = {"squared": 0, "gamma": 1, "logistic": 2}  # numbers of the losses in the kernel


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Sums of regression trees. A row moves from the root to the left child if its value is at most the threshold.

    Attributes
    ----------
    columns : array of int, of shape (n_nodes,)
        Column that a node compares. Nodes that send missing values to the right have n_columns added.
    thresholds : array of shape (n_nodes,)
    children : array of int, of shape (n_nodes, 2)
        Left and right child, both later than the node itself; a leaf is its own child.
    values : array of shape (n_nodes,)
        Contribution of a leaf to the output.
    roots : array of int, of shape (n_rounds, n_outputs)
    baseline : array of shape (n_outputs,)
        Output without trees.
    """

    columns: NDArray[np.int32]
    thresholds: FloatArray
    children: NDArray[np.int32]
    values: FloatArray
    roots: NDArray[np.int32]
    baseline: FloatArray

    def outputs(self, X: FloatArray) -> FloatArray:
        """Return the outputs of rows, of shape (n_rows, n_outputs)."""
        result = np.zeros((len(X), 1, len(self.baseline)))
        ends = np.array([len(self.roots)], dtype=np.uintp)
        _native.add_trees(
            self.columns,
            self.thresholds,
            self.children,
            self.values,
            self.roots,
            ends,
            np.ascontiguousarray(X, dtype=np.float64),
            result,
        )
        return self.baseline + result[:, 0]

    def rescale(self, scale: float, center: FloatArray) -> Trees:
        """Return trees whose outputs are ``scale * output + center``."""
        return replace(self, values=scale * self.values, baseline=scale * self.baseline + center)


def boost(
    X: FloatArray,
    target: FloatArray | NDArray[np.intp],
    weight: FloatArray,
    *,
    n_classes: int,
    n_leaves: int,
    n_rounds: int,
    seconds: Callable[[], float] | None = None,
    loss: str = "squared",
) -> Trees | None:
    """Train boosted trees; return None if they cannot end in time.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        At least one column; missing values are NaN.
    target : array of shape (n_rows,)
        Numbers near one, or classes from zero on.
    weight : array of shape (n_rows,)
    n_classes : int
        Zero for a regression. Two classes have one output, the log-odds of the second.
    n_leaves, n_rounds : int
        Leaves of a tree, and rounds of boosting: one tree for each output.
    seconds : callable, optional
        Returns the seconds left. They must suffice for all rounds, by the time that the first ones took.
    loss : {"squared", "gamma"}, default="squared"
        Of a regression. With "gamma", for positive targets, the outputs are logarithms.
    """
    check_stop()
    limit = np.inf if seconds is None else seconds()
    if limit <= NONE_LEFT:
        return None
    if n_classes:
        loss, baseline = "logistic", _log_odds(np.bincount(target, weight, n_classes).astype(np.float64))
    else:
        mean = np.average(target, weights=weight, keepdims=True)
        baseline = np.log(mean) if loss == "gamma" else mean
    roots = np.zeros((n_rounds, len(baseline)), dtype=np.int32)
    most = roots.size * (2 * n_leaves - 1)
    columns, children = np.zeros(most, dtype=np.int32), np.zeros((most, 2), dtype=np.int32)
    thresholds, values = np.zeros(most), np.zeros(most)
    n_nodes = _native.boost(
        np.ascontiguousarray(X),
        np.ascontiguousarray(target, dtype=np.float64),
        np.ascontiguousarray(weight),
        baseline,
        LOSSES[loss],
        n_leaves,
        MAX_DEPTH,
        int(np.clip(len(X) // LEAF_SHARE, MIN_LEAF, MAX_LEAF)),
        N_BINS_OF_CLASSES if n_classes else N_BINS,
        LEARNING_RATE,
        LEAF_PENALTY,
        limit,
        columns,
        thresholds,
        children,
        values,
        roots,
    )
    if n_nodes == 0:
        return None
    own = (columns[:n_nodes].copy(), thresholds[:n_nodes].copy(), children[:n_nodes].copy(), values[:n_nodes].copy())
    return Trees(*own, roots, baseline)


def _log_odds(weights: FloatArray) -> FloatArray:
    """Return the outputs at which the classes have the shares of these weights."""
    logarithms = np.log(np.maximum(weights / weights.sum(), TINY_WEIGHT))
    return np.diff(logarithms) if len(weights) == 2 else logarithms
