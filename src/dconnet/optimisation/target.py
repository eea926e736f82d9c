"""The objective of an optimisation: a network with one output."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray, frozen_copy
from dconnet.export.chain import Affine
from dconnet.export.methods import Exportable
from dconnet.model.network import Network


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
    indicator: FloatArray = np.eye(n_outputs)[output]
    return indicator
