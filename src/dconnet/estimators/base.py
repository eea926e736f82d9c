"""The base of `DCON*` and `Layerwise*`: from data to networks and fitted attributes.

A regressor and a classifier differ only in the coding of the target, which `Targets` defines. `DCON*` and `Layerwise*`
differ in the number of layers they train.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    is_classifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from dconnet._arrays import FloatArray, refuse_unusable
from dconnet._text import count
from dconnet._threads import one_blas_thread
from dconnet.estimators.data import (
    ClassWeights,
    Rows,
    Units,
    check_labels,
    check_weight,
    explain_refusal,
    has_several_columns,
    names_of_columns,
    refuse_several_columns,
    split_rows,
)
from dconnet.estimators.fit_observer import FRAMES, Callback, CallbackSupport, FitObserver, with_callbacks
from dconnet.estimators.fitted import FittedSolutions
from dconnet.estimators.layer import Layer, build_problems
from dconnet.estimators.parameters import OBSERVING, parameters
from dconnet.export.chain import Affine, ClassifierChain, Exportable, Exported
from dconnet.model.network import Stack, refuse_overflow
from dconnet.model.problem import Problem
from dconnet.model.targets import Targets
from dconnet.training.checkpoint import NOT_COMPARED, describe_value, hash_arrays
from dconnet.training.clock import Clock
from dconnet.training.observer import Validation
from dconnet.training.result import Solution, Status
from dconnet.training.trainer import PaperAlgorithm, Trainer


@contextmanager
def unchanged_if_it_fails(estimator: BaseEstimator) -> Iterator[None]:
    """Restore all attributes of the estimator if the body raises."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


@parameters
class DCONEstimator(
    FittedSolutions, CallbackSupport, Exportable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Base of the estimators that train networks with DCON."""

    _takes_several_targets: ClassVar[bool] = False

    gamma: Any = "auto"
    algorithm: str | PaperAlgorithm = "accelerated"
    max_epochs: int | None = 1000
    max_seconds: float | None = None
    max_evaluations: int | None = None
    tol: float = 1e-6
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    warm_start: bool = False
    n_jobs: int | None = None
    callback: Callback | None = None
    checkpoint: str | os.PathLike[str] | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_layers")

    # --- defined by the families of estimators ---

    @abstractmethod
    def _train(self, rows: Rows, validation: Rows | None, targets: Targets, observer: FitObserver) -> list[Layer]:
        """Train all layers, from bottom to top."""

    @abstractmethod
    def _build_own_attributes(self, layers: list[Layer], stationarities: FloatArray) -> dict[str, Any]:
        """Return the fitted attributes, with these stationarities of the top layer."""

    @abstractmethod
    def _problem_settings(self) -> tuple[float, float, Units | None]:
        """Return gamma in the units of the data, the shrinkage, and the units of the top layer."""

    # --- fit and predict ---

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> Self:
        """Train on data.

        Ctrl-C during the training keeps the networks reached so far, so that the estimator can predict, and raises
        KeyboardInterrupt. If a fit fails, the estimator is unchanged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets of a regressor, class labels of a classifier. `DCONRegressor` takes several targets.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; a row of weight two counts like the same row twice. Weights that add up to one count like a single
            row, for which gamma is strong: let them add up to the number of rows.
        X_val, y_val : array-like, optional
            Validation data. Their error is recorded, and early stopping uses it.
        sample_weight_val : array-like, optional
            Weights of the validation data.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        observer = FitObserver(self)  # first: if the fit fails, scikit-learn's callbacks are torn down
        with unchanged_if_it_fails(self):
            known: Targets | None = getattr(self, "targets_", None) if self.warm_start else None
            inputs, target = self._check_inputs_and_target(X, y, reset=known is None)
            targets, weight = self._encode_targets(inputs, y, target, sample_weight)
            if known is not None and not known.equals(targets):
                raise ValueError(
                    "warm_start=True needs the classes, multi_class and number of targets of the last fit."
                )
            rows = Rows(inputs, targets.columns(target, weight), weight)
            validation = None
            if X_val is not None and y_val is not None:
                validation = self._check_rows(X_val, y_val, sample_weight_val, targets)
            elif X_val is not None or y_val is not None:
                raise ValueError("X_val and y_val must be given together.")
            elif sample_weight_val is not None:
                raise ValueError("sample_weight_val needs X_val and y_val.")
            elif self.early_stopping:
                rows, validation = self._split_validation(
                    rows, None if targets.classes is None else target, observer.seed()
                )
            if observer.checkpoint is not None:
                data = {"X": hash_arrays(rows.X), "y": hash_arrays(rows.Y), "sample_weight": hash_arrays(rows.weight)}
                other = None if validation is None else hash_arrays(validation.X, validation.Y, validation.weight)
                observer.checkpoint.begin(self._fingerprint() | data | {"the validation data": other})
            n_networks = self._n_layers() * targets.n_networks
            observer.begin_task(n_networks, X, y, sample_weight, partial(self._build_attributes, targets))
            with one_blas_thread():
                layers = self._train(rows, validation, targets, observer)
                is_interrupted = self._set_fitted(targets, layers, observer.clock)
        observer.end_task()
        self._report(layers, is_interrupted=is_interrupted)
        return self

    def _set_fitted(self, targets: Targets, layers: list[Layer], clock: Clock) -> bool:
        """Set all fitted attributes at once; return whether Ctrl-C came meanwhile.

        After Ctrl-C, or without enough time, the stationarity is NaN.
        """
        top, stationarities, is_interrupted = layers[-1], None, False
        try:
            if clock.left() >= top.least_seconds:
                stationarities = top.stationarities()
        except KeyboardInterrupt:
            is_interrupted = True
        self.__dict__.update(self._build_attributes(targets, layers, stationarities))
        return is_interrupted

    def _build_attributes(
        self, targets: Targets, layers: list[Layer], stationarities: FloatArray | None = None
    ) -> dict[str, Any]:
        """Return all fitted attributes; by default, the stationarities of the top layer are NaN."""
        unknown = np.full(len(layers[-1].solutions), np.nan)
        return {
            "targets_": targets,
            "_layers": tuple(layer.solutions for layer in layers),
            "_fitted_params": self._lasting_params(),
            **self._build_own_attributes(layers, unknown if stationarities is None else stationarities),
        }

    def _n_layers(self) -> int:
        return 1

    def _report(self, layers: list[Layer], *, is_interrupted: bool) -> None:
        """Raise KeyboardInterrupt after an interrupt, and warn of networks that missed their goal."""
        solutions = [solution for layer in layers for solution in layer.solutions]
        for solution in solutions:
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt(solution.message)
        if is_interrupted or any(layer.is_interrupted for layer in layers):
            raise KeyboardInterrupt("Interrupted when all networks were trained.")
        messages = []
        limited = [s for layer in layers for s in self._find_limited(layer, is_top=layer is layers[-1])]
        if limited:
            suffix = f" ({len(limited)} of {len(solutions)} networks)" if len(solutions) > 1 else ""
            messages.append(limited[0].message + suffix)
        n_unsolved = sum(s.history.total("unsolved") for s in solutions)
        if n_unsolved:
            messages.append(
                f"{n_unsolved} convex programmes were not solved to tolerance. Their steps were taken only where they "
                "lowered RegLoss. Use solver='native', or raise the iteration limit of the solver."
            )
        if len(layers) < self._n_layers():
            messages.append(
                f"max_seconds left no time for layer {len(layers) + 1} of {self._n_layers()}: the network has "
                f"{count(len(layers), 'hidden layer')}. Raise max_seconds, or use fewer neurons."
            )
        if layers[-1].is_uncalibrated:
            messages.append(
                "max_seconds left no time to calibrate the probabilities: predict_proba uses a default slope. "
                "Raise max_seconds."
            )
        for message in messages:
            warnings.warn(message, ConvergenceWarning, stacklevel=3 + FRAMES)

    def _find_limited(self, layer: Layer, is_top: bool) -> list[Solution]:
        """Return the solutions that a limit kept from convergence."""
        return [s for s in layer.solutions if s.status.is_limit]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the target or class label of each row, of shape (n_samples,) or (n_samples, n_targets)."""
        outputs = self._predict_outputs(X)  # first, as it checks that the estimator is fitted
        return self.targets_.predictions(outputs)

    def _predict_outputs(self, X: ArrayLike) -> FloatArray:
        """Return the outputs of the networks, of shape (n_samples, n_columns)."""
        checked = self._check_inputs(X)
        return self._stack.outputs(checked)

    def _build_chain(self) -> Exported:
        check_is_fitted(self)
        names, targets, chain = getattr(self, "feature_names_in_", ()), self.targets_, self._stack.chain()
        if targets.classes is None:
            return chain.with_names(names, getattr(self, "target_names_in_", None))
        scores, calibration = chain.with_names(names, targets.positives), getattr(self, "calibration_", None)
        logits = None
        if calibration is not None:
            logits = Affine.diagonal(calibration.slope, calibration.offset, scores.n_outputs)
        return ClassifierChain(scores, tuple(targets.classes.tolist()), logits)

    def problems(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> list[Problem]:
        """Return the problem of each network of the top layer, in the order of ``solutions_``, on data as for `fit`."""
        check_is_fitted(self)
        rows, stack = self._check_rows(X, y, sample_weight, self.targets_), self._stack
        rows = replace(rows, X=Stack(stack.skip, stack.layers[:-1]).features(rows.X))
        return build_problems(rows, *self._problem_settings(), shared=self.targets_.shared, copy=True)

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the activations of the last hidden layer as features, of shape (n_samples, n_neurons).

        These are ``max(<w, x> + b, 0)`` for the neurons of one network after the other.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            checked = self._check_inputs(X)
            return refuse_overflow(self._stack.hidden(checked))

    @property
    def _n_features_out(self) -> int:
        return sum(solution.network.n_hidden for solution in self.solutions_)

    # --- parameters and data, checked ---

    def _trainer(self, **changes: Any) -> Trainer:
        limits = {"max_epochs": self.max_epochs, "max_evaluations": self.max_evaluations, "tol": self.tol}
        return Trainer.of(self.algorithm, **limits | changes)

    def _lasting_params(self) -> dict[str, Any]:
        """Return the parameters that may change the networks."""
        params = self.get_params(deep=False)
        return {name: value for name, value in params.items() if name not in OBSERVING}

    def _fingerprint(self) -> dict[str, Any]:
        """Return what must be equal for a fit to resume from a checkpoint, without the data."""
        layers = getattr(self, "_layers", ()) if self.warm_start else ()
        networks = [solution.network for layer in layers for solution in layer]
        compared = {name: value for name, value in self._lasting_params().items() if name not in NOT_COMPARED}
        compared |= {"the estimator": type(self).__name__, "the network of the last fit": networks or None}
        return {name: describe_value(value) for name, value in compared.items()}

    def _validations(
        self, rows: Rows | None, targets: Targets, scale: FloatArray | None = None
    ) -> list[Validation | None]:
        """Return the validation data of each network; errors of several outputs are divided by ``scale``."""
        patience = int(self.n_iter_no_change) if self.early_stopping else None
        columns = [slice(None)] if targets.shared else range(targets.n_columns)
        if rows is None:
            return [None for _ in columns]
        return [Validation(rows.X, rows.Y[:, k], rows.weight, patience, scale) for k in columns]

    def _check_inputs(self, X: ArrayLike) -> FloatArray:
        """Return the inputs as an array, checked against the features of the fit."""
        check_is_fitted(self)
        refuse_unusable(X)
        with explain_refusal(self):
            checked: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return checked

    def _check_inputs_and_target(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[FloatArray, NDArray[Any]]:
        refuse_unusable(X)
        name, several = type(self).__name__, self._takes_several_targets and has_several_columns(y)
        if not is_classifier(self):
            refuse_unusable(y, "y")
            if not several:
                refuse_several_columns(y, name)
        elif y is not None:
            y = check_labels(y, name)
        options: dict[str, Any] = {"y_numeric": not is_classifier(self), "multi_output": several, "reset": reset}
        with explain_refusal(self):
            inputs, target = validate_data(self, X, y, dtype=np.float64, **options)
        return inputs, target

    def _encode_targets(
        self, X: FloatArray, y: ArrayLike, target: NDArray[Any], sample_weight: ArrayLike | None
    ) -> tuple[Targets, FloatArray]:
        """Return the coding of the target and the weights of the rows; store target names and class weights."""
        if is_classifier(self):
            given: dict[Any, float] | str | None = getattr(self, "class_weight", None)
            own = check_weight(sample_weight, X)
            self._class_weights = None if given is None else ClassWeights.of(given, target, own)
            weight = self._weight(sample_weight, X, target)
            shared = getattr(self, "multi_class", "ovr") == "shared"
            return Targets.of_labels(target, weight, shared=shared), weight
        names = names_of_columns(y)
        self.__dict__.pop("target_names_in_", None)
        if names is not None:
            self.target_names_in_ = names
        n_targets = target.shape[1] if target.ndim == 2 else 1
        return Targets(n_targets=n_targets), self._weight(sample_weight, X, target)

    def _check_rows(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, targets: Targets) -> Rows:
        """Return data for the fitted estimator, checked."""
        inputs, target = self._check_inputs_and_target(X, y, reset=False)
        known, names = getattr(self, "target_names_in_", None), names_of_columns(y)
        if known is not None and names is not None and len(known) > 1 and known.tolist() != names.tolist():
            raise ValueError(
                f"The columns of y must be those of the fit, in the same order: {', '.join(known)}; "
                f"got {', '.join(names)}."
            )
        weight = self._weight(sample_weight, inputs, target)
        return Rows(inputs, targets.columns(target, weight), weight)

    def _weight(self, sample_weight: ArrayLike | None, X: FloatArray, y: NDArray[Any]) -> FloatArray:
        """Return the weights of these rows, checked and multiplied by those of their classes."""
        weight = check_weight(sample_weight, X)
        return weight if self._class_weights is None else check_weight(weight * self._class_weights.of_rows(y), X)

    def _split_validation(self, rows: Rows, labels: NDArray[Any] | None, seed: int) -> tuple[Rows, Rows]:
        """Split the rows of positive weight into a training and a validation part; the first stays in order."""
        counting = np.flatnonzero(rows.weight > 0.0)
        own = None if labels is None else labels[counting]
        train, held_out = split_rows(len(counting), float(self.validation_fraction), seed, own)
        return rows.select(counting[np.sort(train)]), rows.select(counting[held_out])
