"""Training of an ensemble: all families on all folds, and weights of least out-of-fold error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.ensemble.families import AnyFamily, TreeFamily
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.fold_runner import FoldRunner
from dconnet.ensemble.output_transforms import ClassScore, LogOdds, LogTarget, OutputTransform, TargetValue
from dconnet.ensemble.prediction import Ensemble, FamilyFit
from dconnet.ensemble.stacking import SoftmaxStack, fit_convex_weights

# Members with a smaller share of the weights after the first fold are not trained on the others, if the first fold has
# at least MIN_ROWS rows.
MIN_SHARE, MIN_ROWS = 0.02, 100
# Members with a smaller share of the final weights are left out of the ensemble.
MIN_FINAL_SHARE = 0.005


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member, used or not, with its out-of-fold error: mean squared error, or log loss."""

    family: str
    kind: str
    settings: str
    oof_error: float
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class TrainedEnsemble:
    """An ensemble and the record of its training.

    Attributes
    ----------
    ensemble : Ensemble
    data : TrainingSet
        With the folds that were used: only the first if no family was trained on all.
    oof_predictions : array of shape (n_held_out, n_columns)
        Predictions for ``data.held_out``, each by networks and trees that were not trained on the row.
    members : tuple of MemberRecord
        All members that were trained on all folds.
    is_interrupted : bool
    """

    ensemble: Ensemble
    data: TrainingSet
    oof_predictions: FloatArray
    members: tuple[MemberRecord, ...]
    is_interrupted: bool


def train_ensemble(runner: FoldRunner, *, drop_early: bool = True) -> TrainedEnsemble:
    """Train all families and weight their members.

    With ``drop_early``, members without a weight in the first fold are not trained on the other folds.

    Raises
    ------
    KeyboardInterrupt
        After an interrupt before any family was trained.
    """
    every: dict[int, Sequence[int]] = {f: range(len(family.settings)) for f, family in enumerate(runner.families)}
    runner.train(every, [0])
    begun = {f: every[f] for f in every if (f, 0) in runner.trained}
    runner.train(_select_promising(runner, begun) if drop_early else begun, range(1, len(runner.data.folds)))
    if not runner.complete_families():
        runner = runner.keep_first_fold()
    complete = runner.complete_families()
    if not complete:
        raise KeyboardInterrupt("Interrupted before the first members were trained.")
    data, rows = runner.data, runner.data.held_out
    pairs = [_collect_folds(runner, f) for f in complete]
    fits, predictions = [fit for fit, _ in pairs], np.concatenate([own for _, own in pairs])
    prior = _make_prior([len(fit.settings) for fit in fits])
    weights, _ = _fit_weights(data, predictions, rows, prior)
    is_used = weights > MIN_FINAL_SHARE * weights.sum()
    is_used[weights.argmax()] = True  # all weights are zero if no member is better than the class frequencies
    final = np.zeros(len(weights))
    final[is_used], intercepts = _fit_weights(data, predictions[is_used], rows, prior[is_used] / prior[is_used].sum())
    ensemble = Ensemble(_select_members(fits, is_used), final[is_used], intercepts)
    records = _record_members(data, fits, predictions, final)
    return TrainedEnsemble(ensemble, data, ensemble.combine(predictions[is_used]), records, runner.is_interrupted)


def _make_prior(n_members: Sequence[int]) -> FloatArray:
    """Return equal weights for all families, and within each family for all its members."""
    return np.concatenate([np.full(number, 1.0 / (number * len(n_members))) for number in n_members])


def _select_promising(runner: FoldRunner, begun: dict[int, Sequence[int]]) -> dict[int, Sequence[int]]:
    """Return the settings of each family that have a weight in the first fold, and drop its other members."""
    rows = runner.data.folds[0]
    if len(rows) < MIN_ROWS or len(begun) == 0:
        return begun
    predictions = {}
    for f in begun:
        fit, outputs = runner.trained[f, 0]
        transforms = _choose_transforms(runner.data, runner.families[f], outputs.shape[1], len(begun[f]))
        predictions[f] = FamilyFit("", (), transforms, (fit,)).transform(outputs)
    prior = _make_prior([len(own) for own in predictions.values()])
    weights, _ = _fit_weights(runner.data, np.concatenate(list(predictions.values())), rows, prior)
    shares, first = weights / (weights.sum() or 1.0), 0
    chosen: dict[int, Sequence[int]] = {}
    for f, predicted in predictions.items():
        n_members, n_settings = len(predicted), len(begun[f])
        own = shares[first : first + n_members]
        first += n_members
        is_free = runner.families[f].cost == 0.0
        settings = [g for g in begun[f] if own[g::n_settings].sum() > MIN_SHARE or is_free]
        if settings:
            chosen[f] = settings
            fit, outputs = runner.trained[f, 0]
            members = [j for j in range(n_members) if j % n_settings in settings]
            runner.trained[f, 0] = fit.select(members), outputs[:, members]
    return chosen or begun


def _collect_folds(runner: FoldRunner, f: int) -> tuple[FamilyFit, FloatArray]:
    """Return the fit of a family on all folds, and the out-of-fold predictions of its members."""
    data, family = runner.data, runner.families[f]
    folds = [runner.trained[f, fold] for fold in range(len(data.folds))]
    outputs = np.concatenate([own for _, own in folds])
    n_members, settings = outputs.shape[1], tuple(family.settings[g] for g in runner.chosen[f])
    transforms = _choose_transforms(data, family, n_members, len(settings))
    repeated = settings * (n_members // len(settings))
    fit = FamilyFit(family.name, repeated, transforms, tuple(fold for fold, _ in folds))
    if data.classes is None:
        rows = np.concatenate(data.folds)
        fit = fit.fit_factors(fit.transform(outputs), data.columns[rows, 0], data.weight[rows])
    return fit, data.average_rows(fit.transform(outputs))


def _choose_transforms(
    data: TrainingSet, family: AnyFamily, n_members: int, n_settings: int
) -> tuple[OutputTransform, ...]:
    if data.classes is not None and isinstance(family, TreeFamily):
        return (LogOdds(),) * n_members
    if data.classes is not None:
        return (ClassScore(),) * n_settings + (LogOdds(),) * (n_members - n_settings)  # logistic regressions come last
    low, high = float(data.columns.min()), float(data.columns.max())
    return (LogTarget(low, high) if family.log_target else TargetValue(low, high),) * n_members


def _fit_weights(
    data: TrainingSet, predictions: FloatArray, rows: NDArray[np.intp], prior: FloatArray
) -> tuple[FloatArray, FloatArray | None]:
    """Return weights of members, and intercepts of classes, by out-of-fold predictions for some rows."""
    weight = data.weight[rows]
    if data.classes is None:
        return fit_convex_weights(predictions[:, :, 0].T, data.columns[rows, 0], weight, prior), None
    stack = SoftmaxStack.of(predictions, data.classes[rows], weight, prior)
    return stack.weights, stack.intercepts


def _select_members(fits: list[FamilyFit], is_used: NDArray[np.bool_]) -> tuple[FamilyFit, ...]:
    ends = np.cumsum([len(fit.settings) for fit in fits])
    members = [np.flatnonzero(own).tolist() for own in np.split(is_used, ends[:-1])]
    return tuple(fit.select(own) for fit, own in zip(fits, members, strict=True) if own)


def _record_members(
    data: TrainingSet, fits: list[FamilyFit], predictions: FloatArray, weights: FloatArray
) -> tuple[MemberRecord, ...]:
    members = [(fit.name, fit.transforms[j].kind, text) for fit in fits for j, text in enumerate(fit.settings)]
    return tuple(
        MemberRecord(*member, data.error(own, data.held_out), float(weight))
        for member, own, weight in zip(members, predictions, weights, strict=True)
    )
