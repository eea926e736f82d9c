"""Deep networks layer by layer: each hidden layer is trained by DCON on the activations of the one below.

A layer above the first starts as a copy of the network below it, so that another layer does not raise RegLoss.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from dconnet._arrays import FloatArray
from dconnet.estimators.base import Classification, DCONEstimator, Regression
from dconnet.estimators.data import Rows
from dconnet.estimators.fingerprint import described
from dconnet.estimators.layer import Layer, build_problems, kept_layer, prepare_start, train_layer
from dconnet.estimators.observer import Callback, FitObserver
from dconnet.estimators.parameters import CONSTRAINTS, COUNT, POSITIVE, constraints, documented, store_parameters
from dconnet.export.chain import Chain
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.model.stack import Stack
from dconnet.model.targets import Targets
from dconnet.training.continuation import continuation, whitened_regloss
from dconnet.training.initialization import xavier
from dconnet.training.result import History, Solution, Status
from dconnet.training.trainer import PaperAlgorithm


class _Layerwise(DCONEstimator):
    """Several hidden layers, trained one after the other."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = constraints(
        *("n_hidden", "cv", "scale", "shrinkage", "init", "multi_class", "class_weight"), gamma=[POSITIVE, "array-like"]
    )

    hidden_layer_sizes: Sequence[int]
    skip: bool
    lower_epochs: int | None
    _stack: Stack

    def _sizes_and_gammas(self) -> tuple[list[int], list[float]]:
        """Number of neurons and strength of the regularisation of each layer, checked."""
        sizes = list(self.hidden_layer_sizes) if np.ndim(self.hidden_layer_sizes) == 1 else []
        if not sizes or not all(map(COUNT.is_satisfied_by, sizes)):
            raise ValueError(
                "hidden_layer_sizes must hold a positive integer for each layer, such as (20, 20), "
                f"got {self.hidden_layer_sizes!r}."
            )
        given: Any = self.gamma
        gammas: list[float] = list(given) if np.ndim(given) == 1 else [given] * len(sizes)
        if len(gammas) != len(sizes):
            raise ValueError(f"gamma must be one number, or one for each of {len(sizes)} layers, got {self.gamma!r}.")
        if not all(map(POSITIVE.is_satisfied_by, gammas)):
            raise ValueError(f"gamma must be a positive finite number in every layer, got {self.gamma!r}.")
        return sizes, gammas

    def _train(self, rows: Rows, validation: Rows | None, targets: Targets, observer: FitObserver) -> list[Layer]:
        sizes, gammas = self._sizes_and_gammas()
        before = getattr(self, "_layers", ()) if self.warm_start else ()
        groups = build_problems(rows, gammas[0])[0].groups
        inputs, Y, weight = rows.X[groups.first], rows.Y[groups.order], rows.weight[groups.order]
        stack, layers = Stack(bool(self.skip)), list[Layer]()
        for depth, rng in enumerate(np.random.default_rng(observer.seed()).spawn(len(sizes))):
            # Rows with equal inputs get equal features to the last bit; a product of all rows would not see to that.
            problems = build_problems(Rows(groups.spread_out(stack.features(inputs)), Y, weight), gammas[depth])
            generators = rng.spawn(targets.n_columns)
            known = [solution.network for solution in before[depth]] if depth < len(before) else []
            starts = known or self._starts(problems, sizes[depth], generators, stack, layers)
            for problem, start in zip(problems, starts, strict=True):
                prepare_start(problem, start, sizes[depth])
            if known and depth < len(sizes) - 1 and not _is_interrupted(before[depth]):
                # A warm start keeps the layers below the top.
                layers.append(kept_layer(problems, before[depth]))
            else:
                title = f"layer {depth + 1} of {len(sizes)}"
                layers.append(
                    train_layer(
                        self._trainer(**self._limit(depth, len(sizes))),
                        problems,
                        starts,
                        generators,
                        labels=[f"{title}, {label}" if label else title for label in targets.labels],
                        validations=self._validations(_above(validation, stack), targets),
                        observer=observer,
                        is_interrupted=any(layer.is_interrupted for layer in layers),
                        n_jobs=self._n_threads(),
                        depth=depth,
                        name_below=_name(layers),
                        title=title,
                        complete=lambda layer: [*layers, layer],
                        n_layers_left=len(sizes) - depth,
                    )
                )
            stack = stack.with_layer(layers[-1].networks)
        return layers

    def _n_layers(self) -> int:
        return len(self._sizes_and_gammas()[0])

    def _limit(self, depth: int, n_layers: int) -> dict[str, int]:
        """The limit on epochs that the lower layers have."""
        return {} if self.lower_epochs is None or depth == n_layers - 1 else {"max_epochs": self.lower_epochs}

    @staticmethod
    def _starts(
        problems: list[Problem], size: int, generators: list[np.random.Generator], stack: Stack, below: list[Layer]
    ) -> list[Network]:
        """Random starts in the bottom layer; above it, starts that continue the networks below."""
        if not below:
            return [xavier(problem.X.shape[1], size, rng) for problem, rng in zip(problems, generators, strict=True)]
        solved = [cast("Problem", problem) for problem in below[-1].problems]  # rows are here
        pairs = zip(solved, below[-1].networks, strict=True)
        limits = [whitened_regloss(replace(p.whitened, gamma=problems[0].gamma), network) for p, network in pairs]
        return [
            continuation(problem, stack.output_weights(k), size, limits[k], generators[k])
            for k, problem in enumerate(problems)
        ]

    def _limited(self, layer: Layer, is_top: bool) -> list[Solution]:
        """The solutions that a limit kept from convergence; the limit on the epochs of lower layers is meant."""
        short = super()._limited(layer, is_top)
        if is_top or self.lower_epochs is None:
            return short
        return [solution for solution in short if solution.status is not Status.EPOCH_LIMIT]

    def _attributes(self, layers: list[Layer], stationarities: FloatArray) -> dict[str, Any]:
        objectives = np.array([self._of_layer(layer.objectives) for layer in layers])
        return {
            "_stack": Stack(bool(self.skip), tuple(layer.networks for layer in layers)),
            "networks_": tuple(self._of_layer(layer.networks) for layer in layers),
            "histories_": tuple(self._of_layer([s.history for s in layer.solutions]) for layer in layers),
            "statuses_": tuple(self._of_layer([s.status for s in layer.solutions]) for layer in layers),
            "messages_": tuple(self._of_layer([s.message for s in layer.solutions]) for layer in layers),
            "objectives_": objectives,
            "objective_": objectives[-1],
            "stationarity_": self._of_layer(stationarities),
        }

    @staticmethod
    def _of_layer(values: Sequence[Any] | FloatArray) -> Any:
        """What a fitted attribute holds of a layer."""
        raise NotImplementedError

    def _hidden(self, X: FloatArray) -> FloatArray:
        return self._stack.hidden(X)

    def _outputs(self, X: FloatArray) -> FloatArray:
        return self._stack.outputs(X)

    def _chain(self) -> Chain:
        return self._stack.chain()

    def problems(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> list[Problem]:
        """The problem that each network of the top layer solves, posed on what that layer sees of these data.

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
            One problem for each network of the top layer.
        """
        check_is_fitted(self)
        rows = self._checked_rows(X, y, sample_weight, self.targets_)
        below = Stack(self._stack.skip, self._stack.layers[:-1])
        return build_problems(
            replace(rows, X=below.features(rows.X)), np.ravel(self._fitted_params["gamma"])[-1], copy=True
        )

    def hidden(self, X: ArrayLike) -> FloatArray:
        """Activations of the top hidden layer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples, n_neurons)
            A column for each neuron; for a classifier, the neurons of all classes one after the other.
        """
        checked = self._checked(X)
        features = self._stack.features(checked)
        return features[:, : sum(network.n_hidden for network in self._stack.layers[-1])]


def _name(layers: Sequence[Layer]) -> str:
    """A name of what a layer sees: with larger limits, the layers below it may have become others."""
    return f" above {described(layers[-1].networks)}" if layers else ""


def _is_interrupted(solutions: Sequence[Solution]) -> bool:
    return any(solution.status is Status.INTERRUPTED for solution in solutions)


def _above(validation: Rows | None, stack: Stack) -> Rows | None:
    """Validation data as the next layer sees them."""
    return None if validation is None else replace(validation, X=stack.features(validation.X))


@documented(gamma="gamma of layers", warm_start="warm_start of layers")
class LayerwiseDCONRegressor(Regression, _Layerwise):
    """Deep ReLU network for regression, trained layer by layer.

    The first hidden layer is that of a `DCONRegressor`. Its activations are the inputs of the second, and so on. The
    lower layers are trained for a few epochs and their output weights are then discarded; the top layer is trained to
    convergence. Training a layer does not change those below it.

    If all layers have the same ``gamma`` and at least two neurons, and without early stopping, ``objectives_`` does not
    rise from layer to layer, because every layer starts as a copy of the network below.

    {parameters}

    Attributes
    ----------
    networks_ : tuple of Network
        The network of each layer, from bottom to top. Its inputs are the activations of the one before, followed by the
        raw inputs with ``skip``.
    histories_, statuses_, messages_ : tuples
        The history, status and message of each layer, from bottom to top.
    n_iter_ : int
        Completed epochs of the top layer.
    objectives_ : ndarray of shape (n_layers,)
        RegLoss of each layer on its own inputs, see `Problem.objective`.
    objective_ : float
        RegLoss of the top layer.
    stationarity_ : float
        Norm of a subgradient with respect to the weights of the top layer, relative to the size of the targets.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had any.
    target_names_in_ : ndarray of shape (n_targets,)
        Names of the columns of y, if it was a DataFrame whose names are all text and differ. Model files and exports
        take them.

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

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (20, 20),
        *,
        gamma: float | Sequence[float] = 1e-3,
        skip: bool = False,
        lower_epochs: int | None = 10,
        algorithm: str | PaperAlgorithm = "accelerated",
        max_epochs: int | None = 1000,
        max_seconds: float | None = None,
        max_evaluations: int | None = None,
        tol: float = 1e-6,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    @staticmethod
    def _of_layer(values: Sequence[Any] | FloatArray) -> Any:
        return values[0]


@documented(gamma="gamma of layers", warm_start="warm_start of layers")
class LayerwiseDCONClassifier(Classification, _Layerwise):
    """Deep ReLU network for classification, trained layer by layer.

    In every layer, a network for each class is trained on targets of plus and minus one, as by `DCONClassifier`. The
    layer above sees the hidden neurons of all of them. The class of the largest output in the top layer is predicted.
    Two classes need only one network in each layer.

    There is no ``predict_proba``: probabilities are to be calibrated on outputs for rows that the networks have not
    seen, and that takes a layer-wise fit for every fold, which `sklearn.calibration.CalibratedClassifierCV` does.

    If all layers have the same ``gamma`` and at least two neurons, and without early stopping, ``objectives_`` does not
    rise from layer to layer, because every layer starts as a copy of the networks below.

    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    networks_ : tuple of tuples of Network
        The networks of each layer, from bottom to top, in the order of ``classes_``. With two classes a layer has a
        single network, for ``classes_[1]``.
    histories_, statuses_, messages_ : tuples of tuples
        The history, status and message of each network.
    n_iter_ : int
        Largest number of epochs of a network of the top layer.
    objectives_ : ndarray of shape (n_layers, n_networks)
        RegLoss of each network on its own inputs.
    objective_ : ndarray of shape (n_networks,)
        RegLoss of the networks of the top layer.
    stationarity_ : ndarray of shape (n_networks,)
        Their distance from a stationary point, see `LayerwiseDCONRegressor`.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had any.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_Layerwise._parameter_constraints,
        "class_weight": CONSTRAINTS["class_weight"],
    }

    networks_: tuple[tuple[Network, ...], ...]
    histories_: tuple[tuple[History, ...], ...]
    statuses_: tuple[tuple[Status, ...], ...]
    messages_: tuple[tuple[str, ...], ...]

    def __init__(
        self,
        hidden_layer_sizes: Sequence[int] = (20, 20),
        *,
        gamma: float | Sequence[float] = 1e-3,
        skip: bool = False,
        lower_epochs: int | None = 10,
        algorithm: str | PaperAlgorithm = "accelerated",
        max_epochs: int | None = 1000,
        max_seconds: float | None = None,
        max_evaluations: int | None = None,
        tol: float = 1e-6,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        store_parameters(self, locals())

    @staticmethod
    def _of_layer(values: Sequence[Any] | FloatArray) -> Any:
        return values if isinstance(values, np.ndarray) else tuple(values)
