"""Keras models."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from dconnet.export.chain import Chain, dtype_name

if TYPE_CHECKING:
    from keras import Sequential


def to_keras(chain: Chain, dtype: object = "float64") -> Sequential:
    """Return a ``keras.Sequential`` of ``Dense`` layers.

    Keras chooses its backend when it is first imported: the one that ``KERAS_BACKEND`` or its configuration file names.
    If that is TensorFlow but only PyTorch is installed, this function imports Keras with PyTorch. With PyTorch and JAX,
    Keras multiplies matrices in single precision: the weights are exact, but the outputs agree to about seven digits.
    """
    keras = _keras()
    name = dtype_name(dtype)
    weights = chain.weights(name)
    model: Sequential = keras.Sequential([keras.Input((chain.n_features,), dtype=name)])
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
