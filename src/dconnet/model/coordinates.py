"""Standardised columns, in which starts are drawn and designs are factorised.

RegLoss is invariant under invertible maps of [X 1]. A network of the standardised columns is therefore also a network
of the data, and no standardised copy of the data is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dconnet._arrays import FloatArray, Frozen
from dconnet.model.network import Network
from dconnet.model.whitening import Whitening


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates(Frozen):
    """Standardised columns ``(x - mean) / scale`` of the inputs.

    Attributes
    ----------
    mean, scale : arrays of shape (n_features,)
        Weighted mean and standard deviation of each column; a constant column has scale one.
    """

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: FloatArray, weight: FloatArray) -> Coordinates:
        """Standardise these rows; the order of the rows does not matter, and weights count like copies."""
        moments = np.array([mean_and_spread(column, weight) for column in X.T])
        return cls(moments[:, 0], np.where(moments[:, 1] > 0.0, moments[:, 1], 1.0))

    def standardise(self, X: FloatArray) -> FloatArray:
        """Return the rows in these coordinates."""
        return (X - self.mean) / self.scale

    def in_units_of_data(self, network: Network) -> Network:
        """Convert a network of the standardised inputs to one of the inputs themselves."""
        W = network.W / self.scale
        return Network(W, network.b - W @ self.mean, network.alpha, network.intercept)

    def undo(self, whitening: Whitening) -> Whitening:
        """Convert the factorisation of the standardised design to that of [X 1]."""
        of_weights, of_intercept = whitening.to_white[:, :-1], whitening.to_white[:, -1:]
        to_white = np.column_stack([of_weights * self.scale + of_intercept * self.mean, of_intercept])
        weights = whitening.from_white[:-1] / self.scale[:, None]
        from_white = np.vstack([weights, whitening.from_white[-1] - self.mean @ weights])
        return replace(whitening, to_white=to_white, from_white=from_white)


def mean_and_spread(values: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the weighted mean and standard deviation; their bits do not depend on the order of the rows."""
    values, weight = _distinct(values[weight > 0.0], weight[weight > 0.0])
    low, unit = values[0], values[-1] - values[0]
    if unit == 0.0:
        return float(low), 0.0
    if not np.isfinite(unit):
        raise ValueError("The range of a column overflows. Scale its values down.")
    # In units of the largest difference, no square overflows or vanishes.
    shares = weight / weight.sum()
    mean = low + unit * float(shares @ ((values - low) / unit))
    return float(mean), float(unit * np.sqrt(shares @ ((values - mean) / unit) ** 2))


def _distinct(values: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, ascending, and the sums of their weights."""
    if weight.min() == weight.max():
        values = np.sort(values)  # much faster than lexsort
    else:
        order = np.lexsort((weight, values))
        values, weight = values[order], weight[order]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return values[starts], np.add.reduceat(weight, starts)
