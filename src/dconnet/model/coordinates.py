"""Standardised coordinates of the inputs, in which starts are drawn and designs are factorised.

RegLoss does not change under invertible maps of [X 1]: a network in standardised coordinates is one in the units of the
data, and no copy of the data is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dconnet._arrays import FloatArray, Frozen
from dconnet.model.network import Network
from dconnet.model.whitening import Whitening


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates(Frozen):
    """Columns ``(x - mean) / scale`` in the place of the columns x of the inputs.

    Attributes
    ----------
    mean, scale : arrays of shape (n_features,)
        Weighted mean and standard deviation of each column; a constant column has scale one.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.model.coordinates import Coordinates
    >>> found = Coordinates.of(np.array([[1.0, 7.0], [5.0, 7.0]]), weight=np.ones(2))
    >>> found.mean, found.scale
    (array([3., 7.]), array([2., 1.]))
    """

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: FloatArray, weight: FloatArray) -> Coordinates:
        """Those of these rows, which depend neither on their order nor on whether weights or copies count them."""
        moments = np.array([mean_and_spread(column, weight) for column in X.T])
        return cls(moments[:, 0], np.where(moments[:, 1] > 0.0, moments[:, 1], 1.0))

    def standardise(self, X: FloatArray) -> FloatArray:
        """Rows in these coordinates."""
        return (X - self.mean) / self.scale

    def in_units_of_data(self, network: Network) -> Network:
        """The network of the inputs themselves that equals this network of the standardised ones."""
        W = network.W / self.scale
        return Network(W, network.b - W @ self.mean, network.alpha, network.intercept)

    def undo(self, whitening: Whitening) -> Whitening:
        """The factorisation of [X 1] for that of the standardised design."""
        of_weights, of_intercept = whitening.to_white[:, :-1], whitening.to_white[:, -1:]
        to_white = np.column_stack([of_weights * self.scale + of_intercept * self.mean, of_intercept])
        weights = whitening.from_white[:-1] / self.scale[:, None]
        from_white = np.vstack([weights, whitening.from_white[-1] - self.mean @ weights])
        return replace(whitening, to_white=to_white, from_white=from_white)


def mean_and_spread(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Weighted mean and standard deviation, the same to the last bit for every order of the rows."""
    values, weight = _distinct(values[weight > 0.0], weight[weight > 0.0])
    low, unit = values[0], values[-1] - values[0]
    if unit == 0.0:
        return float(low), 0.0
    if not np.isfinite(unit):
        raise ValueError("The values of a column differ by more than a float can hold. Scale them down.")
    # In units of the largest difference, no square overflows or vanishes.
    shares = weight / weight.sum()
    mean = low + unit * float(shares @ ((values - low) / unit))
    return float(mean), float(unit * np.sqrt(shares @ ((values - mean) / unit) ** 2))


def _distinct(values: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The values that occur, ascending, and the sum of their weights: copies of a row count as its weight does."""
    if weight.min() == weight.max():
        values = np.sort(values)  # many times as fast as an order
    else:
        order = np.lexsort((weight, values))
        values, weight = values[order], weight[order]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return values[starts], np.add.reduceat(weight, starts)
