"""scikit-learn estimators: they translate parameters and data, and leave the work to `Descent`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dconnet._arrays import FloatArray
from dconnet.certificates import stationarity
from dconnet.convex.backend import Backend, get_backend
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.model.targets import winning_classes
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Descent, Options, Visitor
from dconnet.training.early_stopping import Validation
from dconnet.training.initialization import check_start, xavier
from dconnet.training.progress import progress_monitor
from dconnet.training.result import History, Solution, Status

# The DC split that each algorithm takes unless told otherwise.
_ALGORITHMS = {"accelerated": "net", "paper": "paper"}


class _DCONEstimator(BaseEstimator):
    """What regressor and classifier share: the parameters, and the training of one network."""

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

    def _options(self) -> Options:
        """The parameters of the descent, checked."""
        if not isinstance(self.n_hidden, Integral) or self.n_hidden < 1:
            raise ValueError(f"n_hidden must be a positive integer, got {self.n_hidden!r}.")
        if self.algorithm not in _ALGORITHMS:
            raise ValueError(f"algorithm must be one of {sorted(_ALGORITHMS)}, got {self.algorithm!r}.")
        if self.early_stopping and not 0.0 < self.validation_fraction < 1.0:
            raise ValueError(f"validation_fraction must lie between 0 and 1, got {self.validation_fraction!r}.")
        if self.early_stopping and self.n_iter_no_change < 1:
            raise ValueError(f"n_iter_no_change must be at least 1, got {self.n_iter_no_change!r}.")
        return Options(
            split=_ALGORITHMS[self.algorithm] if self.split is None else self.split,
            max_epochs=self.max_epochs,
            max_seconds=self.max_seconds,
            max_dca_iter=self.max_dca_iter,
            tol=self.tol,
            restart=self.restart,
            inexact=self.inexact,
        )

    def _rng(self) -> np.random.Generator:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return np.random.default_rng(seed)

    def _start(self, problem: Problem, previous: Network | None, rng: np.random.Generator) -> Network:
        """The network to start from: the previous one, the given one, or a random one."""
        n_features = problem.X.shape[1]
        start = previous if self.warm_start and previous is not None else self.init
        if isinstance(start, str):
            if start != "xavier":
                raise ValueError(f"init must be 'xavier' or a Network, got {start!r}.")
            start = xavier(n_features, int(self.n_hidden), rng)
        elif not isinstance(start, Network):
            raise ValueError(f"init must be 'xavier' or a Network, got {start!r}.")
        if (start.n_hidden, start.n_features) != (self.n_hidden, n_features):
            raise ValueError(
                f"The network to start from has {start.n_hidden} neurons and {start.n_features} inputs, but n_hidden "
                f"is {self.n_hidden} and X has {n_features} columns."
            )
        check_start(problem, start)
        return start

    def _descend(
        self,
        problem: Problem,
        validation: Validation | None,
        previous: Network | None,
        rng: np.random.Generator,
        label: str,
        interrupted: bool = False,
    ) -> Solution:
        """Train one network, or after an interrupt only its output layer."""
        options = self._options()
        start = self._start(problem, previous, rng)
        algorithm = AcceleratedDescent if self.algorithm == "accelerated" else Descent
        descent = algorithm(problem, get_backend(self.solver), options, rng)
        if interrupted:
            return descent.output_layer_only(start)
        with progress_monitor(self.verbose, options.max_epochs, label) as monitor:
            return descent.run(start, validation=validation, monitor=monitor, visit=self._visitor(problem))

    def _visitor(self, problem: Problem) -> Visitor | None:
        """Who sees the network of every epoch: nobody, unless the fit is a replay."""
        return None

    def _outputs(self, X: ArrayLike, networks: tuple[Network, ...]) -> FloatArray:
        """Predictions of all networks, of shape (n_samples, n_networks)."""
        _refuse_sparse(X)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.column_stack([network.predict(X) for network in networks])


class DCONRegressor(RegressorMixin, _DCONEstimator):
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

    network_: Network
    history_: History
    status_: Status

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs. Features of order one suit the random start best.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; a row of weight two counts like the same row twice.
        X_val, y_val : array-like, optional
            Validation data, whose error is recorded and which early stopping uses.

        Returns
        -------
        DCONRegressor
            The fitted estimator.
        """
        self._options()  # a wrong parameter is reported before any work
        inputs, targets = _validated(self, X, y, y_numeric=True)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64)
        inputs, targets, weight, validation = _with_validation(self, inputs, targets, weight, X_val, y_val)
        problem = Problem(inputs, targets, self.gamma, weight, shrinkage=self.shrinkage, copy=False)
        solution = self._descend(problem, validation, getattr(self, "network_", None), self._rng(), "DCONRegressor")
        self.network_ = solution.network
        self.history_ = solution.history
        self.status_ = solution.status
        self.message_ = solution.message
        self.n_iter_ = solution.n_epochs
        self.objective_ = problem.objective(solution.network)
        self.stationarity_ = stationarity(problem, solution.network).norm
        _warn_about([solution])
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Predict the target of every row of ``X``, of shape (n_samples,)."""
        check_is_fitted(self)
        return self._outputs(X, (self.network_,))[:, 0]


class DCONClassifier(ClassifierMixin, _DCONEstimator):
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

    networks_: tuple[Network, ...]
    classes_: NDArray[Any]

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Train one network a class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs. Features of order one suit the random start best.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; a row of weight two counts like the same row twice.
        X_val, y_val : array-like, optional
            Validation data, whose error is recorded and which early stopping uses.

        Returns
        -------
        DCONClassifier
            The fitted estimator.
        """
        self._options()
        inputs, labels = _validated(self, X, y)
        check_classification_targets(labels)
        previous = getattr(self, "networks_", ()) if self.warm_start else ()
        known: NDArray[Any] = getattr(self, "classes_", np.empty(0))
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64)
        self.classes_ = _classes_of(labels, weight)
        if previous and not np.array_equal(known, self.classes_):
            raise ValueError("warm_start=True needs the same classes as the last fit.")
        inputs, labels, weight, validation = _with_validation(
            self, inputs, labels, weight, X_val, y_val, stratify=labels
        )
        self._fit_networks(inputs, labels, weight, validation, previous)
        return self

    def _fit_networks(
        self,
        X: FloatArray,
        y: NDArray[Any],
        weight: FloatArray,
        validation: Validation | None,
        previous: tuple[Network, ...],
    ) -> None:
        positives = _positives(self.classes_)
        generators = self._rng().spawn(len(positives))
        first = Problem(X, _signs(y, positives[0]), self.gamma, weight, shrinkage=self.shrinkage, copy=False)
        problems = [first] + [first.with_targets(_signs(y, positive)) for positive in positives[1:]]
        solutions: list[Solution] = []
        for k, positive in enumerate(positives):
            interrupted = any(s.status is Status.INTERRUPTED for s in solutions)
            before = previous[k] if previous else None
            own_validation = _for_class(validation, positive)
            solutions.append(
                self._descend(problems[k], own_validation, before, generators[k], f"class {positive}", interrupted)
            )
        self.networks_ = tuple(s.network for s in solutions)
        self.histories_ = tuple(s.history for s in solutions)
        self.statuses_ = tuple(s.status for s in solutions)
        self.messages_ = tuple(s.message for s in solutions)
        self.n_iter_ = max(s.n_epochs for s in solutions)
        pairs = list(zip(problems, self.networks_, strict=True))
        self.objective_ = np.array([problem.objective(network) for problem, network in pairs])
        self.stationarity_ = np.array([stationarity(problem, network).norm for problem, network in pairs])
        _warn_about(solutions)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Confidence in the classes.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            With two classes the output of the network, positive for ``classes_[1]``. With more, minus the distance
            of each class's output from one: the largest wins.
        """
        check_is_fitted(self)
        return _confidence(self._outputs(X, self.networks_))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of every row of ``X``, of shape (n_samples,)."""
        check_is_fitted(self)
        predicted: NDArray[Any] = self.classes_[winning_classes(self._outputs(X, self.networks_))]
        return predicted


def _validated(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, *, y_numeric: bool = False, reset: bool = True
) -> tuple[FloatArray, NDArray[Any]]:
    """Data that scikit-learn has checked, as arrays."""
    _refuse_sparse(X)
    inputs, targets = validate_data(estimator, X, y, dtype=np.float64, y_numeric=y_numeric, reset=reset)
    return inputs, targets


def _refuse_sparse(X: object) -> None:
    if issparse(X):
        raise ValueError("X is sparse, but dense data is required. Convert it with X.toarray().")


def _classes_of(labels: NDArray[Any], weight: FloatArray) -> NDArray[Any]:
    """The classes to tell apart, sorted; one that occurs only in rows of weight zero does not occur."""
    classes: NDArray[Any] = np.unique(labels[weight > 0.0]) if np.any(weight > 0.0) else np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"A classifier needs at least two classes, but y holds only one class: {classes[0]!r}.")
    return classes


def _positives(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes that get a network of their own: all of them, but of two only the second."""
    return classes[1:] if len(classes) == 2 else classes


def _confidence(outputs: FloatArray) -> FloatArray:
    """The decision function at these outputs (n_samples, n_networks)."""
    return outputs[:, 0] if outputs.shape[1] == 1 else -np.abs(outputs - 1.0)


def _signs(y: NDArray[Any], positive: object) -> FloatArray:
    """Plus one for the rows of one class, minus one for all others."""
    return np.where(y == positive, 1.0, -1.0)


def _for_class(validation: Validation | None, positive: object) -> Validation | None:
    if validation is None:
        return None
    return Validation(validation.X, _signs(validation.y, positive), validation.sample_weight, validation.patience)


def _with_validation(
    estimator: BaseEstimator,
    X: FloatArray,
    y: NDArray[Any],
    weight: FloatArray,
    X_val: ArrayLike | None,
    y_val: ArrayLike | None,
    stratify: NDArray[Any] | None = None,
) -> tuple[FloatArray, NDArray[Any], FloatArray, Validation | None]:
    """Split the data into training and validation part, as the parameters ask for."""
    if (X_val is None) != (y_val is None):
        raise ValueError("X_val and y_val must be given together.")
    patience = int(estimator.n_iter_no_change) if estimator.early_stopping else None
    if X_val is not None and y_val is not None:
        inputs, targets = _validated(estimator, X_val, y_val, y_numeric=stratify is None, reset=False)
        return X, y, weight, Validation(inputs, targets, np.ones(len(targets)), patience)
    if patience is None:
        return X, y, weight, None
    parts = train_test_split(
        X,
        y,
        weight,
        test_size=estimator.validation_fraction,
        random_state=check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max),
        stratify=stratify,
    )
    if not np.any(parts[5] > 0.0):
        raise ValueError("All rows set aside for validation have weight zero. Give X_val and y_val instead.")
    return parts[0], parts[2], parts[4], Validation(parts[1], parts[3], parts[5], patience)


def _warn_about(solutions: list[Solution], intended: Sequence[Solution] = ()) -> None:
    """One warning for all that went short of the goal, and were not meant to."""
    short = [s for s in solutions if s.status in (Status.EPOCH_LIMIT, Status.INTERRUPTED) and s not in intended]
    if short:
        of = f" ({len(short)} of {len(solutions)} networks)" if len(solutions) > 1 else ""
        warnings.warn(short[0].message + of, ConvergenceWarning, stacklevel=3)
    unsolved = sum(s.history.total("unsolved") for s in solutions)
    if unsolved:
        warnings.warn(
            f"{unsolved} convex programmes were not solved to tolerance. Their steps were taken only where they "
            "lowered RegLoss. Use solver='native', or raise the limit of the backend.",
            ConvergenceWarning,
            stacklevel=3,
        )
