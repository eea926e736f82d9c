"""The training problems of networks whose rows are on the workers of a cluster.

A few rounds encode the targets of a partitioned table, choose units and whiten the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dconnet import _native
from dconnet._arrays import FloatArray, IndexArray
from dconnet.convex.programme import Backend
from dconnet.dask.driver import Partitions
from dconnet.dask.partition import N_PROBES, Partition
from dconnet.estimators.data import ClassWeights, Rows, Units
from dconnet.model.network import Network
from dconnet.model.problem import WhitenedProblem, weight_penalty
from dconnet.model.rows import LEAF, leaves, merge_triangles, qr_blocks, tree_of, triangle_of
from dconnet.model.targets import Targets
from dconnet.model.whitening import Basis, Coordinates, Whitening, column_scale
from dconnet.training.observer import Validation
from dconnet.training.row_work import RowWork
from dconnet.training.sweep import Sweep, Tally, make_sweep

T = TypeVar("T")

# Numbers of the rows that the driver fetches at most: for the samples on which a search begins half a gigabyte, and for
# sweeps 128 MiB. Sweeps over more rows would keep the workers waiting for longer than all other steps of an epoch.
MAX_SAMPLED_NUMBERS, MAX_SWEPT_NUMBERS = 1 << 26, 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class RemoteProblem:
    """The problem of one network in the coordinates of the data; `dconnet.model.problem.Problem` explains the members.

    RegLoss is computed in whitened coordinates. `objective` adds the effect of rounding in the units of the data.
    """

    whitened: RemoteWhitened
    shrinkage: float

    @property
    def gamma(self) -> float:
        """Strength of the regularisation."""
        return self.whitened.gamma

    @property
    def intercept(self) -> float | FloatArray:
        """Output intercept of the networks."""
        return self.whitened.intercept

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return int(self.whitened.whitening.to_white.shape[1]) - 1

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the targets of one row."""
        return self.whitened.output_shape

    @property
    def zero_objective(self) -> float:
        """RegLoss of the network whose weights are all zero."""
        return self.whitened.target_norm**2 / self.whitened.total_weight

    def with_gamma(self, gamma: float) -> RemoteProblem:
        """Return the same problem with another gamma."""
        return replace(self, whitened=replace(self.whitened, gamma=gamma))

    def mse(self, network: Network) -> float:
        """Return the mean squared error."""
        white = self.whitened
        return white.mse(white.whiten(network), white.output_weights(network))

    def objective(self, network: Network) -> float:
        """Return RegLoss of the network."""
        white = self.whitened
        V, alpha = white.whiten(network), white.output_weights(network)
        mse = white.mse(V, alpha)
        # How much RegLoss differs in the units of the data, if by more than usual rounding.
        found = white.partitions.map(Partition.rounding_error, network, V, alpha)
        squares, n_rows = (sum(values) for values in zip(*found, strict=True))
        mean_square = squares / max(1, n_rows)
        difference = float(mean_square + 2.0 * np.sqrt(mse * mean_square))
        is_large = difference > np.sqrt(N_PROBES * np.finfo(float).eps) * self.zero_objective
        return mse + white.penalty(V, alpha) + (difference if is_large else 0.0)

    def parameters(self, network: Network) -> FloatArray:
        """Return ``network.parameters``, the output weights in the units of ``output_scale``."""
        return Network(network.W, network.b, self.whitened.output_weights(network)).parameters


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RemoteWhitened(WhitenedProblem):
    """The problem in whitened coordinates; ``whitening`` and ``y`` have no rows, which are on workers."""

    partitions: Partitions
    column: int  # number of the network
    norm: float  # of the targets

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.partitions.n_rows

    @property
    def target_norm(self) -> float:
        """Norm of the targets."""
        return self.norm

    @property
    def has_sweeps(self) -> bool:
        """Whether the rows are few enough for sweeps on the driver."""
        return self.n_rows * self.rank <= MAX_SWEPT_NUMBERS

    def fetch(self) -> WhitenedProblem:
        """Return the same problem with its rows, which the driver fetches."""
        Q, y = zip(*self.partitions.map(Partition.white_rows, self.column), strict=True)
        known = {each.name: getattr(self, each.name) for each in fields(WhitenedProblem)}
        rows = {"whitening": replace(self.whitening, Q=np.concatenate(Q)), "y": np.concatenate(y)}
        return WhitenedProblem(**known | rows)

    def rows(self, n_threads: int) -> RemoteRows:
        """Return the work of a descent on the rows; the threads are those of sweeps."""
        return RemoteRows(self, n_threads)

    def merge_leaves(self, function: Callable[..., T], merge: Callable[[T, T], T], *arguments: Any) -> T:
        """Merge ``function(Q, y, *arguments)`` over all leaves, on the workers as far as possible."""
        return self.partitions.reduce(merge, Partition.merge_leaves, function, merge, self.column, *arguments)


class RemoteRows(RowWork):
    """The same work on rows that are on workers; sweeps are made on the driver, by several threads."""

    problem: RemoteWhitened

    def __init__(self, problem: RemoteWhitened, n_threads: int) -> None:
        super().__init__(problem, n_threads)
        self.n_rounds, self.n_bytes = problem.partitions.n_rounds, problem.partitions.n_bytes

    def sweep(self, backend: Backend, n_hidden: int, **options: Any) -> Sweep:
        """Return an object that fetches the rows for its first sweep."""
        make = partial(make_sweep, backend=backend, n_hidden=n_hidden, team=self.team, **options)
        return DriverSweep(self.problem, make)

    def explorer(self, n_hidden: int, **plan: Any) -> _native.Explorer:
        """Return a search that gets its sums over the rows from the workers."""
        problem, unit = self.problem, self.problem.unit
        return _native.Explorer(
            NetworkSums(problem, n_hidden),
            problem.n_rows,
            problem.rank,
            problem.n_outputs,
            (problem.target_norm / unit) ** 2,
            problem.gamma / unit,
            n_hidden,
            most_numbers=MAX_SAMPLED_NUMBERS,
            **plan,
        )

    def spent(self) -> dict[str, int]:
        """Return rounds and traffic since the last call; between two epochs, move partitions to workers that joined."""
        partitions, n_rounds, n_bytes = self.problem.partitions, self.n_rounds, self.n_bytes
        partitions.balance()
        self.n_rounds, self.n_bytes = partitions.n_rounds, partitions.n_bytes
        return {"rounds": self.n_rounds - n_rounds, "traffic": self.n_bytes - n_bytes}


@dataclass(slots=True, eq=False)
class DriverSweep:
    """Sweeps on the driver, which fetches all rows for the first of them; without any effect if they are too many."""

    problem: RemoteWhitened
    make: Callable[[WhitenedProblem], Sweep]
    _sweep: Sweep | None = None

    def run(
        self, V: FloatArray, alpha: FloatArray, order: IndexArray, seconds: float, kinks: FloatArray | None = None
    ) -> Tally:
        """See `Sweep.run`."""
        began = time.perf_counter()
        if not self.problem.has_sweeps:
            return Tally(visited=len(order))
        if self._sweep is None:
            self._sweep = self.make(self.problem.fetch())
        return self._sweep.run(V, alpha, order, seconds - (time.perf_counter() - began), kinks)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkSums:
    """The sums over all rows that a search of the kernel needs."""

    problem: RemoteWhitened
    n_hidden: int

    def sums(self, kind: int, input: FloatArray) -> FloatArray:
        """Return the sums of this kind at these weights."""
        arguments = (self.problem.column, self.problem.unit, self.n_hidden, kind, input)
        return self.problem.partitions.reduce(np.add, Partition.network_sums, *arguments)

    def rows(self, numbers: NDArray[np.uintp]) -> tuple[FloatArray, FloatArray]:
        """Fetch some rows, whose numbers ascend."""
        partitions, column = self.problem.partitions, self.problem.column
        split = partitions.split_row_numbers(numbers.astype(np.intp))
        own = {number: (column, self.problem.unit, rows) for number, rows in split.items()}
        Q, y = zip(*partitions.map(Partition.padded_rows, own=own), strict=True)
        return np.concatenate(Q), np.concatenate(y)


@dataclass(slots=True, eq=False)
class RemoteValidation(Validation):
    """Validation rows on workers, for the network of a column or, with None, of all columns."""

    partitions: Partitions | None = None
    column: int | None = None

    def mse(self, network: Network) -> float:
        """Return the weighted mean of the squared error."""
        assert self.partitions is not None
        total = self.partitions.reduce(float.__add__, Partition.validation_error, self.column, network, self.scale)
        return total / self.partitions.total_weight


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
        whitened = RemoteWhitened(
            whitening=whitening,
            y=np.empty((0, len(units.intercepts))) if is_shared else np.empty(0),
            gamma=1.0,
            total_weight=partitions.total_weight,
            intercept=units.intercepts if is_shared else float(units.intercepts[column]),
            unit=unit,
            output_scale=units.output_scale,
            partitions=partitions,
            column=column,
            norm=float(np.sqrt(squares)),
        )
        return RemoteProblem(whitened, shrinkage)

    return [build_problem(column) for column in range(1 if is_shared else len(units.intercepts))]


def _squares(Q: FloatArray, y: FloatArray) -> float:
    return float(np.vdot(y, y))


def _whiten(partitions: Partitions, units: Units, penalty: FloatArray | None) -> Whitening:
    """Whiten the rows of all partitions by a QR factorisation, whose triangles are merged as a tree."""
    scale = column_scale(np.max(partitions.map(Partition.largest_entries), axis=0), penalty)
    triangle = partitions.reduce(merge_triangles, Partition.design_triangle, scale)
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
