"""Improve an approximate answer until it is exact to rounding.

The method of multipliers adds a penalty on the violation of z = Qv to the Lagrangian. Near a solution each of its
steps is a handful of linear systems, and shrinks the error by the ratio of curvature to penalty, also where the
active rows are degenerate: many more rows at their kink than unknowns, which is common when a neuron dies.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from dconnet._arrays import FloatArray
from dconnet.convex.programme import Programme

# KKT residual of an answer that is as good as double precision allows.
EXACT = 1e-13

# Penalties in units of the full curvature: the stiffer, the fewer rounds, but the more digits are lost to rounding.
PENALTIES = (1e2, 1e2, 1e3, 1e3, 1e3, 1e4, 1e4, 1e4, 1e5, 1e5, 1e5, 1e5, 1e6, 1e6)
MAX_NEWTON_STEPS = 10


def polish(programme: Programme, v: FloatArray, multipliers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Improve the pair (v, λ) by rounds of the method of multipliers.

    The pair with the smallest KKT residual is returned, possibly the given one.
    """
    best, best_residual = (v, multipliers), programme.kkt_residual(v, multipliers)
    for penalty in PENALTIES:
        if best_residual <= EXACT:
            break
        try:
            v, multipliers = _round(programme, v, multipliers, penalty * (programme.gamma + programme.curvature))
        except linalg.LinAlgError:  # gamma is below the rounding of the curvature
            break
        residual = programme.kkt_residual(v, multipliers)
        if residual < best_residual:
            best, best_residual = (v, multipliers), residual
    return best


def _round(
    programme: Programme, v: FloatArray, multipliers: FloatArray, penalty: float
) -> tuple[FloatArray, FloatArray]:
    """Minimise the augmented Lagrangian over v by Newton's method; its slopes are the next multipliers."""
    Q = programme.design
    smallest = float("inf")
    for _ in range(MAX_NEWTON_STEPS):
        slopes, weights = _envelope(programme, penalty * (Q @ v) + multipliers, penalty)
        gradient = 2.0 * programme.gamma * v - programme.linear + Q.T @ slopes
        size = float(np.max(np.abs(gradient)))
        if not size < 0.5 * smallest:
            break  # only rounding is left
        smallest = size
        hessian = Q.T @ (weights[:, None] * Q)
        hessian[np.diag_indices_from(hessian)] += 2.0 * programme.gamma
        v = v - linalg.cho_solve(cholesky(hessian), gradient)
    slopes, _ = _envelope(programme, penalty * (Q @ v) + multipliers, penalty)
    return v, slopes


def cholesky(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Return the Cholesky factor for `scipy.linalg.cho_solve`; raise LinAlgError if it has no finite one."""
    factor, lower = linalg.cho_factor(matrix, check_finite=False)
    if not np.isfinite(factor).all():
        raise linalg.LinAlgError("The matrix is not finite.")
    return factor, lower


def _envelope(programme: Programme, pull: FloatArray, penalty: float) -> tuple[FloatArray, FloatArray]:
    """Return slope and curvature of each hinge's Moreau envelope at ``penalty · z + λ``."""
    softened = 2.0 * programme.curvature / (penalty + 2.0 * programme.curvature)
    excess = np.maximum(pull - programme.slope, 0.0)
    slopes = np.clip(pull, 0.0, programme.slope) + softened * excess
    weights = np.where(excess > 0.0, softened * penalty, np.where(pull > 0.0, penalty, 0.0))
    return slopes, weights
