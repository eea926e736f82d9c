"""The optimisation over a region as one maximisation in coordinates from zero to one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dconnet._arrays import FloatArray, Frozen
from dconnet.model.network import Network
from dconnet.optimisation.region import Region


@dataclass(frozen=True, slots=True, eq=False)
class PiecewiseLinearProgramme(Frozen):
    """Maximise ``offset + <slopes, v> + Σ_l alpha_l max(<w_l, v> + b_l, 0)`` over a box with linear constraints.

    The box is ``0 <= v <= 1``, the constraints are ``least <= A v <= most``. The inputs are ``x = origin + directions
    v``: in a box, v runs from the lower to the upper bounds; in a hull, v are the weights of its corners. A neuron that
    has the same sign everywhere is part of ``slopes`` or left out. The others are scaled to a range of one;
    ``z_low < 0 < z_high`` bound their preactivations.
    """

    offset: float
    slopes: FloatArray  # (n_variables,)
    W: FloatArray  # (n_neurons, n_variables)
    b: FloatArray  # (n_neurons,), as the next three
    alpha: FloatArray
    z_low: FloatArray
    z_high: FloatArray
    A: FloatArray  # (n_constraints, n_variables)
    least: FloatArray  # (n_constraints,), finite
    most: FloatArray
    step: FloatArray  # (n_variables + n_constraints,): variables and constraints are multiples of it, unless it is zero
    origin: FloatArray  # (n_features,)
    directions: FloatArray  # (n_features, n_variables)

    @property
    def n_variables(self) -> int:
        """Length of v."""
        return len(self.slopes)


def build_programme(network: Network, region: Region) -> PiecewiseLinearProgramme:
    """Return the maximisation of a network with one output over a region."""
    is_hull = region.corners is not None
    of_region = _constrain_box(region) if region.corners is None else _constrain_hull(region, region.corners)
    *_, origin, directions = of_region
    W = network.W @ directions
    b = network.W @ origin + network.b
    low, high = _ranges(W, b, is_hull)
    always = low >= 0.0
    bends = (low < 0.0) & (high > 0.0) & (network.alpha != 0.0)
    span = (high - low)[bends]
    return PiecewiseLinearProgramme(
        float(network.intercept) + float(network.alpha[always] @ b[always]),
        network.alpha[always] @ W[always],
        W[bends] / span[:, None],
        b[bends] / span,
        network.alpha[bends] * span,
        low[bends] / span,
        high[bends] / span,
        *of_region,
    )


def _ranges(W: FloatArray, b: FloatArray, is_hull: bool) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest value of ``W v + b``, without regard to other constraints."""
    if is_hull:
        return W.min(axis=1, initial=np.inf) + b, W.max(axis=1, initial=-np.inf) + b
    return np.minimum(W, 0.0).sum(axis=1) + b, np.maximum(W, 0.0).sum(axis=1) + b


def _constrain_box(region: Region) -> tuple[FloatArray, ...]:
    """Return A, least, most, step, origin and directions of the programme."""
    span = region.high - region.low
    free = np.flatnonzero(span > 0.0)
    directions = np.diag(span)[:, free]
    rows = region.A @ directions
    shift = region.A @ region.low
    A, least, most = _scale_rows(rows, region.least - shift, region.most - shift, is_hull=False)
    step = np.where(region.integer[free], 1.0 / span[free], 0.0)
    return A, least, most, np.concatenate([step, np.zeros(len(A))]), region.low, directions


def _constrain_hull(region: Region, corners: FloatArray) -> tuple[FloatArray, ...]:
    """Return the same; the weights sum to one, and inputs that the box cuts or that are integers have bounds."""
    directions = corners.T
    span = region.high - region.low
    cut = (region.low > corners.min(axis=0)) | (region.high < corners.max(axis=0)) | region.integer
    bounded = np.flatnonzero(cut)
    unit = np.where(span > 0.0, span, 1.0)[bounded]
    places = (corners.T[bounded] - region.low[bounded, None]) / unit[:, None]
    A, least, most = _scale_rows(region.A @ directions, region.least, region.most, is_hull=True)
    low, high = _ranges(places, np.zeros(len(places)), True)
    step = np.where(region.integer[bounded], 1.0 / unit, 0.0)
    return (
        np.vstack([A, np.ones((1, len(corners))), places]),
        np.concatenate([least, [1.0], np.maximum(low, 0.0)]),
        np.concatenate([most, [1.0], np.minimum(high, span[bounded] / unit)]),
        np.concatenate([np.zeros(len(corners) + len(A) + 1), step]),
        np.zeros(len(region.low)),
        directions,
    )


def _scale_rows(
    rows: FloatArray, least: FloatArray, most: FloatArray, *, is_hull: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the constraints with coefficients of order one and equivalent finite bounds."""
    low, high = _ranges(rows, np.zeros(len(rows)), is_hull)
    size = np.abs(rows).sum(axis=1) if not is_hull else np.abs(rows).max(axis=1, initial=0.0)
    size = np.where(size > 0.0, size, 1.0)
    # The bound of a constraint that cannot bind is outside the range, so that rounding cannot make it bind.
    low, high = low / size - 1.0, high / size + 1.0
    return rows / size[:, None], np.maximum(least / size, low), np.minimum(most / size, high)
