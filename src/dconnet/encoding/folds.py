"""Rows dealt to folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def deal(n_rows: int, n_folds: int, seed: int, labels: NDArray[Any] | None = None) -> list[NDArray[np.intp]]:
    """The rows of each fold, in ascending order; the rows of every class are spread over all folds.

    Examples
    --------
    >>> from dconnet.encoding.folds import deal
    >>> [len(fold) for fold in deal(11, 3, seed=0)]
    [4, 4, 3]
    """
    order = np.random.default_rng(seed).permutation(n_rows)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[first::n_folds]) for first in range(n_folds)]
