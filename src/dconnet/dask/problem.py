"""The training problems of networks whose rows are on the workers of a cluster.

A few rounds encode the targets of a partitioned table, choose units and whiten the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.certificates.stationarity import Stationarity, stationarity_of
from dconnet.convex.native import as_columns
from dconnet.convex.programme import Backend
from dconnet.dask.driver import Partitions
from dconnet.dask.partition import N_PROBES, Partition
from dconnet.estimators.data import ClassWeights, Rows, Units
from dconnet.model.network import Network
from dconnet.model.problem import WhitenedProblem, hidden_layer, squared_error, weight_penalty
from dconnet.model.rows import LEAF, joined_triangle, leaves, qr_blocks, tree_of, triangle_of
from dconnet.model.targets import Targets
from dconnet.model.whitening import Basis, Coordinates, Whitening, column_scale
from dconnet.training.kinks import KINK_WIDTH, Kinks, NetKinks, kinks_of_passes
from dconnet.training.newton import PieceShape, held_rows, newton_step
from dconnet.training.observer import Validation
from dconnet.training.row_work import Explorer
from dconnet.training.sweep import Sweep, Tally, make_sweep, output_triangle, ridge_of_triangle

T = TypeVar("T")

# Numbers of the rows that the driver fetches at most: for the samples on which a search begins half a gigabyte, and for
# sweeps 128 MiB. Sweeps over more rows would keep the workers waiting for longer than all other steps of an epoch.
MAX_SAMPLED_NUMBERS, MAX_SWEPT_NUMBERS = 1 << 26, 1 << 24
# Attributes and methods of a `WhitenedProblem` that do not depend on its rows.
WITHOUT_ROWS = frozenset(
    {"gamma", "total_weight", "intercept", "unit", "n_outputs", "output_shape", "rank"}
    | {"penalty", "whiten", "output_weights", "network"}
)


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
        return self.whitened.without_rows.gamma

    @property
    def intercept(self) -> float | FloatArray:
        """Output intercept of the networks."""
        return self.whitened.without_rows.intercept

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return int(self.whitened.without_rows.whitening.to_white.shape[1]) - 1

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the targets of one row."""
        return self.whitened.without_rows.output_shape

    @property
    def zero_objective(self) -> float:
        """RegLoss of the network whose weights are all zero."""
        return self.whitened.target_norm**2 / self.whitened.without_rows.total_weight

    def with_gamma(self, gamma: float) -> RemoteProblem:
        """Return the same problem with another gamma."""
        without_rows = replace(self.whitened.without_rows, gamma=gamma)
        return replace(self, whitened=replace(self.whitened, without_rows=without_rows))

    def mse(self, network: Network) -> float:
        """Return the mean squared error."""
        white = self.whitened
        return white.mse(white.whiten(network), white.output_weights(network))

    def objective(self, network: Network) -> float:
        """Return RegLoss of the network."""
        white = self.whitened
        V, alpha = white.whiten(network), white.output_weights(network)
        mse = white.mse(V, alpha)
        return mse + white.without_rows.penalty(V, alpha) + self._rounding_error(network, V, alpha, mse)

    def _rounding_error(self, network: Network, V: FloatArray, alpha: FloatArray, mse: float) -> float:
        """Estimate how much RegLoss differs in the units of the data; zero if not by more than usual rounding."""
        found = self.whitened.partitions.map(Partition.rounding_error, network, V, alpha)
        squares, n_rows = (sum(values) for values in zip(*found, strict=True))
        mean_square = squares / max(1, n_rows)
        difference = float(mean_square + 2.0 * np.sqrt(mse * mean_square))
        return difference if difference > np.sqrt(N_PROBES * np.finfo(float).eps) * self.zero_objective else 0.0

    def parameters(self, network: Network) -> FloatArray:
        """Return ``network.parameters``, the output weights in the units of ``output_scale``."""
        scale = self.whitened.without_rows.output_scale
        return (network if scale is None else Network(network.W, network.b, network.alpha / scale)).parameters

    def stationarity(self, network: Network) -> Stationarity:
        """Return the distance from the first-order conditions; see `dconnet.certificates.stationarity`."""
        white = self.whitened
        V, alpha = white.whiten(network), white.output_weights(network)
        gradient = white.output_gradient(V, alpha)
        return stationarity_of(white.kinks(V, alpha), gradient, white.target_norm)


@dataclass(frozen=True, slots=True, eq=False)
class RemoteWhitened:
    """The problem in whitened coordinates; the members in `WITHOUT_ROWS` are those of ``without_rows``."""

    partitions: Partitions
    column: int  # number of the network
    without_rows: WhitenedProblem  # the same problem without any rows
    target_norm: float

    def __getattr__(self, name: str) -> Any:
        if name in WITHOUT_ROWS:
            return getattr(self.without_rows, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.partitions.n_rows

    @property
    def has_sweeps(self) -> bool:
        """Whether the rows are few enough for sweeps on the driver."""
        return self.n_rows * self.without_rows.rank <= MAX_SWEPT_NUMBERS

    def fetch(self) -> WhitenedProblem:
        """Return the same problem with its rows, which the driver fetches."""
        Q, y = zip(*self.partitions.map(Partition.white_rows, self.column), strict=True)
        whitening = replace(self.without_rows.whitening, Q=np.concatenate(Q))
        return replace(self.without_rows, whitening=whitening, y=np.concatenate(y))

    def rows(self, n_threads: int) -> RemoteRows:
        """Return the work of a descent on the rows; the threads are those of sweeps."""
        return RemoteRows(self, n_threads)

    def merge(self, function: Callable[..., T], merge: Callable[[T, T], T], *arguments: Any) -> T:
        """Merge ``function(Q, y, *arguments)`` over all leaves."""
        total: T = self.partitions.reduce(merge, Partition.merge_leaves, function, merge, self.column, *arguments)
        return total

    def map(self, function: Callable[..., T], *arguments: Any) -> list[T]:
        """Return ``function(Q, y, *arguments)`` for every leaf."""
        found = self.partitions.map(Partition.map_leaves, function, self.column, *arguments)
        return [value for own in found for value in own]

    def mse(self, V: FloatArray, alpha: FloatArray) -> float:
        """Return the mean squared error."""
        return self.merge(squared_error, float.__add__, V, alpha) / self.without_rows.total_weight

    def largest_preactivations(self, V: FloatArray) -> FloatArray:
        """Return the largest preactivation of every neuron."""
        largest: FloatArray = np.max(self.partitions.map(Partition.largest_preactivations, V), axis=0)
        return largest

    def held_rows(self, V: FloatArray, alpha: FloatArray, band: FloatArray) -> list[FloatArray]:
        """See `PieceRows.held_rows`."""
        return [np.concatenate(own) for own in zip(*self.map(held_rows, V, alpha, band), strict=True)]

    def derivatives(self, shape: PieceShape) -> FloatArray:
        """See `PieceRows.derivatives`."""
        return self.merge(_derivatives, np.add, shape)

    def output_gradient(self, V: FloatArray, alpha: FloatArray) -> FloatArray:
        """Return the gradient of F in the output weights."""
        half: FloatArray = self.merge(_output_gradient, np.add, V, alpha) + self.without_rows.gamma * alpha
        return 2.0 * half

    def kinks(self, V: FloatArray, alpha: FloatArray) -> Iterator[Kinks]:
        """Return the kinks of every neuron."""
        band = KINK_WIDTH * self.largest_preactivations(V)
        return kinks_of_passes(self.map(_net_kinks, V, alpha, band), V, self.gamma)


@dataclass(slots=True, eq=False)
class RemoteRows:
    """The work of a descent on rows that are on workers; see `dconnet.training.row_work.RowWork`."""

    problem: RemoteWhitened
    n_threads: int
    _counts: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._counts = self.problem.partitions.n_rounds, self.problem.partitions.n_bytes

    def output_weights(self, V: FloatArray) -> FloatArray:
        """See `RowWork.output_weights`."""
        problem = self.problem
        triangle = problem.merge(_output_triangle, joined_triangle, V)
        return ridge_of_triangle(triangle, len(V), problem.output_shape, problem.gamma)

    def sweep(self, backend: Backend, n_hidden: int, **options: Any) -> Sweep:
        """See `RowWork.sweep`."""
        team = _native.Team(self.n_threads)
        return DriverSweep(self.problem, lambda fetched: make_sweep(fetched, backend, n_hidden, **options, team=team))

    def explorer(self, n_hidden: int, **plan: Any) -> Explorer:
        """See `RowWork.explorer`."""
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

    def newton_step(self, V: FloatArray, alpha: FloatArray, width: float) -> tuple[FloatArray, FloatArray] | None:
        """See `RowWork.newton_step`."""
        return newton_step(self.problem, V, alpha, width)

    def spent(self) -> dict[str, int]:
        """See `RowWork.spent`. Called between two epochs, it also moves partitions to workers that joined."""
        partitions, (n_rounds, n_bytes) = self.problem.partitions, self._counts
        partitions.balance()
        self._counts = partitions.n_rounds, partitions.n_bytes
        return {"rounds": partitions.n_rounds - n_rounds, "traffic": partitions.n_bytes - n_bytes}


@dataclass(slots=True, eq=False)
class DriverSweep:
    """Sweeps on the driver, which fetches all rows for the first of them; without any effect if they are too many."""

    problem: RemoteWhitened
    make: Callable[[WhitenedProblem], Sweep]
    _sweep: Sweep | None = None

    def run(
        self,
        V: FloatArray,
        alpha: FloatArray,
        order: NDArray[np.intp],
        seconds: float,
        kinks: FloatArray | None = None,
    ) -> Tally:
        """See `Sweep.run`."""
        began = time.perf_counter()
        if not self.problem.has_sweeps:
            return Tally(visited=len(order))
        if self._sweep is None:
            self._sweep = self.make(self.problem.fetch())
        return self._sweep.run(V, alpha, order, seconds - (time.perf_counter() - began), kinks)


def _output_triangle(Q: FloatArray, y: FloatArray, V: FloatArray) -> FloatArray:
    return output_triangle(Q, V, y, slice(0, len(Q)))


def _net_kinks(Q: FloatArray, y: FloatArray, V: FloatArray, alpha: FloatArray, band: FloatArray) -> NetKinks:
    return NetKinks.of(Q, as_columns(y), V, alpha, band)


def _derivatives(Q: FloatArray, y: FloatArray, shape: PieceShape) -> FloatArray:
    return shape.derivatives(Q, y)


def _output_gradient(Q: FloatArray, y: FloatArray, V: FloatArray, alpha: FloatArray) -> FloatArray:
    hidden = hidden_layer(Q, V)
    gradient: FloatArray = hidden.T @ (hidden @ alpha - y)
    return gradient


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
