"""Starting rules: pure functions that return a network."""

from __future__ import annotations

import numpy as np

from dconnet.model.network import Network
from dconnet.training.row_work import DataProblem


def xavier(n_features: int, n_hidden: int, rng: np.random.Generator, n_outputs: int | None = None) -> Network:
    """Xavier (Glorot) uniform start: zero intercepts, weights scaled to the width of both layers.

    The rule presumes features of order one; scale the features first. Without ``n_outputs``, the network has one
    output, and its output weights are a vector; else they are a matrix with a column for each output.

    References
    ----------
    X. Glorot and Y. Bengio, Understanding the difficulty of training deep feedforward neural networks,
    AISTATS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.training.initialization import xavier
    >>> xavier(n_features=3, n_hidden=5, rng=np.random.default_rng(0)).W.shape
    (5, 3)
    """
    hidden_bound = np.sqrt(6.0 / (n_features + n_hidden))
    output_bound = np.sqrt(6.0 / (n_hidden + (1 if n_outputs is None else n_outputs)))
    return Network(
        W=rng.uniform(-hidden_bound, hidden_bound, size=(n_hidden, n_features)),
        b=np.zeros(n_hidden),
        alpha=rng.uniform(-output_bound, output_bound, size=n_hidden if n_outputs is None else (n_hidden, n_outputs)),
    )


def check_start(problem: DataProblem, start: Network) -> None:
    """Refuse a start from which rounding would hide the targets.

    Raises
    ------
    ValueError
        If RegLoss at the start overflows, or is so large that y is below its rounding error.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        objective = problem.objective(start)
        if not _drowns(problem, objective):
            return
        mse = problem.mse(start)
    if _drowns(problem, mse):
        culprit = "The features are too large, or y is too small,"
        remedy = "Scale X and y, for example with sklearn.preprocessing.StandardScaler."
    else:
        shrunk = f" with shrinkage = {problem.shrinkage:g}" if problem.shrinkage > 0.0 else ""
        culprit = f"gamma = {problem.gamma:g}{shrunk} is too large"
        largest = problem.gamma * problem.zero_objective / (np.finfo(float).eps * objective)
        remedy = f"Use a gamma below {largest:.1e}." if largest > 0.0 else "Use a smaller gamma."
    raise ValueError(
        f"{culprit} for this start: its RegLoss is {objective:.1e}, and y, with a mean square of "
        f"{problem.zero_objective:.1e}, would be lost in its rounding. {remedy}"
    )


def _drowns(problem: DataProblem, value: float) -> bool:
    """Whether rounding of this value is larger than the mean square of y."""
    drowned = 0.0 < problem.zero_objective < float(np.finfo(float).eps) * value
    return drowned or not bool(np.isfinite(value))
