"""The form that all exports share: affine maps with ReLU between them, as plain arrays; and the export methods."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray, Frozen, frozen_copy

if TYPE_CHECKING:
    from keras import Sequential as KerasSequential
    from onnx import ModelProto
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from torch.nn import Sequential as TorchSequential


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

    The ``layers`` are ordered from inputs to outputs. Names of inputs and outputs are empty if they have none.

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

    ``scores`` has one output that is positive for the second of two classes, or one output for each class, the largest
    for the predicted one. ``logits`` maps the scores to the log-odds of the second class, or to the logits of all
    classes; it is None if there are no probabilities.
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
    return powers / powers.sum(axis=1, keepdims=True)


def dtype_name(dtype: object) -> str:
    """Return the name of a type of NumPy or torch, which must be one of `DTYPES`."""
    name = dtype.__name__ if isinstance(dtype, type) else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
    return name


class Exportable:
    """Mixin with the export methods; inputs and outputs are in the units of the data.

    All methods have the option ``output``: "raw" for the outputs of the networks, or "probabilities" for the
    probability of each class of a classifier. ``dtype``, "float64" or "float32", is the type of weights, inputs and
    outputs. Outputs have the shape (n_samples, n_outputs), also for one output.
    """

    __slots__ = ()

    @abstractmethod
    def _build_chain(self) -> Exported:
        """Return the function as a chain."""

    def to_chain(self, *, output: str = "raw") -> Chain:
        """Return weights and intercepts of all layers as plain arrays, the scaling of the data included."""
        return select_output(self._build_chain(), output)

    def to_torch(self, *, output: str = "raw", dtype: object = "float64") -> TorchSequential:
        """Return a PyTorch module of ``Linear``, ``ReLU`` and ``Softmax``; needs the extra ``torch``."""
        from dconnet.export.libraries import to_torch

        return to_torch(self.to_chain(output=output), dtype)

    def to_keras(self, *, output: str = "raw", dtype: object = "float64") -> KerasSequential:
        """Return a Keras model of ``Dense`` layers; needs the extra ``keras``.

        Except with TensorFlow, Keras multiplies in single precision: outputs agree to about seven digits.
        """
        from dconnet.export.libraries import to_keras

        return to_keras(self.to_chain(output=output), dtype)

    def to_onnx(
        self, path: str | os.PathLike[str] | None = None, *, output: str | None = None, dtype: object = "float64"
    ) -> ModelProto:
        """Return an ONNX model; needs the extra ``onnx``.

        The input is ``X``, of shape (n_samples, n_features), and the output ``variable``. A classifier has the outputs
        ``label``, of shape (n_samples,), and ``probabilities``, of shape (n_samples, n_classes), or ``scores``.

        Parameters
        ----------
        path : path-like, optional
            File to write the model to.
        output : {"raw", "probabilities"}, optional
            Scores or probabilities of a classifier; by default, the probabilities if it has any.
        dtype : {"float64", "float32"}, default="float64"
            Type of weights, inputs and outputs.
        """
        from dconnet.export.onnx import to_onnx

        return to_onnx(self._build_chain(), path, output=output, dtype=dtype)

    def to_sklearn(self, *, output: str = "raw") -> MLPRegressor | MLPClassifier:
        """Return a fitted multi-layer perceptron of scikit-learn with the same weights.

        With "raw", the perceptron of a classifier predicts the same classes, but its probabilities are not calibrated.
        With "probabilities", its probabilities are those of the classifier, and it predicts the most probable class.
        """
        from dconnet.export.libraries import to_mlp_classifier, to_mlp_regressor

        exported = self._build_chain()
        if isinstance(exported, ClassifierChain):
            return to_mlp_classifier(exported, output)
        return to_mlp_regressor(select_output(exported, output))

    def to_c(self, name: str = "predict", *, output: str = "raw", precision: str = "double") -> str:
        """Return C99 source of ``void name(const double x[n_features], double y[n_outputs])``.

        The source needs no library but ``math.h`` for probabilities, and is valid C++ as well. The names of features
        and outputs are comments. `precision` is "double" or "float".
        """
        from dconnet.export.source import to_c

        return to_c(self.to_chain(output=output), name, precision)

    def to_python(self, name: str = "predict", *, output: str = "raw") -> str:
        """Return the source of a Python module that needs no package.

        Its function `name` takes a list of numbers, and returns a number, or a list if there are several outputs.
        """
        from dconnet.export.source import to_python

        return to_python(self.to_chain(output=output), name)
