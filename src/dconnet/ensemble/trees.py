"""Boosted trees: trained by scikit-learn, and kept as arrays of nodes that a model file can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._threads import check_stop, one_openmp_thread
from dconnet.model.rows import blocks
from dconnet.training.clock import NONE_LEFT, Clock

# Rows of a block, small enough for the nodes of all its rows and trees to stay in the cache.
ROWS = 512
# Rows times columns times trees that are trained at once before Ctrl-C is checked: about one second with many rows.
CHUNK = 1e9
# The same for the first rounds under a time limit, about 0.1 seconds. A tree costs as much as TREE_ROWS rows before its
# first row.
FIRST_CHUNK, TREE_ROWS = 3e7, 10_000
# Step size, ridge penalty of the leaves, and largest depth.
LEARNING_RATE, LEAF_PENALTY, MAX_DEPTH = 0.1, 1.0, 8
# A leaf has at least one in LEAF_SHARE of the rows, within these limits.
LEAF_SHARE, MIN_LEAF, MAX_LEAF = 50, 3, 20
# Weight of a row that is added for each class without a training row.
TINY_WEIGHT = 1e-6
# Bins of a column: the default of scikit-learn.
N_BINS = 255


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

    @classmethod
    def of(cls, model: Any, n_columns: int) -> Trees:
        """Copy the trees of a fitted histogram gradient boosting model of scikit-learn without categories."""
        rounds = [[tree.nodes for tree in each] for each in model._predictors]
        sizes = [len(nodes) for each in rounds for nodes in each]
        nodes, firsts = np.concatenate([nodes for each in rounds for nodes in each]), np.cumsum([0, *sizes[:-1]])
        offsets, own = np.repeat(firsts, sizes), np.arange(sum(sizes))
        is_leaf = nodes["is_leaf"].astype(np.bool_)
        children = np.column_stack([np.where(is_leaf, own, nodes[side] + offsets) for side in ("left", "right")])
        columns = nodes["feature_idx"] + np.where(nodes["missing_go_to_left"].astype(np.bool_), 0, n_columns)
        largest = np.finfo(np.float64).max  # a threshold is infinite where a node separates missing values alone
        return cls(
            np.where(is_leaf, 0, columns).astype(np.int32),
            np.where(is_leaf, 0.0, np.clip(nodes["num_threshold"], -largest, largest)),
            children.astype(np.int32),
            np.where(is_leaf, nodes["value"], 0.0),
            firsts.reshape(len(rounds), -1).astype(np.int32),
            np.ravel(model._baseline_prediction).astype(np.float64),
        )

    def outputs(self, X: FloatArray) -> FloatArray:
        """Return the outputs of rows, of shape (n_rows, n_outputs)."""
        gaps = np.isnan(X)
        both = np.concatenate([np.where(gaps, -np.inf, X), np.where(gaps, np.inf, X)], axis=1)
        children, result = self.children.ravel(), np.empty((len(X), self.roots.shape[1]))
        for rows in blocks(len(X), ROWS):
            values, n_rows = both[rows].ravel(), rows.stop - rows.start
            firsts = (both.shape[1] * np.arange(n_rows))[:, None]
            nodes = np.tile(self.roots.ravel().astype(np.intp), (n_rows, 1))
            while True:
                is_right = values.take(firsts + self.columns.take(nodes)) > self.thresholds.take(nodes)
                after = children.take(2 * nodes + is_right).astype(np.intp)
                if np.array_equal(after, nodes):
                    break
                nodes = after
            sums = np.cumsum(self.values.take(nodes).reshape(n_rows, *self.roots.shape), axis=1)
            result[rows] = self.baseline + sums[:, -1]
        return result

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
    seed: int,
    seconds: Callable[[], float] | None = None,
    loss: str = "squared_error",
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
    seed : int
        Of the rows that the bins of large tables are computed from.
    seconds : callable, optional
        Called between chunks of rounds; returns the seconds left. They must suffice for all rounds that are left, by
        the time that the last chunk took.
    loss : str, default="squared_error"
        Of a regression. With "gamma", for positive targets, the outputs are logarithms.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    model = (HistGradientBoostingClassifier if n_classes else HistGradientBoostingRegressor)(
        **({} if n_classes else {"loss": loss}),
        learning_rate=LEARNING_RATE,
        max_leaf_nodes=n_leaves,
        max_depth=MAX_DEPTH,
        min_samples_leaf=int(np.clip(len(X) // LEAF_SHARE, MIN_LEAF, MAX_LEAF)),
        l2_regularization=LEAF_PENALTY,
        early_stopping=False,
        warm_start=True,
        random_state=seed,
    )
    X = np.where(np.isnan(X).all(axis=0), 0.0, X)  # scikit-learn fails if a column has no value
    absent = np.setdiff1d(np.arange(n_classes), target)
    X = np.concatenate([X, X[:1].repeat(len(absent), axis=0)])
    target, weight = np.append(target, absent), np.append(weight, np.full(len(absent), TINY_WEIGHT))
    own_weight = None
    if np.ptp(weight) > 0.0:
        X, own_weight = _round_to_bins(X), weight  # scikit-learn's weighted bins take many times the time of a fit
    n_outputs = n_classes if n_classes > 2 else 1
    usual = max(1, int(CHUNK / (X.size * n_outputs)))
    first = max(1, int(FIRST_CHUNK / ((len(X) + TREE_ROWS) * X.shape[1] * n_outputs)))
    n_trained, needed = 0, NONE_LEFT
    while n_trained < n_rounds:
        check_stop()
        if seconds is not None and seconds() <= needed:
            return None
        n_new = min(usual if seconds is None or n_trained else first, n_rounds - n_trained)
        clock = Clock(None)
        with one_openmp_thread():
            model.set_params(max_iter=n_trained + n_new).fit(X, target, own_weight)
        n_trained += n_new
        needed = clock.spent() / n_new * (n_rounds - n_trained)
    return Trees.of(model, X.shape[1])


def _round_to_bins(X: FloatArray) -> FloatArray:
    """Return columns of at most N_BINS values each, to which values are rounded; scikit-learn bins them exactly."""
    rounded = X.copy()
    for j, values in enumerate(X.T):
        known = values[~np.isnan(values)]
        if len(np.unique(known)) > N_BINS:
            shares = (np.arange(N_BINS) + 0.5) / N_BINS
            centers = np.unique(np.quantile(known, shares, method="nearest"))
            rounded[:, j] = centers[np.searchsorted((centers[1:] + centers[:-1]) / 2.0, values)]
            rounded[np.isnan(values), j] = np.nan
    return rounded
