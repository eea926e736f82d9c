"""Networks for other libraries: PyTorch modules, Keras models, and multi-layer perceptrons of scikit-learn."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from dconnet.export.chain import Chain, ClassifierChain, dtype_name

if TYPE_CHECKING:
    from keras import Sequential as KerasSequential
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from torch.nn import Sequential as TorchSequential


def to_torch(chain: Chain, dtype: object = "float64") -> TorchSequential:
    """Return a ``torch.nn.Sequential`` of ``Linear`` and ``ReLU``, and ``Softmax`` for probabilities."""
    torch = _torch()
    name = dtype_name(dtype)
    modules: list[Any] = []
    for W, b in chain.weights(name):
        # Without skip_init, the layer would draw random weights and advance the caller's generator.
        linear = torch.nn.utils.skip_init(torch.nn.Linear, W.shape[1], W.shape[0], dtype=getattr(torch, name))
        with torch.no_grad():
            linear.weight.copy_(torch.tensor(W))
            linear.bias.copy_(torch.tensor(b))
        modules += [linear, torch.nn.ReLU()]
    modules[-1:] = [torch.nn.Softmax(dim=1)] if chain.softmax else []
    return torch.nn.Sequential(*modules)


def torch_file(chain: Chain, dtype: object = "float64") -> bytes:
    """Return the content of a file for ``torch.export.load``; the number of rows is free."""
    torch = _torch()
    module = to_torch(chain, dtype)
    # Two rows: a size of one would be taken for a constant.
    example = torch.zeros(2, chain.n_features, dtype=module[0].weight.dtype)
    programme = torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim("n_samples")},))
    buffer = BytesIO()
    torch.export.save(programme, buffer)
    return buffer.getvalue()


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ImportError("This export needs PyTorch: pip install 'dconnet[torch]'") from error
    return torch


def to_keras(chain: Chain, dtype: object = "float64") -> KerasSequential:
    """Return a ``keras.Sequential`` of ``Dense`` layers.

    Keras chooses its backend when it is first imported: the one that ``KERAS_BACKEND`` or its configuration file names.
    If that is TensorFlow but only PyTorch is installed, this function imports Keras with PyTorch. With PyTorch and JAX,
    Keras multiplies matrices in single precision: the weights are exact, but the outputs agree to about seven digits.
    """
    keras = _keras()
    name = dtype_name(dtype)
    weights = chain.weights(name)
    model: KerasSequential = keras.Sequential([keras.Input((chain.n_features,), dtype=name)])
    for place, (W, b) in enumerate(weights):
        is_last = place == len(weights) - 1
        activation = ("softmax" if chain.softmax else "linear") if is_last else "relu"
        # Random initial weights would advance the caller's generator.
        model.add(keras.layers.Dense(len(b), activation=activation, dtype=name, kernel_initializer="zeros"))
        model.layers[-1].set_weights([W.T, b])
    return model


def keras_file(chain: Chain, dtype: object = "float64") -> bytes:
    """Return the content of a file for ``keras.saving.load_model``."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        to_keras(chain, dtype).save(path)
        return path.read_bytes()


def _keras() -> Any:
    needed = "This export needs Keras 3 and one of its backends: pip install 'dconnet[keras]'"
    backend = {"KERAS_BACKEND": "torch"} if _needs_torch_backend() else {}
    try:
        with patch.dict(os.environ, backend):
            import keras
    except ModuleNotFoundError as error:
        raise ImportError(needed) from error
    if int(keras.__version__.split(".")[0]) < 3:
        raise ImportError(f"{needed}. Keras {keras.__version__} is installed.")
    return keras


def _needs_torch_backend() -> bool:
    """Return whether Keras would import TensorFlow, its default, although only PyTorch is installed."""
    if "keras" in sys.modules or "KERAS_BACKEND" in os.environ or find_spec("tensorflow") or not find_spec("torch"):
        return False
    home = Path(os.environ.get("KERAS_HOME") or Path("~/.keras").expanduser())
    try:
        configured = json.loads((home / "keras.json").read_text())["backend"]
    except (OSError, ValueError, KeyError, TypeError):
        return True
    return bool(configured == "tensorflow")


def to_mlp_regressor(chain: Chain) -> MLPRegressor:
    """Return a fitted ``MLPRegressor`` with the weights of a chain without a softmax."""
    from sklearn.neural_network import MLPRegressor

    if chain.softmax:
        raise ValueError("An MLPRegressor has no softmax: export the raw outputs.")
    model = MLPRegressor(hidden_layer_sizes=chain.widths, activation="relu", random_state=0)
    model.partial_fit(np.zeros((1, chain.n_features)), np.zeros(1 if chain.n_outputs == 1 else (1, chain.n_outputs)))
    return _set_weights(model, chain)


def to_mlp_classifier(exported: ClassifierChain, output: str = "raw") -> MLPClassifier:
    """Return a fitted ``MLPClassifier`` whose sigmoid or softmax receives the raw scores or the logits."""
    from sklearn.neural_network import MLPClassifier

    if output not in ("raw", "probabilities"):
        raise ValueError(f"output must be 'raw' or 'probabilities', got {output!r}.")
    chain = exported.scores if output == "raw" else exported.logit_chain
    classes = np.array(exported.classes)
    model = MLPClassifier(hidden_layer_sizes=chain.widths, activation="relu", random_state=0)
    model.partial_fit(np.zeros((len(classes), chain.n_features)), classes, classes=classes)
    return _set_weights(model, chain)


def _set_weights(model: Any, chain: Chain) -> Any:
    """Set the weights of a model that one step on zeros has given its shape, and remove all traces of that step."""
    model.coefs_ = [layer.W.T.copy() for layer in chain.layers]
    model.intercepts_ = [layer.b.copy() for layer in chain.layers]
    model.n_iter_ = model.t_ = 0
    model.loss_curve_ = []
    model.loss_ = model.best_loss_ = np.inf
    del model._optimizer  # partial_fit then creates a new one
    if chain.feature_names:
        model.feature_names_in_ = np.array(chain.feature_names, dtype=object)
    return model
