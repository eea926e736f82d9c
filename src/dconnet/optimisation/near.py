"""Staying near the data: the convex hull of rows, or of the most central of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray, frozen_copy

# The hull of more rows than this is replaced by that of so many rows, the outermost ones in many directions.
MOST_CORNERS = 1000


def central_rows(X: ArrayLike, coverage: float = 1.0) -> FloatArray:
    """The given share of the rows, those nearest to the mean by the Mahalanobis distance, each of them once.

    With more than 1000 rows left, only the outermost 1000 are kept: those that are extreme in the directions of the
    features and in random directions of the whitened data. Their hull lies within that of all rows.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows of data.
    coverage : float, default=1.0
        Share of the rows, above zero and at most one.

    Returns
    -------
    array of shape (n_kept, n_features)

    Examples
    --------
    >>> from dconnet.optimisation.near import central_rows
    >>> central_rows([[0.0], [1.0], [2.0], [1.0], [30.0]], coverage=0.8).ravel()
    array([0., 1., 2.])
    """
    return hull_rows(X, coverage)[0]


def hull_rows(X: ArrayLike, coverage: float) -> tuple[FloatArray, int]:
    """The rows of `central_rows`, and how many different rows there were before only the outermost were kept."""
    rows = frozen_copy(X, name="near", ndim=2)
    if not len(rows):
        raise ValueError("near has no rows: give rows of data to stay near to, or leave it out.")
    if not 0.0 < coverage <= 1.0:
        raise ValueError(f"coverage must be above 0 and at most 1, got {coverage}.")
    white = whitened(rows)
    distance = np.linalg.norm(white, axis=1)
    kept = np.argsort(distance, kind="stable")[: max(1, int(np.ceil(coverage * len(rows) - 1e-9)))]
    _, first = np.unique(rows[kept], axis=0, return_index=True)
    kept = kept[first]
    central = len(kept)
    if len(kept) > MOST_CORNERS:
        kept = kept[outermost(white[kept], MOST_CORNERS)]
    return rows[kept], central


def whitened(rows: FloatArray) -> FloatArray:
    """Rows in coordinates in which they have mean zero and the identity as covariance; without constant directions."""
    centred = rows - rows.mean(axis=0)
    spread = centred.std(axis=0)
    scaled = centred / np.where(spread > 0.0, spread, 1.0)
    U, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    # Directions in which the standardised rows do not vary but for rounding would be blown up.
    lasting = sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)
    white: FloatArray = U[:, lasting] * np.sqrt(len(rows))
    return white


def outermost(white: FloatArray, count: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Indices of up to ``count`` rows that are extreme in the directions of the axes and in random ones."""
    rng = np.random.default_rng(0)
    axes = np.eye(white.shape[1])
    found: dict[int, None] = {}
    for _ in range(100):
        directions = np.vstack([axes, rng.standard_normal((count, white.shape[1]))])
        along = white @ directions.T
        for row in np.concatenate([along.argmax(axis=0), along.argmin(axis=0)]):
            found[int(row)] = None
        if len(found) >= count:
            break
    return np.sort(np.array(list(found)[:count], dtype=np.intp))
