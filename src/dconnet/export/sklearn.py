"""Multi-layer perceptrons of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet.export.chain import Chain, ClassifierChain

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier, MLPRegressor


def to_mlp_regressor(chain: Chain) -> MLPRegressor:
    """A fitted ``MLPRegressor`` with the weights of a chain.

    Parameters
    ----------
    chain : Chain
        What to export, without a softmax.

    Returns
    -------
    sklearn.neural_network.MLPRegressor
        It predicts an array of shape (n_samples,), or (n_samples, n_outputs) with several outputs. Its ``partial_fit``
        starts from the weights.
    """
    from sklearn.neural_network import MLPRegressor

    if chain.softmax:
        raise ValueError("An MLPRegressor has no softmax: export the raw outputs.")
    model = MLPRegressor(hidden_layer_sizes=chain.widths, activation="relu", random_state=0)
    model.partial_fit(np.zeros((1, chain.n_features)), np.zeros(1 if chain.n_outputs == 1 else (1, chain.n_outputs)))
    return _with_weights(model, chain)


def to_mlp_classifier(exported: ClassifierChain, output: str = "raw") -> MLPClassifier:
    """A fitted ``MLPClassifier`` with the weights of a chain that tells classes apart.

    Parameters
    ----------
    exported : ClassifierChain
        What to export.
    output : {"raw", "probabilities"}
        What the sigmoid or softmax of an ``MLPClassifier`` is taken of. With "raw", it predicts the same classes, but
        its probabilities are not calibrated. With "probabilities", its probabilities are those of the classifier, and
        it predicts the class of the largest.
    """
    from sklearn.neural_network import MLPClassifier

    if output not in ("raw", "probabilities"):
        raise ValueError(f"output must be 'raw' or 'probabilities', got {output!r}.")
    chain = exported.scores if output == "raw" else exported.calibrated
    classes = np.array(exported.classes)
    model = MLPClassifier(hidden_layer_sizes=chain.widths, activation="relu", random_state=0)
    model.partial_fit(np.zeros((len(classes), chain.n_features)), classes, classes=classes)
    return _with_weights(model, chain)


def _with_weights(model: Any, chain: Chain) -> Any:
    """The model, which one step on zeros has given its shape, with the weights of a chain and no trace of that step."""
    model.coefs_ = [layer.W.T.copy() for layer in chain.layers]
    model.intercepts_ = [layer.b.copy() for layer in chain.layers]
    model.n_iter_ = model.t_ = 0
    model.loss_curve_ = []
    model.loss_ = model.best_loss_ = np.inf
    del model._optimizer  # partial_fit then makes another, which remembers nothing
    if chain.feature_names:
        model.feature_names_in_ = np.array(chain.feature_names, dtype=object)
    return model
