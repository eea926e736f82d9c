"""What is optimised: one output of a network, over a region, as one maximisation in coordinates from zero to one.

A region is a box with linear constraints, integer inputs, and the hull of data.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import BoolArray, FloatArray, Frozen, IndexArray, frozen_copy
from dconnet.export.chain import Affine, Exportable
from dconnet.model.network import Network

# Distance of a bound of an integer input from an integer that counts as rounding, relative to the bound.
INTEGER_SLACK = 1e-9
# Largest number of corners of a hull; the linear programmes have a variable for each of them.
MAX_CORNERS = 1000


def build_target(model: Any, output: int | None = None, weights: ArrayLike | None = None) -> Network:
    """Return one output of a network or of a fitted estimator, or a weighted sum of its outputs, as a network."""
    if not isinstance(model, Exportable):
        raise TypeError(
            "network must be a Network, or a fitted DCONRegressor or DCONClassifier, got "
            f"{type(model).__name__}. Of a pipeline or a search, pass the last step, such as pipeline[-1]; bounds "
            "are then in the units of its inputs."
        )
    layers = model.to_chain().layers
    if len(layers) > 2:
        raise TypeError(f"network must have one hidden layer, but this {type(model).__name__} has {len(layers) - 1}.")
    if len(layers) == 1:  # a network without neurons, which is constant: a network needs a neuron
        (constant,) = layers
        layers = Affine(np.zeros((1, constant.n_inputs)), np.zeros(1)), Affine(constant.W[:, :1], constant.b)
    hidden, outputs = layers
    share = _check_weights(outputs.n_outputs, output, weights)
    used = np.flatnonzero(outputs.W[share != 0.0].any(axis=0))
    if not len(used):  # a network needs a neuron
        used = np.arange(1)
    return Network(hidden.W[used], hidden.b[used], share @ outputs.W[:, used], float(share @ outputs.b))


def _check_weights(n_outputs: int, output: int | None, weights: ArrayLike | None) -> FloatArray:
    if output is not None and weights is not None:
        raise ValueError("Pass output or weights, not both.")
    if weights is not None:
        given = frozen_copy(weights, name="weights", ndim=1)
        if len(given) != n_outputs:
            raise ValueError(f"weights must have an entry for each of the {n_outputs} outputs, got {len(given)}.")
        return given
    if output is None:
        if n_outputs > 1:
            raise ValueError(f"There are {n_outputs} outputs: choose one with output=, or weigh them with weights=.")
        output = 0
    if isinstance(output, bool) or not isinstance(output, (int, np.integer)) or not 0 <= output < n_outputs:
        raise ValueError(
            f"output must be a whole number from 0 to {n_outputs - 1}, got {output!r}. It counts columns or classes, "
            "and is not a label; two classes have one output, which is largest for the second of them."
        )
    return np.eye(n_outputs)[output]


@dataclass(frozen=True, slots=True, eq=False)
class Region(Frozen):
    """Points ``x`` with ``low <= x <= high`` and ``least <= A x <= most``, some of their entries integers."""

    low: FloatArray  # (n_features,); bounds of integers are integers
    high: FloatArray
    A: FloatArray  # (n_constraints, n_features)
    least: FloatArray  # (n_constraints,), possibly infinite
    most: FloatArray
    integer: BoolArray  # (n_features,)
    corners: FloatArray | None  # (n_corners, n_features): their convex hull contains the region
    n_rows: int = 0  # different rows from which the corners were selected

    @property
    def remark(self) -> str:
        """Sentence for the user if the corners are not all rows."""
        if self.corners is None or len(self.corners) == self.n_rows:
            return ""
        return f" The hull is that of the outermost {len(self.corners)} of {self.n_rows} different rows of near."

    def violation(self, x: FloatArray) -> float:
        """Return the largest violation of a linear constraint, relative to the range of its values over the box."""
        if not len(self.A):
            return 0.0
        size = np.abs(self.A) @ np.maximum(np.maximum(np.abs(self.low), np.abs(self.high)), self.high - self.low)
        values = self.A @ x
        beyond = np.maximum(values - self.most, self.least - values)
        return float(np.max(beyond / np.where(size > 0.0, size, 1.0)))


def build_region(
    n_features: int,
    bounds: Any,
    A_ub: ArrayLike | None = None,
    b_ub: ArrayLike | None = None,
    A_eq: ArrayLike | None = None,
    b_eq: ArrayLike | None = None,
    integrality: ArrayLike | None = None,
    near: ArrayLike | None = None,
    coverage: float = 1.0,
    deadline: float = np.inf,
) -> Region:
    """Check the parameters of `optimise` and return the region that they describe."""
    corners, n_rows = (None, 0) if near is None else select_corners(near, coverage, deadline)
    if corners is not None and corners.shape[1] != n_features:
        raise ValueError(f"near must have {n_features} columns, as the network has inputs, got {corners.shape[1]}.")
    low, high = _check_bounds(bounds, n_features, corners)
    flags = np.asarray(0 if integrality is None else integrality)
    flags = np.broadcast_to(flags, (n_features,)) if flags.ndim == 0 else flags
    if flags.shape != (n_features,) or not np.isin(flags, (0, 1)).all():
        raise ValueError(
            f"integrality must be 0 or 1 (or False or True) for each of the {n_features} inputs, got {integrality!r}."
        )
    integer = flags.astype(bool)
    upper, most = _check_constraints(A_ub, b_ub, "ub", n_features)
    equal, exact = _check_constraints(A_eq, b_eq, "eq", n_features)
    return Region(
        np.where(integer, np.ceil(low - INTEGER_SLACK * np.maximum(1.0, np.abs(low))), low),
        np.where(integer, np.floor(high + INTEGER_SLACK * np.maximum(1.0, np.abs(high))), high),
        np.vstack([upper, equal]),
        np.concatenate([np.full(len(most), -np.inf), exact]),
        np.concatenate([most, exact]),
        integer,
        corners,
        n_rows,
    )


def select_corners(X: ArrayLike, coverage: float = 1.0, deadline: float = np.inf) -> tuple[FloatArray, int]:
    """Return the corners of a hull of rows, and the number of different rows from which they were selected.

    The given share of the rows counts: those nearest to the mean by the Mahalanobis distance. If they are more than
    `MAX_CORNERS`, the outermost of them are selected; their hull lies within that of all rows. After the deadline, a
    time of `time.perf_counter`, the search for outermost rows ends with those found.
    """
    rows = frozen_copy(X, name="near", ndim=2)
    if not len(rows):
        raise ValueError("near has no rows. Pass rows of data to stay near to, or leave it out.")
    if not 0.0 < coverage <= 1.0:
        raise ValueError(f"coverage must be above 0 and at most 1, got {coverage}.")
    white = _whiten(rows)
    distance = np.linalg.norm(white, axis=1)
    central = np.argsort(distance, kind="stable")[: max(1, int(np.ceil(coverage * len(rows) - 1e-9)))]
    _, first = np.unique(rows[central], axis=0, return_index=True)
    central = central[first]
    n_rows = len(central)
    if n_rows > MAX_CORNERS:
        central = central[_find_outermost(white[central], deadline)]
    return rows[central], n_rows


def _whiten(rows: FloatArray) -> FloatArray:
    """Return the rows with mean zero and the identity as covariance, without constant directions."""
    centred = rows - rows.mean(axis=0)
    spread = centred.std(axis=0)
    scaled = centred / np.where(spread > 0.0, spread, 1.0)
    U, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    # Directions in which the standardised rows vary only by rounding would be blown up.
    varies = sizes > 1e-9 * max(float(sizes.max(initial=0.0)), 1e-300)
    return U[:, varies] * np.sqrt(len(rows))


def _find_outermost(white: FloatArray, deadline: float) -> IndexArray:
    """Return the indices of up to `MAX_CORNERS` rows that are extreme along the axes or in random directions."""
    rng = np.random.default_rng(0)
    axes = np.eye(white.shape[1])
    found: dict[int, None] = {}
    for _ in range(100):
        directions = np.vstack([axes, rng.standard_normal((MAX_CORNERS, white.shape[1]))])
        largest, smallest = [], []
        for first in range(0, len(directions), 50):  # blocks bound the memory and the time between two checks
            along = white @ directions[first : first + 50].T
            largest.append(along.argmax(axis=0))
            smallest.append(along.argmin(axis=0))
            if time.perf_counter() > deadline:
                break
        found |= dict.fromkeys(np.concatenate([*largest, *smallest]).tolist())
        if len(found) >= MAX_CORNERS or time.perf_counter() > deadline:
            break
    return np.sort(np.array(list(found)[:MAX_CORNERS], dtype=np.intp))


def _check_bounds(bounds: Any, n_features: int, corners: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    low, high = _split_bounds(bounds, n_features)
    if np.isnan(low).any() or np.isnan(high).any():
        raise ValueError("bounds must not be NaN.")
    crossed = np.flatnonzero(low > high)
    if len(crossed):
        i = crossed[0]
        raise ValueError(f"The lower bound of input {i} is above its upper bound: {low[i]} > {high[i]}.")
    if corners is not None:
        # The hull lies in the box around its corners.
        low, high = np.maximum(low, corners.min(axis=0)), np.minimum(high, corners.max(axis=0))
    infinite = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if len(infinite):
        raise ValueError(
            f"Input {infinite[0]} has no finite bounds, so that the optimum may be infinite. Pass a lower and an upper "
            "bound for every input, for example the least and the largest value in the data, or pass near=X."
        )
    return low, high


def _split_bounds(bounds: Any, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds from pairs, or from an object with ``lb`` and ``ub`` such as SciPy's."""
    if bounds is None:
        return np.full(n_features, -np.inf), np.full(n_features, np.inf)
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        sides = [np.broadcast_to(np.asarray(side, dtype=np.float64), (n_features,)) for side in (bounds.lb, bounds.ub)]
        return sides[0].copy(), sides[1].copy()
    pairs = bounds.to_numpy() if hasattr(bounds, "to_numpy") else bounds  # a DataFrame is a sequence of names
    try:
        ends = [
            [default if end is None else float(end) for end, default in zip(pair, (-np.inf, np.inf), strict=True)]
            for pair in pairs
        ]
    except (TypeError, ValueError) as error:
        raise ValueError(f"bounds must be {n_features} pairs of numbers (lower, upper): {error}.") from error
    if len(ends) != n_features:
        raise ValueError(f"bounds must be {n_features} pairs (lower, upper), got {len(ends)}.")
    low, high = np.array(ends, dtype=np.float64).reshape(n_features, 2).T
    return low, high


def _check_constraints(
    A: ArrayLike | None, b: ArrayLike | None, suffix: str, n_features: int
) -> tuple[FloatArray, FloatArray]:
    if (A is None) != (b is None):
        raise ValueError(f"A_{suffix} and b_{suffix} belong together: pass both or neither.")
    if A is None or b is None:
        return np.zeros((0, n_features)), np.zeros(0)
    rows = frozen_copy(np.atleast_2d(np.asarray(A)), name=f"A_{suffix}", ndim=2)
    sides = frozen_copy(np.atleast_1d(np.asarray(b)), name=f"b_{suffix}", ndim=1)
    if rows.shape != (len(sides), n_features):
        raise ValueError(
            f"A_{suffix} must have shape ({len(sides)}, {n_features}): a row for each entry of b_{suffix} and a column "
            f"for each input; got {rows.shape}."
        )
    return rows, sides


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
