"""From parts of a table to the problems of networks: units, targets and whitening, in a few rounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.dask.cluster import Parts
from dconnet.dask.part import PROBES
from dconnet.dask.problem import RemoteProblem, RemoteWhitened
from dconnet.estimators.data import ClassWeights, Rows
from dconnet.estimators.units import Units
from dconnet.model.coordinates import Coordinates
from dconnet.model.problem import WhitenedProblem, weight_penalty
from dconnet.model.rows import LEAF, joined_triangle, leaves, qr_blocks, tree_of, triangle_of
from dconnet.model.targets import Targets
from dconnet.model.whitening import Basis, Whitening, column_scale

__all__ = ["PROBES", "code", "pose", "sample", "standard_units"]


def code(parts: Parts, targets: Targets, class_weights: ClassWeights | None, name: str = "training") -> None:
    """Let all parts code their targets, and number their leaves; the name tells what the rows are for.

    Raises
    ------
    ValueError
        If no row is left.
    """
    parts.step("code_targets", targets, class_weights)
    counts = parts.ask("count")
    if sum(n_rows for n_rows, _ in counts) == 0:
        raise ValueError(f"There are no rows with positive weights for the {name}.")
    lengths = np.array([n_rows for n_rows, _ in counts])
    first = zip(_first_numbers(-(-lengths // LEAF)), _first_numbers(lengths), strict=True)
    parts.step("number_leaves", own=dict(enumerate(first)))
    parts.counts = counts


def _first_numbers(counts: NDArray[np.intp]) -> list[int]:
    """The number of the first of what each part has so many of."""
    numbers: list[int] = np.cumsum([0, *counts[:-1]]).tolist()
    return numbers


def standard_units(parts: Parts, n_features: int, *, each_target: bool) -> Units:
    """Units in which inputs and targets have mean zero and standard deviation one; see `Units.standard`."""
    low, high = (np.array(bounds) for bounds in zip(*parts.ask("bounds"), strict=True))
    low, high = np.min(low, axis=0), np.max(high, axis=0)
    spread = high - low
    if not np.isfinite(spread).all():
        raise ValueError("The values of a column differ by more than a float can hold. Scale them down.")
    unit = np.where(spread > 0.0, spread, 1.0)
    total = parts.weight
    mean = low + unit * parts.total(np.add, "moments", low, unit, 1) / total
    mean = np.where(spread > 0.0, mean, low)
    deviation = unit * np.sqrt(parts.total(np.add, "moments", mean, unit, 2) / total)
    deviation = np.where(spread > 0.0, deviation, 0.0)
    scale = np.where(deviation > 0.0, deviation, 1.0)
    coordinates = Coordinates(mean[:n_features], scale[:n_features])
    moments = np.column_stack([mean, deviation])[n_features:]
    return Units.of_moments(coordinates, moments, each_target=each_target)


def sample(parts: Parts, most: int, seed: int) -> Rows:
    """Rows with coded targets as they were given, all or as many as that, drawn at random; they come here."""
    n_rows = parts.n_rows
    numbers = np.arange(n_rows)
    if n_rows > most:
        numbers = np.sort(np.random.default_rng(seed).choice(n_rows, most, replace=False))
    own = {part: (some,) for part, some in parts.numbers_in_parts(numbers).items()}
    X, Y, weight = zip(*parts.ask("given_rows", own=own), strict=True)
    return Rows(np.concatenate(X), np.concatenate(Y), np.concatenate(weight))


def pose(parts: Parts, units: Units, shrinkage: float, n_features: int, *, shared: bool) -> list[RemoteProblem]:
    """The problem of each network, with a gamma of one; from here on, parts hold whitened rows."""
    parts.step("take_units", units.coordinates, units.intercepts, units.output_scale, shared)
    whitening = _whitened(parts, units, weight_penalty(shrinkage, parts.weight, n_features))
    n_columns = len(units.intercepts)
    return [
        _problem(parts, units, whitening, shrinkage, column, shared) for column in range(1 if shared else n_columns)
    ]


def _whitened(parts: Parts, units: Units, penalty: FloatArray | None) -> Whitening:
    """Whitens the rows of all parts, by a QR factorisation whose triangles are merged as a tree."""
    scale = column_scale(np.max(parts.ask("largest_entries"), axis=0), penalty)
    triangle = parts.total(joined_triangle, "triangle", scale)
    basis = Basis.of(_signed_as_here(triangle, parts, scale), scale, penalty)
    parts.step("take_basis", basis)
    correction = basis.correction(parts.total(np.add, "rough_gram"))
    parts.step("correct", correction)
    whitening = Whitening(np.empty((0, basis.rank)), *basis.maps(correction))
    return whitening if units.coordinates is None else units.coordinates.undo(whitening)


def _signed_as_here(triangle: FloatArray, parts: Parts, scale: FloatArray) -> FloatArray:
    """The triangle of all rows, with the signs of its rows that it would have on one machine.

    They decide the signs of the whitened columns, and so what random starts are. LAPACK chooses them by the first block
    of rows, and turns them all whenever it joins another one below.
    """
    first = next(qr_blocks(min(LEAF, parts.n_rows), len(scale)))
    own = {part: (some,) for part, some in parts.numbers_in_parts(np.arange(first.stop)).items()}
    begun = triangle_of([np.concatenate(parts.ask("design_rows", scale, own=own))])
    if len(begun) < len(scale):
        return triangle
    blocks_of_leaves = (len(list(qr_blocks(leaf.stop - leaf.start, len(scale)))) for leaf in leaves(parts.n_rows))
    n_blocks = tree_of(blocks_of_leaves, lambda above, _: above + 1).total()
    turned = (np.diag(begun) < 0.0) ^ (np.diag(triangle) < 0.0) ^ (n_blocks % 2 == 0)
    return np.where(turned, -1.0, 1.0)[:, None] * triangle


def _problem(
    parts: Parts, units: Units, whitening: Whitening, shrinkage: float, column: int, shared: bool
) -> RemoteProblem:
    square = parts.total(float.__add__, "target_squares", column)
    unit = 1.0 if units.coordinates is None else float(np.sqrt(square / parts.weight)) or 1.0
    intercept = units.intercepts if shared else float(units.intercepts[column])
    y = np.empty((0, len(units.intercepts))) if shared else np.empty(0)
    plain = WhitenedProblem(
        whitening, y, 1.0, parts.weight, intercept=intercept, unit=unit, output_scale=units.output_scale
    )
    return RemoteProblem(RemoteWhitened(parts, column, plain, parts.n_rows, float(np.sqrt(square))), shrinkage)
