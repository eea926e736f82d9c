"""The training problem of one network whose rows are on the workers of a cluster."""

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
from dconnet.convex.backend import Backend
from dconnet.convex.native import as_columns
from dconnet.dask.driver import Partitions
from dconnet.dask.partition import N_PROBES, Partition
from dconnet.model.network import Network
from dconnet.model.problem import WhitenedProblem, hidden_layer, squared_error
from dconnet.model.rows import joined_triangle
from dconnet.training.early_stopping import Validation
from dconnet.training.kinks import KINK_WIDTH, Kinks, NetKinks, kinks_of_passes
from dconnet.training.newton import PieceShape, held_rows, newton_step
from dconnet.training.output_layer import output_triangle, ridge_of_triangle
from dconnet.training.row_work import Explorer
from dconnet.training.sweep import Sweep, Tally, make_sweep

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
