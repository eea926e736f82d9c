"""The start of a further layer: a copy of the network below it, so that another layer does not raise RegLoss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dconnet._arrays import FloatArray, safe_norm
from dconnet.model.network import Network
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.model.stack import Stack
from dconnet.training.initialization import xavier

# How often the new neurons of a start are halved before they are left out.
HALVINGS = 30


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
        limit = whitened_regloss(replace(own.whitened, gamma=problems[0].gamma), below.layers[-1][k])
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

    Parameters
    ----------
    problem : Problem
        The problem of the new layer.
    carried : array of shape (n_neurons_below,)
        Output weights of the network below, for the first columns of the features.
    n_hidden : int
        Number of neurons.
    limit : float
        RegLoss that the start should not exceed.
    rng : numpy.random.Generator
        Source of the new neurons.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import Network, Problem
    >>> from dconnet.training.continuation import continuation
    >>> X, y = np.linspace(-1, 1, 9).reshape(-1, 1), np.ones(9)
    >>> below = Network(W=[[1.0], [-1.0]], b=[0.0, 0.5], alpha=[1.0, -1.0])
    >>> above = Problem(below.hidden(X), y, gamma=0.1)
    >>> start = continuation(above, below.alpha, n_hidden=2, limit=0.0, rng=np.random.default_rng(0))
    >>> bool(np.allclose(start.predict(below.hidden(X)), below.predict(X)))
    True
    """
    white = problem.whitened  # indifferent to the order of the rows, and so is the start
    copy = _copied_output(white, carried)
    fresh = _in_units_of(white, xavier(problem.X.shape[1], n_hidden, rng))
    if copy.n_hidden > n_hidden:
        return fresh
    for shrink in [*0.5 ** np.arange(HALVINGS), 0.0]:
        start = _completed(copy, fresh, shrink)
        if whitened_regloss(white, start) <= limit:
            break
    return start


def _copied_output(white: WhitenedProblem, carried: FloatArray) -> Network:
    """The network below as one neuron for each sign of its output weights, with balanced weights."""
    n_features = white.whitening.to_white.shape[1] - 1
    U, alpha = [], []
    for sign in (1.0, -1.0):
        u = np.zeros(n_features + 1)
        u[: len(carried)] = np.maximum(sign * carried, 0.0)
        norm = safe_norm(white.whitening.to_white @ u)
        if norm > 0.0:
            U.append(u / np.sqrt(norm))
            alpha.append(sign * np.sqrt(norm))
    return Network(np.reshape(U, (-1, n_features + 1))[:, :-1], np.zeros(len(alpha)), alpha)


def _in_units_of(white: WhitenedProblem, network: Network) -> Network:
    """The network with its weights for features of order one, turned to those of the problem."""
    size = np.linalg.norm(white.whitening.to_white[:, :-1], axis=0) / np.sqrt(white.total_weight)
    W = np.divide(network.W, size, out=np.zeros_like(network.W), where=size > 0.0)
    return Network(W, network.b, network.alpha)


def whitened_regloss(white: WhitenedProblem, network: Network) -> float:
    """RegLoss, summed over the rows in the order of the whitened problem."""
    V = white.whiten(network)
    return white.regloss(V, white.output_weights(network))


def _completed(copy: Network, fresh: Network, shrink: float) -> Network:
    """Return the copy with new neurons up to the width of ``fresh``."""
    new = slice(copy.n_hidden, None)
    return Network(
        W=np.vstack([copy.W, shrink * fresh.W[new]]),
        b=np.concatenate([copy.b, shrink * fresh.b[new]]),
        alpha=np.concatenate([copy.alpha, shrink * fresh.alpha[new]]),
    )
