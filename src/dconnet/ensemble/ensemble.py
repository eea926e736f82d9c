"""Ensembles that predict: the members that earned a weight, and how they were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.design import CodedDesign
from dconnet.encoding.schema import FieldTable
from dconnet.ensemble.families import Family
from dconnet.ensemble.family_fits import FamilyFit
from dconnet.ensemble.fold_fits import Training
from dconnet.ensemble.readings import Logarithm, LogOdds, Reading, Score, Value
from dconnet.ensemble.run import Run
from dconnet.ensemble.stacking import SoftmaxStack, convex_weights
from dconnet.model.rows import ROWS, blocks

# Members with less of the weights than this after the first fold are not trained on the others, if it has enough rows.
MIN_SHARE, MIN_ROWS = 0.02, 100
# Members with less of the weights than this predict nothing in the end.
KEPT_SHARE = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Members of several families, weighed.

    Attributes
    ----------
    fits : tuple of FamilyFit
        The families, each with the members that have a weight.
    weights : array of shape (n_members,)
        Of all members, in the order of the families.
    intercepts : array of shape (n_columns,) or None
        Of the columns, in a classification.
    """

    fits: tuple[FamilyFit, ...]
    weights: FloatArray
    intercepts: FloatArray | None = None

    def outputs(self, table: FieldTable) -> FloatArray:
        """The weighted members, of shape (n_rows, n_columns)."""
        # Block by block, as what all members say would take many times the memory of the table.
        return np.concatenate([self._outputs(table.rows(rows)) for rows in blocks(len(table), 8 * ROWS)])

    def _outputs(self, table: FieldTable) -> FloatArray:
        return self._weighed(np.concatenate([fit.says(table) for fit in self.fits]))

    def outputs_of(self, designs: Sequence[CodedDesign]) -> FloatArray:
        """The same for rows that are coded already, for each family, if there is but one fold."""
        pairs = zip(self.fits, designs, strict=True)
        said = np.concatenate([fit.finish(fit.read(fit.folds[0].outputs(design))) for fit, design in pairs])
        return self._weighed(said)

    def of_fold(self, fold: int) -> Ensemble:
        """The same members, with the networks of one fold alone."""
        return replace(self, fits=tuple(replace(fit, folds=(fit.folds[fold],)) for fit in self.fits))

    def _weighed(self, said: FloatArray) -> FloatArray:
        total = np.zeros(said.shape[1:])
        for weight, own in zip(self.weights, said, strict=True):  # the same for a row, whatever rows are beside it
            total += weight * own
        return total if self.intercepts is None else total + self.intercepts


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member, used or not, and how well it did out of fold."""

    family: str
    kind: str
    gamma: float
    n_hidden: int
    evaluations: int
    oof_error: float
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class TrainedEnsemble:
    """An ensemble, and what was seen on the way.

    Attributes
    ----------
    ensemble : Ensemble
    training : Training
        With the folds that the ensemble was trained on; only the first, if there was no time for all.
    oof_outputs : array of shape (n_rows, n_columns)
        What the ensemble says in the rows of the folds, one fold after the other, by networks that do not know them.
    members : tuple of MemberRecord
        All members that were trained on all folds.
    interrupted : bool
    """

    ensemble: Ensemble
    training: Training
    oof_outputs: FloatArray
    members: tuple[MemberRecord, ...]
    interrupted: bool


def train_ensemble(run: Run, *, drop: bool = True) -> TrainedEnsemble:
    """Train all families, and weigh their members; drop those that have no weight after the first fold, or none.

    Raises
    ------
    KeyboardInterrupt
        If there was an interrupt before anything was trained.
    """
    every: dict[int, Sequence[int]] = {f: range(len(family.gammas)) for f, family in enumerate(run.families)}
    run.train(0, every)
    begun = {f: every[f] for f in every if (f, 0) in run.trained}
    run.train_rest(_promising(run, begun) if drop else begun)
    if not run.complete():
        run = run.of_first_fold()
    complete = run.complete()
    if not complete:
        raise KeyboardInterrupt("Interrupted before the first members were trained.")
    training, rows = run.training, run.training.held_out
    pairs = [_said(run, f) for f in complete]
    fits, said = [fit for fit, _ in pairs], np.concatenate([said for _, said in pairs])
    weights, _ = _weigh(training, said, rows)
    kept = weights > KEPT_SHARE * weights.sum()
    kept[weights.argmax()] = True  # all weights are zero if no member knows more than the shares of the classes
    final = np.zeros(len(weights))
    final[kept], intercepts = _weigh(training, said[kept], rows)
    ensemble = Ensemble(tuple(_kept(fits, kept)), final[kept], intercepts)
    records = tuple(_records(training, fits, said, final))
    return TrainedEnsemble(ensemble, training, ensemble._weighed(said[kept]), records, run.interrupted)


def _promising(run: Run, begun: dict[int, Sequence[int]]) -> dict[int, Sequence[int]]:
    """The gammas of each family that have a weight in the first fold; their networks of this fold alone are kept."""
    rows = run.training.folds[0]
    if len(rows) < MIN_ROWS or len(begun) == 0:
        return begun
    pairs = {f: _said_in_first(run, f) for f in begun}
    weights, _ = _weigh(run.training, np.concatenate(list(pairs.values())), rows)
    shares, first = weights / (weights.sum() or 1.0), 0
    chosen: dict[int, Sequence[int]] = {}
    for f, said in pairs.items():
        own = shares[first : first + len(said)]
        first += len(said)
        gammas = [g for g in begun[f] if own[g :: len(begun[f])].sum() > MIN_SHARE]
        if gammas:
            chosen[f] = gammas
            fit, outputs = run.trained[f, 0]
            members = [j for j in range(len(said)) if j % len(begun[f]) in gammas]
            run.trained[f, 0] = fit.some(members), outputs[:, members]
    return chosen or begun


def _said_in_first(run: Run, f: int) -> FloatArray:
    fit, outputs = run.trained[f, 0]
    family = FamilyFit(run.families[f], (), _readings(run.training, run.families[f], outputs.shape[1]), (fit,))
    return family.finish(family.read(outputs))


def _said(run: Run, f: int) -> tuple[FamilyFit, FloatArray]:
    """A family on all folds, and what its members say out of fold."""
    training, family = run.training, run.families[f]
    folds = [run.trained[f, fold] for fold in range(len(training.folds))]
    n_members = folds[0][1].shape[1]
    outputs = np.concatenate([own for _, own in folds])
    gammas = _gammas(run, f, n_members)
    fit = FamilyFit(family, gammas, _readings(training, family, n_members), tuple(fold for fold, _ in folds))
    said = fit.finish(fit.read(outputs))
    if training.classes is None:
        rows = training.held_out
        fit = fit.corrected(said, training.columns[rows, 0], training.weight[rows])
        said = fit.finish(fit.read(outputs))
    return fit, said


def _gammas(run: Run, f: int, n_members: int) -> tuple[float, ...]:
    own = run.chosen[f]
    gammas = tuple(run.families[f].gammas[g] for g in own)
    return gammas * (n_members // len(gammas))


def _readings(training: Training, family: Family, n_members: int) -> tuple[Reading, ...]:
    if training.classes is not None:
        return (Score(),) * (n_members // 2) + (LogOdds(),) * (n_members // 2)
    low, high = float(training.columns.min()), float(training.columns.max())
    return (Logarithm(low, high) if family.log_target else Value(low, high),) * n_members


def _weigh(training: Training, said: FloatArray, rows: NDArray[np.intp]) -> tuple[FloatArray, FloatArray | None]:
    """Weights of members by what they say in some rows, out of fold."""
    weight = training.weight[rows]
    if training.classes is None:
        return convex_weights(said[:, :, 0].T, training.columns[rows, 0], weight), None
    stack = SoftmaxStack.of(said, training.classes[rows], weight)
    return stack.weights, stack.intercepts


def _kept(fits: list[FamilyFit], kept: NDArray[np.bool_]) -> list[FamilyFit]:
    """The families with the members that are kept, without those that have none."""
    chosen, first = [], 0
    for fit in fits:
        own = np.flatnonzero(kept[first : first + len(fit.gammas)])
        first += len(fit.gammas)
        if len(own):
            chosen.append(fit.some(own.tolist()))
    return chosen


def _records(training: Training, fits: list[FamilyFit], said: FloatArray, weights: FloatArray) -> list[MemberRecord]:
    pairs = [(fit, j) for fit in fits for j in range(len(fit.gammas))]
    return [
        MemberRecord(
            fit.family.name,
            type(fit.readings[j]).__name__.lower(),
            fit.gammas[j],
            fit.family.n_hidden,
            fit.family.evaluations,
            training.error(own, training.held_out),
            float(weight),
        )
        for (fit, j), own, weight in zip(pairs, said, weights, strict=True)
    ]
