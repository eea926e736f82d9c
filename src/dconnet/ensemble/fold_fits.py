"""The networks of a family: trained on the rows outside a fold, and read on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import Coder, Coding
from dconnet.encoding.design import CodedDesign, Standardisation
from dconnet.encoding.schema import FieldTable
from dconnet.ensemble.families import Family
from dconnet.ensemble.logistic import ridge_logistic
from dconnet.ensemble.stacking import one_hot
from dconnet.model.calibration import log_loss
from dconnet.training.clock import NONE_LEFT
from dconnet.training.short_fits import short_fits

# Penalty of the logistic regressions on activations.
LOGISTIC_PENALTY = 3.0
# A fold with more of the weight than this leaves only rounding errors when its Gram matrix is taken from that of all.
HEAVY_FOLD = 0.99


# Evaluations of the loss after which a network is of some use.
FEWEST = 20


@dataclass(frozen=True, slots=True, eq=False)
class FoldFit:
    """Networks that were trained on the rows outside a fold, in the units of the target.

    Attributes
    ----------
    coder : Coder
        From fields to the columns that the networks see.
    U : array of shape (n_members, n_columns, columns + 1, n_hidden)
        Hidden weights, for each member and each column of the target.
    alpha : array of shape (n_members, n_columns, n_hidden)
        Output weights.
    intercept : array of shape (n_members, n_columns)
        What is added to the outputs.
    """

    coder: Coder
    U: FloatArray
    alpha: FloatArray
    intercept: FloatArray

    def outputs(self, design: CodedDesign) -> FloatArray:
        """Outputs of shape (n_rows, n_members, n_columns)."""
        flat = design.predict(self.U.reshape(-1, *self.U.shape[2:]), self.alpha.reshape(-1, self.alpha.shape[2]))
        return flat.reshape(len(design), *self.intercept.shape) + self.intercept

    def some(self, members: Sequence[int]) -> FoldFit:
        """Some of the members."""
        chosen = list(members)
        return replace(self, U=self.U[chosen], alpha=self.alpha[chosen], intercept=self.intercept[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What the families are trained on.

    Attributes
    ----------
    table : FieldTable
        The fields of all rows.
    columns : array of shape (n_rows, n_columns)
        What the networks learn: the target, or one in the rows of a class.
    weight : array of shape (n_rows,)
    folds : tuple of arrays of int
        The rows of each fold that is held out in turn; other rows are always trained on.
    classes : array of int, of shape (n_rows,), or None
        The class of each row.
    seed : int
    """

    table: FieldTable
    columns: FloatArray
    weight: FloatArray
    folds: tuple[NDArray[np.intp], ...]
    classes: NDArray[np.intp] | None
    seed: int
    _shared: dict[Coding, SharedDesign] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __reduce__(self) -> tuple[type[Training], tuple[object, ...]]:
        # A copy codes the rows itself: that takes less than to send them.
        return Training, (self.table, self.columns, self.weight, self.folds, self.classes, self.seed)

    @property
    def held_out(self) -> NDArray[np.intp]:
        """The rows of all folds, one fold after the other."""
        return np.concatenate(self.folds)

    def outside(self, fold: int) -> NDArray[np.intp]:
        """The rows outside a fold."""
        inside = np.zeros(len(self.table), dtype=np.bool_)
        inside[self.folds[fold]] = True
        return np.flatnonzero(~inside)

    def error(self, said: FloatArray, rows: NDArray[np.intp]) -> float:
        """Mean squared error, or log loss, of what is said in some rows, of shape (n, n_columns)."""
        share = self.weight[rows] / self.weight[rows].sum()
        if self.classes is None:
            return float(share @ (said[:, 0] - self.columns[rows, 0]) ** 2)
        return log_loss(said, one_hot(self.classes[rows], said.shape[1]), share)[0]

    def shared(self, coding: Coding) -> SharedDesign:
        """All rows coded without the target, once for all families and folds."""
        with self._lock:
            if coding not in self._shared:
                self._shared[coding] = SharedDesign.of(coding, self.table, self.weight)
            return self._shared[coding]


@dataclass(frozen=True, slots=True, eq=False)
class SharedDesign:
    """All rows, coded without the target, and their Gram matrix."""

    coder: Coder
    design: CodedDesign
    gram: FloatArray

    @classmethod
    def of(cls, coding: Coding, table: FieldTable, weight: FloatArray) -> SharedDesign:
        """Code all rows."""
        coder = Coder.of(coding, table)
        design = coder.code(table)
        return cls(coder, design, design.gram(weight))


@dataclass(frozen=True, slots=True, eq=False)
class FoldData:
    """Coded rows outside and inside a fold."""

    coder: Coder
    outside: CodedDesign
    inside: CodedDesign
    gram: FloatArray  # of the rows outside

    @classmethod
    def of(cls, coding: Coding, training: Training, fold: int, seed: int) -> FoldData:
        """Code the rows; means of the target come from the rows outside alone."""
        held, rows, weight = training.folds[fold], training.outside(fold), training.weight
        if not any(coding.is_by_target(f) for f in training.table.fields):
            shared = training.shared(coding)
            outside, inside = shared.design.rows(rows), shared.design.rows(held)
            cancels = weight[held].sum() > HEAVY_FOLD * weight.sum()
            gram = outside.gram(weight[rows]) if cancels else shared.gram - inside.gram(weight[held])
            return cls(shared.coder, outside, inside, gram)
        classes = None if training.classes is None else training.classes[rows]
        coder, outside = Coder.of(coding, training.table).with_target(
            training.table.rows(rows), training.columns[rows], weight[rows], classes, seed
        )
        return cls(coder, outside, coder.code(training.table.rows(held)), outside.gram(weight[rows]))


def fit_fold(
    family: Family,
    index: int,
    training: Training,
    fold: int,
    gammas: Sequence[int],
    seconds: Callable[[], float] | None = None,
    is_needed: bool = False,
) -> tuple[FoldFit, FloatArray] | None:
    """Train a family on the rows outside a fold.

    Parameters
    ----------
    family : Family
    index : int
        The number of the family, of which its random starts depend.
    training : Training
    fold : int
    gammas : sequence of int
        Which gammas of the family.
    seconds : callable, optional
        Asked before each network for how long it may be trained at most.
    is_needed : bool, default=False
        Whether networks without time are trained all the same, for `FEWEST` evaluations.

    Returns
    -------
    fit : FoldFit
        A member for each gamma; in a classification then a logistic regression on the activations of each.
    outputs : array of shape (n_rows, n_members, n_columns)
        Their outputs in the rows of the fold.

    None in the place of both if the time was over and the networks are not needed.
    """
    seeds = np.random.SeedSequence([training.seed, index, fold])
    rows = training.outside(fold)
    data = FoldData.of(family.coding, training, fold, seed=int(seeds.generate_state(1)[0]))
    Y = np.log(training.columns[rows]) if family.log_target else training.columns[rows]
    weight = training.weight[rows]
    center, scale = np.average(Y, axis=0, weights=weight), np.ptp(Y) or 1.0
    n_columns = Y.shape[1]
    from_white = Standardisation.of(data.gram, data.coder.gentle).from_white(data.gram, family.shrinkage)
    states = seeds.generate_state(1 + len(family.gammas) * n_columns)[1:].reshape(-1, n_columns)
    train = partial(
        short_fits,
        data.outside,
        from_white,
        (Y - center).T / scale,
        gammas=np.repeat(np.array(family.gammas)[list(gammas)], n_columns),
        which=np.tile(np.arange(n_columns), len(gammas)),
        n_hidden=family.n_hidden,
        sample_weight=weight,
    )
    fits = train(seeds=states[list(gammas)].ravel(), evaluations=family.evaluations, seconds=seconds)
    if seconds is not None and seconds() <= NONE_LEFT:
        if not is_needed:
            return None
        fits = train(start=(fits.V, fits.alpha), evaluations=min(FEWEST, family.evaluations))
    U, alpha = fits
    shape = (len(gammas), n_columns)
    fit = FoldFit(
        data.coder,
        U.reshape(*shape, *U.shape[1:]),
        scale * alpha.reshape(*shape, -1),
        np.broadcast_to(center, shape).copy(),
    )
    if training.classes is not None:
        fit = _with_logistic(fit, data.outside, Y, weight)
    return fit, fit.outputs(data.inside)


def _with_logistic(fit: FoldFit, design: CodedDesign, hot: FloatArray, weight: FloatArray) -> FoldFit:
    """Add a logistic regression on the activations of each network, as networks with other output weights."""
    alpha, intercept = np.empty_like(fit.alpha), np.empty_like(fit.intercept)
    for member, k in np.ndindex(fit.intercept.shape):
        H = design.hidden(fit.U[member, k])
        mean, scale = H.mean(axis=0), H.std(axis=0)
        scale[scale <= 1e-9 * np.abs(mean)] = 1.0  # neurons that do not vary but by rounding
        H -= mean  # in place, as H is the largest array of the fit
        H /= scale
        theta = ridge_logistic(H, hot[:, k], weight, LOGISTIC_PENALTY)
        alpha[member, k] = theta[:-1] / scale
        intercept[member, k] = theta[-1] - alpha[member, k] @ mean
    return FoldFit(
        fit.coder,
        np.concatenate([fit.U, fit.U]),
        np.concatenate([fit.alpha, alpha]),
        np.concatenate([fit.intercept, intercept]),
    )
