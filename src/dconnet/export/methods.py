"""The methods by which networks, fitted estimators and saved models leave the package."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING

from dconnet.export.chain import Chain, ClassifierChain, Exported, chosen

if TYPE_CHECKING:
    from keras import Sequential as KerasSequential
    from onnx import ModelProto
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from torch.nn import Sequential as TorchSequential


class Exportable:
    """Base of what can be exported; inputs and outputs are in the units of the data."""

    __slots__ = ()

    @abstractmethod
    def _exported(self) -> Exported:
        """The function as a chain, or as one that tells classes apart."""

    def to_chain(self, *, output: str = "raw") -> Chain:
        """The function as affine maps with ReLU between them.

        Parameters
        ----------
        output : {"raw", "probabilities"}, default="raw"
            The outputs of the networks, or the probability of each class of a classifier.

        Returns
        -------
        Chain
            The weights and intercepts of all layers, the scaling of the data included.
        """
        return chosen(self._exported(), output)

    def to_torch(self, *, output: str = "raw", dtype: object = "float64") -> TorchSequential:
        """The function as a PyTorch module; needs the extra ``torch``.

        Parameters
        ----------
        output : {"raw", "probabilities"}, default="raw"
            The outputs of the networks, or the probability of each class of a classifier.
        dtype : {"float64", "float32"} or torch.dtype, default="float64"
            Type of weights, inputs and outputs.

        Returns
        -------
        torch.nn.Sequential
            ``Linear`` layers with ``ReLU`` between them, and ``Softmax`` for probabilities. The output has the shape
            (n_samples, n_outputs), also for one output.
        """
        from dconnet.export.torch import to_torch

        return to_torch(self.to_chain(output=output), dtype)

    def to_keras(self, *, output: str = "raw", dtype: object = "float64") -> KerasSequential:
        """The function as a Keras model; needs the extra ``keras``.

        Parameters
        ----------
        output : {"raw", "probabilities"}, default="raw"
            The outputs of the networks, or the probability of each class of a classifier.
        dtype : {"float64", "float32"}, default="float64"
            Type of weights, inputs and outputs.

        Returns
        -------
        keras.Sequential
            ``Dense`` layers, on the backend that Keras uses. The output has the shape (n_samples, n_outputs), also for
            one output. Except with TensorFlow, Keras multiplies in single precision: outputs agree to about seven
            digits.
        """
        from dconnet.export.keras import to_keras

        return to_keras(self.to_chain(output=output), dtype)

    def to_onnx(
        self, path: str | os.PathLike[str] | None = None, *, output: str | None = None, dtype: object = "float64"
    ) -> ModelProto:
        """The function as an ONNX model; needs the extra ``onnx``.

        Parameters
        ----------
        path : path-like, optional
            File to write the model to.
        output : {"raw", "probabilities"}, optional
            What a classifier gives beside labels; by default, the probabilities if it has any.
        dtype : {"float64", "float32"}, default="float64"
            Type of weights, inputs and outputs.

        Returns
        -------
        onnx.ModelProto
            The input is ``X``, of shape (n_samples, n_features). The output is ``variable``, of shape (n_samples,
            n_outputs), also for one output. Those of a classifier are ``label``, of shape (n_samples,), and
            ``probabilities``, of shape (n_samples, n_classes), or ``scores``.
        """
        from dconnet.export.onnx import to_onnx

        return to_onnx(self._exported(), path, output=output, dtype=dtype)

    def to_sklearn(self, *, output: str = "raw") -> MLPRegressor | MLPClassifier:
        """The function as a multi-layer perceptron of scikit-learn.

        Parameters
        ----------
        output : {"raw", "probabilities"}, default="raw"
            For classifiers: with "raw", the perceptron predicts the same classes, but its probabilities are not
            calibrated. With "probabilities", its probabilities are those of the classifier, and it predicts the class
            of the largest.

        Returns
        -------
        sklearn.neural_network.MLPRegressor or MLPClassifier
            Fitted, with the weights of the networks.
        """
        from dconnet.export.sklearn import to_mlp_classifier, to_mlp_regressor

        exported = self._exported()
        if isinstance(exported, ClassifierChain):
            return to_mlp_classifier(exported, output)
        return to_mlp_regressor(chosen(exported, output))

    def to_c(self, name: str = "predict", *, output: str = "raw", precision: str = "double") -> str:
        """The function as C99 source that needs no library; see `dconnet.export.c.to_c`.

        Parameters
        ----------
        name : str, default="predict"
            Name of the function: ``void name(const double x[n_features], double y[n_outputs])``.
        output : {"raw", "probabilities"}, default="raw"
            The outputs of the networks, or the probability of each class of a classifier.
        precision : {"double", "float"}, default="double"
            Type of weights, inputs and outputs.

        Returns
        -------
        str
            The source of one file, with the names of features and outputs as comments.
        """
        from dconnet.export.c import to_c

        return to_c(self.to_chain(output=output), name, precision)

    def to_python(self, name: str = "predict", *, output: str = "raw") -> str:
        """The function as Python source that needs no package; see `dconnet.export.python.to_python`.

        Parameters
        ----------
        name : str, default="predict"
            Name of the function. It takes a list of numbers.
        output : {"raw", "probabilities"}, default="raw"
            The outputs of the networks, or the probability of each class of a classifier.

        Returns
        -------
        str
            The source of a module. Its function returns a number, or a list if there are several outputs.
        """
        from dconnet.export.python import to_python

        return to_python(self.to_chain(output=output), name)
