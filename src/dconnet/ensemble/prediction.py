"""Fitted ensembles: the members of each family, their weights, and their predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import Coder
from dconnet.encoding.schema import FieldTable
from dconnet.ensemble.fold_fits import AnyFit
from dconnet.ensemble.output_transforms import LogTarget, OutputTransform
from dconnet.model.rows import ROWS, blocks

# Range of the factor that corrects the exponential of a predicted logarithm.
MIN_FACTOR, MAX_FACTOR = 0.8, 1.25


@dataclass(frozen=True, slots=True, eq=False)
class FamilyFit:
    """The members of a family, each with networks or trees for every fold.

    Attributes
    ----------
    name : str
        Name of the family.
    settings : tuple of str
        What distinguishes the members, in words.
    transforms : tuple of OutputTransform
        Output transform of each member.
    folds : tuple of FoldFit or TreeFit
        The networks or trees of each fold.
    """

    name: str
    settings: tuple[str, ...]
    transforms: tuple[OutputTransform, ...]
    folds: tuple[AnyFit, ...]

    def predict(self, table: FieldTable) -> FloatArray:
        """Return the predictions of the members, averaged over the folds, of shape (n_members, n_rows, n_columns)."""
        total: FloatArray = np.zeros(())
        coder: Coder | None = None
        coded: Any = None
        for fold in self.folds:
            if fold.coder is not coder:
                coder, coded = fold.coder, fold.code(table)
            total = total + self._to_average(fold.outputs(coded))
        return self._from_average(total / len(self.folds))

    def transform(self, outputs: FloatArray) -> FloatArray:
        """Return predictions (n_members, n_rows, n_columns) for outputs (n_rows, n_members, n_columns) of one fold."""
        return self._from_average(self._to_average(outputs))

    def select(self, members: Sequence[int]) -> FamilyFit:
        """Return the fit with some of its members."""
        return replace(
            self,
            settings=tuple(self.settings[j] for j in members),
            transforms=tuple(self.transforms[j] for j in members),
            folds=tuple(fold.select(members) for fold in self.folds),
        )

    def fit_factors(self, predictions: FloatArray, y: FloatArray, weight: FloatArray) -> FamilyFit:
        """Fit the factors of logarithms by least squares on out-of-fold predictions."""
        transforms = list(self.transforms)
        for j, transform in enumerate(transforms):
            if isinstance(transform, LogTarget):
                own = predictions[j, :, 0]
                factor = (weight * own) @ y / ((weight * own) @ own)
                transforms[j] = replace(transform, factor=float(np.clip(factor, MIN_FACTOR, MAX_FACTOR)))
        return replace(self, transforms=tuple(transforms))

    def _to_average(self, outputs: FloatArray) -> FloatArray:
        return np.stack([transform.to_average(outputs[:, j]) for j, transform in enumerate(self.transforms)])

    def _from_average(self, average: FloatArray) -> FloatArray:
        return np.stack([transform.from_average(average[j]) for j, transform in enumerate(self.transforms)])


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """A weighted sum of members.

    Attributes
    ----------
    fits : tuple of FamilyFit
        The families, each with the members that have a weight.
    weights : array of shape (n_members,)
        Weights of all members, in the order of the families.
    intercepts : array of shape (n_columns,) or None
        Added to the log-odds of the classes in a classification.
    """

    fits: tuple[FamilyFit, ...]
    weights: FloatArray
    intercepts: FloatArray | None = None

    def predict(self, table: FieldTable) -> FloatArray:
        """Return predicted targets or log-odds, of shape (n_rows, n_columns)."""
        # In blocks, because the predictions of all members would take many times the memory of the table.
        predictions = (
            np.concatenate([fit.predict(table.rows(rows)) for fit in self.fits])
            for rows in blocks(len(table), 8 * ROWS)
        )
        return np.concatenate([self.combine(own) for own in predictions])

    def predict_coded(self, coded: Sequence[Any]) -> FloatArray:
        """Return the predictions of the first fold for rows that the fits of all families coded."""
        pairs = zip(self.fits, coded, strict=True)
        return self.combine(np.concatenate([fit.transform(fit.folds[0].outputs(rows)) for fit, rows in pairs]))

    def select_fold(self, fold: int) -> Ensemble:
        """Return the ensemble with the fits of one fold alone."""
        return replace(self, fits=tuple(replace(fit, folds=(fit.folds[fold],)) for fit in self.fits))

    def combine(self, predictions: FloatArray) -> FloatArray:
        """Return the weighted sum of the predictions of all members, of shape (n_members, n_rows, n_columns)."""
        total = np.zeros(predictions.shape[1:])
        for weight, own in zip(self.weights, predictions, strict=True):  # the sum of a row does not depend on others
            total += weight * own
        if self.intercepts is not None:
            return total + self.intercepts
        # The weights of a regression sum to one up to rounding.
        return np.clip(total, predictions.min(axis=0), predictions.max(axis=0))
