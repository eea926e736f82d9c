"""The form that all exports share: affine maps with ReLU between them, as plain arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray, Frozen, frozen_copy

DTYPES = ("float64", "float32")


@dataclass(frozen=True, slots=True, eq=False)
class Affine(Frozen):
    """The affine map ``x ↦ W x + b``, with W of shape (n_outputs, n_inputs) and b of shape (n_outputs,)."""

    W: FloatArray
    b: FloatArray

    def __init__(self, W: ArrayLike, b: ArrayLike) -> None:
        object.__setattr__(self, "W", _finite(W, "W", 2))
        object.__setattr__(self, "b", _finite(b, "b", 1))
        if 0 in self.W.shape or len(self.W) != len(self.b):
            raise ValueError(
                f"An affine map needs inputs and outputs, and an intercept for each output, got W of shape "
                f"{self.W.shape} and {len(self.b)} intercepts."
            )

    @classmethod
    def diagonal(cls, slope: ArrayLike, offset: ArrayLike, size: int) -> Affine:
        """Return the map ``x ↦ slope x + offset`` of ``size`` entries; numbers are broadcast."""
        return cls(np.diag(np.broadcast_to(slope, size)), np.broadcast_to(offset, size))

    @classmethod
    def identity(cls, size: int) -> Affine:
        """Return the identity."""
        return cls.diagonal(1.0, 0.0, size)

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return int(self.W.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.b)

    def __call__(self, x: FloatArray) -> FloatArray:
        """Apply the map to each row."""
        return x @ self.W.T + self.b

    def after(self, first: Affine) -> Affine:
        """Return the composition of ``first`` and this map, as one map."""
        with np.errstate(over="ignore", invalid="ignore"):  # the constructor refuses values that overflow
            return Affine(self.W @ first.W, self.W @ first.b + self.b)


def _finite(values: ArrayLike, name: str, ndim: int) -> FloatArray:
    array = frozen_copy(values, name=name, ndim=ndim, check_finite=False)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} is not finite: the weights are too large or too small for the scaling of the data.")
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """A feed-forward function: affine maps with ReLU between them, and perhaps a softmax at the end.

    Attributes
    ----------
    layers : tuple of Affine
        From inputs to outputs; negative values become zero between any two of them.
    softmax : bool
        Whether the outputs are turned into probabilities.
    feature_names, output_names : tuples of str
        Names of the inputs and outputs; empty if they have none.

    Examples
    --------
    >>> from dconnet.export.chain import Affine, Chain
    >>> absolute_value = Chain((Affine([[1.0], [-1.0]], [0.0, 0.0]), Affine([[1.0, 1.0]], [0.0])))
    >>> absolute_value([[-3.0], [2.0]])
    array([[3.],
           [2.]])
    """

    layers: tuple[Affine, ...]
    softmax: bool = False
    feature_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError("A chain needs at least one affine map.")
        for below, above in pairwise(self.layers):
            if below.n_outputs != above.n_inputs:
                raise ValueError(f"A map of {above.n_inputs} inputs cannot follow one of {below.n_outputs} outputs.")
        kinds = ("feature", self.feature_names, self.n_features), ("output", self.output_names, self.n_outputs)
        for kind, names, count in kinds:
            if names and len(names) != count:
                raise ValueError(f"{len(names)} {kind} names were given for {count} {kind}s.")

    @property
    def n_features(self) -> int:
        """Number of inputs."""
        return self.layers[0].n_inputs

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.layers[-1].n_outputs

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of neurons of each hidden layer."""
        return tuple(layer.n_outputs for layer in self.layers[:-1])

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the outputs of each row of ``X``, of shape (n_samples, n_outputs)."""
        values = np.asarray(X, dtype=np.float64)
        for layer in self.layers[:-1]:
            values = np.maximum(layer(values), 0.0)
        outputs = self.layers[-1](values)
        return softmax(outputs) if self.softmax else outputs

    def then(self, last: Affine) -> Chain:
        """Return the chain followed by another affine map, without ReLU between them."""
        return replace(self, layers=(*self.layers[:-1], last.after(self.layers[-1])))

    def with_names(self, feature_names: Iterable[object] = (), output_names: Iterable[object] | None = None) -> Chain:
        """Return the chain with these names."""
        outputs = () if output_names is None else output_names
        return replace(self, feature_names=tuple(map(str, feature_names)), output_names=tuple(map(str, outputs)))

    def weights(self, dtype: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return W and b of each layer, rounded to a type of `DTYPES`; refuse weights too large for it."""
        with np.errstate(over="ignore"):
            rounded = [(layer.W.astype(dtype), layer.b.astype(dtype)) for layer in self.layers]
        if not all(np.isfinite(array).all() for pair in rounded for array in pair):
            raise ValueError("The network has weights that are too large for single precision. Use double precision.")
        return rounded


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierChain:
    """A chain that predicts classes.

    Attributes
    ----------
    scores : Chain
        One output that is positive for the second of two classes, or one output for each class, the largest for the
        predicted one.
    classes : tuple
        The class labels.
    logits : Affine or None
        From the scores to the log-odds of the second class, or to the logits of all classes; None if there are no
        probabilities.
    """

    scores: Chain
    classes: tuple[Any, ...]
    logits: Affine | None = None

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes and a single score."""
        return self.scores.n_outputs == 1

    @property
    def logit_chain(self) -> Chain:
        """The chain of the logits; a ValueError if there are no probabilities."""
        if self.logits is None:
            raise ValueError("This classifier has no probabilities: use output='raw', which gives the raw outputs.")
        return self.scores.then(self.logits)

    @property
    def probabilities(self) -> Chain:
        """The chain of the probabilities, with one output for each class, also of two."""
        chain = self.logit_chain
        if self.is_binary:
            # The softmax of (0, z) is (1 - p, p) with the sigmoid p of z.
            chain = replace(chain, output_names=()).then(Affine([[0.0], [1.0]], [0.0, 0.0]))
        return replace(chain, softmax=True, output_names=tuple(map(str, self.classes)))


Exported = Chain | ClassifierChain


def select_output(exported: Exported, output: str) -> Chain:
    """Return the chain of the raw outputs or of the probabilities; a ValueError if there are none."""
    if output not in ("raw", "probabilities"):
        raise ValueError(f"output must be 'raw' or 'probabilities', got {output!r}.")
    if isinstance(exported, ClassifierChain):
        return exported.scores if output == "raw" else exported.probabilities
    if output == "probabilities":
        raise ValueError("Only classifiers have probabilities: use output='raw'.")
    return exported


def softmax(logits: FloatArray) -> FloatArray:
    """Return the softmax of each row, without overflow."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return shares


def dtype_name(dtype: object) -> str:
    """Return the name of a type of NumPy or torch, which must be one of `DTYPES`."""
    name = dtype.__name__ if isinstance(dtype, type) else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
    return name
