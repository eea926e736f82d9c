"""Repeat a fit and keep the network of every epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dconnet.certificates import Trajectory
from dconnet.inspection.selection import check_is_dcon
from dconnet.model.problem import Problem
from dconnet.training.observer import Recorder


def replay(
    estimator: Any, X: ArrayLike, y: ArrayLike, *, fit_params: Mapping[str, Any] | None = None
) -> tuple[Trajectory, ...]:
    """Repeat the fit of an estimator, and keep the network of every epoch.

    This takes as long as the fit. The same seed gives the same network, which is checked.

    Parameters
    ----------
    estimator : DCONRegressor or DCONClassifier
        A fitted estimator; it is not changed.
    X, y : array-like
        The training data.
    fit_params : mapping, optional
        Other arguments of `fit`, such as ``sample_weight``.

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
    copy = clone(estimator).set_params(verbose=0, n_jobs=1, callback=None, checkpoint=None)
    copy.__dict__.pop("_skl_callbacks", None)
    copy._recorded = recorded = list[tuple[Problem, Recorder]]()
    copy.fit(X, y, **(fit_params or {}))
    options = copy._trainer().options
    algorithm = "accelerated" if copy.algorithm == "accelerated" else "paper"
    trajectories = []
    for (problem, recorder), solution, network in zip(recorded, copy.solutions_, estimator.networks_, strict=True):
        # After early stopping, the fitted network is not the last one.
        if not any(np.array_equal(network.parameters, passed.parameters) for passed in reversed(recorder.networks)):
            raise ValueError(
                "The repeated fit ended at another network. Pass the training data and fit_params of the fit. A fit "
                "with a random_state that is no integer, a warm start, a time limit or an interrupt cannot be repeated."
            )
        trajectories.append(
            Trajectory(
                problem,
                tuple(recorder.networks),
                solution.history,
                algorithm,
                options.split,
                options.max_dca_iter,
            )
        )
    return tuple(trajectories)
