"""From a partitioned table to the problems of its networks: encoded targets, units and whitening, in a few rounds."""

from __future__ import annotations

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.dask.driver import Partitions
from dconnet.dask.partition import Partition
from dconnet.dask.problem import RemoteProblem, RemoteWhitened
from dconnet.estimators.data import ClassWeights, Rows, Units
from dconnet.model.coordinates import Coordinates
from dconnet.model.problem import WhitenedProblem, weight_penalty
from dconnet.model.rows import LEAF, joined_triangle, leaves, qr_blocks, tree_of, triangle_of
from dconnet.model.targets import Targets
from dconnet.model.whitening import Basis, Whitening, column_scale


def encode_targets(
    partitions: Partitions, targets: Targets, class_weights: ClassWeights | None, purpose: str = "training"
) -> None:
    """Encode the targets of all partitions and number their leaves.

    Raises a ValueError that names the purpose if no row has a positive weight.
    """
    partitions.update(Partition.encode_targets, targets, class_weights)
    partitions.row_counts = partitions.map(Partition.count_rows)
    if partitions.n_rows == 0:
        raise ValueError(f"There are no rows with positive weights for the {purpose}.")
    n_leaves = np.array([-(-n_rows // LEAF) for n_rows, _ in partitions.row_counts])
    first_leaves = (np.cumsum(n_leaves) - n_leaves).tolist()
    partitions.update(Partition.set_first_leaf, own={number: (leaf,) for number, leaf in enumerate(first_leaves)})


def choose_units(partitions: Partitions, n_features: int, *, each_target: bool) -> Units:
    """Return units in which inputs and targets have mean zero and standard deviation one; see `Units.standard`."""
    lows, highs = zip(*partitions.map(Partition.column_ranges), strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    spread = high - low
    if not np.isfinite(spread).all():
        raise ValueError("The range of a column is larger than a float can hold. Scale the column down.")
    unit = np.where(spread > 0.0, spread, 1.0)
    total = partitions.total_weight
    mean = low + unit * partitions.reduce(np.add, Partition.moments, low, unit, 1) / total
    mean = np.where(spread > 0.0, mean, low)
    deviation = unit * np.sqrt(partitions.reduce(np.add, Partition.moments, mean, unit, 2) / total)
    deviation = np.where(spread > 0.0, deviation, 0.0)
    scale = np.where(deviation > 0.0, deviation, 1.0)
    coordinates = Coordinates(mean[:n_features], scale[:n_features])
    moments = np.column_stack([mean, deviation])[n_features:]
    return Units.of_moments(coordinates, moments, each_target=each_target)


def sample_rows(partitions: Partitions, max_rows: int, seed: int) -> Rows:
    """Fetch at most ``max_rows`` random rows with encoded targets, in the units of the data."""
    n_rows = partitions.n_rows
    numbers = np.arange(n_rows)
    if n_rows > max_rows:
        numbers = np.sort(np.random.default_rng(seed).choice(n_rows, max_rows, replace=False))
    own = {number: (rows,) for number, rows in partitions.split_row_numbers(numbers).items()}
    X, Y, weight = zip(*partitions.map(Partition.data_rows, own=own), strict=True)
    return Rows(np.concatenate(X), np.concatenate(Y), np.concatenate(weight))


def build_problems(
    partitions: Partitions, units: Units, shrinkage: float, n_features: int, *, is_shared: bool
) -> list[RemoteProblem]:
    """Whiten all rows and return the problem of each network, with a gamma of one."""
    partitions.update(Partition.set_units, units, is_shared)
    whitening = _whiten(partitions, units, weight_penalty(shrinkage, partitions.total_weight, n_features))

    def build_problem(column: int) -> RemoteProblem:
        squares = partitions.reduce(float.__add__, Partition.merge_leaves, _squares, float.__add__, column)
        unit = 1.0 if units.coordinates is None else float(np.sqrt(squares / partitions.total_weight)) or 1.0
        intercept = units.intercepts if is_shared else float(units.intercepts[column])
        no_targets = np.empty((0, len(units.intercepts))) if is_shared else np.empty(0)
        without_rows = WhitenedProblem(
            whitening,
            no_targets,
            1.0,
            partitions.total_weight,
            intercept=intercept,
            unit=unit,
            output_scale=units.output_scale,
        )
        return RemoteProblem(RemoteWhitened(partitions, column, without_rows, float(np.sqrt(squares))), shrinkage)

    return [build_problem(column) for column in range(1 if is_shared else len(units.intercepts))]


def _squares(Q: FloatArray, y: FloatArray) -> float:
    return float(np.vdot(y, y))


def _whiten(partitions: Partitions, units: Units, penalty: FloatArray | None) -> Whitening:
    """Whiten the rows of all partitions by a QR factorisation, whose triangles are merged as a tree."""
    scale = column_scale(np.max(partitions.map(Partition.largest_entries), axis=0), penalty)
    triangle = partitions.reduce(joined_triangle, Partition.design_triangle, scale)
    basis = Basis.of(fix_signs(triangle, partitions, scale), scale, penalty)
    partitions.update(Partition.whiten, basis)
    correction = basis.correction(partitions.reduce(np.add, Partition.gram))
    partitions.update(Partition.correct_whitening, correction)
    whitening = Whitening(np.empty((0, basis.rank)), *basis.maps(correction))
    return whitening if units.coordinates is None else units.coordinates.undo(whitening)


def fix_signs(triangle: FloatArray, partitions: Partitions, scale: FloatArray) -> FloatArray:
    """Give the rows of a triangle the signs that they have when one machine factorises all rows.

    The signs decide those of the whitened columns, and so the random starts. LAPACK chooses them by the first block of
    rows, and flips all of them whenever it appends another block.
    """
    first = next(qr_blocks(min(LEAF, partitions.n_rows), len(scale)))
    own = {number: (rows,) for number, rows in partitions.split_row_numbers(np.arange(first.stop)).items()}
    first_triangle = triangle_of([np.concatenate(partitions.map(Partition.design_rows, scale, own=own))])
    if len(first_triangle) < len(scale):
        return triangle
    blocks_per_leaf = (len(list(qr_blocks(leaf.stop - leaf.start, len(scale)))) for leaf in leaves(partitions.n_rows))
    n_blocks = tree_of(blocks_per_leaf, lambda above, _: above + 1).total()
    is_flipped = (np.diag(first_triangle) < 0.0) ^ (np.diag(triangle) < 0.0) ^ (n_blocks % 2 == 0)
    return np.where(is_flipped, -1.0, 1.0)[:, None] * triangle
