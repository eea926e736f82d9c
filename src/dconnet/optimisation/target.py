"""What is optimised: one output of a network, or a weighted sum of outputs, as a network with one output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray, frozen_copy
from dconnet.model.network import Network


def one_output(model: Any, output: int | None = None, weights: ArrayLike | None = None) -> Network:
    """An output of a network or of a fitted estimator, or a weighted sum of its outputs, as a network of its own.

    Parameters
    ----------
    model : Network or estimator
        A network, or anything fitted that keeps its networks as ``networks_``, such as `DCONRegressor`.
    output : int, optional
        Which output: the column of a regressor's target, or the class of a classifier with one network for each.
    weights : array-like of shape (n_outputs,), optional
        Weights of the outputs in the sum, instead of ``output``.

    Returns
    -------
    Network
        With one output.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.optimisation.target import one_output
    >>> both = Network(W=[[1.0], [-1.0]], b=[0.0, 0.0], alpha=[[1.0, 1.0], [1.0, -1.0]], intercept=[0.0, 5.0])
    >>> one_output(both, weights=[1.0, 1.0]).predict([[-3.0], [2.0]])  # |x| + (x + 5)
    array([5., 9.])
    """
    networks = _networks(model)
    n_outputs = sum(network.n_outputs for network in networks)
    shares = np.split(_weights(n_outputs, output, weights), np.cumsum([network.n_outputs for network in networks])[:-1])
    used = [(network, share) for network, share in zip(networks, shares, strict=True) if share.any()] or [
        (networks[0], shares[0])
    ]
    alphas = [network.alpha.reshape(network.n_hidden, network.n_outputs) @ share for network, share in used]
    return Network(
        np.vstack([network.W for network, _ in used]),
        np.concatenate([network.b for network, _ in used]),
        np.concatenate(alphas),
        float(sum(np.atleast_1d(network.intercept) @ share for network, share in used)),
    )


def _networks(model: Any) -> Sequence[Network]:
    if isinstance(model, Network):
        return (model,)
    found = getattr(model, "networks_", None)
    if not found or not all(isinstance(network, Network) for network in found):
        raise TypeError(
            "network must be a Network or a fitted DCONRegressor or DCONClassifier, with its networks as networks_, "
            f"got {type(model).__name__}."
        )
    return tuple(found)


def _weights(n_outputs: int, output: int | None, weights: ArrayLike | None) -> FloatArray:
    if output is not None and weights is not None:
        raise ValueError("Give output or weights, not both.")
    if weights is not None:
        given = frozen_copy(weights, name="weights", ndim=1)
        if len(given) != n_outputs:
            raise ValueError(f"weights must have an entry for each of the {n_outputs} outputs, got {len(given)}.")
        return given
    if output is None:
        if n_outputs > 1:
            raise ValueError(f"There are {n_outputs} outputs: choose one with output=, or weigh them with weights=.")
        output = 0
    if not 0 <= output < n_outputs:
        raise ValueError(f"output must be from 0 to {n_outputs - 1}, got {output}.")
    chosen: FloatArray = np.eye(n_outputs)[output]
    return chosen
