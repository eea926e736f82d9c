"""A fit once more, with the network of every epoch kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dconnet.certificates import Trajectory
from dconnet.inspection.path import check_is_dcon
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.descent import Visitor


def replay(
    estimator: Any, X: ArrayLike, y: ArrayLike, *, fit_params: Mapping[str, Any] | None = None
) -> tuple[Trajectory, ...]:
    """Repeat the fit of an estimator, and keep the network of every epoch.

    It takes as long as the fit did. The same seed gives the same network, and that is checked.

    Parameters
    ----------
    estimator : DCONRegressor or DCONClassifier
        A fitted estimator; it is not changed.
    X, y : array-like
        The data that it was fitted to.
    fit_params : mapping, optional
        What else `fit` was given, such as ``sample_weight``.

    Returns
    -------
    tuple of Trajectory
        One for each network.

    Raises
    ------
    ValueError
        If the repetition ends at another network.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.inspection.replay import replay
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> model = DCONRegressor(n_hidden=3, tol=1e-3, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> (run,) = replay(model, X, np.abs(X[:, 0]))
    >>> len(run.networks) == len(model.history_)
    True
    """
    check_is_dcon(estimator)
    check_is_fitted(estimator)
    trajectories = record(clone(estimator), X, y, fit_params=fit_params)
    check_same(estimator.networks_, trajectories)
    return trajectories


def record(
    estimator: Any, X: ArrayLike, y: ArrayLike, *, fit_params: Mapping[str, Any] | None = None
) -> tuple[Trajectory, ...]:
    """Fit an estimator, and keep the network of every epoch; see `replay`."""
    recorded: list[tuple[Problem, list[Network]]] = []

    def visitor(problem: Problem) -> Visitor:
        recorded.append((problem, []))
        return recorded[-1][1].append

    check_is_dcon(estimator)
    verbose, estimator.verbose = estimator.verbose, 0
    try:
        estimator._fit(X, y, **(fit_params or {}), visitor=visitor)
    finally:
        estimator.verbose = verbose
    options = estimator._trainer().options
    return tuple(
        Trajectory(
            problem, tuple(networks), s.history, s.status, estimator.algorithm, options.split, options.max_dca_iter
        )
        for (problem, networks), s in zip(recorded, estimator.solutions_, strict=True)
    )


def check_same(reached: Sequence[Network], trajectories: Sequence[Trajectory]) -> None:
    """Refuse runs that do not pass through the networks that were reached.

    Early stopping returns a network from the way, not the last one.
    """
    same = len(reached) == len(trajectories) and all(
        any(np.array_equal(network.parameters, passed.parameters) for passed in reversed(run.networks))
        for network, run in zip(reached, trajectories, strict=True)
    )
    if not same:
        raise ValueError(
            "The fit cannot be repeated: it took another way. It needs the data and the fit_params of the fit, and an "
            "integer random_state; and the fit must not have been stopped by max_seconds or an interrupt, nor "
            "warm-started."
        )
