"""Starts: random ones, and for a further layer a copy of the network below, so that RegLoss does not rise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dconnet._arrays import FloatArray, safe_norm
from dconnet.model.network import Network, Stack
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.training.row_work import DataProblem

# How often the new neurons of a start are halved before they are left out.
HALVINGS = 30


def xavier(n_features: int, n_hidden: int, rng: np.random.Generator, n_outputs: int | None = None) -> Network:
    """Xavier (Glorot) uniform start: zero intercepts, weights scaled to the width of both layers.

    The rule presumes features of order one; scale the features first. Without ``n_outputs``, the network has one
    output, and its output weights are a vector; else they are a matrix with a column for each output.

    References
    ----------
    X. Glorot and Y. Bengio, Understanding the difficulty of training deep feedforward neural networks,
    AISTATS 2010.
    """
    hidden_bound = np.sqrt(6.0 / (n_features + n_hidden))
    output_bound = np.sqrt(6.0 / (n_hidden + (1 if n_outputs is None else n_outputs)))
    return Network(
        W=rng.uniform(-hidden_bound, hidden_bound, size=(n_hidden, n_features)),
        b=np.zeros(n_hidden),
        alpha=rng.uniform(-output_bound, output_bound, size=n_hidden if n_outputs is None else (n_hidden, n_outputs)),
    )


def check_start(problem: DataProblem, start: Network) -> None:
    """Raise ValueError if RegLoss at the start overflows, or is so large that y is below its rounding error."""
    with np.errstate(over="ignore", invalid="ignore"):
        objective = problem.objective(start)
        if not _hides_targets(problem, objective):
            return
        mse = problem.mse(start)
    if _hides_targets(problem, mse):
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


def _hides_targets(problem: DataProblem, value: float) -> bool:
    """Return whether the rounding error of this value is larger than the mean square of y."""
    is_hidden = 0.0 < problem.zero_objective < float(np.finfo(float).eps) * value
    return is_hidden or not bool(np.isfinite(value))


def start_layer(
    problems: Sequence[Problem],
    n_hidden: int,
    generators: Sequence[np.random.Generator],
    below: Stack,
    problems_below: Sequence[Problem],
) -> list[Network]:
    """Return random starts for the bottom layer; above it, starts that continue the networks of the layer below."""
    if not problems_below:
        pairs = zip(problems, generators, strict=True)
        return [xavier(problem.X.shape[1], n_hidden, rng) for problem, rng in pairs]
    starts = []
    for k, (problem, own) in enumerate(zip(problems, problems_below, strict=True)):
        limit = _whitened_regloss(replace(own.whitened, gamma=problems[0].gamma), below.layers[-1][k])
        starts.append(continuation(problem, below.output_weights(k), n_hidden, limit, generators[k]))
    return starts


def continuation(
    problem: Problem, carried: FloatArray, n_hidden: int, limit: float, rng: np.random.Generator
) -> Network:
    """Return a start for another layer that continues the network below.

    Two neurons repeat its output on the training data, one for each sign of its output weights: activations are not
    negative, and so ``max(<w, x>, 0) = <w, x>`` for weights that are not negative either. By the triangle inequality,
    the two bear no more penalty than the network below. All other neurons are new, drawn by the rule of Xavier in the
    units of the features, and halved until RegLoss is within the limit. A single neuron cannot repeat both signs; it
    is all new then.

    ``carried`` are the output weights of the network below, for the first columns of the features, and ``limit`` is
    the RegLoss that the start should not exceed.
    """
    white = problem.whitened  # indifferent to the order of the rows, and so is the start
    to_white, n_features = white.whitening.to_white, problem.X.shape[1]
    copied, signs = [], []  # with balanced weights
    for sign in (1.0, -1.0):
        u = np.zeros(n_features + 1)
        u[: len(carried)] = np.maximum(sign * carried, 0.0)
        norm = safe_norm(to_white @ u)
        if norm > 0.0:
            copied.append(u[:-1] / np.sqrt(norm))
            signs.append(sign * np.sqrt(norm))
    drawn = xavier(n_features, n_hidden, rng)
    size = np.linalg.norm(to_white[:, :-1], axis=0) / np.sqrt(white.total_weight)
    W = np.divide(drawn.W, size, out=np.zeros_like(drawn.W), where=size > 0.0)
    if len(signs) > n_hidden:
        return Network(W, drawn.b, drawn.alpha)
    new = slice(len(signs), None)
    for shrink in [*0.5 ** np.arange(HALVINGS), 0.0]:
        start = Network(
            W=np.vstack([np.reshape(copied, (-1, n_features)), shrink * W[new]]),
            b=np.concatenate([np.zeros(len(signs)), shrink * drawn.b[new]]),
            alpha=np.concatenate([signs, shrink * drawn.alpha[new]]),
        )
        if _whitened_regloss(white, start) <= limit:
            break
    return start


def _whitened_regloss(white: WhitenedProblem, network: Network) -> float:
    """Return RegLoss, summed over the rows in the order of the whitened problem."""
    return white.regloss(white.whiten(network), white.output_weights(network))
