"""The estimators with one hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin, is_classifier
from sklearn.model_selection import check_cv

from dconnet._arrays import FloatArray
from dconnet.estimators.base import DCONEstimator
from dconnet.estimators.data import Rows, Units
from dconnet.estimators.fit_observer import FitObserver
from dconnet.estimators.fitted import Classification
from dconnet.estimators.gamma_choice import GAMMAS, GammaChoice, check_candidates, check_folds, choose_gamma
from dconnet.estimators.layer import Layer, LayerTraining, NetworkTask, build_problems, prepare_start
from dconnet.estimators.parameters import documented, parameters
from dconnet.model.network import Network
from dconnet.model.targets import PLAIN_SLOPE, Calibration, Targets
from dconnet.training.growth import START
from dconnet.training.initialization import xavier
from dconnet.training.observer import Validation
from dconnet.training.row_work import DataProblem
from dconnet.training.trainer import Trainer

# Of a limited time, short fits for gamma or for probabilities take no more than this share of what is left.
SHORT_FITS_SHARE = 1.0 / 3.0
# Width of the short fits if the network finds its own width by growth. In narrow fits, the width itself keeps a network
# from fitting noise, and too small a gamma is chosen.
WIDTH_OF_SHORT_FITS = 100


@parameters
class _Shallow(DCONEstimator):
    """One hidden layer: a network for each column of the target."""

    n_hidden: int | str = field(default=20, kw_only=False)
    cv: Any = None
    scale: bool = True
    shrinkage: float = 0.0
    init: str | Network = "xavier"

    def _train(self, rows: Rows, validation: Rows | None, targets: Targets, observer: FitObserver) -> list[Layer]:
        seed = observer.seed()
        units = Units.standard(rows, each_target=targets.n_targets > 1) if self.scale else Units.plain(rows)
        problems = build_problems(rows, 1.0, self.shrinkage, units, shared=targets.shared)
        _ = problems[0].whitening  # it cannot be left out: all else shares the time that is left
        validations = self._validations(validation, targets, units.output_scale)
        return self._train_problems(problems, units, rows, validations, targets, observer, seed)

    def _train_problems(
        self,
        problems: Sequence[DataProblem],
        units: Units,
        rows: Rows,
        validations: Sequence[Validation | None],
        targets: Targets,
        observer: FitObserver,
        seed: int,
    ) -> list[Layer]:
        """Train a network for each problem; the rows, or some of them, are for short fits."""
        n_networks = targets.n_networks
        # Before the networks are trained, so that a classifier has probabilities also after an interrupt.
        choice = observer.recall(
            "gamma",
            lambda: self._choose_gamma(rows, units, seed, observer),
            lambda choice: None if choice is None else choice.to_snapshot(),
            GammaChoice.from_snapshot,
        )
        gamma = float(self.gamma) if choice is None else choice.best
        rng = np.random.default_rng(seed)
        generators = [rng] if n_networks == 1 else rng.spawn(n_networks)
        problems = [problem.with_gamma(gamma * units.size) for problem in problems]
        starts = [self._choose_start(problem, k, generators[k], units) for k, problem in enumerate(problems)]
        labels = [label or type(self).__name__ for label in targets.labels]
        tasks = [NetworkTask(*parts) for parts in zip(problems, starts, generators, labels, validations, strict=True)]
        has_no_slope = is_classifier(self) and choice is not None and choice.calibration is None
        is_uncalibrated = has_no_slope and observer.clock.has_limit

        def complete(layer: Layer) -> list[Layer]:
            return [replace(layer, units=units, choice=choice, is_uncalibrated=is_uncalibrated)]

        training = LayerTraining(self._trainer(), tasks, observer, complete=complete)
        return complete(training.run())

    def _choose_gamma(self, rows: Rows, units: Units, seed: int, observer: FitObserver) -> GammaChoice | None:
        """Compare the candidates of gamma and calibrate probabilities; None for a regressor with a given gamma."""
        if self._gamma_is_given and not is_classifier(self):
            return None
        return choose_gamma(
            rows,
            units,
            check_candidates(GAMMAS if isinstance(self.gamma, str) else np.atleast_1d(self.gamma)),
            seed,
            **self._fold_options(rows),
            n_hidden=WIDTH_OF_SHORT_FITS if self._grows else int(self.n_hidden),
            shrinkage=float(self.shrinkage),
            n_jobs=observer.n_threads,
            calibrate=is_classifier(self),
            clock=observer.clock.share(SHORT_FITS_SHARE),
        )

    @property
    def _gamma_is_given(self) -> bool:
        return np.ndim(self.gamma) == 0 and not isinstance(self.gamma, str)

    def _fold_options(self, rows: Rows) -> dict[str, Any]:
        """Return the folds of the cross-validation as arguments of `choose_gamma`."""
        if self.cv is None:
            return {}
        if isinstance(self.cv, Integral):
            return {"n_folds": int(self.cv)}
        codes = rows.Y[:, 0] if rows.Y.shape[1] == 1 else rows.Y.argmax(axis=1) if is_classifier(self) else rows.Y
        folds = check_cv(self.cv, codes, classifier=is_classifier(self)).split(rows.X, codes)
        return {"folds": check_folds(folds, len(rows.X))}

    def _split_validation(self, rows: Rows, labels: NDArray[Any] | None, seed: int) -> tuple[Rows, Rows]:
        if not (self.cv is None or isinstance(self.cv, Integral) or hasattr(self.cv, "split")):
            raise ValueError(
                "The folds in cv number all rows, but early_stopping sets some rows aside. Give X_val and y_val."
            )
        return super()._split_validation(rows, labels, seed)

    def _choose_start(self, problem: DataProblem, column: int, rng: np.random.Generator, units: Units) -> Network:
        """The network to start from: that of the last fit, the given one, or a random one."""
        n_hidden = None if self._grows else int(self.n_hidden)
        if self.warm_start and hasattr(self, "solutions_"):
            start = self.solutions_[column].network
        elif isinstance(self.init, Network):
            start = self.init
        else:
            n_outputs = problem.output_shape[0] if problem.output_shape else None
            start = units.convert_start(
                xavier(problem.n_features, START if n_hidden is None else n_hidden, rng, n_outputs)
            )
        return prepare_start(problem, start, n_hidden)

    @property
    def _grows(self) -> bool:
        """Whether the width is found by growth."""
        return self.n_hidden == "auto"

    def _trainer(self, **changes: Any) -> Trainer:
        return super()._trainer(grows=self._grows, **changes)

    def _build_own_attributes(self, layers: list[Layer], stationarities: FloatArray) -> dict[str, Any]:
        (layer,) = layers
        assert layer.units is not None
        choice = None if self._gamma_is_given else layer.choice
        return {
            "gamma_": layer.problems[0].gamma,
            "gammas_": None if choice is None else choice.gammas * layer.units.size,
            "mse_path_": None if choice is None else choice.errors,
            "target_scale_": layer.units.measure,
            "stationarities_": stationarities,
            "_units": layer.units,
        }

    def _problem_settings(self) -> tuple[float, float, Units]:
        return self.gamma_, self._fitted_params["shrinkage"], self._units


def _first(name: str, doc: str) -> Any:
    """Return a property with the first value of an attribute."""
    return property(lambda self: getattr(self, name)[0], doc=doc)


@documented()
class DCONRegressor(RegressorMixin, _Shallow):
    """One-hidden-layer ReLU network for regression, trained to convergence.

    There is no learning rate and no batch size, and the regularised loss, RegLoss, never rises; `Problem.objective`
    defines it. The default algorithm runs L-BFGS on all weights from several starts, hops out of poor minima, and
    uses the block descent of DCON as the safeguard: the weights of each neuron by difference-of-convex programming
    (DCA), the output weights by ridge regression.

    A y with several columns gives one network with an output for each column. With ``scale=True``, each
    target is then measured by its own standard deviation: RegLoss is that of the standardised targets, gamma is a pure
    number, and neither depends on the units of any of them.

    {parameters}

    Attributes
    ----------
    network_ : Network
        The trained network in the units of the data, with ``W`` (n_hidden, n_features), ``b``, ``alpha`` (n_hidden,) or
        (n_hidden, n_targets), and ``intercept``.
    gamma_ : float
        Gamma in the units of the data; with several targets and ``scale=True``, a pure number.
    gammas_, mse_path_ : ndarrays of shape (n_gammas,) and (n_gammas, n_folds), or None
        The candidates of ``gamma_``, and the mean squared errors of their short fits on the test rows. With several
        targets, the errors are summed in units of the variances. None if gamma is a number.
    target_scale_ : float or ndarray of shape (n_targets,)
        The unit of gamma: the standard deviation of y, or one with ``scale=False``. With several targets the standard
        deviation of each.
    history_, status_, message_, objective_ : History, Status, str and float
        RegLoss and more after each epoch; why the fit stopped, as a status and a sentence; RegLoss of the network.
    stationarity_ : float
        Norm of a subgradient of RegLoss, relative to the size of the targets; zero at a stationary point.
    networks_, histories_, statuses_, messages_, objectives_, stationarities_ : tuples and arrays of length 1
        The same, in the form of a classifier.
    n_iter_ : int
        Completed epochs.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_, target_names_in_ : ndarrays of str
        Names of the features and of the columns of y, if they are data frames with distinct names.

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
    >>> Y = np.column_stack([np.abs(X), 1000.0 * np.maximum(X, 0.0)])  # two targets, one network
    >>> model = DCONRegressor(n_hidden=3, gamma=0.01, random_state=0).fit(X, Y)
    >>> model.predict(X).shape, model.network_.n_outputs, model.target_scale_.shape
    ((50, 2), 2, (2,))
    """

    _takes_several_targets: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    network_ = _first("networks_", "The trained network.")
    history_ = _first("histories_", "What each epoch reached.")
    status_ = _first("statuses_", "Why the fit stopped.")
    message_ = _first("messages_", "The sentence of the status, with its figures.")

    @property
    def objective_(self) -> float:
        """RegLoss of the network on the training data."""
        return float(self.objectives_[0])

    @property
    def stationarity_(self) -> float:
        """Norm of a subgradient at the network, relative to the size of the targets."""
        return float(self.stationarities_[0])


@documented()
@parameters
class DCONClassifier(Classification, _Shallow):
    """One-hidden-layer ReLU networks for classification, one against the rest.

    A network for each class is trained on targets of plus and minus one, and the class of the largest output is
    predicted. Two classes need only one network.

    Probabilities are the logistic function, or the softmax, of the outputs times a slope. The slope is that of least
    log loss for what short fits put out for rows that they left out: the fits of the choice of gamma or, if gamma is
    given, those of five more folds. It is the same for all classes, and so leaves their order as it is.

    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    calibration_ : Calibration
        Conversion of outputs to probabilities by its ``slope``.
    networks_, histories_, statuses_, messages_ : tuples
        Network, history, status and message of each class, in the order of ``classes_``; with two classes those of
        ``classes_[1]`` alone, and with ``multi_class="shared"`` those of one network with an output for each class.
    network_ : Network
        The network, if there is one for all classes.
    gamma_, gammas_, mse_path_, target_scale_ : float, arrays and float
        Gamma and its choice, see `DCONRegressor`; the errors are sums over the networks.
    objective_, objectives_, stationarity_, stationarities_ : ndarrays of shape (n_networks,)
        RegLoss and stationarity of each network, see `DCONRegressor`.
    n_iter_ : int
        Largest number of epochs of a network.
    n_features_in_, feature_names_in_ : int and ndarray of str
        Number of features, and their names, if X had any.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dconnet import DCONClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DCONClassifier(n_hidden=3, tol=1e-4, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    multi_class: str = "ovr"
    class_weight: dict[Any, float] | str | None = None

    def _build_own_attributes(self, layers: list[Layer], stationarities: FloatArray) -> dict[str, Any]:
        choice = layers[0].choice
        calibration = None if choice is None else choice.calibration
        return super()._build_own_attributes(layers, stationarities) | {
            "calibration_": calibration or Calibration(PLAIN_SLOPE)
        }

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the probabilities of the classes, of shape (n_samples, n_classes), in the order of ``classes_``.

        They are ``expit(slope * output)`` for the second of two classes and ``softmax(slope * outputs)`` for more, with
        the slope of ``calibration_``. The class that `predict` gives is the most probable one.
        """
        outputs = self._predict_outputs(X)
        return self.calibration_.probabilities(outputs)

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the logarithms of the probabilities, finite also where a probability is too small for a number."""
        outputs = self._predict_outputs(X)
        return self.calibration_.log_probabilities(outputs)

    @property
    def network_(self) -> Network:
        """The network of two classes, or that which all classes share."""
        if len(self.networks_) != 1:
            raise AttributeError("Every class has a network of its own: see networks_.")
        return self.solutions_[0].network

    @property
    def objective_(self) -> FloatArray:
        """RegLoss of each network on its targets, the same as ``objectives_``."""
        return self.objectives_

    @property
    def stationarity_(self) -> FloatArray:
        """Distance of each network from a stationary point, the same as ``stationarities_``."""
        return self.stationarities_
