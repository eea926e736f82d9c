"""Deep networks layer by layer: each hidden layer is trained by DCON on the activations of the one below.

A layer above the first starts as a copy of the network below it, so that another layer does not raise RegLoss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, cast

import numpy as np
from sklearn.base import RegressorMixin, is_classifier

from dconnet._arrays import FloatArray
from dconnet.estimators.base import DCONEstimator
from dconnet.estimators.data import Rows
from dconnet.estimators.fit_observer import FitObserver
from dconnet.estimators.fitted import Classification
from dconnet.estimators.layer import Layer, LayerTraining, NetworkTask, build_problems, prepare_start
from dconnet.estimators.parameters import COUNT, POSITIVE, documented, parameters
from dconnet.model.network import Stack
from dconnet.model.problem import Problem
from dconnet.model.targets import Targets
from dconnet.training.checkpoint import describe_value
from dconnet.training.initialization import start_layer
from dconnet.training.result import Solution, Status

# Multiplications per second of the whitening and the first passes of a layer, which the clock cannot interrupt;
# measured with 200 classes, 2,000 rows and 4,000 features.
SPEED = 1e9


@parameters
class _Layerwise(DCONEstimator):
    """Several hidden layers, trained one after the other."""

    hidden_layer_sizes: Sequence[int] = field(default=(20, 20), kw_only=False)
    gamma: Any = 1e-3
    skip: bool = False
    lower_epochs: int | None = 10

    def _sizes_and_gammas(self) -> tuple[list[int], list[float]]:
        """Return the width and gamma of each layer, checked."""
        sizes = list(self.hidden_layer_sizes) if np.ndim(self.hidden_layer_sizes) == 1 else []
        if not sizes or not all(map(COUNT.is_satisfied_by, sizes)):
            raise ValueError(
                "hidden_layer_sizes must hold a positive integer for each layer, such as (20, 20), "
                f"got {self.hidden_layer_sizes!r}."
            )
        gammas: list[float] = list(self.gamma) if np.ndim(self.gamma) == 1 else [self.gamma] * len(sizes)
        if len(gammas) != len(sizes):
            raise ValueError(f"gamma must be one number, or one for each of {len(sizes)} layers, got {self.gamma!r}.")
        if not all(map(POSITIVE.is_satisfied_by, gammas)):
            raise ValueError(f"gamma must be a positive finite number in every layer, got {self.gamma!r}.")
        return sizes, gammas

    def _n_layers(self) -> int:
        return len(self._sizes_and_gammas()[0])

    def _train(self, rows: Rows, validation: Rows | None, targets: Targets, observer: FitObserver) -> list[Layer]:
        sizes, gammas = self._sizes_and_gammas()
        before = getattr(self, "_layers", ()) if self.warm_start else ()
        groups = build_problems(rows, gammas[0])[0].groups
        inputs, Y, weight = rows.X[groups.first], rows.Y[groups.order], rows.weight[groups.order]
        stack, layers = Stack(bool(self.skip)), list[Layer]()
        for depth, rng in enumerate(np.random.default_rng(observer.seed()).spawn(len(sizes))):
            features = stack.features(inputs)
            if layers and observer.clock.left() < _estimate_seconds(*features.shape):
                break
            # Features of distinct rows, repeated, so that rows with equal inputs have equal features to the last bit.
            problems = build_problems(Rows(groups.repeat(features), Y, weight), gammas[depth])
            generators = rng.spawn(targets.n_columns)
            known = before[depth] if depth < len(before) else ()
            starts = [solution.network for solution in known]
            if not starts:
                solved = cast("Sequence[Problem]", layers[-1].problems if layers else ())
                starts = start_layer(problems, sizes[depth], generators, stack, solved)
            for problem, start in zip(problems, starts, strict=True):
                prepare_start(problem, start, sizes[depth])
            is_top, title = depth == len(sizes) - 1, f"layer {depth + 1} of {len(sizes)}"
            if known and not is_top and not any(solution.status is Status.INTERRUPTED for solution in known):
                # A warm start keeps the layers below the top.
                pairs = zip(problems, known, strict=True)
                layer = Layer(problems, tuple(replace(s, objective=p.objective(s.network)) for p, s in pairs))
            else:
                below = None if validation is None else replace(validation, X=stack.features(validation.X))
                labels = [f"{title}, {label}" if label else title for label in targets.labels]
                parts = zip(problems, starts, generators, labels, self._validations(below, targets), strict=True)
                training = LayerTraining(
                    self._trainer(**({} if is_top or self.lower_epochs is None else {"max_epochs": self.lower_epochs})),
                    [NetworkTask(*part) for part in parts],
                    observer,
                    depth=depth,
                    # With larger limits, the layers below may be other networks.
                    name_below=f" above {describe_value(layers[-1].networks)}" if layers else "",
                    title=title,
                    complete=lambda layer: [*layers, layer],
                    n_layers_left=len(sizes) - depth,
                )
                if any(layer.is_interrupted for layer in layers):
                    training.stop.set()
                layer = training.run()
            layers.append(layer)
            stack = stack.with_layer(layer.networks)
        return layers

    def _find_limited(self, layer: Layer, is_top: bool) -> list[Solution]:
        """Return the solutions that a limit kept from convergence, but for ``lower_epochs``."""
        limited = super()._find_limited(layer, is_top)
        if is_top or self.lower_epochs is None:
            return limited
        return [solution for solution in limited if solution.status is not Status.EPOCH_LIMIT]

    def _build_own_attributes(self, layers: list[Layer], stationarities: FloatArray) -> dict[str, Any]:
        return {"stationarities_": stationarities}

    def _problem_settings(self) -> tuple[float, float, None]:
        gammas = np.ravel(self._fitted_params["gamma"])
        return float(gammas[min(len(self._layers), len(gammas)) - 1]), 0.0, None

    def _get_from_solutions(self, name: str) -> tuple[Any, ...]:
        values = [tuple(getattr(solution, name) for solution in layer) for layer in self._layers]
        return tuple(values) if is_classifier(self) else tuple(own for (own,) in values)

    @property
    def objective_(self) -> Any:
        """RegLoss of the top layer."""
        return self.objectives_[-1]

    @property
    def stationarity_(self) -> Any:
        """Norm of a subgradient at the top layer, relative to the size of the targets."""
        return self.stationarities_ if is_classifier(self) else self.stationarities_[0]


def _estimate_seconds(n_rows: int, n_features: int) -> float:
    """Estimate the time of a layer before the first epoch of its networks."""
    return n_features * min(n_rows, n_features) * (n_rows + n_features) / SPEED


ATTRIBUTES = """\
Attributes
    ----------
    networks_, histories_, statuses_, messages_ : tuples
        Network, history, status and message of each layer, from bottom to top; for a classifier, a tuple for each layer
        with those of the classes, or of ``classes_[1]`` alone if there are two. The inputs of a network are the
        activations of the layer below, followed by the inputs of the estimator with ``skip``. Layers for which
        ``max_seconds`` leaves no time are left out, with a warning.
    n_iter_ : int
        Largest number of epochs of a network of the top layer.
    objectives_ : ndarray of shape (n_layers,) or (n_layers, n_networks)
        RegLoss of each network on its own inputs, see `Problem.objective`.
    objective_, stationarity_ : float or ndarray of shape (n_networks,)
        RegLoss of the top layer, and the norm of a subgradient there, relative to the size of the targets.
    n_features_in_, feature_names_in_ : int and ndarray of str
        Number of features, and their names, if X had any."""


@documented(ATTRIBUTES, gamma="gamma of layers", warm_start="warm_start of layers")
class LayerwiseDCONRegressor(RegressorMixin, _Layerwise):
    """Deep ReLU network for regression, trained layer by layer.

    The first hidden layer is that of a `DCONRegressor`. Its activations are the inputs of the second, and so on. The
    lower layers are trained for a few epochs and their output weights are then discarded; the top layer is trained to
    convergence. If all layers have the same ``gamma`` and at least two neurons, and without early stopping,
    ``objectives_`` does not rise from layer to layer, because every layer starts as a copy of the network below.

    {parameters}

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import LayerwiseDCONRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> y = np.cos(4 * np.linalg.norm(X, axis=1))
    >>> model = LayerwiseDCONRegressor((8, 8), gamma=0.03, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), bool(model.objectives_[1] < model.objectives_[0])
    (True, True)
    """


@documented(ATTRIBUTES, gamma="gamma of layers", warm_start="warm_start of layers")
@parameters
class LayerwiseDCONClassifier(Classification, _Layerwise):
    """Deep ReLU network for classification, trained layer by layer.

    In every layer, a network for each class is trained on targets of plus and minus one, as by `DCONClassifier`. The
    activations of all of them are the inputs of the next layer; see `LayerwiseDCONRegressor`. There is no
    ``predict_proba``: calibrate with `sklearn.calibration.CalibratedClassifierCV`.

    {parameters}

    {attributes}

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

    class_weight: dict[Any, float] | str | None = None
