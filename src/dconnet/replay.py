"""A fit once more, with the network of every epoch kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier

from dconnet.certificates import Trajectory
from dconnet.descent import Visitor
from dconnet.network import Network
from dconnet.problem import Problem
from dconnet.selection import fitted_networks


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
    >>> from dconnet.replay import replay
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> model = DCONRegressor(n_hidden=3, tol=1e-3, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> (run,) = replay(model, X, np.abs(X[:, 0]))
    >>> len(run.networks) == len(model.history_)
    True
    """
    reached = fitted_networks(estimator)
    recorded: list[tuple[Problem, list[Network]]] = []

    def visitor(problem: Problem) -> Visitor:
        recorded.append((problem, []))
        return recorded[-1][1].append

    model = clone(estimator).set_params(verbose=0)
    model._visitor = visitor
    model.fit(X, y, **(fit_params or {}))
    _check_same(reached, fitted_networks(model))
    options = model._options()
    several = is_classifier(model)
    histories = model.histories_ if several else (model.history_,)
    statuses = model.statuses_ if several else (model.status_,)
    return tuple(
        Trajectory(problem, tuple(networks), history, status, model.algorithm, options.split, options.max_dca_iter)
        for (problem, networks), history, status in zip(recorded, histories, statuses, strict=True)
    )


def _check_same(before: tuple[Network, ...], after: tuple[Network, ...]) -> None:
    same = len(before) == len(after) and all(
        np.array_equal(one.parameters, other.parameters) for one, other in zip(before, after, strict=True)
    )
    if not same:
        raise ValueError(
            "The fit cannot be repeated: it ended at another network. Pass the data and the fit_params of the fit; the "
            "estimator needs an integer random_state, and must not have been stopped by max_seconds or an interrupt, "
            "nor warm-started."
        )
