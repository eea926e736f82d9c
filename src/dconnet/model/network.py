"""Networks with one hidden layer of ReLU neurons, and stacks of several layers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from dconnet._arrays import FloatArray, Frozen, frozen_copy
from dconnet.export.chain import Affine, Chain, Exportable
from dconnet.model.rows import blocks


@dataclass(frozen=True, slots=True, eq=False)
class Network(Frozen, Exportable):
    """A single-hidden-layer ReLU network ``f(x) = c + Σ_l alpha_l max(<w_l, x> + b_l, 0)``.

    Parameters
    ----------
    W : array-like of shape (n_hidden, n_features)
        Weights of the hidden neurons.
    b : array-like of shape (n_hidden,)
        Intercepts of the hidden neurons.
    alpha : array-like of shape (n_hidden,) or (n_hidden, n_outputs)
        Output weights. With two dimensions, the network has several outputs over the same hidden layer.
    intercept : float or array-like of shape (n_outputs,), default=0.0
        c, the output intercept; one number serves all outputs.

    Examples
    --------
    >>> from dconnet import Network
    >>> absolute_value = Network(W=[[1.0], [-1.0]], b=[0.0, 0.0], alpha=[1.0, 1.0])
    >>> absolute_value.predict([[-3.0], [2.0]])
    array([3., 2.])
    >>> both = Network(W=[[1.0], [-1.0]], b=[0.0, 0.0], alpha=[[1.0, 1.0], [1.0, -1.0]], intercept=[0.0, 5.0])
    >>> both.predict([[-3.0], [2.0]])  # |x| and x + 5
    array([[3., 2.],
           [2., 7.]])
    """

    W: FloatArray
    b: FloatArray
    alpha: FloatArray
    intercept: float | FloatArray = 0.0

    def __init__(self, W: ArrayLike, b: ArrayLike, alpha: ArrayLike, intercept: ArrayLike = 0.0) -> None:
        object.__setattr__(self, "W", frozen_copy(W, name="W", ndim=2))
        object.__setattr__(self, "b", frozen_copy(b, name="b", ndim=1))
        object.__setattr__(self, "alpha", frozen_copy(alpha, name="alpha", ndim=2 if np.ndim(alpha) == 2 else 1))
        object.__setattr__(self, "intercept", self._check_intercept(intercept))
        if not len(self.W) == len(self.b) == len(self.alpha):
            raise ValueError(
                "W, b and alpha must agree on the number of neurons, got "
                f"{len(self.W)}, {len(self.b)} and {len(self.alpha)}."
            )

    def _check_intercept(self, intercept: ArrayLike) -> float | FloatArray:
        """Return a number if the output weights are a vector, otherwise one for each output."""
        values = np.asarray(intercept, dtype=np.float64)
        if not np.isfinite(values).all():
            raise ValueError(f"intercept must be a finite number, got {values}.")
        if self.alpha.ndim == 1:
            if values.ndim:
                raise ValueError(f"intercept must be one number for one output, got shape {values.shape}.")
            return float(values)
        if values.shape not in ((), (self.n_outputs,)):
            raise ValueError(f"intercept must have {self.n_outputs} entries, got shape {values.shape}.")
        return frozen_copy(np.broadcast_to(values, self.n_outputs), name="intercept", ndim=1)

    @property
    def n_hidden(self) -> int:
        """Number of hidden neurons."""
        return len(self.b)

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return int(self.W.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return 1 if self.alpha.ndim == 1 else int(self.alpha.shape[1])

    @property
    def parameters(self) -> FloatArray:
        """All weights in one vector ``(alpha, W, b)``, in the paper's order; the intercept is not among them."""
        return np.concatenate([self.alpha.ravel(), self.W.ravel(), self.b])

    def with_intercept(self, intercept: ArrayLike) -> Network:
        """Return the network with another output intercept."""
        same = np.array_equal(intercept, self.intercept)
        return self if same else Network(self.W, self.b, self.alpha, intercept)

    def of_output(self, k: int) -> Network:
        """Return output ``k`` as a network with one output."""
        if not 0 <= k < self.n_outputs:
            raise ValueError(f"output must be from 0 to {self.n_outputs - 1}, got {k}.")
        if self.alpha.ndim == 1:
            return self
        return Network(self.W, self.b, self.alpha[:, k], np.atleast_1d(self.intercept)[k])

    def preactivations(self, X: ArrayLike) -> FloatArray:
        """Return ``<w_l, x_j> + b_l`` of every row and neuron, of shape (n_samples, n_hidden)."""
        Z: FloatArray = self._check_inputs(X) @ self.W.T
        Z += self.b
        return Z

    def _check_inputs(self, X: ArrayLike) -> FloatArray:
        X = np.asarray(X, dtype=np.float64, order="C")  # products of other layouts may round differently
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise ValueError(f"X must have shape (n_samples, {self.n_features}), got {X.shape}.")
        return X

    def hidden(self, X: ArrayLike) -> FloatArray:
        """Return the activations of the hidden layer, of shape (n_samples, n_hidden)."""
        Z = self.preactivations(X)
        return np.maximum(Z, 0.0, out=Z)

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the output for every row of ``X``, of shape (n_samples,) or (n_samples, n_outputs).

        Raises OverflowError if the output for finite inputs is too large for a float.
        """
        X = self._check_inputs(X)
        output = np.empty((len(X), *self.alpha.shape[1:]))
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in blocks(len(X)):  # the whole hidden layer may be larger than X
                output[rows] = self.hidden(X[rows]) @ self.alpha + self.intercept
        if np.isfinite(output).all() or not all(np.isfinite(X[rows]).all() for rows in blocks(len(X))):
            return output
        return refuse_overflow(output)

    def _build_chain(self) -> Chain:
        intercept = np.broadcast_to(self.intercept, self.n_outputs)
        if self.n_hidden == 0:
            return Chain((Affine(np.zeros((self.n_outputs, self.n_features)), intercept),))
        return Chain((Affine(self.W, self.b), Affine(self.alpha.reshape(self.n_hidden, -1).T, intercept)))


def refuse_overflow(outputs: FloatArray) -> FloatArray:
    """Return the outputs, or raise OverflowError if one is not finite."""
    if not np.isfinite(outputs).all():
        row = int(np.flatnonzero(~np.isfinite(outputs).reshape(len(outputs), -1).all(axis=1))[0])
        raise OverflowError(f"The prediction for row {row} of X overflows: its values are too large for this model.")
    return outputs


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Hidden layers on top of each other, from bottom to top.

    A layer holds one network for each target. The layer above receives the hidden neurons of all of them, and with
    ``skip`` also the raw inputs. Only the output weights of the top layer are used.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.model.network import Stack
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
