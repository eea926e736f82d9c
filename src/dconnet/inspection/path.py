"""The regularisation path: what a network becomes as gamma grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from dconnet._arrays import FloatArray
from dconnet.certificates import dead_neurons
from dconnet.estimators import DCONClassifier, DCONRegressor
from dconnet.model.network import Network
from dconnet.model.problem import Problem

# From nearly no penalty to one that leaves hardly a neuron, for standardised data.
DEFAULT_GAMMAS = np.logspace(-4.0, 1.0, 16)


@dataclass(frozen=True, slots=True, eq=False)
class GammaPath:
    """Fits over a grid of gamma.

    A regressor has one network; a classifier of more than two classes one a class, unless they share one.

    Attributes
    ----------
    gammas : array of shape (n_gammas,)
        Strengths of the regularisation, ascending, in the units of the parameter ``gamma``.
    networks : tuple of tuples of Network
        ``networks[i]`` are the networks at ``gammas[i]``.
    objective : array of shape (n_gammas, n_networks)
        RegLoss on the training data.
    mse : array of shape (n_gammas, n_networks)
        Mean squared error on the training data; of a classifier against targets of plus and minus one, of several
        targets the sum in units of their variances.
    validation_mse : array of shape (n_gammas, n_networks) or None
        The same on the validation data, if there are any.
    active : array of int, shape (n_gammas, n_networks)
        Neurons whose part of the output is above a ten-thousandth of the targets, in root mean squares.
    """

    gammas: FloatArray
    networks: tuple[tuple[Network, ...], ...]
    objective: FloatArray
    mse: FloatArray
    validation_mse: FloatArray | None
    active: NDArray[np.int64]

    @property
    def best_gamma(self) -> float:
        """The gamma with the least validation error, averaged over the networks."""
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
    """Fit an estimator over a grid of gamma, each fit starting from the network of the one before.

    The fits go from the least gamma to the largest: neurons then die along the path, and none has to come back,
    which Algorithm 1 of the paper could not do.

    Parameters
    ----------
    estimator : DCONRegressor or DCONClassifier
        Its parameters but ``gamma``, ``warm_start`` and ``early_stopping`` are used; it is not changed and need not be
        fitted.
    X : array-like of shape (n_samples, n_features)
        Training inputs.
    y : array-like of shape (n_samples,)
        Training targets or class labels.
    gammas : array-like of shape (n_gammas,), optional
        Values of the parameter ``gamma`` of the estimator; by default 16 values from 1e-4 to 10, which suit its units
        or standardised data.
    sample_weight : array-like of shape (n_samples,), optional
        Weights of the training rows.
    X_val, y_val : array-like, optional
        Validation data.
    sample_weight_val : array-like, optional
        Weights of the validation rows.

    Returns
    -------
    GammaPath

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.inspection.path import gamma_path
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> path = gamma_path(DCONRegressor(n_hidden=3, random_state=0), X, np.abs(X[:, 0]), gammas=[1e-3, 0.1, 10.0])
    >>> bool(np.all(np.diff(path.mse[:, 0]) > 0))  # the more penalty, the worse the fit
    True
    """
    check_is_dcon(estimator)
    grid = _checked_grid(gammas)
    if (X_val is None) != (y_val is None):
        raise ValueError("X_val and y_val must be given together.")
    # Early stopping would return the network of the gamma before, which each fit starts from.
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
        active=np.array([[count_active(problem, network) for problem, network in row] for row in training]),
    )


def count_active(problem: Problem, network: Network) -> int:
    """Number of neurons that are not dead."""
    return int(np.count_nonzero(~dead_neurons(problem, network)))


def _checked_grid(gammas: ArrayLike | None) -> FloatArray:
    grid = np.unique(np.asarray(DEFAULT_GAMMAS if gammas is None else gammas, dtype=np.float64))
    if grid.size == 0 or not np.all(np.isfinite(grid) & (grid > 0.0)):
        raise ValueError(f"gammas must be positive finite numbers, at least one, got {gammas!r}.")
    return grid


def check_is_dcon(estimator: object) -> None:
    """Refuse what is not an estimator of this package."""
    if not isinstance(estimator, (DCONRegressor, DCONClassifier)):
        raise TypeError(
            f"A DCONRegressor or DCONClassifier is needed, not a {type(estimator).__name__}. Of a pipeline pass the "
            "last step, with the data that it saw: pipeline[-1] and pipeline[:-1].transform(X)."
        )


def chosen_networks(estimator: Any, classes: Sequence[object] | None) -> list[int]:
    """Positions of the networks of these classes, all by default; one that classes share speaks for all of them."""
    chosen = chosen_columns(estimator, classes)
    return [0] if estimator.targets_.shared else chosen


def chosen_columns(estimator: Any, classes: Sequence[object] | None) -> list[int]:
    """Positions of the outputs of these classes, all by default; the network of two classes speaks for both."""
    check_is_dcon(estimator)
    check_is_fitted(estimator)
    if classes is None:
        return list(range(estimator.targets_.n_columns))
    if not is_classifier(estimator):
        raise ValueError("classes can be chosen for a classifier only; this is a regressor.")
    known = estimator.classes_.tolist()
    if len(classes) == 0 or any(label not in known for label in classes):
        raise ValueError(f"classes must be some of {known}, got {list(classes)}.")
    return [0] if len(known) == 2 else [known.index(label) for label in classes]
