"""The estimators with one hidden layer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from dconnet._arrays import FloatArray
from dconnet.convex.backend import Backend
from dconnet.estimators.base import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    Classification,
    DCONEstimator,
    Level,
    Regression,
    Rows,
    VisitorOf,
    checked_start,
    posed,
    train_level,
)
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.model.targets import Targets
from dconnet.training.initialization import xavier
from dconnet.training.result import History, Status


class _Shallow(DCONEstimator):
    """One hidden layer: a network for each column of the target."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DCONEstimator._parameter_constraints,
        "n_hidden": [COUNT],
        "gamma": [POSITIVE],
        "shrinkage": [NOT_NEGATIVE],
        "init": [StrOptions({"xavier"}), Network],
    }

    networks_: tuple[Network, ...]
    histories_: tuple[History, ...]
    statuses_: tuple[Status, ...]
    messages_: tuple[str, ...]

    def __init__(
        self,
        n_hidden: int = 20,
        *,
        gamma: float = 1e-3,
        shrinkage: float = 0.0,
        algorithm: str = "accelerated",
        split: str | None = None,
        solver: str | Backend = "native",
        max_epochs: int | None = 1000,
        max_seconds: float | None = None,
        max_dca_iter: int = 50,
        tol: float = 1e-6,
        restart: bool = False,
        inexact: bool = False,
        init: str | Network = "xavier",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.gamma = gamma
        self.shrinkage = shrinkage
        self.algorithm = algorithm
        self.split = split
        self.solver = solver
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.max_dca_iter = max_dca_iter
        self.tol = tol
        self.restart = restart
        self.inexact = inexact
        self.init = init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, rows: Rows, validation: Rows | None, targets: Targets, visitor: VisitorOf | None) -> list[Level]:
        rng, n_columns = np.random.default_rng(self._seed()), targets.n_columns
        generators = [rng] if n_columns == 1 else rng.spawn(n_columns)
        problems = posed(rows, self.gamma, self.shrinkage)
        starts = [self._start(problem, k, generators[k]) for k, problem in enumerate(problems)]
        validations = [
            None if validation is None else validation.validation(k, self._patience) for k in range(n_columns)
        ]
        labels = [label or type(self).__name__ for label in targets.labels]
        return [train_level(self._trainer(), problems, starts, generators, labels, validations, visitor)]

    def _start(self, problem: Problem, column: int, rng: np.random.Generator) -> Network:
        """The network to start from: that of the last fit, the given one, or a random one."""
        if self.warm_start and hasattr(self, "solutions_"):
            return checked_start(problem, self.solutions_[column].network, self.n_hidden)
        if isinstance(self.init, Network):
            return checked_start(problem, self.init, self.n_hidden)
        return checked_start(problem, xavier(problem.X.shape[1], int(self.n_hidden), rng), self.n_hidden)

    def _keep(self, levels: list[Level]) -> None:
        (level,) = levels
        self.networks_ = level.networks
        self.histories_ = tuple(s.history for s in level.solutions)
        self.statuses_ = tuple(s.status for s in level.solutions)
        self.messages_ = tuple(s.message for s in level.solutions)
        self.objectives_ = level.objectives
        self.stationarities_ = level.stationarities

    def _outputs(self, X: FloatArray) -> FloatArray:
        return np.column_stack([network.predict(X) for network in self.networks_])

    def problems(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> list[Problem]:
        """The problem that each network of the fitted estimator solves, posed on these data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Targets or class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        list of Problem
            One problem for each of ``networks_``.
        """
        check_is_fitted(self)
        return posed(self._checked_rows(X, y, sample_weight, self.targets_), self.gamma, self.shrinkage)


class DCONRegressor(Regression, _Shallow):
    """One-hidden-layer ReLU network for regression, trained by DCON.

    The weights of one neuron at a time are improved by a difference-of-convex programme, the output weights by a
    ridge regression. There is no learning rate and no batch size; the regularised loss never rises. The objective is
    `Problem.objective`.

    Parameters
    ----------
    n_hidden : int, default=20
        Number of hidden neurons.
    gamma : float, default=1e-3
        Strength of the data-weighted regularisation.
    shrinkage : float, default=0.0
        Penalty on the hidden weights themselves, beside that on what they make of the data: try 0.01 to 10 where
        columns are many and nearly dependent, such as pixels or rare categories. Features should have one scale. It
        needs the solver "native" or "reference". Zero is the paper's penalty.
    algorithm : {"accelerated", "paper"}, default="accelerated"
        "paper" is Algorithm 1 of the reference, and nothing else. "accelerated" adds joint steps, hops to lower minima
        and new neurons in the place of dead ones between its sweeps; an epoch is then a round of all of them.
    split : {"paper", "net"} or None, default=None
        How a neuron's problem is split into convex parts. None takes the algorithm's own.
    solver : str or Backend, default="native"
        Who solves the convex programmes: "native", "reference", "osqp", "clarabel", "piqp", "gurobi", "admm",
        "parallel", or a configured backend object such as ``ADMM(device="cuda")``.
    max_epochs : int or None, default=1000
        Limit on epochs. None goes on until convergence.
    max_seconds : float or None, default=None
        Budget of wall time for each network, checked between neurons.
    max_dca_iter : int, default=50
        Limit on DCA iterations for one neuron in one epoch.
    tol : float, default=1e-6
        "paper": the fit has converged when the weights move by no more than this in an epoch. "accelerated": when no
        hop leads to a lower minimum any more and a whole epoch lowers RegLoss by no more than this, relative to it.
    restart : bool, default=False
        Whether to test, where the DCA of a neuron stands still, if the point is a local minimiser of its problem, and
        to go on from a better subgradient if it is not. ``history_`` counts the `restarts`.
    inexact : bool, default=False
        Whether to solve each convex programme only until its duality gap is a tenth of the decrease reached. The
        solvers "native" and "reference" can stop early; the others go on solving exactly.
    init : "xavier" or Network, default="xavier"
        Where to start.
    early_stopping : bool, default=False
        Whether to stop when the error on validation data no longer improves, and to restore the best network.
    validation_fraction : float, default=0.1
        Part of the data set aside for early stopping, unless `fit` is given validation data.
    n_iter_no_change : int, default=10
        Epochs without improvement after which early stopping ends the fit.
    warm_start : bool, default=False
        Whether `fit` goes on from the network of the last fit.
    random_state : int, RandomState or None, default=None
        Seed of the start, of the order of the neurons, and of the validation split.
    verbose : int, default=0
        1 shows a progress bar, 2 prints a line an epoch.

    Attributes
    ----------
    network_ : Network
        The trained network, with ``W`` (n_hidden, n_features), ``b`` and ``alpha``.
    history_ : History
        RegLoss, MSE, step norm and more after each epoch.
    status_ : Status
        Why the fit stopped.
    message_ : str
        The sentence of the status, with its figures.
    n_iter_ : int
        Completed epochs.
    objective_ : float
        RegLoss of the network on the training data.
    stationarity_ : float
        Norm of a subgradient at the network, relative to the size of the targets; zero at a stationary point.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the inputs, if X had any.

    References
    ----------
    D. Tschernutter, M. Kraus, S. Feuerriegel, A Globally Convergent Algorithm for Neural Network Parameter
    Optimization Based on Difference-of-Convex Functions, TMLR 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> model = DCONRegressor(n_hidden=3, gamma=0.01, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> model.status_.name
    'CONVERGED'
    >>> bool(model.score(X, np.abs(X[:, 0])) > 0.99)
    True
    """

    @property
    def network_(self) -> Network:
        """The trained network."""
        return self.networks_[0]

    @property
    def history_(self) -> History:
        """What each epoch reached."""
        return self.histories_[0]

    @property
    def status_(self) -> Status:
        """Why the fit stopped."""
        return self.statuses_[0]

    @property
    def message_(self) -> str:
        """The sentence of the status, with its figures."""
        return self.messages_[0]

    @property
    def objective_(self) -> float:
        """RegLoss of the network on the training data."""
        return float(self.objectives_[0])

    @property
    def stationarity_(self) -> float:
        """Norm of a subgradient at the network, relative to the size of the targets."""
        return float(self.stationarities_[0])


class DCONClassifier(Classification, _Shallow):
    """One-hidden-layer ReLU networks for classification, trained by DCON, one against the rest.

    One network a class is trained on targets of plus and minus one; the class whose prediction is closest to one
    wins. Two classes need only one network. The parameters are those of `DCONRegressor`.

    Parameters
    ----------
    n_hidden : int, default=20
        Number of hidden neurons of each network.
    gamma : float, default=1e-3
        Strength of the data-weighted regularisation.
    shrinkage : float, default=0.0
        See `DCONRegressor`.
    algorithm : {"accelerated", "paper"}, default="accelerated"
        See `DCONRegressor`.
    split : {"paper", "net"} or None, default=None
        See `DCONRegressor`.
    solver : str or Backend, default="native"
        See `DCONRegressor`.
    max_epochs : int or None, default=1000
        Limit on epochs for each network.
    max_seconds : float or None, default=None
        Budget of wall time for each network.
    max_dca_iter : int, default=50
        See `DCONRegressor`.
    tol : float, default=1e-6
        See `DCONRegressor`.
    restart : bool, default=False
        See `DCONRegressor`.
    inexact : bool, default=False
        See `DCONRegressor`.
    init : "xavier" or Network, default="xavier"
        Where each network starts.
    early_stopping : bool, default=False
        See `DCONRegressor`; each network is stopped on its own.
    validation_fraction : float, default=0.1
        See `DCONRegressor`; the split keeps the shares of the classes.
    n_iter_no_change : int, default=10
        See `DCONRegressor`.
    warm_start : bool, default=False
        See `DCONRegressor`.
    random_state : int, RandomState or None, default=None
        See `DCONRegressor`.
    verbose : int, default=0
        See `DCONRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    networks_ : tuple of Network
        One network a class, in the order of ``classes_``; with two classes one network, for ``classes_[1]``.
    histories_, statuses_, messages_ : tuples
        How each network was reached.
    n_iter_ : int
        Most epochs that any network took.
    objective_ : ndarray of shape (n_networks,)
        RegLoss of each network on its targets.
    stationarity_ : ndarray of shape (n_networks,)
        Distance of each network from a stationary point, see `DCONRegressor`.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the inputs, if X had any.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from dconnet import DCONClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DCONClassifier(n_hidden=3, gamma=0.1, tol=1e-4, random_state=0).fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.9)
    True
    """

    @property
    def objective_(self) -> FloatArray:
        """RegLoss of each network on its targets, the same as ``objectives_``."""
        return self.objectives_

    @property
    def stationarity_(self) -> FloatArray:
        """Distance of each network from a stationary point, the same as ``stationarities_``."""
        return self.stationarities_
