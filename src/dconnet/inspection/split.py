"""The split of rows into training and test data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def split_rows(y: NDArray[Any], n_test: int, seed: int, classify: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Indices of the training rows and of the test rows, the same for the same arguments.

    The split is stratified if there are classes and every class can have a row in both parts.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Targets or class labels.
    n_test : int
        Number of test rows, less than n_samples.
    seed : int
        Random seed.
    classify : bool
        Whether y are class labels.
    """
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(y))
    if n_test == 0:
        return rows, rows[:0]
    stratify = y if classify and _can_stratify(y, n_test) else None
    train, test = train_test_split(rows, test_size=n_test, random_state=seed, stratify=stratify)
    return train, test


def _can_stratify(y: NDArray[Any], n_test: int) -> bool:
    """Whether every class can have a row in both parts."""
    _, counts = np.unique(y, return_counts=True)
    return bool(counts.min() >= 2 and len(counts) <= min(n_test, len(y) - n_test))
