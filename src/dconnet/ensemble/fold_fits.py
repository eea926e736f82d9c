"""Fits of a family on the rows outside a fold, and their outputs in the rows of the fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._threads import check_stop
from dconnet.encoding.coder import Coder, Coding
from dconnet.encoding.design import CodedDesign, Standardisation
from dconnet.encoding.schema import Field, FieldTable
from dconnet.ensemble.families import AnyFamily, ConstantFamily, Family, TreeFamily
from dconnet.ensemble.logistic import fit_ridge_logistic
from dconnet.ensemble.screening import Screening, compute_p_values
from dconnet.ensemble.stacking import one_hot
from dconnet.ensemble.trees import Trees, boost
from dconnet.model.targets import log_loss
from dconnet.training.clock import NONE_LEFT
from dconnet.training.short_fits import ShortFits, short_fits

# Ridge penalty of the logistic regressions on hidden activations.
LOGISTIC_PENALTY = 3.0
# Activations that are computed at once for these regressions, unless a single network has more.
MAX_ACTIVATIONS = 2_000_000
# If a fold has a larger share of the weight, its Gram matrix minus that of all rows would be rounding errors only.
MAX_FOLD_SHARE = 0.99
# Evaluations of the loss after which a network is useful, and their work: rows times features times neurons times
# evaluations of all networks, about 0.1 seconds.
MIN_EVALUATIONS, MIN_WORK = 20, 1e9


@dataclass(frozen=True, slots=True, eq=False)
class FoldFit:
    """Networks that were trained on the rows outside a fold, in the units of the target.

    Attributes
    ----------
    coder : Coder
        From fields to the columns of the design.
    U : array of shape (n_members, n_columns, n_design_columns + 1, n_hidden)
        Hidden weights, for each member and each column of the target.
    alpha : array of shape (n_members, n_columns, n_hidden)
        Output weights.
    intercept : array of shape (n_members, n_columns)
        Added to the outputs.
    """

    coder: Coder
    U: FloatArray
    alpha: FloatArray
    intercept: FloatArray

    @classmethod
    def constant(cls, values: FloatArray) -> FoldFit:
        """Return a network without features whose outputs are the same for all rows, of shape (n_columns,)."""
        n_columns = len(values)
        return cls(
            Coder(Coding(), (), (), ()), np.zeros((1, n_columns, 1, 1)), np.zeros((1, n_columns, 1)), values[None]
        )

    def code(self, table: FieldTable) -> CodedDesign:
        """Return rows as `outputs` takes them."""
        return self.coder.code(table)

    def sources(self, fields: Sequence[Field]) -> NDArray[np.intp]:
        """Return the column of the table that each coded feature came from."""
        return self.coder.sources(fields)

    def outputs(self, design: CodedDesign) -> FloatArray:
        """Return outputs of shape (n_rows, n_members, n_columns)."""
        flat = design.predict(self.U.reshape(-1, *self.U.shape[2:]), self.alpha.reshape(-1, self.alpha.shape[2]))
        return flat.reshape(len(design), *self.intercept.shape) + self.intercept

    def select(self, members: Sequence[int]) -> FoldFit:
        """Return the fit with some of its members."""
        own = list(members)
        return replace(self, U=self.U[own], alpha=self.alpha[own], intercept=self.intercept[own])


@dataclass(frozen=True, slots=True, eq=False)
class TreeFit:
    """Boosted trees that were trained on the rows outside a fold: the only member of their family.

    Attributes
    ----------
    coder : Coder
        From fields to columns of numbers, with target means for categories of many levels.
    trees : Trees
    """

    coder: Coder
    trees: Trees

    def code(self, table: FieldTable) -> FloatArray:
        """Return rows as `outputs` takes them, of shape (n_rows, n_features)."""
        return np.column_stack(self.coder.values(table))

    def sources(self, fields: Sequence[Field]) -> NDArray[np.intp]:
        """Return the column of the table that each feature came from."""
        return np.array([fields[j].column for j in self.coder.fields_of_features()], dtype=np.intp)

    def outputs(self, values: FloatArray) -> FloatArray:
        """Return outputs of shape (n_rows, 1, n_columns)."""
        return self.trees.outputs(values)[:, None]

    def select(self, members: Sequence[int]) -> TreeFit:
        """Return the fit with its only member."""
        assert list(members) == [0]
        return self


@dataclass(frozen=True, slots=True, eq=False)
class TrainingSet:
    """The rows on which the families are trained, and their folds.

    Attributes
    ----------
    table : FieldTable
        Fields of all rows.
    columns : array of shape (n_rows, n_columns)
        Targets of the networks: the target, or an indicator of each class.
    weight : array of shape (n_rows,)
    folds : tuple of arrays of int
        Rows of each fold that is held out in turn; other rows are always trained on. A row may be in several folds.
    classes : array of int, of shape (n_rows,), or None
        Class of each row.
    seed : int
    """

    table: FieldTable
    columns: FloatArray
    weight: FloatArray
    folds: tuple[NDArray[np.intp], ...]
    classes: NDArray[np.intp] | None
    seed: int
    _shared: dict[Coding, SharedDesign] = field(default_factory=dict)
    _p_values: dict[int, FloatArray] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type[TrainingSet], tuple[object, ...]]:
        # Coding the rows again takes less time than sending coded rows.
        return TrainingSet, (self.table, self.columns, self.weight, self.folds, self.classes, self.seed)

    @property
    def held_out(self) -> NDArray[np.intp]:
        """The rows of all folds, ascending."""
        return np.unique(np.concatenate(self.folds))

    def average_rows(self, predictions: FloatArray) -> FloatArray:
        """Return the mean of the predictions of each row of `held_out`.

        The predictions have shape (n_members, n, n_columns), one fold after the other.
        """
        rows = np.concatenate(self.folds)
        order = np.argsort(rows, kind="stable")
        _, first, counts = np.unique(rows[order], return_index=True, return_counts=True)
        return np.add.reduceat(predictions[:, order], first, axis=1) / counts[:, None]

    def outside(self, fold: int) -> NDArray[np.intp]:
        """Return the rows outside a fold."""
        inside = np.zeros(len(self.table), dtype=np.bool_)
        inside[self.folds[fold]] = True
        return np.flatnonzero(~inside)

    def error(self, predictions: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return the mean squared error, or log loss, of predictions of shape (n, n_columns) for some rows."""
        share = self.weight[rows] / self.weight[rows].sum()
        if self.classes is None:
            return float(share @ (predictions[:, 0] - self.columns[rows, 0]) ** 2)
        return log_loss(predictions, one_hot(self.classes[rows], predictions.shape[1]), share)[0]

    def count_associated(self) -> int:
        """Return the number of fields that are associated with the target."""
        strict = Screening(len(self.table.fields), is_strict=True)
        return len(strict.choose(compute_p_values(self.table, self.columns)))

    def fit_coder(
        self, coding: Coding, fold: int, seed: int, screening: Screening | None
    ) -> tuple[Coder, list[FloatArray]]:
        """Fit a coder to the rows outside a fold; return it, and the values of its features in these rows."""
        rows, table = self.outside(fold), self.table
        fields = list(range(len(table.fields)))
        if screening is not None:
            with self._lock:
                if fold not in self._p_values:
                    self._p_values[fold] = compute_p_values(table.rows(rows), self.columns[rows])
            fields = screening.choose(self._p_values[fold]).tolist()
            table = FieldTable(
                tuple(table.fields[j] for j in fields), tuple(table.values[j] for j in fields), table.n_rows
            )
        classes = None if self.classes is None else self.classes[rows]
        coder, values = Coder.of(coding, table).cross_fit(
            table.rows(rows), self.columns[rows], self.weight[rows], classes, seed
        )
        means = tuple(replace(own, field=fields[own.field]) for own in coder.means)
        return replace(coder, plain=tuple(fields[j] for j in coder.plain), means=means), values

    def shared_design(self, coding: Coding) -> SharedDesign:
        """Return all rows coded without the target; computed once for all families and folds."""
        with self._lock:
            if coding not in self._shared:
                coder = Coder.of(coding, self.table)
                design = coder.code(self.table)
                self._shared[coding] = SharedDesign(coder, design, design.gram(self.weight))
            return self._shared[coding]


@dataclass(frozen=True, slots=True, eq=False)
class SharedDesign:
    """All rows, coded without the target, and their Gram matrix."""

    coder: Coder
    design: CodedDesign
    gram: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class FoldDesign:
    """Coded rows outside and inside a fold, and the Gram matrix of the rows outside."""

    coder: Coder
    outside: CodedDesign
    inside: CodedDesign
    gram: FloatArray

    @classmethod
    def of(
        cls, coding: Coding, data: TrainingSet, fold: int, seed: int, screening: Screening | None = None
    ) -> FoldDesign:
        """Code the rows; target means and screened fields come from the rows outside alone."""
        held, rows, weight = data.folds[fold], data.outside(fold), data.weight
        if screening is None and not any(coding.is_by_target(f) for f in data.table.fields):
            shared = data.shared_design(coding)
            outside, inside = shared.design.rows(rows), shared.design.rows(held)
            cancels = weight[held].sum() > MAX_FOLD_SHARE * weight.sum()
            gram = outside.gram(weight[rows]) if cancels else shared.gram - inside.gram(weight[held])
            return cls(shared.coder, outside, inside, gram)
        coder, values = data.fit_coder(coding, fold, seed, screening)
        outside = CodedDesign.of(coder.features, values)
        return cls(coder, outside, coder.code(data.table.rows(held)), outside.gram(weight[rows]))


AnyFit = FoldFit | TreeFit
# A family that was trained on the rows outside a fold, and its outputs (n_rows, n_members, n_columns) inside.
TrainedFold = tuple[AnyFit, FloatArray]


def fit_fold(
    family: AnyFamily,
    index: int,
    data: TrainingSet,
    fold: int,
    chosen: Sequence[int],
    seconds: Callable[[], float] | None = None,
    is_needed: bool = False,
) -> TrainedFold | None:
    """Train a family on the rows outside a fold.

    Parameters
    ----------
    family : Family, TreeFamily or ConstantFamily
    index : int
        Number of the family, which its random starts depend on.
    data : TrainingSet
    fold : int
    chosen : sequence of int
        Indices of the settings of the family to use.
    seconds : callable, optional
        Called before each network or chunk of trees; returns its time limit.
    is_needed : bool, default=False
        Return networks even if the time is over. Those that had not begun are then trained for `MIN_EVALUATIONS`, on
        a part of the rows if the work for all of them exceeds `MIN_WORK`.

    Returns
    -------
    fit : FoldFit or TreeFit
        A member for each setting. Networks of a classification have a second one, a logistic regression on their
        activations, unless the time is over.
    outputs : array of shape (n_rows, n_members, n_columns)
        Outputs in the rows of the fold.

    Returns None if the time is over and the networks are not needed.
    """
    check_stop()
    seeds = np.random.SeedSequence([data.seed, index, fold])
    if isinstance(family, ConstantFamily):
        rows = data.outside(fold)
        constant = FoldFit.constant(np.average(data.columns[rows], axis=0, weights=data.weight[rows]))
        return constant, constant.outputs(constant.code(data.table.rows(data.folds[fold])))
    if isinstance(family, TreeFamily):
        return _fit_trees(family, data, fold, int(seeds.generate_state(1)[0]), seconds)
    return _fit_networks(family, data, fold, chosen, seeds, seconds, is_needed)


def _fit_trees(
    family: TreeFamily, data: TrainingSet, fold: int, seed: int, seconds: Callable[[], float] | None
) -> TrainedFold | None:
    rows, classes = data.outside(fold), data.classes
    coder, values = data.fit_coder(Coding(by_target=True), fold, seed, family.screening)
    y, weight = data.columns[rows, 0], data.weight[rows]
    center, scale = np.zeros(1), 1.0
    if classes is None:
        center, scale = np.average(y, weights=weight, keepdims=True), float(np.ptp(y)) or 1.0
    trees = boost(
        np.column_stack(values),
        (y - center) / scale if classes is None else classes[rows],
        weight,
        n_classes=0 if classes is None else max(2, data.columns.shape[1]),
        n_leaves=family.n_leaves,
        n_rounds=family.n_rounds,
        seconds=seconds,
    )
    if trees is None:
        return None
    fit = TreeFit(coder, trees.rescale(scale, center))
    return fit, fit.outputs(fit.code(data.table.rows(data.folds[fold])))


def _fit_networks(
    family: Family,
    data: TrainingSet,
    fold: int,
    chosen: Sequence[int],
    seeds: np.random.SeedSequence,
    seconds: Callable[[], float] | None,
    is_needed: bool,
) -> TrainedFold | None:
    """Train networks, as `fit_fold`."""

    def is_over() -> bool:
        return seconds is not None and seconds() <= NONE_LEFT

    rows = data.outside(fold)
    design = FoldDesign.of(family.coding, data, fold, int(seeds.generate_state(1)[0]), family.screening)
    Y = np.log(data.columns[rows]) if family.log_target else data.columns[rows]
    weight, shape = data.weight[rows], (len(chosen), Y.shape[1])
    center, scale = np.average(Y, axis=0, weights=weight), np.ptp(Y) or 1.0
    states = seeds.generate_state(1 + len(family.gammas) * shape[1])[1:].reshape(-1, shape[1])
    gammas, starts = np.array(family.gammas)[list(chosen)].repeat(shape[1]), states[list(chosen)].ravel()
    from_white = Standardisation.of(design.gram, design.coder.gentle).from_white(design.gram, family.shrinkage)

    def train(first: int, some: slice, evaluations: int, limit: Callable[[], float] | None) -> ShortFits:
        """Train the networks from the first one on, on some of the rows."""
        return short_fits(
            design.outside.rows(some),
            from_white,
            (Y[some] - center).T / scale,
            gammas=gammas[first:],
            seeds=starts[first:],
            which=np.tile(np.arange(shape[1]), shape[0])[first:],
            n_hidden=family.n_hidden,
            evaluations=evaluations,
            sample_weight=weight[some] * (weight.sum() / weight[some].sum()),
            seconds=limit,
        )

    U, alpha = train(0, slice(None), family.evaluations, seconds)
    if is_over() and not is_needed:
        return None
    if len(U) < len(gammas):  # the others had not begun
        evaluations = min(MIN_EVALUATIONS, family.evaluations)
        work = design.outside.places.size * family.n_hidden * evaluations * (len(gammas) - len(U))
        rest = train(len(U), slice(None, None, max(1, int(np.ceil(work / MIN_WORK)))), evaluations, None)
        U, alpha = np.concatenate([U, rest.U]), np.concatenate([alpha, rest.alpha])
    fit = FoldFit(
        design.coder,
        U.reshape(*shape, *U.shape[1:]),
        scale * alpha.reshape(*shape, -1),
        np.broadcast_to(center, shape).copy(),
    )
    if data.classes is not None:
        with_logistic = _append_logistic(fit, design.outside, Y, weight, is_over)
        if with_logistic is None and not is_needed:
            return None
        fit = with_logistic or fit
    return fit, fit.outputs(design.inside)


def _append_logistic(
    fit: FoldFit, design: CodedDesign, hot: FloatArray, weight: FloatArray, is_over: Callable[[], bool]
) -> FoldFit | None:
    """Append a logistic regression on the activations of each network, as networks with other output weights.

    Return None as soon as ``is_over`` returns True.
    """
    alpha, intercept = np.empty_like(fit.alpha), np.empty_like(fit.intercept)
    at_once = max(1, MAX_ACTIVATIONS // (len(design) * fit.alpha.shape[2]))
    activations = fit.U[:0, 0]
    for member, k in np.ndindex(fit.intercept.shape):
        check_stop()
        if is_over():
            return None
        if k % at_once == 0:
            activations = design.hidden(fit.U[member, k : k + at_once])
        H = activations[k % at_once]
        mean, scale = H.mean(axis=1), H.std(axis=1)
        scale[scale <= 1e-9 * np.abs(mean)] = 1.0  # neurons that vary only by rounding
        H -= mean[:, None]  # in place, because activations are the largest array of the fit
        H /= scale[:, None]
        theta = fit_ridge_logistic(H, hot[:, k], weight, LOGISTIC_PENALTY, is_over)
        alpha[member, k] = theta[:-1] / scale
        intercept[member, k] = theta[-1] - alpha[member, k] @ mean
    if is_over():  # before the last regression has converged
        return None
    return FoldFit(
        fit.coder,
        np.concatenate([fit.U, fit.U]),
        np.concatenate([fit.alpha, alpha]),
        np.concatenate([fit.intercept, intercept]),
    )
