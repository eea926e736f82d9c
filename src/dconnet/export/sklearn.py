"""Multi-layer perceptrons of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet.export.chain import Chain, ClassifierChain

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier, MLPRegressor


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
