"""Predictions without a knob: many short fits on any table, stacked."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict
from numbers import Integral, Real
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dconnet._arrays import BoolArray, FloatArray
from dconnet._threads import one_blas_thread
from dconnet.encoding.columns import RawColumn, Schema, Table, raw_columns
from dconnet.ensemble.families import Family, classification_families, regression_families
from dconnet.ensemble.fold_fits import Training
from dconnet.ensemble.folds import deal
from dconnet.ensemble.importance import column_importances
from dconnet.ensemble.run import Run
from dconnet.ensemble.stack import Stack, Stacked, stacked
from dconnet.ensemble.stacking import log_loss, one_hot, probabilities_of
from dconnet.estimators.base import _Number
from dconnet.estimators.data import checked_weight, refuse_missing
from dconnet.training.progress import work_bar

N_FOLDS = {"default": 5, "high": 10}


class _Auto(BaseEstimator):
    """What the regressor and the classifier share: tables in, a stack out."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "quality": [StrOptions(set(N_FOLDS))],
        "max_seconds": [_Number(Real, 0, None, closed="right"), None],
        "n_jobs": [_Number(Integral, None, None, closed="neither"), None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    schema_: Schema
    stack_: Stack
    columns_: list[dict[str, str]]
    members_: list[dict[str, Any]]
    weights_: FloatArray
    oof_prediction_: FloatArray
    oof_score_: float
    feature_importances_: FloatArray

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stack_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    # --- what the two kinds fill in ---

    @abstractmethod
    def _families(self, training: Training) -> list[Family]:
        """The families that suit the data."""

    @abstractmethod
    def _error(self, outputs: FloatArray, training: Training, rows: NDArray[np.intp]) -> float:
        """The error of what a stack says in some rows."""

    # --- fit ---

    def _fit(
        self, X: Any, columns: FloatArray, weight: FloatArray, classes: NDArray[np.intp] | None
    ) -> tuple[Training, Stacked, FloatArray]:
        """Train a stack on checked rows that count; return what it says out of fold in all rows."""
        raws = raw_columns(X)
        counting = weight > 0.0
        schema = Schema.of([raw.rows(counting) for raw in raws])
        table = schema.read(raws)
        some = None if classes is None else classes[counting]
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        folds = tuple(deal(int(counting.sum()), min(N_FOLDS[self.quality], int(counting.sum())), seed, some))
        training = Training(table.rows(counting), columns[counting], weight[counting], folds, some, seed)
        with one_blas_thread():
            result = self._run(training)
            outputs = self._all_outputs(result, table, counting)
            importances = column_importances(
                result.stack, training, len(raws), lambda out, rows: self._error(out, training, rows)
            )
        self.__dict__.update(
            schema_=schema,
            stack_=result.stack,
            columns_=[{"column": c.name, "kind": c.kind, "treatment": c.treatment} for c in schema.columns],
            members_=[asdict(member) for member in result.members],
            weights_=np.array([member.weight for member in result.members]),
            feature_importances_=importances,
        )
        return training, result, outputs

    def _run(self, training: Training) -> Stacked:
        families = self._families(training)
        run = Run(families, training, effective_n_jobs(self.n_jobs))
        if self.max_seconds is not None:
            run.deadline = perf_counter() + self.max_seconds
        total = len(training.folds) * sum(run.cost(f) for f in range(len(families)))
        with work_bar(int(self.verbose), type(self).__name__, total) as run.done:
            return stacked(run, drop=self.quality == "default")

    def _all_outputs(self, result: Stacked, table: Table, counting: BoolArray) -> FloatArray:
        """Out of fold in the rows that count, and by all folds in the others, which trained none."""
        outputs = np.empty((len(counting), result.oof_outputs.shape[1]))
        outputs[counting] = result.oof_outputs
        if not counting.all():
            outputs[~counting] = result.stack.outputs(table.rows(~counting))
        return outputs

    # --- data ---

    def _checked_table(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """The table itself if it is a DataFrame, or an array that scikit-learn has checked."""
        if not hasattr(X, "columns") or hasattr(X, "toarray"):
            least = 2 if reset else 1
            X = check_array(
                X, dtype=None, ensure_all_finite="allow-nan", ensure_min_samples=least, estimator=self, input_name="X"
            )
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        if len(X) < 1 or len(raw_columns(X)) < 1:
            raise ValueError(f"X has {len(X)} row(s) and {len(raw_columns(X))} column(s): nothing to work with.")
        return X

    def _weight(self, sample_weight: ArrayLike | None, n_rows: int) -> FloatArray:
        return checked_weight(sample_weight, np.empty((n_rows, 1)))

    def _outputs(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        raws: list[RawColumn] = raw_columns(self._checked_table(X, reset=False))
        with one_blas_thread():
            return self.stack_.outputs(self.schema_.read(raws))


class AutoDCONRegressor(RegressorMixin, _Auto):
    """Regression on any table, with nothing to choose."""

    def __init__(
        self,
        *,
        quality: str = "default",
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.quality = quality
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit."""
        self._validate_params()
        X = self._checked_table(X, y, reset=True)
        target = checked_target(y)
        check_consistent_length(X, target)
        weight = self._weight(sample_weight, len(target))
        training, result, outputs = self._fit(X, target[:, None], weight, None)
        residuals = np.abs(training.columns[:, 0] - result.oof_outputs[:, 0])
        self.oof_prediction_ = outputs[:, 0]
        self.oof_score_ = _r2(training.columns[:, 0], result.oof_outputs[:, 0], training.weight)
        order = np.argsort(residuals)
        self._residuals = residuals[order]
        self._residual_weights = training.weight[order]
        if result.interrupted:
            raise KeyboardInterrupt("Interrupted: the estimator predicts with the members that were trained.")
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predict."""
        return self._outputs(X)[:, 0]

    def _families(self, training: Training) -> list[Family]:
        return regression_families(training.table.fields, training.columns[:, 0])

    def _error(self, outputs: FloatArray, training: Training, rows: NDArray[np.intp]) -> float:
        return float(np.average((outputs[:, 0] - training.columns[rows, 0]) ** 2, weights=training.weight[rows]))


class AutoDCONClassifier(ClassifierMixin, _Auto):
    """Classification of the rows of any table, with nothing to choose."""

    def __init__(
        self,
        *,
        quality: str = "default",
        class_weight: dict[Any, float] | str | None = None,
        max_seconds: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.quality = quality
        self.class_weight = class_weight
        self.max_seconds = max_seconds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit."""
        self._validate_params()
        X = self._checked_table(X, y, reset=True)
        refuse_missing(y)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        check_consistent_length(X, labels)
        weight = self._weight(sample_weight, len(labels))
        if self.class_weight is not None:
            weight = weight * compute_sample_weight(self.class_weight, labels)
        classes = np.unique(labels[weight > 0.0])
        if len(classes) < 2:
            raise ValueError(f"A classifier needs at least two classes, but y holds only one class: {classes[0]!r}.")
        codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        columns = one_hot(codes, 1 if len(classes) == 2 else len(classes))
        training, result, outputs = self._fit(X, columns, weight, codes)
        self.classes_ = classes
        self.oof_prediction_ = probabilities_of(outputs)
        right = self.oof_prediction_.argmax(axis=1) == codes
        self.oof_score_ = float(np.average(right, weights=weight))
        if result.interrupted:
            raise KeyboardInterrupt("Interrupted: the estimator predicts with the members that were trained.")
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities."""
        return probabilities_of(self._outputs(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict."""
        predicted: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return predicted

    def _families(self, training: Training) -> list[Family]:
        return classification_families(training.table.fields, len(training.table), max(2, training.columns.shape[1]))

    def _error(self, outputs: FloatArray, training: Training, rows: NDArray[np.intp]) -> float:
        assert training.classes is not None
        share = training.weight[rows] / training.weight[rows].sum()
        classes = training.classes[rows]
        return log_loss(outputs, classes, one_hot(classes, outputs.shape[1]), share)[0]


def checked_target(y: ArrayLike) -> FloatArray:
    """The target of a regression as numbers.

    Raises
    ------
    ValueError
        If a value is missing, infinite, or no number.
    """
    target = column_or_1d(y, warn=True)
    numbers: FloatArray = check_array(target, ensure_2d=False, dtype=np.float64, input_name="y")
    return numbers


def _r2(y: FloatArray, predicted: FloatArray, weight: FloatArray) -> float:
    error = weight @ (y - predicted) ** 2
    spread = weight @ (y - np.average(y, weights=weight)) ** 2
    return float(1.0 - error / spread) if spread > 0.0 else 0.0
