"""The training problem of one network whose rows are with the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.certificates.stationarity import Stationarity, stationarity_of
from dconnet.convex.backend import Backend
from dconnet.convex.native import by_output
from dconnet.dask.cluster import MOST_NUMBERS, Parts
from dconnet.dask.part import PROBES
from dconnet.dask.sweep import sweep_of
from dconnet.model.network import Network
from dconnet.model.problem import WhitenedProblem
from dconnet.model.rows import joined_triangle
from dconnet.training.early_stopping import Validation
from dconnet.training.kinks import KINK_WIDTH, Kinks, kinks_of_passes
from dconnet.training.newton import PieceShape, newton_step
from dconnet.training.output_layer import ridge_of_triangle
from dconnet.training.row_work import Explorer
from dconnet.training.sweep import Sweep


@dataclass(frozen=True, slots=True, eq=False)
class RemoteProblem:
    """The problem of one network in the coordinates of the data, as a descent sees it.

    RegLoss is found in whitened coordinates; `spoilt` tells whether rounding makes it another in the units of the data.

    Attributes
    ----------
    whitened : RemoteWhitened
        The same problem in whitened coordinates.
    shrinkage : float
        Strength of an additional penalty on the hidden weights.
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
        return int(self.whitened.plain.whitening.to_white.shape[1]) - 1

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the targets of a row."""
        return self.whitened.output_shape

    @property
    def zero_objective(self) -> float:
        """RegLoss of the network whose weights are all zero."""
        return self.whitened.target_norm**2 / self.whitened.total_weight

    def with_gamma(self, gamma: float) -> RemoteProblem:
        """The same problem with another gamma."""
        plain = replace(self.whitened.plain, gamma=gamma)
        return replace(self, whitened=replace(self.whitened, plain=plain))

    def mse(self, network: Network) -> float:
        """Mean squared error."""
        white = self.whitened
        return white.mse(white.whiten(network), white.output_weights(network))

    def objective(self, network: Network) -> float:
        """RegLoss of the network."""
        white = self.whitened
        V, alpha = white.whiten(network), white.output_weights(network)
        mse = white.mse(V, alpha)
        return mse + white.penalty(V, alpha) + self.spoilt(network, V, alpha, mse)

    def spoilt(self, network: Network, V: FloatArray, alpha: FloatArray, mse: float) -> float:
        """By how much RegLoss may differ in the units of the data, from some rows of each part; zero if by rounding."""
        found = self.whitened.parts.ask("spoilt", network, V, alpha)
        squares, n_rows = sum(part[0] for part in found), sum(part[1] for part in found)
        mean_square = squares / max(1, n_rows)
        differs = mean_square + 2.0 * np.sqrt(mse * mean_square)
        return float(differs) if differs > np.sqrt(PROBES * np.finfo(float).eps) * self.zero_objective else 0.0

    def parameters(self, network: Network) -> FloatArray:
        """``network.parameters``, the output weights in the units of ``output_scale``."""
        scale = self.whitened.plain.output_scale
        return (network if scale is None else Network(network.W, network.b, network.alpha / scale)).parameters

    def stationarity(self, network: Network) -> Stationarity:
        """Distance of the network from the first-order conditions; see `dconnet.certificates.stationarity`."""
        white = self.whitened
        V, alpha = white.whiten(network), white.output_weights(network)
        gradient = white.rows.output_gradient(V, alpha)
        return stationarity_of(white.rows.kinks(V, alpha), gradient, white.target_norm)


@dataclass(frozen=True, slots=True, eq=False)
class RemoteWhitened:
    """The problem in whitened coordinates.

    Attributes
    ----------
    parts : Parts
        Who holds the rows.
    column : int
        Which of the networks it is.
    plain : WhitenedProblem
        The coordinates: the same problem without any rows.
    n_rows : int
        Number of rows.
    target_norm : float
        Length of the targets.
    """

    parts: Parts
    column: int
    plain: WhitenedProblem
    n_rows: int
    target_norm: float

    @property
    def gamma(self) -> float:
        """Strength of the regularisation."""
        return self.plain.gamma

    @property
    def total_weight(self) -> float:
        """Sum of the sample weights."""
        return self.plain.total_weight

    @property
    def intercept(self) -> float | FloatArray:
        """Output intercept of the networks."""
        return self.plain.intercept

    @property
    def unit(self) -> float:
        """What a search measures the targets by."""
        return self.plain.unit

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.plain.n_outputs

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the targets of a row."""
        return self.plain.output_shape

    @property
    def rank(self) -> int:
        """Number of columns of the design."""
        return self.plain.rank

    @property
    def rows(self) -> RemoteRows:
        """The work on the rows."""
        return RemoteRows(self)

    def mse(self, V: FloatArray, alpha: FloatArray) -> float:
        """Mean squared error."""
        return self.parts.total(float.__add__, "squares", self.column, V, alpha) / self.total_weight

    def penalty(self, V: FloatArray, alpha: FloatArray) -> float:
        """RegLoss without the mean squared error."""
        return self.plain.penalty(V, alpha)

    def whiten(self, network: Network) -> FloatArray:
        """Hidden weights of a network in whitened coordinates."""
        return self.plain.whiten(network)

    def output_weights(self, network: Network) -> FloatArray:
        """Output weights of a network in the units of this problem."""
        return self.plain.output_weights(network)

    def network(self, V: FloatArray, alpha: FloatArray) -> Network:
        """The network in the coordinates of the data."""
        return self.plain.network(V, alpha)


@dataclass(slots=True, eq=False)
class RemoteRows:
    """The work of a descent on rows that are with the workers: every method is one or a few rounds."""

    problem: RemoteWhitened
    _counted: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._counted = self._counts()

    @property
    def parts(self) -> Parts:
        """Who holds the rows."""
        return self.problem.parts

    def output_weights(self, V: FloatArray) -> FloatArray:
        """See `RowWork.output_weights`."""
        problem = self.problem
        triangle = self.parts.total(joined_triangle, "output_triangle", problem.column, V)
        return ridge_of_triangle(triangle, len(V), problem.output_shape, problem.gamma)

    def sweep(
        self, backend: Backend, n_hidden: int, *, split: str, max_dca_iter: int, restart: bool, inexact: bool
    ) -> Sweep:
        """See `RowWork.sweep`."""
        return sweep_of(
            self.problem, backend, n_hidden, split=split, max_dca_iter=max_dca_iter, restart=restart, inexact=inexact
        )

    def explorer(self, n_hidden: int, **plan: Any) -> Explorer:
        """See `RowWork.explorer`."""
        problem, unit = self.problem, self.problem.unit
        return _native.RemoteExplorer(
            NetworkSums(problem, n_hidden),
            problem.n_rows,
            problem.rank,
            problem.n_outputs,
            (problem.target_norm / unit) ** 2,
            problem.gamma / unit,
            n_hidden,
            most_numbers=MOST_NUMBERS,
            **plan,
        )

    def newton_step(self, V: FloatArray, alpha: FloatArray, width: float) -> tuple[FloatArray, FloatArray] | None:
        """See `RowWork.newton_step`; four rounds."""
        return newton_step(self, V, alpha, width)

    @property
    def gamma(self) -> float:
        """Strength of the regularisation."""
        return self.problem.gamma

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.problem.n_rows

    @property
    def rank(self) -> int:
        """Number of columns of the design."""
        return self.problem.rank

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.problem.n_outputs

    def largest_preactivations(self, V: FloatArray) -> FloatArray:
        """The largest preactivation of every neuron; one round."""
        found: FloatArray = np.max(self.parts.ask("largest_preactivations", V), axis=0)
        return found

    def held_rows(self, V: FloatArray, alpha: FloatArray, band: FloatArray) -> list[FloatArray]:
        """See `PieceRows.held_rows`; one round."""
        parts = self.parts.ask("held_rows", self.problem.column, V, alpha, band)
        return [np.concatenate(own) for own in zip(*(leaf for part in parts for leaf in part), strict=True)]

    def derivatives(self, shape: PieceShape) -> FloatArray:
        """See `PieceRows.derivatives`; one round."""
        return self.parts.total(np.add, "derivatives", self.problem.column, shape)

    def spent(self) -> dict[str, int]:
        """See `RowWork.spent`; between two epochs, workers that have joined take over their share of the parts."""
        self.parts.balance()
        before, self._counted = self._counted, self._counts()
        return {"rounds": self._counted[0] - before[0], "traffic": self._counted[1] - before[1]}

    def _counts(self) -> tuple[int, int]:
        return self.parts.rounds, self.parts.traffic

    def output_gradient(self, V: FloatArray, alpha: FloatArray) -> FloatArray:
        """The gradient of F in the output weights."""
        layout = Layout(self.problem.rank, len(V), self.problem.n_outputs)
        sums = NetworkSums(self.problem, len(V), unit=1.0).sums("gradient", layout.packed(V, by_output(alpha)))
        return layout.output_weights(sums).reshape(alpha.shape) + 2.0 * self.problem.gamma * alpha

    def kinks(self, V: FloatArray, alpha: FloatArray) -> Iterator[Kinks]:
        """The kinks of every neuron."""
        band = KINK_WIDTH * self.largest_preactivations(V)
        found = self.parts.ask("net_kinks", self.problem.column, V, alpha, band)
        return kinks_of_passes([each for part in found for each in part], V, self.problem.gamma)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the kernel lays weights out in one vector: V and alpha transposed, padded to multiples of four."""

    rank: int
    n_hidden: int
    n_outputs: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of V and of alpha, and neurons, all padded."""
        return -(-self.rank // 4) * 4 + self.n_outputs, -(-self.n_hidden // 4) * 4

    def packed(self, V: FloatArray, alpha: FloatArray) -> FloatArray:
        """V (n_hidden, rank) and alpha (n_hidden, n_outputs) as one vector."""
        theta = np.zeros(self.shape)
        theta[: self.rank, : self.n_hidden] = V.T
        theta[-self.n_outputs :, : self.n_hidden] = alpha.T
        return theta.ravel()

    def output_weights(self, vector: FloatArray) -> FloatArray:
        """What such a vector, or a longer one that begins with it, has for alpha, of shape (n_hidden, n_outputs)."""
        n_rows, width = self.shape
        theta = vector[: n_rows * width].reshape(n_rows, width)
        return theta[-self.n_outputs :, : self.n_hidden].T


@dataclass(slots=True, eq=False)
class NetworkSums:
    """Sums over all rows that a search of the kernel asks for."""

    problem: RemoteWhitened
    n_hidden: int
    unit: float = 0.0

    def __post_init__(self) -> None:
        self.unit = self.unit or self.problem.unit

    def sums(self, kind: str, input: FloatArray) -> FloatArray:
        """The sums of this kind; one round."""
        asked = (self.problem.column, self.unit, self.n_hidden, kind, input)
        return self.problem.parts.total(np.add, "network_sums", *asked)

    def rows(self, numbers: NDArray[np.uintp]) -> tuple[FloatArray, FloatArray]:
        """Copies of some rows, whose numbers ascend; one round."""
        parts = self.problem.parts
        inside = parts.numbers_in_parts(numbers.astype(np.intp))
        own = {part: (self.problem.column, self.unit, some) for part, some in inside.items()}
        design, y = zip(*parts.ask("rows", own=own), strict=True)
        return np.concatenate(design), np.concatenate(y)


@dataclass(slots=True, eq=False)
class RemoteValidation(Validation):
    """Validation data that are with the workers; see `Validation`."""

    parts: Parts | None = None
    column: int = 0
    shared: bool = False

    def mse(self, network: Network) -> float:
        """Weighted mean over the validation data of the squared error; one round."""
        assert self.parts is not None
        own = None if self.shared else self.column
        total = self.parts.total(float.__add__, "validation_squares", own, network, self.scale)
        return total / self.parts.weight
