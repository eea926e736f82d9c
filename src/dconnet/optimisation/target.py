"""What is optimised: one output of a network, or a weighted sum of outputs, as a network with one output."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray, frozen_copy
from dconnet.export.chain import Affine
from dconnet.export.methods import Exportable
from dconnet.model.network import Network


def one_output(model: Any, output: int | None = None, weights: ArrayLike | None = None) -> Network:
    """An output of a network or of a fitted estimator, or a weighted sum of its outputs, as a network of its own.

    Parameters
    ----------
    model : Network or estimator
        A network, or a model with one hidden layer: a fitted `DCONRegressor` or `DCONClassifier`, or what `load_model`
        returns for one.
    output : int, optional
        Which output: the number of a column of a regressor's target, or of a class in ``classes_``.
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
    hidden, outputs = _layers(model)
    share = _weights(outputs.n_outputs, output, weights)
    used = np.flatnonzero(outputs.W[share != 0.0].any(axis=0))
    if not len(used):  # a network needs a neuron
        used = np.arange(1)
    return Network(hidden.W[used], hidden.b[used], share @ outputs.W[:, used], float(share @ outputs.b))


def _layers(model: Any) -> tuple[Affine, Affine]:
    """The hidden layer of a model, and the outputs as a map of its neurons."""
    if not isinstance(model, Exportable):
        raise TypeError(
            "network must be a Network, or a fitted DCONRegressor or DCONClassifier, got "
            f"{type(model).__name__}. Of a pipeline or a search, pass the network itself, such as pipeline[-1]; bounds "
            "are then in the units of what it is given."
        )
    layers = model.to_chain().layers
    if len(layers) == 1:  # a network without neurons, which is constant
        (constant,) = layers
        return Affine(np.zeros((1, constant.n_inputs)), np.zeros(1)), Affine(constant.W[:, :1], constant.b)
    if len(layers) != 2:
        raise TypeError(f"network must have one hidden layer, but this {type(model).__name__} has {len(layers) - 1}.")
    return layers[0], layers[1]


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
    if isinstance(output, bool) or not isinstance(output, (int, np.integer)) or not 0 <= output < n_outputs:
        raise ValueError(
            f"output must be a whole number from 0 to {n_outputs - 1}, got {output!r}. It counts columns or classes, "
            "and is not a label; two classes have one output, which is largest for the second of them."
        )
    chosen: FloatArray = np.eye(n_outputs)[output]
    return chosen
