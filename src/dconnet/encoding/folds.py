"""Random folds of rows, stratified by class and with groups kept together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def deal(
    n_rows: int,
    n_folds: int,
    seed: int,
    labels: NDArray[Any] | None = None,
    groups: NDArray[np.intp] | None = None,
) -> list[NDArray[np.intp]]:
    """Return the rows of each fold, in ascending order.

    The rows of every class in ``labels`` are spread over all folds. Rows of the same group, numbered from zero, are in
    the same fold; some folds are empty if there are fewer groups than folds.

    Examples
    --------
    >>> from dconnet.encoding.folds import deal
    >>> [len(fold) for fold in deal(11, 3, seed=0)]
    [4, 4, 3]
    """
    if groups is not None:
        first = np.unique(groups, return_index=True)[1]
        parts = deal(len(first), n_folds, seed, None if labels is None else labels[first])
        return [np.flatnonzero(np.isin(groups, part)) for part in parts]
    order = np.random.default_rng(seed).permutation(n_rows)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(order[first::n_folds]) for first in range(n_folds)]
