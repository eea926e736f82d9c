"""The rows of one partition on a worker, and what the driver computes from them.

A partition is determined by its data and by the updates that all partitions receive in the same order, so a lost one
can be made again. Sums over the rows are returned as blocks of leaves (`dconnet.model.rows`), which makes their total
independent of how the rows are partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from dconnet import _native
from dconnet._arrays import FloatArray, IndexArray, padded_width, refuse_unusable
from dconnet.convex.native import as_columns
from dconnet.dask.storage import Storage, release_pages
from dconnet.estimators.data import ClassWeights, Units, refuse_unusable_labels
from dconnet.model.network import Network
from dconnet.model.rows import Block, blocks, leaf_triangle, leaves, merge_triangles, tree_of
from dconnet.model.targets import Targets
from dconnet.model.whitening import Basis, apply_correction, gram
from dconnet.training.checkpoint import hash_arrays

T = TypeVar("T")

# Rows of each partition that keep their original inputs, to measure the rounding error of a network in these units.
N_PROBES = 64


@dataclass(frozen=True, slots=True)
class ExpectedData:
    """What every block of the table must contain: columns of X, columns of y, and numbers or class labels in y."""

    n_features: int
    is_regression: bool
    n_targets: int


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What the driver learns when a partition is loaded."""

    address: str  # of the worker
    n_rows: int
    labels: NDArray[Any] | None = None  # the classes that occur
    label_weights: FloatArray | None = None  # the total weight of each class


def _check_block(X: Any, y: Any, weight: Any, expected: ExpectedData) -> tuple[FloatArray, NDArray[Any], FloatArray]:
    def check_numbers(values: Any, name: str, *, ensure_2d: bool = False) -> FloatArray:
        refuse_unusable(values, name)
        array: FloatArray = check_array(
            values, dtype=np.float64, order="C", ensure_2d=ensure_2d, ensure_min_samples=0, input_name=name
        )
        return array

    inputs = check_numbers(X, "X", ensure_2d=True)
    target = check_numbers(y, "y") if expected.is_regression else np.asarray(y)
    if not expected.is_regression:
        refuse_unusable_labels(target.astype(object) if target.dtype.kind == "f" else target)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    weights = np.ones(len(inputs)) if weight is None else check_numbers(weight, "sample_weight").ravel()
    for name, n_found, n_expected in (
        ("X", inputs.shape[1], expected.n_features),
        ("y", 1 if target.ndim == 1 else target.shape[1], expected.n_targets),
    ):
        if n_found != n_expected:
            raise ValueError(f"{name} has {n_found} columns, but {n_expected} were expected.")
    for name, values in (("y", target), ("sample_weight", weights)):
        if len(values) != len(inputs):
            raise ValueError(f"X has {len(inputs)} rows, but {name} has {len(values)}. Partition both in the same way.")
    if np.any(weights < 0.0):
        raise ValueError("Sample weights must not be negative.")
    return inputs, target, weights


@dataclass(slots=True, eq=False)
class Partition:
    """The rows of one partition.

    Loading and the updates fill the attributes one after the other:

    - ``X`` (n_rows, n_features), ``target`` and ``weight``, the data without rows of weight zero;
    - ``Y`` (n_rows, n_columns), the encoded target; ``first_leaf``, the number of the first leaf of this partition
      among those of all partitions;
    - ``units``, the units of inputs and targets; ``is_shared``, whether one network learns all columns;
    - ``Q`` (n_rows, rank), the whitened rows, which replace ``X``; ``padded`` is the same with the zero columns that
      the kernel needs.
    """

    X: FloatArray | None
    target: NDArray[Any]
    weight: FloatArray
    probes: FloatArray
    storage: Storage
    lock: Lock = field(default_factory=Lock)  # for updates, which calls for several networks may bring at once
    n_updates: int = 0
    Y: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    first_leaf: int = 0
    units: Units = field(default_factory=lambda: Units(None, np.empty(0), 1.0))
    is_shared: bool = False
    padded: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    Q: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    _targets: dict[Hashable, FloatArray] = field(default_factory=dict)
    _objectives: dict[tuple[int, float, int], _native.Objective] = field(default_factory=dict)

    @classmethod
    def from_block(cls, X: Any, y: Any, weight: Any, expected: ExpectedData, storage: Storage) -> Partition:
        """Check a block of the table and store its rows of positive weight; errors are ValueErrors."""
        inputs, target, weights = _check_block(X, y, weight, expected)
        partition = cls(inputs, target, weights, inputs[:0], storage)
        partition._store_rows(weights)
        return partition

    def _store_rows(self, weight: FloatArray) -> None:
        """Set the weights and drop the rows whose weight is zero."""
        X, positive = self.original_rows, weight > 0.0
        if not positive.all():
            X, weight, self.target = X[positive], weight[positive], self.target[positive]
        self.X, self.weight, self.probes = self.storage.keep(X), self.storage.keep(weight), X[:N_PROBES].copy()

    def summary(self, address: str, *, is_regression: bool) -> Summary:
        """Describe this partition to the driver."""
        if is_regression:
            return Summary(address, self.n_rows)
        labels, codes = np.unique(self.target, return_inverse=True)
        weights = np.bincount(codes.ravel(), weights=self.weight, minlength=len(labels)).astype(np.float64)
        return Summary(address, self.n_rows, labels, weights)

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return len(self.weight)

    @property
    def original_rows(self) -> FloatArray:
        """Inputs in the units of the data; they are dropped when the rows are whitened."""
        assert self.X is not None
        return self.X

    def release_pages(self) -> None:
        """Release the memory of arrays in files until the next call."""
        release_pages([self.X, self.Y, self.weight, self.padded, *self._targets.values()])

    # --- updates ---

    def encode_targets(self, targets: Targets, class_weights: ClassWeights | None) -> None:
        """Encode the target as columns, and weight the rows by their classes."""
        if class_weights is not None:
            self._store_rows(self.weight * class_weights.of_rows(self.target))
        self.Y = self.storage.keep(targets.columns(self.target, self.weight))
        self.target = self.target[:0].copy()

    def set_first_leaf(self, first_leaf: int) -> None:
        """Set the number of the first leaf."""
        self.first_leaf = first_leaf

    def set_units(self, units: Units, is_shared: bool) -> None:
        """Set the units of inputs and targets, and whether one network learns all columns."""
        self.units, self.is_shared = units, is_shared

    def whiten(self, basis: Basis) -> None:
        """Replace the inputs by whitened rows, before the correction of rounding errors."""
        self.padded = self.storage.zeros((self.n_rows, padded_width(basis.rank)))
        self.Q = self.padded[:, : basis.rank]
        for rows in leaves(self.n_rows):
            self.Q[rows] = basis.rough(self._design(rows))
        self.X = None

    def correct_whitening(self, correction: FloatArray) -> None:
        """Remove the rounding errors in the directions of the smallest singular values."""
        for rows in leaves(self.n_rows):
            self.Q[rows] = apply_correction(self.Q[rows], correction)

    # --- units and whitening ---

    def do_nothing(self) -> None:
        """Return None; an up-to-date partition accepts the call, an outdated one does not."""

    def count_rows(self) -> tuple[int, float]:
        """Return the number of rows and their total weight."""
        return self.n_rows, float(self.weight.sum())

    def column_ranges(self) -> tuple[FloatArray, FloatArray]:
        """Return the minima and maxima of the columns of X and Y; infinite without rows."""
        both = (self.original_rows, self.Y)
        lows = [np.min(values, axis=0, initial=np.inf) for values in both]
        highs = [np.max(values, axis=0, initial=-np.inf) for values in both]
        return np.concatenate(lows), np.concatenate(highs)

    def data_rows(self, numbers: IndexArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return some rows of X, Y and the weights."""
        return self.original_rows[numbers], self.Y[numbers], self.weight[numbers]

    def data_hash(self) -> str:
        """Return a hash of X, Y and the weights."""
        return hash_arrays(self.original_rows, self.Y, self.weight)["hash"]

    def moments(self, center: FloatArray, unit: FloatArray, power: int) -> list[Block[FloatArray]]:
        """Sum ``((x - center) / unit)**power`` over the weighted rows, for the columns of X and Y."""

        def leaf_moments(rows: slice) -> FloatArray:
            values = (np.column_stack([self.original_rows[rows], self.Y[rows]]) - center) / unit
            return self.weight[rows] @ values**power

        return self._merge(map(leaf_moments, leaves(self.n_rows)), np.add)

    def largest_entries(self) -> FloatArray:
        """Return the largest absolute entry of each column of the weighted design."""
        found = [np.max(np.abs(self._design(rows)), axis=0) for rows in blocks(self.n_rows)]
        return np.max(found, axis=0) if found else np.zeros(self.original_rows.shape[1] + 1)

    def design_triangle(self, scale: FloatArray) -> list[Block[FloatArray]]:
        """Return R of the QR factorisation of the weighted design, whose columns are divided by ``scale``."""

        def scaled_design(rows: slice) -> FloatArray:
            return self._design(rows) / scale

        triangles = (leaf_triangle(scaled_design, leaf, len(scale)) for leaf in leaves(self.n_rows))
        return self._merge(triangles, merge_triangles)

    def design_rows(self, numbers: IndexArray, scale: FloatArray) -> FloatArray:
        """Return some rows of the weighted design, whose columns are divided by ``scale``."""
        return self._design(numbers) / scale

    def gram(self) -> list[Block[FloatArray]]:
        """Return the Gram matrix of the whitened rows."""
        return self._merge((gram(self.Q[rows]) for rows in leaves(self.n_rows)), np.add)

    def _design(self, rows: slice | IndexArray) -> FloatArray:
        X, coordinates = self.original_rows[rows], self.units.coordinates
        X = X if coordinates is None else coordinates.standardise(X)
        return np.column_stack([X, np.ones(len(X))]) * np.sqrt(self.weight[rows])[:, None]

    # --- descent ---

    def white_targets(self, column: int) -> FloatArray:
        """Return the targets of a network in whitened coordinates, (n_rows,) or (n_rows, n_outputs)."""
        if column not in self._targets:
            own, scale = slice(None) if self.is_shared else column, self.units.output_scale
            y = self.Y[:, own] - self.units.intercepts[own]
            y = y if scale is None else y / scale
            root = np.sqrt(self.weight)
            self._targets[column] = self.storage.keep((root if y.ndim == 1 else root[:, None]) * y)
        return self._targets[column]

    def merge_leaves(
        self, function: Callable[..., T], merge: Callable[[T, T], T], column: int, *arguments: Any
    ) -> list[Block[T]]:
        """Merge ``function(Q, y, *arguments)`` over the whitened rows and targets of the leaves."""
        y = self.white_targets(column)
        return self._merge((function(self.Q[rows], y[rows], *arguments) for rows in leaves(self.n_rows)), merge)

    def network_sums(
        self, column: int, unit: float, n_hidden: int, kind: int, weights: FloatArray
    ) -> list[Block[FloatArray]]:
        """Return the sums of one kind that the kernel's search needs, such as the gradient."""
        if self.n_rows == 0:
            return []

        if (column, unit) not in self._targets:
            self._targets[column, unit] = self.storage.keep(as_columns(self.white_targets(column) / unit))
        key = (column, unit, n_hidden)
        if key not in self._objectives:
            y, rank = self._targets[column, unit], self.Q.shape[1]
            self._objectives[key] = _native.Objective(self.padded, rank, y, 1.0, n_hidden)
        first, level, values = self._objectives[key].block_sums(kind, weights, self.first_leaf)
        return [Block(*block) for block in zip(first, level, values, strict=True)]

    def white_rows(self, column: int) -> tuple[FloatArray, FloatArray]:
        """Return all whitened rows and targets."""
        return np.ascontiguousarray(self.Q), self.white_targets(column)

    def padded_rows(self, column: int, unit: float, numbers: IndexArray) -> tuple[FloatArray, FloatArray]:
        """Return some padded rows of Q, and their targets divided by ``unit``."""
        return self.padded[numbers], as_columns(self.white_targets(column)[numbers] / unit)

    # --- certificates and validation ---

    def rounding_error(self, network: Network, V: FloatArray, alpha: FloatArray) -> tuple[float, int]:
        """Compare a network in the units of the data with its whitened form.

        Returns the sum of the squared differences of their outputs over the probes, and the number of probes.
        """
        scale, n_probes = self.units.output_scale, len(self.probes)
        output = network.predict(self.probes) - network.intercept
        output = output if scale is None else output / scale
        Q = self.Q[:n_probes] / np.sqrt(self.weight[:n_probes])[:, None]
        return float(np.sum((output - np.maximum(Q @ V.T, 0.0) @ alpha) ** 2)), n_probes

    def validation_error(self, column: int | None, network: Network, scale: FloatArray | None) -> list[Block[float]]:
        """Sum the weighted squared errors of a network in the units of the data; None is for all columns."""
        own = slice(None) if column is None else column

        def leaf_error(rows: slice) -> float:
            error = self.Y[rows, own] - network.predict(self.original_rows[rows])
            error = error if scale is None else error / scale
            squares = error**2 if error.ndim == 1 else np.sum(error**2, axis=1)
            return float(self.weight[rows] @ squares)

        with np.errstate(over="ignore"):
            return self._merge(map(leaf_error, leaves(self.n_rows)), float.__add__)

    def _merge(self, values: Iterable[T], merge: Callable[[T, T], T]) -> list[Block[T]]:
        """Merge the values of all leaves as far as possible without those of other partitions."""
        return tree_of(values, merge, self.first_leaf).blocks
