"""A family, trained on all folds: what its members say, in the rows of the training and in new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.encoding.design import CodedDesign
from dconnet.encoding.schema import FieldTable
from dconnet.ensemble.families import Family
from dconnet.ensemble.fold_fits import FoldFit
from dconnet.ensemble.readings import Logarithm, Reading


@dataclass(frozen=True, slots=True, eq=False)
class FamilyFit:
    """The members of a family.

    Attributes
    ----------
    family : Family
    gammas : tuple of float
        The gamma of each member.
    readings : tuple of Reading
        How the outputs of each member are read.
    folds : tuple of FoldFit
        The networks of each fold.
    """

    family: Family
    gammas: tuple[float, ...]
    readings: tuple[Reading, ...]
    folds: tuple[FoldFit, ...]

    def says(self, table: FieldTable) -> FloatArray:
        """What the members say in new rows, of shape (n_members, n_rows, n_columns)."""
        total: FloatArray = np.zeros(())
        coder, design = None, CodedDesign.of((), (), n_rows=0)
        for fold in self.folds:
            if fold.coder is not coder:
                coder, design = fold.coder, fold.coder.code(table)
            total = total + self.read(fold.outputs(design))
        return self.finish(total / len(self.folds))

    def read(self, outputs: FloatArray) -> FloatArray:
        """Outputs (n_rows, n_members, n_columns) in the space of the mean, of shape (n_members, n_rows, n_columns)."""
        return np.stack([reading.read(outputs[:, j]) for j, reading in enumerate(self.readings)])

    def finish(self, mean: FloatArray) -> FloatArray:
        """From the space of the mean to what the members say."""
        return np.stack([reading.finish(mean[j]) for j, reading in enumerate(self.readings)])

    def some(self, members: Sequence[int]) -> FamilyFit:
        """Some of the members."""
        chosen = list(members)
        return replace(
            self,
            gammas=tuple(self.gammas[j] for j in chosen),
            readings=tuple(self.readings[j] for j in chosen),
            folds=tuple(fold.some(chosen) for fold in self.folds),
        )

    def corrected(self, said: FloatArray, y: FloatArray, weight: FloatArray) -> FamilyFit:
        """With the factors of logarithms, by least squares on what the members said out of fold."""
        readings = [
            replace(reading, factor=_factor(said[j, :, 0], y, weight)) if isinstance(reading, Logarithm) else reading
            for j, reading in enumerate(self.readings)
        ]
        return replace(self, readings=tuple(readings))


def _factor(said: FloatArray, y: FloatArray, weight: FloatArray) -> float:
    return float(np.clip((weight * said) @ y / ((weight * said) @ said), 0.8, 1.25))
