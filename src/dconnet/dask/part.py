"""A partition of the rows, with a worker: it answers questions about them.

An answer is a list of blocks of leaves (see `dconnet.model.rows`) or a few rows. What a part is, follows from its
data and from a list of steps that all parts take; a part that was lost can be made again, and takes them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.convex.native import by_output, padded_width
from dconnet.dask.storage import Storage, give_back_pages
from dconnet.estimators.data import ClassWeights
from dconnet.estimators.fingerprint import hashed
from dconnet.model.coordinates import Coordinates
from dconnet.model.network import Network
from dconnet.model.problem import squared_error
from dconnet.model.rows import LEAF, Block, blocks, joined_triangle, leaf_triangle, leaves, tree_of
from dconnet.model.targets import Targets
from dconnet.model.whitening import Basis, corrected, gram
from dconnet.training.kinks import NetKinks, largest_preactivations
from dconnet.training.newton import PieceShape, held_rows
from dconnet.training.output_layer import output_triangle

# Rows of each part that stay as they were given, to see whether rounding spoils a network in the units of the data.
PROBES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What is told about a part when it is made.

    Attributes
    ----------
    address : str
        The worker that holds it.
    n_rows : int
        Rows whose weight is positive: the others are left out.
    weight : float
        Sum of the weights.
    labels, label_weights : arrays or None
        The class labels that occur, with the weight of each.
    """

    address: str
    n_rows: int
    weight: float
    labels: NDArray[Any] | None
    label_weights: FloatArray | None


def value_range(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest value of each column; infinite without rows."""
    return np.min(values, axis=0, initial=np.inf), np.max(values, axis=0, initial=-np.inf)


@dataclass(frozen=True, slots=True)
class OutOfTurn:
    """The answer in a round of a sweep of which the part does not know all rounds before."""


@dataclass(slots=True, eq=False)
class _SweepState:
    """The rows in a sweep that is driven from elsewhere: which it is, and how many rounds it has had."""

    leaves: _native.SweepLeaves
    sweep: int = -1
    turn: int = 0


@dataclass(slots=True, eq=False)
class Part:
    """The rows of one partition.

    ``X`` (n_rows, n_features), ``target`` and ``weight`` are the data; ``X`` is given up for ``Q``, the rows of the
    whitened design, which is ``padded`` without the zeros at the end of its rows. ``first_leaf`` and ``first_row`` are
    the numbers of its first leaf and row among those of all parts, and ``steps`` tells how many of the steps that all
    parts take it has taken.
    """

    X: FloatArray | None
    target: NDArray[Any]
    weight: FloatArray
    probes: FloatArray
    storage: Storage = field(default_factory=Storage)
    first_leaf: int = 0
    first_row: int = 0
    steps: int = 0
    Y: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    coordinates: Coordinates | None = None
    padded: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    Q: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    intercepts: FloatArray = field(default_factory=lambda: np.empty(0))
    output_scale: FloatArray | None = None
    shared: bool = False
    _white: dict[int, FloatArray] = field(default_factory=dict)
    _scaled: dict[tuple[int, float], FloatArray] = field(default_factory=dict)
    _kernels: dict[Any, Any] = field(default_factory=dict)

    # --- steps that change it ---

    def number_leaves(self, first_leaf: int, first_row: int) -> None:
        """Take over the numbers of the first leaf and of the first row."""
        self.first_leaf, self.first_row = first_leaf, first_row

    def code_targets(self, targets: Targets, class_weights: ClassWeights | None) -> None:
        """Code the target as columns, and weigh the rows by their classes."""
        if class_weights is not None:
            self._keep(self.weight * class_weights.of_rows(self.target))
        self.Y = self.storage.keep(targets.columns(self.target, self.weight))
        self.target = self.target[:0].copy()

    def _keep(self, weight: FloatArray) -> None:
        """Take over weights, without the rows that have none."""
        assert self.X is not None
        kept = weight > 0.0
        self.X, self.weight = self.storage.keep(self.X[kept]), self.storage.keep(weight[kept])
        self.target = self.target[kept]
        self.probes = self.X[:PROBES].copy()

    def take_units(
        self, coordinates: Coordinates | None, intercepts: FloatArray, output_scale: FloatArray | None, shared: bool
    ) -> None:
        """Take over what inputs and targets are measured by."""
        self.coordinates, self.intercepts = coordinates, intercepts
        self.output_scale, self.shared = output_scale, shared

    def take_basis(self, basis: Basis) -> None:
        """Whiten the rows, up to the rounding of the smallest directions; the inputs are given up."""
        assert self.X is not None
        self.padded = self.storage.zeros((self.n_rows, padded_width(basis.rank)))
        self.Q = self.padded[:, : basis.rank]
        for rows in leaves(self.n_rows):
            self.Q[rows] = basis.rough(self._design(rows))
        self.X = None

    def correct(self, correction: FloatArray) -> None:
        """Sweep out that rounding."""
        for rows in leaves(self.n_rows):
            self.Q[rows] = corrected(self.Q[rows], correction)

    def rest(self) -> None:
        """Nobody asks for a while: arrays that are in files need no memory."""
        give_back_pages([self.X, self.Y, self.weight, self.padded, *self._white.values(), *self._scaled.values()])

    # --- sums for units and whitening ---

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.weight)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return -(-self.n_rows // LEAF)

    def ready(self) -> None:
        """Nothing; but who answers has taken all steps."""

    def count(self) -> tuple[int, float]:
        """Number of rows, and the sum of their weights."""
        return self.n_rows, float(self.weight.sum())

    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Smallest and largest value of every column of the inputs and of the targets; infinite without rows."""
        assert self.X is not None
        lows, highs = zip(*(value_range(values) for values in (self.X, self.Y)), strict=True)
        return np.concatenate(lows), np.concatenate(highs)

    def given_rows(self, numbers: NDArray[np.intp]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Some rows as they were given, their coded targets and their weights."""
        assert self.X is not None
        return self.X[numbers], self.Y[numbers], self.weight[numbers]

    def fingerprint(self) -> str:
        """A hash of the data."""
        assert self.X is not None
        return hashed(self.X, self.Y, self.weight)["hash"]

    def moments(self, center: FloatArray, unit: FloatArray, power: int) -> list[Block[FloatArray]]:
        """Weighted sums of ``((x - center) / unit)**power`` of every column of the inputs and of the targets."""
        assert self.X is not None
        X, Y = self.X, self.Y

        def sums(rows: slice) -> FloatArray:
            values = (np.column_stack([X[rows], Y[rows]]) - center) / unit
            products: FloatArray = self.weight[rows] @ values**power
            return products

        return self._summed(sums)

    def largest_entries(self) -> FloatArray:
        """The largest absolute entry of each column of the weighted design."""
        found = [np.max(np.abs(self._design(rows)), axis=0) for rows in blocks(self.n_rows)]
        assert self.X is not None
        return np.max(found, axis=0) if found else np.zeros(self.X.shape[1] + 1)

    def triangle(self, scale: FloatArray) -> list[Block[FloatArray]]:
        """R of the weighted design with these scales of its columns."""

        def scaled(rows: slice) -> FloatArray:
            return self._design(rows) / scale

        return self._blocks(lambda rows: leaf_triangle(scaled, rows, len(scale)), joined_triangle)

    def design_rows(self, numbers: NDArray[np.intp], scale: FloatArray) -> FloatArray:
        """Some rows of the weighted design with these scales of its columns."""
        return self._design(numbers) / scale

    def rough_gram(self) -> list[Block[FloatArray]]:
        """The Gram matrix of the whitened rows."""
        return self._summed(lambda rows: gram(self.Q[rows]))

    def _design(self, rows: slice | NDArray[np.intp]) -> FloatArray:
        """Some rows of M, weighted."""
        assert self.X is not None
        X = self.X[rows] if self.coordinates is None else self.coordinates.standardise(self.X[rows])
        return np.column_stack([X, np.ones(len(X))]) * np.sqrt(self.weight[rows])[:, None]

    # --- sums for the descent ---

    def white_targets(self, column: int) -> FloatArray:
        """Targets of a network in whitened coordinates, of shape (n_rows,), or (n_rows, n_outputs) if one has all."""
        if column not in self._white:
            own = slice(None) if self.shared else column
            y = self.Y[:, own] - self.intercepts[own]
            y = y if self.output_scale is None else y / self.output_scale
            root = np.sqrt(self.weight)
            self._white[column] = self.storage.keep((root if y.ndim == 1 else root[:, None]) * y)
        return self._white[column]

    def target_squares(self, column: int) -> list[Block[float]]:
        """Sum of the squared targets."""
        y = self.white_targets(column)
        return self._blocks(lambda rows: float(np.vdot(y[rows], y[rows])), float.__add__)

    def squares(self, column: int, V: FloatArray, alpha: FloatArray) -> list[Block[float]]:
        """Sum of the squared residuals of a network."""
        y = self.white_targets(column)
        return self._blocks(lambda rows: squared_error(self.Q[rows], y[rows], V, alpha), float.__add__)

    def output_triangle(self, column: int, V: FloatArray) -> list[Block[FloatArray]]:
        """R of the hidden layer with the targets beside it."""
        y = self.white_targets(column)
        return self._blocks(lambda rows: output_triangle(self.Q, V, y, rows), joined_triangle)

    def network_sums(
        self, column: int, unit: float, n_hidden: int, kind: str, question: FloatArray
    ) -> list[Block[FloatArray]]:
        """Sums over the rows that a search of the kernel asks for."""
        if self.n_rows == 0:
            return []
        kernel = self._kernel(("objective", column, unit, n_hidden), lambda: self._objective(column, unit, n_hidden))
        first, level, values = kernel.block_sums(kind, question, self.first_leaf)
        return [Block(*block) for block in zip(first, level, values, strict=True)]

    def _objective(self, column: int, unit: float, n_hidden: int) -> _native.Objective:
        y = self._scaled_targets(column, unit)
        return _native.Objective(self.padded, self.Q.shape[1], y, 1.0, n_hidden)

    def _scaled_targets(self, column: int, unit: float) -> FloatArray:
        """Those of `white_targets`, a column for each output, divided by a unit."""
        if (column, unit) not in self._scaled:
            self._scaled[column, unit] = self.storage.keep(by_output(self.white_targets(column) / unit))
        return self._scaled[column, unit]

    def rows(self, column: int, unit: float, numbers: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Some rows of the design, padded, and their targets."""
        return self.padded[numbers], by_output(self.white_targets(column)[numbers] / unit)

    def sweep_answer(
        self, column: int, n_hidden: int, sweep: int, turn: int, questions: FloatArray
    ) -> FloatArray | OutOfTurn:
        """What the leaves say to the questions of a round of a sweep; they remember what was asked before."""
        if self.n_rows == 0:
            return np.empty(0)
        state = self._kernel(("sweep", column, n_hidden), lambda: _SweepState(self._sweep_leaves(column, n_hidden)))
        if turn == 0:
            state.sweep, state.turn = sweep, 0
        if (state.sweep, state.turn) != (sweep, turn):
            return OutOfTurn()
        state.turn += 1
        answer: FloatArray = state.leaves.answer(questions)
        return answer

    def sweep_answers(
        self, column: int, n_hidden: int, sweep: int, asked: Sequence[FloatArray]
    ) -> FloatArray | OutOfTurn:
        """What the leaves say in the last of all rounds of a sweep, if they have not heard those before."""
        for turn, questions in enumerate(asked):
            answer = self.sweep_answer(column, n_hidden, sweep, turn, questions)
        return answer

    def _sweep_leaves(self, column: int, n_hidden: int) -> _native.SweepLeaves:
        y = by_output(self.white_targets(column))
        return _native.SweepLeaves(self.padded, self.Q.shape[1], y, n_hidden, self.first_leaf, self.first_row)

    def all_rows(self, column: int) -> tuple[FloatArray, FloatArray]:
        """All rows of the design, and their targets."""
        return np.ascontiguousarray(self.Q), self.white_targets(column)

    def held_rows(self, column: int, V: FloatArray, alpha: FloatArray, band: FloatArray) -> list[list[FloatArray]]:
        """For every leaf and neuron the rows that the neuron holds at its kink."""
        y = self.white_targets(column)
        return [held_rows(self.Q[rows], y[rows], V, alpha, band) for rows in leaves(self.n_rows)]

    def derivatives(self, column: int, shape: PieceShape) -> list[Block[FloatArray]]:
        """First and second derivatives of F for all weights."""
        y = self.white_targets(column)
        return self._summed(lambda rows: shape.derivatives(self.Q[rows], y[rows]))

    # --- certificates ---

    def largest_preactivations(self, V: FloatArray) -> FloatArray:
        """The largest preactivation of every neuron."""
        found = [largest_preactivations(self.Q[rows], V) for rows in leaves(self.n_rows)]
        return np.max(found, axis=0) if found else np.zeros(len(V))

    def net_kinks(self, column: int, V: FloatArray, alpha: FloatArray, band: FloatArray) -> list[NetKinks]:
        """What the rows tell about the kinks of every neuron."""
        y = by_output(self.white_targets(column))
        return [NetKinks.of(self.Q[rows], y[rows], V, alpha, band) for rows in leaves(self.n_rows)]

    def spoilt(self, network: Network, V: FloatArray, alpha: FloatArray) -> tuple[float, int]:
        """Squared differences of a network in the units of the data from what it was trained to, on some rows."""
        own = network.predict(self.probes) - network.intercept
        own = own if self.output_scale is None else own / self.output_scale
        n_probes = len(self.probes)
        root = np.sqrt(self.weight[:n_probes])
        Q = self.Q[:n_probes] / root[:, None]
        trained = np.maximum(Q @ V.T, 0.0) @ alpha
        return float(np.sum((own - trained) ** 2)), n_probes

    # --- validation ---

    def validation_squares(self, column: int | None, network: Network, scale: FloatArray | None) -> list[Block[float]]:
        """Weighted sum of the squared errors of a network in the units of the data; of all columns, or of one."""
        assert self.X is not None
        X, own = self.X, slice(None) if column is None else column

        def squares(rows: slice) -> float:
            error = self.Y[rows, own] - network.predict(X[rows])
            error = error if scale is None else error / scale
            of_rows = error**2 if error.ndim == 1 else np.sum(error**2, axis=1)
            return float(self.weight[rows] @ of_rows)

        with np.errstate(over="ignore"):
            return self._blocks(squares, float.__add__)

    # --- blocks of leaves ---

    def _blocks(self, of_leaf: Callable[[slice], Any], merge: Callable[[Any, Any], Any]) -> list[Block[Any]]:
        parts: Iterable[Any] = (of_leaf(rows) for rows in leaves(self.n_rows))
        return tree_of(parts, merge, self.first_leaf).blocks

    def _summed(self, of_leaf: Callable[[slice], FloatArray]) -> list[Block[FloatArray]]:
        return self._blocks(of_leaf, np.add)

    def _kernel(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._kernels:
            self._kernels[key] = make()
        return self._kernels[key]
