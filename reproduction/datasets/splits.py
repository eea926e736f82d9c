"""Training, validation and test rows."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from reproduction.datasets.uci import Choices, load_dataset, scaled

Part = tuple[FloatArray, FloatArray]
Rows = NDArray[np.intp]


def split_rows(n_rows: int, number: int) -> tuple[Rows, Rows, Rows]:
    """Rows for training (80 %), validation (10 %) and test (10 %); the number of the split is its seed.

    Examples
    --------
    >>> from reproduction.datasets import split_rows
    >>> [len(rows) for rows in split_rows(100, number=0)]
    [80, 10, 10]
    """
    from sklearn.model_selection import train_test_split

    training, rest = train_test_split(np.arange(n_rows), test_size=0.2, random_state=number)
    validation, test = train_test_split(rest, test_size=0.5, random_state=number)
    return training, validation, test


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The three parts of a dataset, each a pair of features and target."""

    training: Part
    validation: Part
    test: Part


@dataclass(frozen=True, slots=True)
class Split:
    """One of the random splits of a table, named by its number."""

    dataset: str
    number: int

    def load(self, home: str | os.PathLike[str] | None = None, choices: Choices | None = None) -> Parts:
        """The scaled parts."""
        chosen = choices or Choices()
        data = load_dataset(self.dataset, home, chosen)
        rows = split_rows(len(data.y), self.number)
        fit_on = rows[0] if chosen.scaler_fit == "training" else np.arange(len(data.y))
        X, y = scaled(data.X, data.y, data.X[fit_on], data.y[fit_on])
        training, validation, test = ((X[part], y[part]) for part in rows)
        return Parts(training, validation, test)
