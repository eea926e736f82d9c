"""The split of rows into training and test rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def split_rows(y: NDArray[Any], n_test: int, seed: int, classify: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the indices of training rows and of ``n_test`` test rows, the same for the same arguments.

    The split of classes is stratified if every class can have a row in both parts.
    """
    from sklearn.model_selection import train_test_split

    rows = np.arange(len(y))
    if n_test == 0:
        return rows, rows[:0]
    stratify = None
    if classify:
        counts = np.unique(y, return_counts=True)[1]
        stratify = y if counts.min() >= 2 and len(counts) <= min(n_test, len(y) - n_test) else None
    train, test = train_test_split(rows, test_size=n_test, random_state=seed, stratify=stratify)
    return train, test
