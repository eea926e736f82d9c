"""The estimators with one hidden layer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from dconnet._arrays import FloatArray
from dconnet.convex.backend import Backend
from dconnet.estimators.base import (
    CHECKPOINT_SECONDS,
    COUNT,
    JOBS,
    NOT_NEGATIVE,
    POSITIVE,
    Classification,
    DCONEstimator,
    Regression,
)
from dconnet.estimators.data import Rows
from dconnet.estimators.gammas import GammaChoice, checked_gammas, default_choice
from dconnet.estimators.levels import Level, checked_start, posed, train_level
from dconnet.estimators.session import Callback, Session
from dconnet.estimators.units import Units
from dconnet.export.chain import Chain
from dconnet.model.calibration import PLAIN_SLOPE, Calibration
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.model.stack import Stack
from dconnet.model.targets import Targets
from dconnet.training.clock import Clock
from dconnet.training.early_stopping import Validation
from dconnet.training.growth import START
from dconnet.training.initialization import xavier
from dconnet.training.result import History, Status
from dconnet.training.row_work import PosedProblem
from dconnet.training.trainer import Trainer

# Of a limited time, short fits for gamma or for probabilities take no more than this share of what is left.
SHORT_FITS_SHARE = 1.0 / 3.0
# The width of the short fits where the network itself finds its own: wide, as it may become. In narrow fits, the width
# keeps a network from fitting noise, and too small a gamma is chosen.
WIDTH_OF_SHORT_FITS = 100


class _Shallow(DCONEstimator):
    """One hidden layer: a network for each column of the target."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DCONEstimator._parameter_constraints,
        "n_hidden": [COUNT, StrOptions({"auto"})],
        "gamma": [POSITIVE, StrOptions({"auto"})],
        "scale": ["boolean"],
        "shrinkage": [NOT_NEGATIVE],
        "n_jobs": [JOBS, None],
        "init": [StrOptions({"xavier"}), Network],
    }

    gamma_: float
    target_scale_: float | FloatArray
    networks_: tuple[Network, ...]
    histories_: tuple[History, ...]
    statuses_: tuple[Status, ...]
    messages_: tuple[str, ...]
    objectives_: FloatArray
    stationarities_: FloatArray

    def __init__(
        self,
        n_hidden: int | str = 20,
        *,
        gamma: float | str = "auto",
        scale: bool = True,
        shrinkage: float = 0.0,
        algorithm: str = "accelerated",
        split: str | None = None,
        solver: str | Backend = "native",
        max_epochs: int | None = 1000,
        max_seconds: float | None = None,
        max_evaluations: int | None = None,
        max_dca_iter: int = 50,
        tol: float = 1e-6,
        restart: bool = False,
        inexact: bool = False,
        init: str | Network = "xavier",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.gamma = gamma
        self.scale = scale
        self.shrinkage = shrinkage
        self.algorithm = algorithm
        self.split = split
        self.solver = solver
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.max_evaluations = max_evaluations
        self.max_dca_iter = max_dca_iter
        self.tol = tol
        self.restart = restart
        self.inexact = inexact
        self.init = init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.callback = callback
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, rows: Rows, validation: Rows | None, targets: Targets, session: Session) -> list[Level]:
        seed = session.seed()
        units = Units.standard(rows, each_target=targets.n_targets > 1) if self.scale else Units.plain(rows)
        problems = posed(rows, 1.0, self.shrinkage, units, shared=targets.shared)
        _ = problems[0].whitening  # it cannot be left out: all else shares the time that is left
        validations = self._validations(validation, targets, units.output_scale)
        return self._train_posed(problems, units, rows, validations, targets, session, seed)

    def _train_posed(
        self,
        problems: Sequence[PosedProblem],
        units: Units,
        rows: Rows,
        validations: Sequence[Validation | None],
        targets: Targets,
        session: Session,
        seed: int,
    ) -> list[Level]:
        """Train a network for each problem; the rows, or some of them, are for short fits."""
        n_networks = targets.n_networks
        choice = session.choice(lambda: self._choice(rows, units, seed, session.clock.share(SHORT_FITS_SHARE)))
        gamma = float(self.gamma) if choice is None else choice.best
        # Before the networks are trained, so that an interrupt leaves a classifier that knows probabilities.
        calibration = self._calibration(rows, units, seed, gamma, choice, session.clock.share(SHORT_FITS_SHARE))
        rng = np.random.default_rng(seed)
        generators = [rng] if n_networks == 1 else rng.spawn(n_networks)
        problems = [problem.with_gamma(gamma * units.size) for problem in problems]
        starts = [self._start(problem, k, generators[k], units) for k, problem in enumerate(problems)]
        labels = [label or type(self).__name__ for label in targets.labels]

        def complete(level: Level) -> list[Level]:
            return [replace(level, units=units, choice=choice, calibration=calibration)]

        level = train_level(
            self._trainer(),
            problems,
            starts,
            generators,
            labels,
            validations,
            session,
            n_jobs=self._n_threads(),
            complete=complete,
        )
        return complete(level)

    def _choice(self, rows: Rows, units: Units, seed: int, clock: Clock) -> GammaChoice | None:
        """The errors over a grid of gamma, if gamma is to be chosen."""
        return self._short_fits(rows, units, checked_gammas(None), seed, clock) if self.gamma == "auto" else None

    def _short_fits(
        self, rows: Rows, units: Units, gammas: FloatArray, seed: int, clock: Clock, *, keep_outputs: bool = False
    ) -> GammaChoice:
        """Cross-validated short fits with these gammas."""
        return default_choice(
            rows,
            units,
            gammas,
            seed,
            **self._fold_options(rows),
            n_hidden=WIDTH_OF_SHORT_FITS if self._grows else int(self.n_hidden),
            shrinkage=float(self.shrinkage),
            n_jobs=self._n_threads(),
            keep_outputs=keep_outputs,
            clock=clock,
        )

    def _fold_options(self, rows: Rows) -> dict[str, Any]:
        """The folds of the cross-validation, where they are not those by default."""
        return {}

    def _calibration(
        self, rows: Rows, units: Units, seed: int, gamma: float, choice: GammaChoice | None, clock: Clock
    ) -> Calibration | None:
        """How outputs become probabilities, if there are any."""
        return None

    def _start(self, problem: PosedProblem, column: int, rng: np.random.Generator, units: Units) -> Network:
        """The network to start from: that of the last fit, the given one, or a random one."""
        n_hidden = None if self._grows else int(self.n_hidden)
        if self.warm_start and hasattr(self, "solutions_"):
            return checked_start(problem, self.solutions_[column].network, n_hidden)
        if isinstance(self.init, Network):
            return checked_start(problem, self.init, n_hidden)
        n_outputs = problem.output_shape[0] if problem.output_shape else None
        start = units.start(xavier(problem.n_features, START if n_hidden is None else n_hidden, rng, n_outputs))
        return checked_start(problem, start, n_hidden)

    @property
    def _grows(self) -> bool:
        """Whether the width is found by growth."""
        return self.n_hidden == "auto"

    def _trainer(self, **changes: Any) -> Trainer:
        if self._grows and self.algorithm != "accelerated":
            raise ValueError(
                'n_hidden="auto" needs algorithm="accelerated": the algorithm of the paper has a fixed width.'
            )
        return replace(super()._trainer(**changes), grows=self._grows)

    def _attributes(self, levels: list[Level], stationarities: FloatArray) -> dict[str, Any]:
        (level,) = levels
        assert level.units is not None
        choice, size = level.choice, level.units.size
        chosen = {} if choice is None else {"gamma": choice.best}
        return {
            "gamma_": level.problems[0].gamma,
            "gammas_": None if choice is None else choice.gammas * size,
            "mse_path_": None if choice is None else choice.errors,
            "target_scale_": level.units.measure,
            "_units": level.units,
            "_settings": self._plain_params() | chosen,
            "networks_": level.networks,
            "histories_": tuple(s.history for s in level.solutions),
            "statuses_": tuple(s.status for s in level.solutions),
            "messages_": tuple(s.message for s in level.solutions),
            "objectives_": level.objectives,
            "stationarities_": stationarities,
        }

    def _plain_params(self) -> dict[str, Any]:
        """The parameters of the estimator that trains the network alone."""
        return self._lasting_params()

    def _outputs(self, X: FloatArray) -> FloatArray:
        return np.column_stack([network.predict(X) for network in self.networks_])

    def _chain(self) -> Chain:
        return Stack(False, (self.networks_,)).chain()

    def _hidden(self, X: FloatArray) -> FloatArray:
        return np.hstack([network.hidden(X) for network in self.networks_])

    def problems(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> list[Problem]:
        """The problem that each network of the fitted estimator solves, posed on these data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets or class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        list of Problem
            One problem for each of ``networks_``.
        """
        check_is_fitted(self)
        rows = self._checked_rows(X, y, sample_weight, self.targets_)
        shrinkage, shared = self._fitted_params["shrinkage"], self.targets_.shared
        return posed(rows, self.gamma_, shrinkage, self._units, shared=shared, copy=True)

    def _before_scaling(self, state: dict[str, Any]) -> dict[str, Any]:
        missing = super()._before_scaling(state) | {"scale": False}
        if "solutions_" in state and "gamma_" not in state:
            units = Units(None, np.zeros(len(state["solutions_"])), 1.0)
            gamma = state["_fitted_params"]["gamma"]
            missing |= {"gamma_": gamma, "gammas_": None, "mse_path_": None, "target_scale_": 1.0, "_units": units}
            missing |= {"_settings": state["_fitted_params"]}
        return missing


class DCONRegressor(Regression, _Shallow):
    """One-hidden-layer ReLU network for regression, trained to convergence.

    There is no learning rate and no batch size, and the regularised loss, RegLoss, never rises; `Problem.objective`
    defines it. The default algorithm runs L-BFGS on all weights from several starts, hops out of poor minima, and
    uses the block descent of DCON as the safeguard: the weights of each neuron by difference-of-convex programming
    (DCA), the output weights by ridge regression.

    A y with several columns gives one network with as many outputs over one hidden layer. With ``scale=True``, each
    target is then measured by its own standard deviation: RegLoss is that of the standardised targets, gamma is a pure
    number, and neither depends on the units of any of them.

    Parameters
    ----------
    n_hidden : int or "auto", default=20
        Number of hidden neurons. "auto" finds it by growth: neurons that lower RegLoss are added, those with the same
        active rows are merged, and those that carry nothing go, until no new neuron lowers RegLoss, or, with early
        stopping, until the validation error no longer falls. With one or two features and up to 2000 different rows,
        the network is then proved to be optimal among those of all widths, up to ``tol``. With more features, growth
        ends where the gap to the best network of any width is estimated to be at most the root of ``tol``, as a share
        of RegLoss, or where RegLoss falls by less than that in three rounds; ``message_`` tells which. For few rows and
        a small gamma, such a network may have many neurons: it fits noise, as far as gamma lets it. Where that would
        take minutes, a limit on the work ends growth, unless ``max_seconds`` or ``max_evaluations`` is given.
    gamma : float or "auto", default="auto"
        Strength of the data-weighted regularisation, in units of the standard deviation of y; with ``scale=False``, in
        the units of the data. "auto" chooses among 0.001, 0.01, 0.03, 0.1, 0.3, 1 and 3 by the error of short fits in
        a cross-validation with five folds, see `DCONRegressorCV`.
    scale : bool, default=True
        Whether the fit allows for the units of the data: the start is drawn for standardised features, gamma is in
        units of the standard deviation of y, and the network has an output intercept, the mean of y. The data are not
        copied, and the network is in their units; there is no need to standardise them. With False, the network has no
        output intercept, and X and y should be of order one.
    shrinkage : float, default=0.0
        Additional ridge penalty on the hidden weights; with ``scale=True``, on those of the standardised features. Try
        0.01 to 10 if there are many nearly dependent columns, such as pixels or rare categories. The solvers
        "admm" and "parallel" need 0. Zero gives the penalty of the paper.
    algorithm : {"accelerated", "paper"}, default="accelerated"
        "paper" is Algorithm 1 of the reference. "accelerated" adds joint steps on all weights, hops to lower minima and
        replacements for dead neurons between its sweeps over the neurons; an epoch is then a round of all of these.
    split : {"paper", "net"} or None, default=None
        How the problem of a neuron is split into a difference of convex functions. None means "net" for the
        accelerated algorithm and "paper" for the paper's.
    solver : str or Backend, default="native"
        Solver for the convex programmes: "native", "reference", "admm", "parallel", a solver of qpsolvers such as
        "osqp" or "clarabel", or a configured backend such as ``ADMM(device="cuda")``.
    max_epochs : int or None, default=1000
        Maximum number of epochs. None means no limit.
    max_seconds : float or None, default=None
        Maximum wall time of the fit, from the checks of the data to the certificate. Whitening cannot be left out; of
        what it leaves, the choice of gamma takes a third at most. If nothing is left, the network is the start with the
        best output weights. Where rows are so many that there is no time for the certificate, ``stationarity_`` is NaN.
        None means no limit.
    max_evaluations : int or None, default=None
        Maximum number of evaluations of RegLoss and its gradient by the joint search of the accelerated algorithm, up
        to the end of the burst or hop under way; ``history_.evaluations`` counts them. Below 1200, the search is a
        single run of L-BFGS, without a race of starts and without hops. With few evaluations and many rows, it begins
        on samples of the rows, and an evaluation on a sample counts by its share of them. A sweep over the neurons ends
        the fit; but where there are more than 100,000 inputs, only that of the output weights, for a sweep would take
        longer than 1200 evaluations may. None means no limit; the paper's algorithm has no such evaluations.
    max_dca_iter : int, default=50
        Maximum number of DCA iterations for a neuron in an epoch.
    tol : float, default=1e-6
        Tolerance for convergence. The paper's algorithm has converged when an epoch moves the weights by at most
        ``tol``; the accelerated one, when an epoch lowers RegLoss by at most a fraction ``tol`` of it and no more
        hops are left to try.
    restart : bool, default=False
        Whether to check, when the DCA of a neuron has converged, that the point is a local minimum of its problem, and
        to restart from a better subgradient if it is not. ``history_`` counts the restarts.
    inexact : bool, default=False
        Whether to solve each convex programme only until its duality gap is a tenth of the decrease so far. Only the
        solvers "native" and "reference" can stop early; the others always solve to tolerance.
    init : "xavier" or Network, default="xavier"
        Initial weights: random ones, or a given network, whose output intercept is not used.
    early_stopping : bool, default=False
        Whether to stop when the error on validation data stops improving, and to return the best network.
    validation_fraction : float, default=0.1
        Fraction of the training data to set aside for early stopping if `fit` is not given validation data.
    n_iter_no_change : int, default=10
        Number of epochs without improvement after which early stopping ends the fit.
    warm_start : bool, default=False
        Whether to continue from the network of the previous call to `fit`; gamma and the output intercept are found
        anew.
    n_jobs : int or None, default=None
        Number of threads. The folds of the choice of gamma are shared first, and then the rows: 4096 of them at a time,
        so that small data gain nothing. None means one, unless a `joblib.parallel_config` says otherwise, and -1 all
        cores. The result does not depend on it.
    callback : callable or None, default=None
        Called after each epoch with a `TrainingEpoch`: its number, RegLoss, errors, seconds and the network. If it
        returns True, the fit stops, and the network reached is kept. What it raises ends the fit, and the estimator
        stays as it was.
    checkpoint : path or None, default=None
        File that the state of the fit is written to. If the process is killed, the same call of `fit` goes on from
        there, to the same network. The file stays, and with it the same call returns at once.
    checkpoint_seconds : float, default=60
        Time between two writes; 0 writes after each epoch.
    random_state : int, RandomState or None, default=None
        Seed for the initial weights, the order of the neurons, and the validation split.
    verbose : int, default=0
        1 shows a progress bar, 2 prints a line for each epoch.

    Attributes
    ----------
    network_ : Network
        The trained network, with ``W`` (n_hidden, n_features), ``b``, ``alpha`` and ``intercept``. With several
        targets, ``alpha`` has shape (n_hidden, n_targets) and ``intercept`` (n_targets,); the network is in the units
        of the data.
    gamma_ : float
        Strength of the regularisation in the units of the data: that of the RegLoss that was minimised. With several
        targets and ``scale=True``, it is a pure number.
    gammas_ : ndarray of shape (n_gammas,) or None
        The values that ``gamma_`` was chosen from, in its units; None if gamma was given.
    mse_path_ : ndarray of shape (n_gammas, n_folds) or None
        Mean squared error of the short fits on the rows left out. With several targets, each has short fits of its own,
        and the errors are summed in units of their variances.
    target_scale_ : float or ndarray of shape (n_targets,)
        The unit of gamma: the standard deviation of y, or one with ``scale=False``. With several targets the standard
        deviation of each, by which RegLoss measures errors and output weights.
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
        Norm of a subgradient of RegLoss, relative to the size of the targets; zero at a stationary point.
    networks_, histories_, statuses_, messages_, objectives_, stationarities_ : tuples and arrays of length 1
        The same, in the form that a classifier has.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had any.
    target_names_in_ : ndarray of shape (n_targets,)
        Names of the columns of y, if it was a DataFrame whose names are all text and differ. Model files and exports
        take them.

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
    >>> Y = np.column_stack([np.abs(X[:, 0]), 1000.0 * np.maximum(X[:, 0], 0.0)])  # two targets, one network
    >>> model = DCONRegressor(n_hidden=3, gamma=0.01, random_state=0).fit(X, Y)
    >>> model.predict(X).shape, model.network_.n_outputs, model.target_scale_.shape
    ((50, 2), 2, (2,))
    """

    _takes_several_targets: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

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
    """One-hidden-layer ReLU networks for classification, one against the rest.

    A network for each class is trained on targets of plus and minus one, and the class of the largest output is
    predicted. Two classes need only one network. The parameters are those of `DCONRegressor`.

    Probabilities are the logistic function, or the softmax, of the outputs times a slope. The slope is that of least
    log loss for what short fits put out for rows that they left out: the fits of the choice of gamma or, if gamma is
    given, those of five more folds. It is the same for all classes, and so leaves their order as it is.

    Parameters
    ----------
    n_hidden : int or "auto", default=20
        Number of hidden neurons of each network; "auto" finds a number for each by growth, see `DCONRegressor`.
    gamma : float or "auto", default="auto"
        See `DCONRegressor`; one value for all networks, in units of the standard deviation of their targets.
    scale : bool, default=True
        See `DCONRegressor`; the output intercept of a network is the mean of its targets of plus and minus one.
    shrinkage : float, default=0.0
        See `DCONRegressor`.
    algorithm : {"accelerated", "paper"}, default="accelerated"
        See `DCONRegressor`.
    split : {"paper", "net"} or None, default=None
        See `DCONRegressor`.
    solver : str or Backend, default="native"
        See `DCONRegressor`.
    max_epochs : int or None, default=1000
        Maximum number of epochs for each network.
    max_seconds : float or None, default=None
        Maximum wall time of the fit, see `DCONRegressor`. The fits for probabilities take a third of what is left at
        most, and all networks get the same share of the rest.
    max_evaluations : int or None, default=None
        See `DCONRegressor`; for each network.
    max_dca_iter : int, default=50
        See `DCONRegressor`.
    tol : float, default=1e-6
        See `DCONRegressor`.
    restart : bool, default=False
        See `DCONRegressor`.
    inexact : bool, default=False
        See `DCONRegressor`.
    init : "xavier" or Network, default="xavier"
        Initial weights of each network.
    early_stopping : bool, default=False
        See `DCONRegressor`; each network is stopped on its own.
    validation_fraction : float, default=0.1
        See `DCONRegressor`; the split keeps the shares of the classes.
    n_iter_no_change : int, default=10
        See `DCONRegressor`.
    multi_class : {"ovr", "shared"}, default="ovr"
        With more than two classes, "ovr" trains a network for each class, one against the rest, and "shared" one
        network with an output for each class, so that all classes use the same ``n_hidden`` neurons.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights. "balanced" gives all classes the same total weight:
        ``n_samples / (n_classes * np.bincount(y))``, in which rows count by their sample weights. Probabilities are
        then those of the weighted rows.
    warm_start : bool, default=False
        See `DCONRegressor`.
    n_jobs : int or None, default=None
        Number of threads. The folds of the choice of gamma and the networks of the classes are shared first; with more
        threads than networks, the rows of each are shared, too. See `DCONRegressor`.
    callback : callable or None, default=None
        See `DCONRegressor`; the label of an epoch is that of the class, and True stops all networks.
    checkpoint : path or None, default=None
        See `DCONRegressor`.
    checkpoint_seconds : float, default=60
        See `DCONRegressor`.
    random_state : int, RandomState or None, default=None
        See `DCONRegressor`.
    verbose : int, default=0
        See `DCONRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    calibration_ : Calibration
        How outputs become probabilities: its ``slope``.
    networks_ : tuple of Network
        A network for each class, in the order of ``classes_``; with two classes a single one, for ``classes_[1]``. With
        ``multi_class="shared"`` a single one with an output for each class.
    network_ : Network
        The network, if there is one for all classes.
    gamma_, gammas_, mse_path_, target_scale_ : float, arrays and float
        Strength of the regularisation and how it was chosen, see `DCONRegressor`; the errors are sums over the
        networks.
    histories_, statuses_, messages_ : tuples
        The history, status and message of each network, see `DCONRegressor`.
    n_iter_ : int
        Largest number of epochs of a network.
    objective_, objectives_ : ndarray of shape (n_networks,)
        RegLoss of each network on its targets.
    stationarity_, stationarities_ : ndarray of shape (n_networks,)
        Distance of each network from a stationary point, see `DCONRegressor`.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had any.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dconnet import DCONClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DCONClassifier(n_hidden=3, tol=1e-4, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    calibration_: Calibration | None = None  # in pickles of dconnet 0.2

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_Shallow._parameter_constraints,
        **Classification._class_constraints,
        "multi_class": [StrOptions({"ovr", "shared"})],
    }

    def __init__(
        self,
        n_hidden: int | str = 20,
        *,
        gamma: float | str = "auto",
        scale: bool = True,
        shrinkage: float = 0.0,
        algorithm: str = "accelerated",
        split: str | None = None,
        solver: str | Backend = "native",
        max_epochs: int | None = 1000,
        max_seconds: float | None = None,
        max_evaluations: int | None = None,
        max_dca_iter: int = 50,
        tol: float = 1e-6,
        restart: bool = False,
        inexact: bool = False,
        init: str | Network = "xavier",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        multi_class: str = "ovr",
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_hidden,
            gamma=gamma,
            scale=scale,
            shrinkage=shrinkage,
            algorithm=algorithm,
            split=split,
            solver=solver,
            max_epochs=max_epochs,
            max_seconds=max_seconds,
            max_evaluations=max_evaluations,
            max_dca_iter=max_dca_iter,
            tol=tol,
            restart=restart,
            inexact=inexact,
            init=init,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            n_jobs=n_jobs,
            callback=callback,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            random_state=random_state,
            verbose=verbose,
        )
        self.multi_class = multi_class
        self.class_weight = class_weight

    def _short_fits(
        self, rows: Rows, units: Units, gammas: FloatArray, seed: int, clock: Clock, *, keep_outputs: bool = False
    ) -> GammaChoice:
        return super()._short_fits(rows, units, gammas, seed, clock, keep_outputs=keep_outputs or len(gammas) > 1)

    def _calibration(
        self, rows: Rows, units: Units, seed: int, gamma: float, choice: GammaChoice | None, clock: Clock
    ) -> Calibration:
        if choice is None or choice.held_out is None:
            choice = self._short_fits(rows, units, np.array([gamma]), seed, clock, keep_outputs=True)
        return choice.calibration or Calibration(PLAIN_SLOPE)

    def _attributes(self, levels: list[Level], stationarities: FloatArray) -> dict[str, Any]:
        return super()._attributes(levels, stationarities) | {"calibration_": levels[0].calibration}

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the probabilities of the classes of each row.

        They are ``expit(slope * output)`` for the second of two classes and ``softmax(slope * outputs)`` for more, with
        the slope of ``calibration_``. The class that `predict` gives is the most probable one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        outputs = self._outputs(self._checked(X))
        return self._known_calibration().probabilities(outputs)

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the logarithms of the probabilities of the classes of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Logarithms, in the order of ``classes_``; finite also where a probability is too small for a number.
        """
        outputs = self._outputs(self._checked(X))
        return self._known_calibration().log_probabilities(outputs)

    def _known_calibration(self) -> Calibration:
        if self.calibration_ is None:
            raise AttributeError("This classifier was fitted without probabilities, by an older dconnet: fit it again.")
        return self.calibration_

    @property
    def network_(self) -> Network:
        """The network of two classes, or that which all classes share."""
        if len(self.networks_) != 1:
            raise AttributeError("Every class has a network of its own: see networks_.")
        return self.networks_[0]

    @property
    def objective_(self) -> FloatArray:
        """RegLoss of each network on its targets, the same as ``objectives_``."""
        return self.objectives_

    @property
    def stationarity_(self) -> FloatArray:
        """Distance of each network from a stationary point, the same as ``stationarities_``."""
        return self.stationarities_
