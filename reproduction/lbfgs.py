"""SciPy's L-BFGS-B on RegLoss from a given start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from dconnet._arrays import FloatArray
from dconnet.model.network import Network
from dconnet.model.problem import Problem

# A run ends at a relative decrease, or a largest entry of the gradient, of the size of rounding errors.
MEMORY, FTOL, GTOL = 20, 1e-13, 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The network, the number of evaluations of RegLoss, and whether the run ended before its limit."""

    network: Network
    evaluations: int
    converged: bool


def train(problem: Problem, start: Network, max_evaluations: int) -> Trained:
    """Minimise RegLoss of a problem with one output over all weights, in whitened coordinates.

    The start is neither scaled nor balanced before. An iteration that has begun is finished after ``max_evaluations``.
    """
    white = problem.whitened
    V, alpha = white.whiten(start), white.output_weights(start)
    Q, y, gamma = white.Q, white.y, white.gamma

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        V_at, alpha_at = _parts(theta, V.shape)
        hidden = np.maximum(Q @ V_at.T, 0.0)
        error = hidden @ alpha_at - y
        of_V = alpha_at[:, None] * (((hidden > 0.0) * error[:, None]).T @ Q)
        gradient = np.concatenate([of_V.ravel(), error @ hidden]) + gamma * theta
        return float(error @ error + gamma * theta @ theta), 2.0 * gradient

    limits = {"maxiter": max_evaluations, "maxfun": max_evaluations}
    options: Any = limits | {"maxcor": MEMORY, "ftol": FTOL, "gtol": GTOL}
    found = minimize(objective, np.concatenate([V.ravel(), alpha]), jac=True, method="L-BFGS-B", options=options)
    return Trained(white.network(*_parts(found.x, V.shape)), int(found.nfev), found.status == 0)


def _parts(theta: FloatArray, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Views of V and alpha."""
    return theta[: -shape[0]].reshape(shape), theta[-shape[0] :]
