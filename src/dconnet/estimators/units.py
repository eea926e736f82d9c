"""Units of the data, so that starts and gamma need no scaled copy of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.estimators.data import Rows
from dconnet.model.coordinates import Coordinates, mean_and_spread
from dconnet.model.network import Network

# Standard deviation of a target below which its squares lose digits, and with them RegLoss.
SMALLEST = float(np.sqrt(np.finfo(np.float64).tiny / np.finfo(np.float64).eps))


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of inputs, targets and gamma in a fit.

    Attributes
    ----------
    coordinates : Coordinates or None
        Standardised columns of the inputs; None for the columns as they are.
    intercepts : array of shape (n_columns,)
        Output intercept of the network of each column of the target: its mean, or zero.
    size : float
        Standard deviation of the target, or one: the unit of gamma. Columns of classes have one size for all, the root
        of their mean variance.
    output_scale : array of shape (n_columns,) or None
        Of several targets of a regression the standard deviation of each, by which the outputs are measured; gamma is
        a pure number then, and ``size`` one.
    """

    coordinates: Coordinates | None
    intercepts: FloatArray
    size: float
    output_scale: FloatArray | None = None

    @property
    def measure(self) -> float | FloatArray:
        """The divisor of the columns of the target."""
        return self.size if self.output_scale is None else self.output_scale

    @classmethod
    def plain(cls, rows: Rows) -> Units:
        """Return the units of unscaled data."""
        return cls(None, np.zeros(rows.Y.shape[1]), 1.0)

    @classmethod
    def standard(cls, rows: Rows, *, each_target: bool = False) -> Units:
        """Return units in which inputs and targets have mean 0 and standard deviation 1; all targets, or each."""
        moments = np.array([mean_and_spread(column, rows.weight) for column in rows.Y.T])
        return cls.of_moments(Coordinates.of(rows.X, rows.weight), moments, each_target=each_target)

    @classmethod
    def of_moments(cls, coordinates: Coordinates, moments: FloatArray, *, each_target: bool = False) -> Units:
        """Return the same from the mean and standard deviation of each target, of shape (n_columns, 2)."""
        if each_target:
            scale = np.where(moments[:, 1] > 0.0, moments[:, 1], 1.0)
            return cls(coordinates, moments[:, 0], 1.0, scale)
        if 0.0 < moments[:, 1].max() < SMALLEST:
            raise ValueError(
                f"The values of y differ by so little ({moments[:, 1].max():.1e}) that their squares underflow. "
                "Scale y up, for example with sklearn.compose.TransformedTargetRegressor."
            )
        size = float(np.sqrt(np.mean(moments[:, 1] ** 2)))
        return cls(coordinates, moments[:, 0], size or 1.0)

    def start(self, network: Network) -> Network:
        """Convert a network for standardised data to these units; for s y and s gamma, weights grow by √s."""
        root = np.sqrt(self.size)
        alpha = root * network.alpha if self.output_scale is None else network.alpha * self.output_scale
        scaled = Network(root * network.W, root * network.b, alpha)
        return network if self.coordinates is None else self.coordinates.in_units_of_data(scaled)
