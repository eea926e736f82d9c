"""The regularisation path: networks over a grid of gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from dconnet._arrays import FloatArray
from dconnet.certificates import dead_neurons
from dconnet.inspection.selection import check_is_dcon
from dconnet.model.network import Network

# From nearly no penalty to one that leaves hardly a neuron, for standardised data.
DEFAULT_GAMMAS = np.logspace(-4.0, 1.0, 16)


@dataclass(frozen=True, slots=True, eq=False)
class GammaPath:
    """Fits over a grid of gamma.

    A regressor has one network; a classifier of more than two classes has one for each class, unless they share one.
    The targets of a classifier are plus and minus one; several targets are summed in units of their variances. Active
    neurons contribute more than a ten-thousandth of the targets, in root mean squares.
    """

    gammas: FloatArray  # (n_gammas,), ascending
    networks: tuple[tuple[Network, ...], ...]  # networks[i] are those at gammas[i]
    objective: FloatArray  # (n_gammas, n_networks), RegLoss on the training data
    mse: FloatArray  # (n_gammas, n_networks), mean squared error on the training data
    validation_mse: FloatArray | None  # the same on the validation data
    active: NDArray[np.int64]  # (n_gammas, n_networks), number of active neurons

    @property
    def best_gamma(self) -> float:
        """The gamma with the smallest validation error, averaged over the networks."""
        if self.validation_mse is None:
            raise ValueError("The path has no validation error. Compute it with X_val and y_val.")
        return float(self.gammas[self.validation_mse.mean(axis=1).argmin()])


def gamma_path(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    gammas: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    X_val: ArrayLike | None = None,
    y_val: ArrayLike | None = None,
    sample_weight_val: ArrayLike | None = None,
) -> GammaPath:
    """Fit an estimator over a grid of gamma, each fit starting from the network of the previous one.

    The fits go from the smallest gamma to the largest. Neurons die along the path, and none has to come back, which
    Algorithm 1 of the paper could not do.

    Parameters
    ----------
    estimator : DCONRegressor or DCONClassifier
        Its parameters except ``gamma``, ``warm_start`` and ``early_stopping`` are used. It is not changed and need not
        be fitted.
    X : array-like of shape (n_samples, n_features)
        Training inputs.
    y : array-like of shape (n_samples,)
        Training targets or class labels.
    gammas : array-like of shape (n_gammas,), optional
        Values of the parameter ``gamma``; by default 16 values from 1e-4 to 10.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the training rows.
    X_val, y_val, sample_weight_val : array-like, optional
        Validation data and their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.inspection.path import gamma_path
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> path = gamma_path(DCONRegressor(n_hidden=3, random_state=0), X, np.abs(X[:, 0]), gammas=[1e-3, 0.1, 10.0])
    >>> bool(np.all(np.diff(path.mse[:, 0]) > 0))  # the larger the penalty, the larger the error
    True
    """
    check_is_dcon(estimator)
    grid = np.unique(np.asarray(DEFAULT_GAMMAS if gammas is None else gammas, dtype=np.float64))
    if grid.size == 0 or not np.all(np.isfinite(grid) & (grid > 0.0)):
        raise ValueError(f"gammas must be positive finite numbers, at least one, got {gammas!r}.")
    if (X_val is None) != (y_val is None):
        raise ValueError("X_val and y_val must be given together.")
    # Early stopping could return the network of the previous gamma, where each fit starts.
    model = clone(estimator).set_params(warm_start=True, early_stopping=False, checkpoint=None)
    networks, training, validation = [], [], []
    for gamma in grid:
        model.set_params(gamma=float(gamma)).fit(X, y, sample_weight=sample_weight)
        networks.append(model.networks_)
        training.append(list(zip(model.problems(X, y, sample_weight), model.networks_, strict=True)))
        if X_val is not None and y_val is not None:
            problems = model.problems(X_val, y_val, sample_weight_val)
            validation.append(list(zip(problems, model.networks_, strict=True)))
    return GammaPath(
        gammas=grid,
        networks=tuple(networks),
        objective=np.array([[problem.objective(network) for problem, network in row] for row in training]),
        mse=np.array([[problem.mse(network) for problem, network in row] for row in training]),
        validation_mse=np.array([[p.mse(network) for p, network in row] for row in validation]) if validation else None,
        active=np.array([[np.count_nonzero(~dead_neurons(*pair)) for pair in row] for row in training]),
    )
