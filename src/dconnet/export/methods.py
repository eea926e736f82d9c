"""The export methods of networks and fitted estimators."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING

from dconnet.export.chain import Chain, ClassifierChain, Exported, select_output

if TYPE_CHECKING:
    from keras import Sequential as KerasSequential
    from onnx import ModelProto
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from torch.nn import Sequential as TorchSequential


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
        from dconnet.export.torch import to_torch

        return to_torch(self.to_chain(output=output), dtype)

    def to_keras(self, *, output: str = "raw", dtype: object = "float64") -> KerasSequential:
        """Return a Keras model of ``Dense`` layers; needs the extra ``keras``.

        Except with TensorFlow, Keras multiplies in single precision: outputs agree to about seven digits.
        """
        from dconnet.export.keras import to_keras

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
        from dconnet.export.sklearn import to_mlp_classifier, to_mlp_regressor

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
