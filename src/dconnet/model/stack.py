"""Networks of several hidden layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from dconnet._arrays import FloatArray
from dconnet.export.chain import Affine, Chain
from dconnet.model.network import Network


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Hidden layers on top of each other, from bottom to top.

    A layer holds one network for each target. The layer above receives the hidden neurons of all of them, and with
    ``skip`` also the raw inputs. Only the output weights of the top layer are used.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.model.stack import Stack
    >>> absolute_value = Network(W=[[1.0], [-1.0]], b=[0.0, 0.0], alpha=[1.0, 1.0])
    >>> tent = Network(W=[[-1.0, -1.0]], b=[1.0], alpha=[1.0])  # max(1 - |x|, 0) on top of it
    >>> Stack(skip=False, layers=((absolute_value,), (tent,))).outputs([[-0.25], [2.0]])
    array([[0.75],
           [0.  ]])
    """

    skip: bool
    layers: tuple[tuple[Network, ...], ...] = ()

    def with_layer(self, layer: tuple[Network, ...]) -> Stack:
        """Return the stack with one more layer on top."""
        return Stack(self.skip, (*self.layers, layer))

    def features(self, X: ArrayLike) -> FloatArray:
        """Return the inputs of a further layer: the hidden neurons of the top layer, and with ``skip`` the inputs."""
        X = np.asarray(X, dtype=np.float64)
        features = X
        for layer in self.layers:
            hidden = [network.hidden(features) for network in layer]
            features = np.hstack([*hidden, X] if self.skip else hidden)
        return features

    def hidden(self, X: ArrayLike) -> FloatArray:
        """Return the activations of the top layer, of shape (n_samples, n_neurons)."""
        below = Stack(self.skip, self.layers[:-1]).features(X)
        return np.hstack([network.hidden(below) for network in self.layers[-1]])

    def outputs(self, X: ArrayLike) -> FloatArray:
        """Return the predictions of the top layer, of shape (n_samples, n_targets)."""
        below = Stack(self.skip, self.layers[:-1]).features(X)
        return np.column_stack([network.predict(below) for network in self.layers[-1]])

    def output_weights(self, target: int) -> FloatArray:
        """Return the weights of one target for all neurons of the top layer; zero for the neurons of other targets."""
        own = self.layers[-1][target]
        return np.concatenate([network.alpha * (network is own) for network in self.layers[-1]])

    def chain(self) -> Chain:
        """Return the predictions of the top layer as affine maps with ReLU between them.

        With ``skip``, the inputs pass through the layers as ``max(x, 0)`` and ``max(-x, 0)``.
        """
        n_inputs = self.layers[0][0].n_features
        # The inputs of the layer as a linear map of the activations below.
        received, affines = np.eye(n_inputs), list[Affine]()
        for depth, layer in enumerate(self.layers):
            W = np.vstack([network.W for network in layer]) @ received
            b = np.concatenate([network.b for network in layer])
            if self.skip and depth < len(self.layers) - 1:
                inputs = received[-n_inputs:]
                n_neurons, both = len(b), np.vstack([inputs, -inputs])
                W, b = np.vstack([W, both]), np.concatenate([b, np.zeros(2 * n_inputs)])
                received = np.zeros((n_neurons + n_inputs, n_neurons + 2 * n_inputs))
                received[:n_neurons, :n_neurons] = np.eye(n_neurons)
                received[n_neurons:, n_neurons:] = np.hstack([np.eye(n_inputs), -np.eye(n_inputs)])
            else:
                received = np.eye(len(b))
            affines.append(Affine(W, b))
        weights = [network.alpha.reshape(network.n_hidden, -1).T for network in self.layers[-1]]
        intercepts = [np.broadcast_to(network.intercept, network.n_outputs) for network in self.layers[-1]]
        return Chain((*affines, Affine(linalg.block_diag(*weights), np.concatenate(intercepts))))
