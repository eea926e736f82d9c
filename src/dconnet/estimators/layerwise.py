"""Deep networks layer by layer: every hidden layer is trained by DCON on the activations of the one below.

A layer above the first starts as a copy of the network below it, so that another layer does not raise RegLoss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dconnet._arrays import FloatArray, safe_norm
from dconnet.certificates import stationarity
from dconnet.convex.backend import Backend
from dconnet.estimators.shallow import (
    DCONRegressor,
    _classes_of,
    _confidence,
    _for_class,
    _positives,
    _refuse_sparse,
    _signs,
    _validated,
    _warn_about,
    _with_validation,
)
from dconnet.model.network import Network
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.model.targets import winning_classes
from dconnet.training.descent import _is_count
from dconnet.training.early_stopping import Validation
from dconnet.training.initialization import xavier
from dconnet.training.result import History, Solution, Status

# How often the new neurons of a start are halved before they are left out.
HALVINGS = 30


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Hidden layers on top of each other.

    Attributes
    ----------
    skip : bool
        Whether every layer above the first also sees the raw inputs.
    layers : tuple of tuples of Network
        From bottom to top. A layer holds one network for each target, and the one above it sees the hidden neurons of
        all of them; the output weights count in the top layer alone.

    Examples
    --------
    >>> from dconnet import Network
    >>> from dconnet.estimators.layerwise import Stack
    >>> absolute_value = Network(W=[[1.0], [-1.0]], b=[0.0, 0.0], alpha=[1.0, 1.0])
    >>> tent = Network(W=[[-1.0, -1.0]], b=[1.0], alpha=[1.0])  # max(1 - |x|, 0) on top of it
    >>> Stack(skip=False, layers=((absolute_value,), (tent,))).outputs([[-0.25], [2.0]])
    array([[0.75],
           [0.  ]])
    """

    skip: bool
    layers: tuple[tuple[Network, ...], ...] = ()

    def with_layer(self, layer: tuple[Network, ...]) -> Stack:
        """The stack with one more layer on top."""
        return Stack(self.skip, (*self.layers, layer))

    def features(self, X: ArrayLike) -> FloatArray:
        """What a further layer would see: all hidden neurons of the top layer, and with ``skip`` the inputs."""
        X = np.asarray(X, dtype=np.float64)
        features = X
        for layer in self.layers:
            hidden = [network.hidden(features) for network in layer]
            features = np.hstack([*hidden, X] if self.skip else hidden)
        return features

    def outputs(self, X: ArrayLike) -> FloatArray:
        """Predictions of the top layer, of shape (n_samples, n_targets)."""
        below = Stack(self.skip, self.layers[:-1]).features(X)
        return np.column_stack([network.predict(below) for network in self.layers[-1]])

    def output_weights(self, target: int) -> FloatArray:
        """Output weights of one target in the place of its neurons, and zero for all other neurons of the top layer."""
        own = self.layers[-1][target]
        return np.concatenate([network.alpha * (network is own) for network in self.layers[-1]])


def continuation(
    problem: Problem, carried: FloatArray, n_hidden: int, limit: float, rng: np.random.Generator
) -> Network:
    """A start for another layer that goes on from the network below.

    Two neurons repeat its output on the training data, one for each sign of its output weights: activations are not
    negative, and so ``max(<w, x>, 0) = <w, x>`` for weights that are not negative either. By the triangle inequality,
    the two bear no more penalty than the network below. All other neurons are new, drawn by the rule of Xavier in the
    units of the features, and halved until RegLoss is within the limit. A single neuron cannot repeat both signs; it
    is all new then.

    Parameters
    ----------
    problem : Problem
        The problem of the new layer.
    carried : array of shape (n_neurons_below,)
        Output weights of the network below, for the first columns of the features.
    n_hidden : int
        Number of neurons.
    limit : float
        RegLoss that the start should not exceed.
    rng : numpy.random.Generator
        Source of the new neurons.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import Network, Problem
    >>> from dconnet.estimators.layerwise import continuation
    >>> X, y = np.linspace(-1, 1, 9).reshape(-1, 1), np.ones(9)
    >>> below = Network(W=[[1.0], [-1.0]], b=[0.0, 0.5], alpha=[1.0, -1.0])
    >>> above = Problem(below.hidden(X), y, gamma=0.1)
    >>> start = continuation(above, below.alpha, n_hidden=2, limit=0.0, rng=np.random.default_rng(0))
    >>> bool(np.allclose(start.predict(below.hidden(X)), below.predict(X)))
    True
    """
    white = problem.whitened  # indifferent to the order of the rows, and so is the start
    copy = _copied_output(white, carried)
    fresh = _in_units_of(white, xavier(problem.X.shape[1], n_hidden, rng))
    if copy.n_hidden > n_hidden:
        return fresh
    for shrink in [*0.5 ** np.arange(HALVINGS), 0.0]:
        start = _completed(copy, fresh, shrink)
        if _regloss(white, start) <= limit:
            break
    return start


def _copied_output(white: WhitenedProblem, carried: FloatArray) -> Network:
    """The network below as one neuron for each sign of its output weights, with balanced weights."""
    n_features = white.whitening.to_white.shape[1] - 1
    U, alpha = [], []
    for sign in (1.0, -1.0):
        u = np.zeros(n_features + 1)
        u[: len(carried)] = np.maximum(sign * carried, 0.0)
        norm = safe_norm(white.whitening.to_white @ u)
        if norm > 0.0:
            U.append(u / np.sqrt(norm))
            alpha.append(sign * np.sqrt(norm))
    return Network(np.reshape(U, (-1, n_features + 1))[:, :-1], np.zeros(len(alpha)), alpha)


def _in_units_of(white: WhitenedProblem, network: Network) -> Network:
    """The network with its weights for features of order one, turned to those of the problem."""
    size = np.linalg.norm(white.whitening.to_white[:, :-1], axis=0) / np.sqrt(white.total_weight)
    W = np.divide(network.W, size, out=np.zeros_like(network.W), where=size > 0.0)
    return Network(W, network.b, network.alpha)


def _regloss(white: WhitenedProblem, network: Network) -> float:
    """RegLoss, summed over the rows in the order of the whitened problem."""
    V = white.whiten(network)
    return white.regloss(V, white.preactivations(V), network.alpha)


def _completed(copy: Network, fresh: Network, shrink: float) -> Network:
    """The copy, and as many new neurons as there is room for."""
    new = slice(copy.n_hidden, None)
    return Network(
        W=np.vstack([copy.W, shrink * fresh.W[new]]),
        b=np.concatenate([copy.b, shrink * fresh.b[new]]),
        alpha=np.concatenate([copy.alpha, shrink * fresh.alpha[new]]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What one network of every layer learns.

    Attributes
    ----------
    label : str
        Its name for people.
    y : array of shape (n_samples,)
        The targets.
    validation : Validation or None
        Validation data with the raw inputs.
    """

    label: str
    y: FloatArray
    validation: Validation | None

    def of_rows(self, rows: NDArray[np.intp]) -> Task:
        """The same for some of the rows, in this order."""
        return replace(self, y=self.y[rows])

    def validation_above(self, stack: Stack) -> Validation | None:
        """Validation data as the next layer sees them."""
        raw = self.validation
        return None if raw is None else Validation(stack.features(raw.X), raw.y, raw.sample_weight, raw.patience)


class _LayerwiseEstimator(BaseEstimator):
    """What regressor and classifier share: the parameters, and the training of one layer after the other."""

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (20, 20),
        *,
        gamma: float | Sequence[float] = 1e-3,
        skip: bool = False,
        lower_epochs: int | None = 10,
        algorithm: str = "accelerated",
        split: str | None = None,
        solver: str | Backend = "native",
        max_epochs: int | None = 1000,
        max_seconds: float | None = None,
        max_dca_iter: int = 50,
        tol: float = 1e-6,
        restart: bool = False,
        inexact: bool = False,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.gamma = gamma
        self.skip = skip
        self.lower_epochs = lower_epochs
        self.algorithm = algorithm
        self.split = split
        self.solver = solver
        self.max_epochs = max_epochs
        self.max_seconds = max_seconds
        self.max_dca_iter = max_dca_iter
        self.tol = tol
        self.restart = restart
        self.inexact = inexact
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _trainers(self) -> list[DCONRegressor]:
        """One estimator a layer with the parameters of that layer, checked."""
        parameters = self.get_params(deep=False)
        shared = {name: parameters[name] for name in DCONRegressor._get_param_names() if name in parameters}
        shared["warm_start"] = True  # every start is handed over
        sizes, gammas = self._sizes_and_gammas()
        own = [{"n_hidden": size, "gamma": gamma} for size, gamma in zip(sizes, gammas, strict=True)]
        if self.lower_epochs is not None:
            if not _is_count(self.lower_epochs):
                raise ValueError(f"lower_epochs must be a positive integer or None, got {self.lower_epochs!r}.")
            own[:-1] = [changes | {"max_epochs": self.lower_epochs} for changes in own[:-1]]
        trainers = [DCONRegressor(**(shared | changes)) for changes in own]
        for trainer in trainers:
            trainer._options()
        return trainers

    def _sizes_and_gammas(self) -> tuple[list[int], list[float]]:
        sizes = np.asarray(self.hidden_layer_sizes).tolist()
        if not isinstance(sizes, list) or not sizes or not all(map(_is_count, sizes)):
            raise ValueError(
                "hidden_layer_sizes must hold one positive integer a layer, such as (20, 20), "
                f"got {self.hidden_layer_sizes!r}."
            )
        gammas = [self.gamma] * len(sizes) if isinstance(self.gamma, Real) else np.asarray(self.gamma).tolist()
        if not isinstance(gammas, list) or len(gammas) != len(sizes):
            raise ValueError(f"gamma must be one number, or one for each of {len(sizes)} layers, got {self.gamma!r}.")
        if not all(isinstance(gamma, Real) and 0.0 < float(gamma) < np.inf for gamma in gammas):
            raise ValueError(f"gamma must be a positive finite number in every layer, got {self.gamma!r}.")
        return sizes, gammas

    def _fit_layers(self, X: FloatArray, tasks: list[Task], weight: FloatArray) -> list[_Level]:
        """Train the layers from bottom to top; a warm start keeps all but the top as they are."""
        trainers = self._trainers()
        before: tuple[tuple[Solution, ...], ...] = getattr(self, "_solutions", ()) if self.warm_start else ()
        rows = Problem(X, tasks[0].y, trainers[0].gamma, weight, copy=False).groups
        tasks, weight = [task.of_rows(rows.order) for task in tasks], weight[rows.order]
        stack, levels = Stack(bool(self.skip)), list[_Level]()
        for trainer, rng in zip(trainers, trainers[0]._rng().spawn(len(trainers)), strict=True):
            depth = len(levels)
            # Rows with equal inputs get equal features to the last bit; a product of all rows would not see to that.
            features = rows.spread_out(stack.features(X[rows.first]))
            problems = _problems(features, tasks, trainer.gamma, weight)
            level = _Level(trainer, problems, rng.spawn(len(tasks)), f"layer {depth + 1} of {len(trainers)}")
            if depth < len(before) and depth < len(trainers) - 1:
                level.keep(before[depth])
            else:
                known = before[depth] if depth < len(before) else ()
                starts = [solution.network for solution in known] or level.starts(stack, levels[-1:])
                level.train(starts, stack, tasks, interrupted=any(below.interrupted for below in levels))
            levels.append(level)
            stack = stack.with_layer(level.networks)
        self._stack = stack
        self._solutions = tuple(tuple(level.solutions) for level in levels)
        self.n_iter_ = max(solution.n_epochs for solution in levels[-1].solutions)
        self._warn(levels)
        return levels

    def _warn(self, levels: list[_Level]) -> None:
        """Warn of what went short of the goal; the limit on the lower layers is meant."""
        lower = [solution for level in levels[:-1] for solution in level.solutions]
        intended = [] if self.lower_epochs is None else [s for s in lower if s.status is Status.EPOCH_LIMIT]
        _warn_about(lower + levels[-1].solutions, intended)

    def _outputs(self, X: ArrayLike) -> FloatArray:
        """Predictions of the top layer, of shape (n_samples, n_targets)."""
        X = self._checked(X)
        return self._stack.outputs(X)

    def hidden(self, X: ArrayLike) -> FloatArray:
        """Activations of the top hidden layer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples, n_neurons)
            One column a neuron; of a classifier, the neurons of all classes one after the other.
        """
        X = self._checked(X)
        features = self._stack.features(X)
        return features[:, : sum(network.n_hidden for network in self._stack.layers[-1])]

    def _checked(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        _refuse_sparse(X)
        checked: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return checked


@dataclass(slots=True, eq=False)
class _Level:
    """A layer while it is trained: one problem and one solution for each target."""

    trainer: DCONRegressor
    problems: list[Problem]
    generators: list[np.random.Generator]
    title: str
    solutions: list[Solution] = field(default_factory=list)
    interrupted: bool = False

    @property
    def networks(self) -> tuple[Network, ...]:
        return tuple(solution.network for solution in self.solutions)

    @property
    def objectives(self) -> list[float]:
        """RegLoss of each network on what this layer sees."""
        return [problem.objective(network) for problem, network in zip(self.problems, self.networks, strict=True)]

    def reglosses(self, gamma: float) -> list[float]:
        """The same with another strength of the regularisation."""
        pairs = zip(self.problems, self.networks, strict=True)
        return [_regloss(replace(problem.whitened, gamma=gamma), network) for problem, network in pairs]

    @property
    def stationarities(self) -> list[float]:
        """Norm of a subgradient at each network."""
        return [stationarity(p, network).norm for p, network in zip(self.problems, self.networks, strict=True)]

    def keep(self, solutions: tuple[Solution, ...]) -> None:
        """Take over what an earlier fit trained, if it fits in here."""
        for problem, solution, rng in zip(self.problems, solutions, self.generators, strict=True):
            self.trainer._start(problem, solution.network, rng)
        self.solutions.extend(solutions)

    def starts(self, stack: Stack, below: list[_Level]) -> list[Network | None]:
        """Where to start: in the bottom layer anywhere, above it from the networks below."""
        if not below:
            return [None] * len(self.problems)
        limits = below[0].reglosses(self.trainer.gamma)
        return [
            continuation(problem, stack.output_weights(k), int(self.trainer.n_hidden), limits[k], self.generators[k])
            for k, problem in enumerate(self.problems)
        ]

    def train(self, starts: Sequence[Network | None], stack: Stack, tasks: list[Task], interrupted: bool) -> None:
        """Train the networks one by one; after an interrupt only their output layers."""
        self.interrupted = interrupted
        for problem, start, rng, task in zip(self.problems, starts, self.generators, tasks, strict=True):
            validation, label = task.validation_above(stack), f"{self.title}{task.label}"
            solution = self.trainer._descend(problem, validation, start, rng, label, self.interrupted)
            self.interrupted |= solution.status is Status.INTERRUPTED
            self.solutions.append(solution)


def _problems(features: FloatArray, tasks: list[Task], gamma: float, weight: FloatArray) -> list[Problem]:
    """One problem for each task; the features and their factorisation are shared."""
    first = Problem(features, tasks[0].y, gamma, weight, copy=False)
    return [first] + [first.with_targets(task.y) for task in tasks[1:]]


class LayerwiseDCONRegressor(RegressorMixin, _LayerwiseEstimator):
    """Deep ReLU network for regression, trained by DCON layer after layer.

    The first hidden layer is that of a `DCONRegressor`. Its activations are the inputs of a second one, and so on. The
    lower layers are trained for a few epochs, the top one to the end; their output weights are then of no further
    use. No layer changes those below it.

    With one `gamma` for all layers, at least two neurons in each and no early stopping, ``objectives_`` does not rise
    from layer to layer, because every layer starts as a copy of the network below.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default=(20, 20)
        Number of neurons of each hidden layer, from bottom to top.
    gamma : float or sequence of float, default=1e-3
        Strength of the data-weighted regularisation, one for all layers or one for each.
    skip : bool, default=False
        Whether the layers above the first also see the raw inputs. Check the prediction on plenty of validation data:
        rows that are few can gain weights of any size this way, see the documentation.
    lower_epochs : int or None, default=10
        Limit on epochs of each layer but the top. None trains them like the top layer.
    algorithm : {"accelerated", "paper"}, default="accelerated"
        See `DCONRegressor`.
    split : {"paper", "net"} or None, default=None
        See `DCONRegressor`.
    solver : str or Backend, default="native"
        See `DCONRegressor`.
    max_epochs : int or None, default=1000
        Limit on epochs of the top layer. None goes on until convergence.
    max_seconds : float or None, default=None
        Budget of wall time for each network of each layer.
    max_dca_iter : int, default=50
        See `DCONRegressor`.
    tol : float, default=1e-6
        See `DCONRegressor`.
    restart : bool, default=False
        See `DCONRegressor`.
    inexact : bool, default=False
        See `DCONRegressor`.
    early_stopping : bool, default=False
        Whether every layer stops when the error on validation data no longer improves, and restores its best network.
    validation_fraction : float, default=0.1
        Part of the data set aside for early stopping, unless `fit` is given validation data.
    n_iter_no_change : int, default=10
        Epochs without improvement after which early stopping ends the training of a layer.
    warm_start : bool, default=False
        Whether `fit` keeps the lower layers of the last fit and goes on with its top layer. If `hidden_layer_sizes` has
        grown in the meantime, all layers of the last fit are kept and the new ones are put on top.
    random_state : int, RandomState or None, default=None
        Seed of the starts, of the order of the neurons, and of the validation split.
    verbose : int, default=0
        1 shows a progress bar, 2 prints a line an epoch.

    Attributes
    ----------
    networks_ : tuple of Network
        One network a layer, from bottom to top. Each sees the activations of the one before, and with ``skip`` the raw
        inputs behind them.
    histories_, statuses_, messages_ : tuples
        How each layer was reached, from bottom to top.
    n_iter_ : int
        Completed epochs of the top layer.
    objectives_ : ndarray of shape (n_layers,)
        RegLoss of each layer on what it sees of the training data, as `Problem.objective` has it.
    objective_ : float
        RegLoss of the top layer.
    stationarity_ : float
        Norm of a subgradient of it in the weights of the top layer, relative to the size of the targets.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the inputs, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import LayerwiseDCONRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> y = np.cos(4 * np.linalg.norm(X, axis=1))
    >>> model = LayerwiseDCONRegressor((8, 8), gamma=0.03, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> bool(model.objectives_[1] < model.objectives_[0])
    True
    """

    networks_: tuple[Network, ...]
    histories_: tuple[History, ...]
    statuses_: tuple[Status, ...]
    messages_: tuple[str, ...]

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Train the layers from bottom to top.

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
        LayerwiseDCONRegressor
            The fitted estimator.
        """
        self._trainers()  # a wrong parameter is reported before any work
        inputs, targets = _validated(self, X, y, y_numeric=True)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64)
        inputs, targets, weight, validation = _with_validation(self, inputs, targets, weight, X_val, y_val)
        levels = self._fit_layers(inputs, [Task("", targets, validation)], weight)
        solutions = [level.solutions[0] for level in levels]
        self.networks_ = tuple(s.network for s in solutions)
        self.histories_ = tuple(s.history for s in solutions)
        self.statuses_ = tuple(s.status for s in solutions)
        self.messages_ = tuple(s.message for s in solutions)
        self.objectives_ = np.array([level.objectives[0] for level in levels])
        self.objective_ = float(self.objectives_[-1])
        self.stationarity_ = levels[-1].stationarities[0]
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Predict the target of every row of ``X``, of shape (n_samples,)."""
        return self._outputs(X)[:, 0]


class LayerwiseDCONClassifier(ClassifierMixin, _LayerwiseEstimator):
    """Deep ReLU network for classification, trained by DCON layer after layer.

    In every layer, one network a class is trained on targets of plus and minus one, as by `DCONClassifier`. The layer
    above sees the hidden neurons of all of them, so that each class can use what the others found. In the top layer,
    the class whose output is closest to one wins. Two classes need only one network a layer.

    With one `gamma` for all layers, at least two neurons in each and no early stopping, ``objectives_`` does not rise
    from layer to layer, because every layer starts as a copy of the networks below.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int, default=(20, 20)
        Number of neurons of each network of a layer, from bottom to top.
    gamma : float or sequence of float, default=1e-3
        See `LayerwiseDCONRegressor`.
    skip : bool, default=False
        See `LayerwiseDCONRegressor`.
    lower_epochs : int or None, default=10
        See `LayerwiseDCONRegressor`.
    algorithm : {"accelerated", "paper"}, default="accelerated"
        See `DCONRegressor`.
    split : {"paper", "net"} or None, default=None
        See `DCONRegressor`.
    solver : str or Backend, default="native"
        See `DCONRegressor`.
    max_epochs : int or None, default=1000
        Limit on epochs for each network of the top layer.
    max_seconds : float or None, default=None
        Budget of wall time for each network of each layer.
    max_dca_iter : int, default=50
        See `DCONRegressor`.
    tol : float, default=1e-6
        See `DCONRegressor`.
    restart : bool, default=False
        See `DCONRegressor`.
    inexact : bool, default=False
        See `DCONRegressor`.
    early_stopping : bool, default=False
        See `LayerwiseDCONRegressor`; each network is stopped on its own.
    validation_fraction : float, default=0.1
        See `DCONRegressor`; the split keeps the shares of the classes.
    n_iter_no_change : int, default=10
        See `DCONRegressor`.
    warm_start : bool, default=False
        See `LayerwiseDCONRegressor`.
    random_state : int, RandomState or None, default=None
        See `LayerwiseDCONRegressor`.
    verbose : int, default=0
        See `DCONRegressor`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    networks_ : tuple of tuples of Network
        The layers from bottom to top; in each, one network a class in the order of ``classes_``. With two classes it
        is one network, for ``classes_[1]``.
    histories_, statuses_, messages_ : tuples of tuples
        How each network was reached.
    n_iter_ : int
        Most epochs that any network of the top layer took.
    objectives_ : ndarray of shape (n_layers, n_networks)
        RegLoss of each network on what it sees of the training data.
    objective_ : ndarray of shape (n_networks,)
        RegLoss of the networks of the top layer.
    stationarity_ : ndarray of shape (n_networks,)
        Their distance from a stationary point, see `LayerwiseDCONRegressor`.
    n_features_in_ : int
        Number of inputs.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the inputs, if X had any.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import LayerwiseDCONClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> y = np.where(np.linalg.norm(X, axis=1) > 0.8, "outside", "inside")
    >>> model = LayerwiseDCONClassifier((6, 6), gamma=0.1, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    networks_: tuple[tuple[Network, ...], ...]
    classes_: NDArray[Any]

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Train the layers from bottom to top, one network a class in each.

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
        LayerwiseDCONClassifier
            The fitted estimator.
        """
        self._trainers()
        inputs, labels = _validated(self, X, y)
        check_classification_targets(labels)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64)
        known: NDArray[Any] | None = getattr(self, "classes_", None) if self.warm_start else None
        self.classes_ = _classes_of(labels, weight)
        if known is not None and not np.array_equal(known, self.classes_):
            raise ValueError("warm_start=True needs the same classes as the last fit.")
        inputs, labels, weight, validation = _with_validation(
            self, inputs, labels, weight, X_val, y_val, stratify=labels
        )
        tasks = [
            Task(f", class {positive}", _signs(labels, positive), _for_class(validation, positive))
            for positive in _positives(self.classes_)
        ]
        levels = self._fit_layers(inputs, tasks, weight)
        self.networks_ = tuple(level.networks for level in levels)
        self.histories_ = tuple(tuple(s.history for s in level.solutions) for level in levels)
        self.statuses_ = tuple(tuple(s.status for s in level.solutions) for level in levels)
        self.messages_ = tuple(tuple(s.message for s in level.solutions) for level in levels)
        self.objectives_ = np.array([level.objectives for level in levels])
        self.objective_ = self.objectives_[-1]
        self.stationarity_ = np.array(levels[-1].stationarities)
        return self

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Confidence in the classes.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            With two classes the output of the network, positive for ``classes_[1]``. With more, minus the distance
            of each class's output from one: the largest wins.
        """
        return _confidence(self._outputs(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of every row of ``X``, of shape (n_samples,)."""
        outputs = self._outputs(X)
        predicted: NDArray[Any] = self.classes_[winning_classes(outputs)]
        return predicted
