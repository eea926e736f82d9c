"""What all estimators share: parameters, and how a fit goes from data to networks and to fitted attributes.

A regressor and a classifier differ only in how a target becomes columns of numbers and outputs become predictions,
which `Targets` defines. Shallow and layer-wise estimators differ in how many levels of networks they train.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dconnet._arrays import FloatArray, refuse_unusable
from dconnet._threads import one_blas_thread
from dconnet.estimators.callbacks import FRAMES, CallbackSupport, FitTasks, with_callbacks
from dconnet.estimators.data import (
    ClassWeights,
    Rows,
    checked_weight,
    has_several_columns,
    names_of_columns,
    refuse_missing,
    refuse_several_columns,
    split_off,
)
from dconnet.estimators.levels import Level
from dconnet.estimators.parameters import OBSERVING
from dconnet.estimators.session import Callback, Session, VisitorOf
from dconnet.export.chain import Affine, Chain, ClassifierChain, Exported
from dconnet.export.methods import Exportable
from dconnet.model.network import Network, refuse_overflow
from dconnet.model.problem import Problem
from dconnet.model.targets import Targets
from dconnet.training.checkpoint import Checkpoint
from dconnet.training.clock import Clock
from dconnet.training.early_stopping import Validation
from dconnet.training.result import Solution, Status
from dconnet.training.trainer import PaperAlgorithm, Trainer


@contextmanager
def unchanged_if_it_fails(estimator: BaseEstimator) -> Iterator[None]:
    """A fit that fails leaves the estimator as it was, with the features that its networks know."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


class DCONEstimator(CallbackSupport, Exportable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What all estimators share."""

    _takes_several_targets: ClassVar[bool] = False

    gamma: Any
    algorithm: str | PaperAlgorithm
    max_epochs: int | None
    max_seconds: float | None
    max_evaluations: int | None
    tol: float
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    warm_start: bool
    n_jobs: int | None
    callback: Callback | None
    checkpoint: str | os.PathLike[str] | None
    random_state: Any
    verbose: int
    targets_: Targets
    solutions_: tuple[Solution, ...]
    _levels: tuple[tuple[Solution, ...], ...]
    _fitted_params: dict[str, Any]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "solutions_")

    # --- what the families fill in ---

    @abstractmethod
    def _train(self, rows: Rows, validation: Rows | None, targets: Targets, session: Session) -> list[Level]:
        """Train all levels of networks, from bottom to top."""

    @abstractmethod
    def _attributes(self, levels: list[Level], stationarities: FloatArray) -> dict[str, Any]:
        """The fitted attributes, with these stationarities of the top level."""

    @abstractmethod
    def _outputs(self, X: FloatArray) -> FloatArray:
        """Outputs of the networks that predict, of shape (n_samples, n_columns)."""

    @abstractmethod
    def _chain(self) -> Chain:
        """The same outputs as affine maps with ReLU between them."""

    @abstractmethod
    def _hidden(self, X: FloatArray) -> FloatArray:
        """Activations of the neurons that the outputs are made of, of shape (n_samples, n_neurons)."""

    @abstractmethod
    def problems(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> list[Problem]:
        """The problems that the networks of ``solutions_`` solve, posed on these data."""

    # --- what the kinds fill in ---

    @abstractmethod
    def _targets_of(self, y: NDArray[Any], weight: FloatArray) -> Targets:
        """The coding of this target."""

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
        KeyboardInterrupt. If a fit fails, the estimator stays as it was.

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
        return self._fit(X, y, sample_weight, X_val, y_val, sample_weight_val)

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        visitor: VisitorOf | None = None,
    ) -> Self:
        """As `fit`; with a ``visitor``, which sees the network of every epoch, without callback and checkpoint."""
        self._validate_params()
        session = self._session(visitor)  # first: if the fit fails, what callbacks have set up is torn down
        with unchanged_if_it_fails(self):
            known: Targets | None = getattr(self, "targets_", None) if self.warm_start else None
            inputs, target = self._checked_pair(X, y, reset=known is None)
            self._note_names_of_targets(y)
            self._weigh_classes(target, checked_weight(sample_weight, inputs))
            weight = self._weight(sample_weight, inputs, target)
            targets = self._targets_of(target, weight)
            if known is not None and not known.equals(targets):
                raise ValueError(
                    "warm_start=True needs the same classes and multi_class, or as many targets, as the last fit."
                )
            rows = Rows(inputs, targets.columns(target, weight), weight)
            validation = self._given_validation(targets, X_val, y_val, sample_weight_val)
            if validation is None and self.early_stopping:
                rows, validation = self._set_aside(rows, None if targets.classes is None else target, session.seed())
            session.begin(self._compared_params(), rows, validation, self._networks_to_go_on_from())
            if session.tasks is not None:
                n_networks = self._n_levels() * targets.n_networks
                session.tasks.begin(n_networks, X, y, sample_weight, partial(self._fitted, targets))
            with one_blas_thread():
                levels = self._train(rows, validation, targets, session)
        with one_blas_thread():
            self._set_fitted(targets, levels, session.clock)
        if session.tasks is not None:
            session.tasks.end()
        self._report(levels)
        return self

    def _set_fitted(self, targets: Targets, levels: list[Level], clock: Clock) -> None:
        """Set all fitted attributes at once; an interrupt, or too little time, only leaves the stationarity unknown."""
        try:
            known = levels[-1].stationarities if clock.left() >= levels[-1].least_seconds else None
            self.__dict__.update(self._fitted(targets, levels, known))
        except KeyboardInterrupt:
            self.__dict__.update(self._fitted(targets, levels))
            raise

    def _fitted(
        self, targets: Targets, levels: list[Level], stationarities: FloatArray | None = None
    ) -> dict[str, Any]:
        """All fitted attributes; without stationarities of the top level, they are NaN."""
        solutions = levels[-1].solutions
        return {
            "targets_": targets,
            "_levels": tuple(level.solutions for level in levels),
            "solutions_": solutions,
            "n_iter_": max(solution.n_epochs for solution in solutions),
            "_fitted_params": self._lasting_params(),
            **self._attributes(levels, np.full(len(solutions), np.nan) if stationarities is None else stationarities),
        }

    def _n_levels(self) -> int:
        """Number of levels of networks."""
        return 1

    def _report(self, levels: list[Level]) -> None:
        """Raise after an interrupt, and warn if a network missed its goal."""
        solutions = [solution for level in levels for solution in level.solutions]
        for solution in solutions:
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt(solution.message)
        if any(level.is_interrupted for level in levels):
            raise KeyboardInterrupt("Interrupted when all networks were trained.")
        short = [s for level in levels for s in self._short(level, is_top=level is levels[-1])]
        if short:
            count = f" ({len(short)} of {len(solutions)} networks)" if len(solutions) > 1 else ""
            warnings.warn(short[0].message + count, ConvergenceWarning, stacklevel=4 + FRAMES)
        unsolved = sum(s.history.total("unsolved") for s in solutions)
        if unsolved:
            warnings.warn(
                f"{unsolved} convex programmes were not solved to tolerance. Their steps were taken only where they "
                "lowered RegLoss. Use solver='native', or raise the iteration limit of the solver.",
                ConvergenceWarning,
                stacklevel=4 + FRAMES,
            )

    def _short(self, level: Level, is_top: bool) -> list[Solution]:
        """The solutions that a limit kept from convergence."""
        return [s for s in level.solutions if s.status.is_limit]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            Predicted targets or class labels.
        """
        outputs = self._outputs(self._checked(X))
        return self.targets_.predictions(outputs)

    def _exported(self) -> Exported:
        check_is_fitted(self)
        names, targets = getattr(self, "feature_names_in_", ()), self.targets_
        if targets.classes is None:
            return self._chain().with_names(names, getattr(self, "target_names_in_", None))
        calibration = getattr(self, "calibration_", None)
        scores = self._chain().with_names(names, targets.positives)
        logits = (
            None if calibration is None else Affine.diagonal(calibration.slope, calibration.offset, scores.n_outputs)
        )
        return ClassifierChain(scores, tuple(targets.classes.tolist()), logits)

    def transform(self, X: ArrayLike) -> FloatArray:
        """The last hidden layer as features, for a model after this one.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples, n_neurons)
            Activations ``max(<w, x> + b, 0)`` of the neurons of one network after the other.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return refuse_overflow(self._hidden(self._checked(X)))

    @property
    def _n_features_out(self) -> int:
        return sum(solution.network.n_hidden for solution in self.solutions_)

    # --- parameters and data, checked ---

    def _trainer(self, **changes: Any) -> Trainer:
        """How the networks are trained; their time is a matter of the level."""
        limits = {"max_epochs": self.max_epochs, "max_evaluations": self.max_evaluations, "tol": self.tol}
        return Trainer.of(self.algorithm, verbose=int(self.verbose), **limits | changes)

    def _n_threads(self) -> int:
        return int(effective_n_jobs(self.n_jobs))

    def _session(self, visitor: VisitorOf | None) -> Session:
        """What accompanies a call of `fit`."""
        if visitor is not None:
            return Session(self.random_state, visitor, max_seconds=self.max_seconds)
        path = self.checkpoint
        checkpoint = None if path is None else Checkpoint(path)
        return Session(
            self.random_state,
            callback=self.callback,
            checkpoint=checkpoint,
            tasks=FitTasks.of(self),
            max_seconds=self.max_seconds,
            n_threads=self._n_threads(),
        )

    def _lasting_params(self) -> dict[str, Any]:
        """The parameters that say something about the networks, and not how they were watched."""
        params = self.get_params(deep=False)
        return {name: value for name, value in params.items() if name not in OBSERVING}

    def _compared_params(self) -> dict[str, Any]:
        """What must be the same for a fit to go on from a checkpoint."""
        return {"the estimator": type(self).__name__, **self._lasting_params()}

    def _networks_to_go_on_from(self) -> list[Network]:
        """The networks of the last fit, with a warm start."""
        levels = getattr(self, "_levels", ()) if self.warm_start else ()
        return [solution.network for level in levels for solution in level]

    def _validations(
        self, rows: Rows | None, targets: Targets, scale: FloatArray | None = None
    ) -> list[Validation | None]:
        """Validation data for each network; ``scale`` is what several outputs are measured by."""
        patience = int(self.n_iter_no_change) if self.early_stopping else None
        columns = [slice(None)] if targets.shared else range(targets.n_columns)
        return [None if rows is None else rows.validation(k, patience, scale) for k in columns]

    def _checked(self, X: ArrayLike) -> FloatArray:
        """Inputs for a fitted estimator."""
        check_is_fitted(self)
        refuse_unusable(X)
        checked: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return checked

    def _checked_pair(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[FloatArray, NDArray[Any]]:
        refuse_unusable(X)
        is_regressor = isinstance(self, RegressorMixin)
        if is_regressor:
            refuse_unusable(y, "y")
        else:
            refuse_missing(y)
        several = is_regressor and self._takes_several_targets and has_several_columns(y)
        if not several:
            refuse_several_columns(y, type(self).__name__)
        inputs, target = validate_data(
            self, X, y, dtype=np.float64, y_numeric=is_regressor, multi_output=several, reset=reset
        )
        return inputs, target

    def _checked_rows(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, targets: Targets) -> Rows:
        """Data for a fitted estimator."""
        inputs, target = self._checked_pair(X, y, reset=False)
        self._check_names_of_targets(y)
        weight = self._weight(sample_weight, inputs, target)
        return Rows(inputs, targets.columns(target, weight), weight)

    def _note_names_of_targets(self, y: ArrayLike) -> None:
        """Keep the names that the targets of a fit have."""

    def _check_names_of_targets(self, y: ArrayLike) -> None:
        """Raise a ValueError if these targets have other names, or the same in another order."""

    def _weigh_classes(self, y: NDArray[Any], weight: FloatArray) -> None:
        """Find out what the classes of the training rows count."""

    def _weight(self, sample_weight: ArrayLike | None, X: FloatArray, y: NDArray[Any]) -> FloatArray:
        """The weights of these rows, checked."""
        return checked_weight(sample_weight, X)

    def _given_validation(
        self, targets: Targets, X_val: ArrayLike | None, y_val: ArrayLike | None, weight: ArrayLike | None
    ) -> Rows | None:
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val must be given together.")
        if X_val is None or y_val is None:
            if weight is not None:
                raise ValueError("sample_weight_val needs X_val and y_val.")
            return None
        return self._checked_rows(X_val, y_val, weight, targets)

    def _set_aside(self, rows: Rows, labels: NDArray[Any] | None, seed: int) -> tuple[Rows, Rows]:
        """Split the rows that count into a training and a validation part; the first stays in order."""
        counting = np.flatnonzero(rows.weight > 0.0)
        own = None if labels is None else labels[counting]
        train, held_out = split_off(len(counting), float(self.validation_fraction), seed, own)
        return rows.some(counting[np.sort(train)]), rows.some(counting[held_out])


class Regression(RegressorMixin):
    """What regressors add: the target is its own column."""

    target_names_in_: NDArray[Any]

    def _targets_of(self, y: NDArray[Any], weight: FloatArray) -> Targets:
        return Targets(n_targets=y.shape[1] if y.ndim == 2 else 1)

    def _note_names_of_targets(self, y: ArrayLike) -> None:
        names = names_of_columns(y)
        if names is not None:
            self.target_names_in_ = names
        elif hasattr(self, "target_names_in_"):
            del self.target_names_in_

    def _check_names_of_targets(self, y: ArrayLike) -> None:
        known, names = getattr(self, "target_names_in_", None), names_of_columns(y)
        if known is not None and names is not None and len(known) > 1 and known.tolist() != names.tolist():
            raise ValueError(
                f"The columns of y must be those of the fit, in the same order: {', '.join(known)}; "
                f"got {', '.join(names)}."
            )


class Classification(ClassifierMixin):
    """What classifiers add: columns of plus and minus one, and classes read from outputs."""

    targets_: Targets
    multi_class: str = "ovr"  # of estimators without this parameter
    class_weight: dict[Any, float] | str | None
    _class_weights: ClassWeights | None = None

    def _targets_of(self, y: NDArray[Any], weight: FloatArray) -> Targets:
        check_classification_targets(y)
        return Targets.of_labels(y, weight, shared=self.multi_class == "shared")

    def _weigh_classes(self, y: NDArray[Any], weight: FloatArray) -> None:
        check_classification_targets(y)
        self._class_weights = None if self.class_weight is None else ClassWeights.of(self.class_weight, y, weight)

    def _weight(self, sample_weight: ArrayLike | None, X: FloatArray, y: NDArray[Any]) -> FloatArray:
        weight = checked_weight(sample_weight, X)
        return weight if self._class_weights is None else checked_weight(weight * self._class_weights.of_rows(y), X)

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels, of shape (n_classes,)."""
        classes: NDArray[Any] | None = self.targets_.classes
        assert classes is not None
        return classes

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """The outputs of the networks: the larger, the more a row looks like the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            With two classes the output of the network, positive for ``classes_[1]``. With more, a column for each
            class; the largest wins. The networks were trained on plus one for the rows of their class and minus one for
            all others.
        """
        outputs: FloatArray = self._outputs(self._checked(X))
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs
