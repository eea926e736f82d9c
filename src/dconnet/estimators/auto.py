"""Predictions without a knob: many short fits on any table, stacked."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import asdict
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dconnet._arrays import BoolArray, FloatArray
from dconnet._threads import one_blas_thread
from dconnet.encoding.columns import RawColumn, raw_columns
from dconnet.encoding.folds import deal
from dconnet.encoding.schema import FieldTable, Schema
from dconnet.ensemble.ensemble_training import TrainedEnsemble, train_ensemble
from dconnet.ensemble.families import Family, classification_families, count_folds, regression_families
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.fold_runner import FoldRunner
from dconnet.ensemble.importance import column_importances
from dconnet.ensemble.prediction import Ensemble
from dconnet.ensemble.stacking import one_hot
from dconnet.ensemble.synthetic_rows import interpolate_rows
from dconnet.estimators.base import unchanged_if_it_fails
from dconnet.estimators.data import ClassWeights, checked_weight, refuse_missing, refuse_several_columns
from dconnet.estimators.dcon import DCONRegressor
from dconnet.estimators.parameters import JOBS, Number
from dconnet.estimators.table_encoder import TableEncoder
from dconnet.estimators.tables import check_table, warn_mixed_columns
from dconnet.model.calibration import probabilities_of
from dconnet.model.targets import Targets
from dconnet.training.clock import Clock
from dconnet.training.progress import work_bar

# Targets beyond this, or that differ by less than its inverse, have squares that cannot be told from infinity or zero.
LARGEST_TARGET = 1e120
# To distil: rows of the training at most, rows between them for each, ramps, and the strength of the regularisation.
MAX_DISTILLED, MIXED_PER_ROW, DISTILLED_BINS, DISTILLED_GAMMA = 20_000, 4, 6, 0.01


class _Auto(BaseEstimator):
    """What the regressor and the classifier share: tables in, an ensemble out."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "quality": [StrOptions({"default", "high"})],
        "max_seconds": [Number(Real, 0, None, closed="right"), None],
        "n_jobs": [JOBS, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    schema_: Schema
    ensemble_: Ensemble
    columns_: list[dict[str, str]]
    members_: list[dict[str, Any]]
    weights_: FloatArray
    oof_prediction_: FloatArray
    oof_score_: float
    feature_importances_: FloatArray

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """All but the rows of the training, which have no place in a file."""
        state: dict[str, Any] = {name: value for name, value in super().__getstate__().items() if name != "_table"}
        return state

    # --- what the two kinds fill in ---

    @abstractmethod
    def _families(self, training: TrainingSet) -> list[Family]:
        """The families that suit the data."""

    @abstractmethod
    def _attributes(self, result: TrainedEnsemble, outputs: FloatArray) -> dict[str, Any]:
        """Fitted attributes of this kind; the outputs are those out of fold in all rows."""

    # --- fit ---

    def _fit(
        self,
        X: Any,
        columns: FloatArray,
        weight: FloatArray,
        classes: NDArray[np.intp] | None,
        clock: Clock,
        **known: Any,
    ) -> tuple[dict[str, Any], bool]:
        """Train an ensemble on a checked table; all fitted attributes, and whether there was an interrupt."""
        raws = raw_columns(X)
        counting = self._counting(weight)
        some = slice(None) if counting.all() else counting  # a slice copies nothing
        schema = Schema.fit([raw.rows(some) for raw in raws])
        warn_mixed_columns(raws)
        table = schema.read(raws)
        own = None if classes is None else classes[some]
        training = self._training(table.rows(some), columns[some], of_mean_one(weight[some]), own)
        with one_blas_thread():
            result = self._run(training, clock)
            outputs = self._all_outputs(result, table, counting)
            importances = column_importances(result.ensemble, result.data, len(raws))
        fitted = known | {
            "schema_": schema,
            "ensemble_": result.ensemble,
            "columns_": schema.describe(),
            "members_": [asdict(member) for member in result.members],
            "weights_": np.array([member.weight for member in result.members]),
            "feature_importances_": importances,
            "_table": training.table,
            **self._attributes(result, outputs),
        }
        return fitted, result.is_interrupted

    def _finished(self, fitted: dict[str, Any], interrupted: bool) -> Self:
        """Set all fitted attributes at once."""
        self.__dict__.update(fitted)
        if interrupted:
            raise KeyboardInterrupt("Interrupted: the estimator predicts with the members that were trained.")
        return self

    def _training(
        self, table: FieldTable, columns: FloatArray, weight: FloatArray, classes: NDArray[np.intp] | None
    ) -> TrainingSet:
        """The rows that count, dealt to folds."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        dealt, held_out = count_folds(len(table), self.quality)
        folds = tuple(fold for fold in deal(len(table), dealt, seed, classes, table.duplicate_groups()) if len(fold))[
            :held_out
        ]
        return TrainingSet(table, columns, weight, folds, classes, seed)

    def _run(self, training: TrainingSet, clock: Clock) -> TrainedEnsemble:
        families = self._families(training)
        run = FoldRunner(families, training, effective_n_jobs(self.n_jobs), clock)
        total = len(training.folds) * sum(run.cost(f) for f in range(len(families)))
        with work_bar(int(self.verbose), type(self).__name__, total) as run.report_progress:
            return train_ensemble(run, drop_early=self.quality == "default")

    def _all_outputs(self, result: TrainedEnsemble, table: FieldTable, counting: BoolArray) -> FloatArray:
        """Out of fold, by all networks where none was trained on the row, and NaN in rows of no fold."""
        outputs = np.full((len(counting), result.oof_predictions.shape[1]), np.nan)
        outputs[np.flatnonzero(counting)[result.data.held_out]] = result.oof_predictions
        if not counting.all():
            outputs[~counting] = result.ensemble.predict(table.rows(~counting))
        return outputs

    # --- data ---

    def _weight(self, sample_weight: ArrayLike | None, n_rows: int) -> FloatArray:
        return checked_weight(sample_weight, np.empty((n_rows, 1)))

    def _counting(self, weight: FloatArray) -> BoolArray:
        """The rows of positive weight, of which there must be two."""
        counting = weight > 0.0
        if np.sum(counting) < 2:
            raise ValueError(f"{type(self).__name__} needs two rows of positive weight, got n_samples = 1.")
        return counting

    def _outputs(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        raws: list[RawColumn] = raw_columns(check_table(self, X, reset=False))
        table = self.schema_.read(raws)
        with one_blas_thread():
            return self.ensemble_.predict(table)


class AutoDCONRegressor(RegressorMixin, _Auto):
    """Regression on any table, with nothing to choose.

    An ensemble of many short fits: networks on the plain columns, on ramps between quantiles, and with knots at the
    values of columns that have few, each with several strengths of regularisation, trained on five folds. Their weights
    are those of least squared error out of fold; a prediction is the weighted mean of the networks of all folds.
    Columns may be numbers, text, categories, booleans or dates, with missing values, and need no scaling.

    Parameters
    ----------
    quality : {"default", "high"}, default="default"
        "high" uses ten folds instead of five and drops no member early: a few per cent less error, for about three
        times the time.
    max_seconds : float or None, default=None
        Maximum wall time of the training, from the beginning of `fit`. No other fit is then begun, and what is under
        way is left out; a first one is always made, if only briefly. What is trained depends on the speed of the
        machine; without a limit, the same seed gives the same bits.
    n_jobs : int or None, default=None
        Number of threads; None means one, and -1 all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed for the folds and the starts of the networks.
    verbose : int, default=0
        1 shows a progress bar with the time left.

    Attributes
    ----------
    oof_prediction_ : ndarray of shape (n_samples,)
        What networks that were not trained on a row predict for it.
    oof_score_ : float
        R² of these predictions.
    columns_ : list of dict
        What each column of the table is, and what was done with it; ``pandas.DataFrame(model.columns_)`` shows a table.
    members_ : list of dict
        The members that were trained on all folds: family, kind, gamma, size, error out of fold, and weight.
    weights_ : ndarray of shape (n_members,)
        The weight of each member, zero for most.
    feature_importances_ : ndarray of shape (`n_features_in_`,)
        For each column of the table, what is lost out of fold if its values are shuffled, as a share of all.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if the table had any.

    See Also
    --------
    DCONRegressor : One small network that is trained to the end.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dconnet import AutoDCONRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = AutoDCONRegressor(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    >>> low, high = model.predict_interval(X[300:], coverage=0.9)
    >>> bool(0.8 < ((low <= y[300:]) & (y[300:] <= high)).mean() < 0.97)
    True
    """

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
        """Train on a table.

        Ctrl-C during the training keeps the members that are there, so that the estimator can predict, and raises
        KeyboardInterrupt. If a fit fails, the estimator stays as it was.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table: pandas, polars, Arrow, NumPy or lists.
        y : array-like of shape (n_samples,)
            The target, a number in each row.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; rows of weight zero are left out.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        clock = Clock(self.max_seconds)
        with unchanged_if_it_fails(self):
            X = check_table(self, X, y, reset=True)
            target = checked_target(y)
            check_consistent_length(X, target)
            fitted, interrupted = self._fit(X, target[:, None], self._weight(sample_weight, len(target)), None, clock)
        return self._finished(fitted, interrupted)

    def _attributes(self, result: TrainedEnsemble, outputs: FloatArray) -> dict[str, Any]:
        training, rows, predicted = result.data, result.data.held_out, result.oof_predictions[:, 0]
        y, weight = training.columns[rows, 0], training.weight[rows]
        order = np.argsort(np.abs(y - predicted))
        return {
            "oof_prediction_": outputs[:, 0],
            "oof_score_": _r2(y, predicted, weight),
            "_residuals": np.abs(y - predicted)[order],
            "_residual_weights": weight[order],
        }

    def predict(self, X: Any) -> FloatArray:
        """Predict the target of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        array of shape (n_samples,)
            Predicted targets, never outside the range of those of the training.
        """
        return self._outputs(X)[:, 0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Predict an interval for the target of each row.

        Its half-width is a quantile of the errors out of fold, the same in all rows: of rows like those of the
        training, the intervals hold at least about this share.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.
        coverage : float, default=0.9
            The share of the targets that the intervals are to hold.

        Returns
        -------
        low, high : arrays of shape (n_samples,)
            The ends of the intervals.
        """
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1, such as 0.9 for 90 %, got {coverage}.")
        predicted = self.predict(X)
        half = self._half_width(coverage)
        return predicted - half, predicted + half

    def distil(self, n_hidden: int = 50, *, X: Any = None) -> Pipeline:
        """One small network that says nearly the same.

        It learns what this estimator predicts, in the rows of the training and in four times as many between them.

        Parameters
        ----------
        n_hidden : int, default=50
            Number of hidden neurons.
        X : DataFrame or array-like of shape (n_samples, n_features), optional
            Rows to learn on, without targets; by default those of the training, which an estimator that was loaded
            from a file does not have.

        Returns
        -------
        Pipeline
            A `TableEncoder` and a fitted `DCONRegressor`, which holds the network.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from dconnet import AutoDCONRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = AutoDCONRegressor(random_state=0).fit(X, y)
        >>> small = model.distil(n_hidden=10)
        >>> small[-1].network_.n_hidden
        10
        >>> bool(small.score(X, model.predict(X)) > 0.9)
        True
        """
        check_is_fitted(self)
        table = self._table_to_distil(X)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        chosen = rng.permutation(len(table))[:MAX_DISTILLED]
        some = table.rows(np.sort(chosen))
        with one_blas_thread():
            every = some.append(interpolate_rows(some, MIXED_PER_ROW * len(some), rng))
            said = self.ensemble_.predict(every)[:, 0]
        encoder = TableEncoder(DISTILLED_BINS).fit_fields(self.schema_, some, like=self)
        network = DCONRegressor(n_hidden, gamma=DISTILLED_GAMMA, max_epochs=1, random_state=self.random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a teacher that errs need not be followed to the end
            network.fit(encoder.encoding_.encode(every), said)
        return Pipeline([("encoder", encoder), ("network", network)])

    def _table_to_distil(self, X: Any) -> FieldTable:
        if X is None and not hasattr(self, "_table"):
            raise ValueError("The rows of the training are not at hand: give some with distil(n_hidden, X=...).")
        table: FieldTable = (
            self._table if X is None else self.schema_.read(raw_columns(check_table(self, X, reset=False)))
        )
        if len(table) < 2 or not table.fields:
            raise ValueError(f"{len(table)} row(s) of {len(table.fields)} field(s) that vary: nothing to distil from.")
        return table

    def _half_width(self, coverage: float) -> float:
        """The quantile of the errors out of fold; one more row stands for the new one."""
        reached = np.cumsum(self._residual_weights)
        wanted = coverage * (reached[-1] + self._residual_weights.mean())
        place = min(int(np.searchsorted(reached, wanted * (1.0 - 1e-12))), len(reached) - 1)
        return float(self._residuals[place])

    def _families(self, training: TrainingSet) -> list[Family]:
        return regression_families(training.table.fields, training.columns[:, 0])


class AutoDCONClassifier(ClassifierMixin, _Auto):
    """Classification of the rows of any table, with nothing to choose.

    An ensemble of many short fits, as `AutoDCONRegressor` has it: a network for each class on each family of columns,
    and a logistic regression on its neurons. One softmax weighs and calibrates them all, by the log loss out of fold.

    Parameters
    ----------
    quality : {"default", "high"}, default="default"
        "high" uses ten folds instead of five and drops no member early: a few per cent less error, for about three
        times the time.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights. Probabilities are then those of the weighted rows.
    max_seconds : float or None, default=None
        Maximum wall time of the training, from the beginning of `fit`. No other fit is then begun, and what is under
        way is left out; a first one is always made, if only briefly. What is trained depends on the speed of the
        machine; without a limit, the same seed gives the same bits.
    n_jobs : int or None, default=None
        Number of threads; None means one, and -1 all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed for the folds and the starts of the networks.
    verbose : int, default=0
        1 shows a progress bar with the time left.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    oof_prediction_ : ndarray of shape (n_samples, n_classes)
        Probabilities that networks give which were not trained on the row.
    oof_score_ : float
        Share of the rows whose class has the largest of these probabilities.
    oof_log_loss_ : float
        Log loss of these probabilities.
    columns_ : list of dict
        What each column of the table is, and what was done with it; ``pandas.DataFrame(model.columns_)`` shows a table.
    members_ : list of dict
        The members that were trained on all folds: family, kind, gamma, size, error out of fold, and weight.
    weights_ : ndarray of shape (n_members,)
        The weight of each member, zero for most.
    feature_importances_ : ndarray of shape (`n_features_in_`,)
        For each column of the table, what is lost out of fold if its values are shuffled, as a share of all.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if the table had any.

    See Also
    --------
    DCONClassifier : One small network for each class that is trained to the end.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dconnet import AutoDCONClassifier
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = AutoDCONClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> model.predict_proba(X[:3]).shape
    (3, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_Auto._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

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
        """Train on a table.

        Ctrl-C during the training keeps the members that are there, so that the estimator can predict, and raises
        KeyboardInterrupt. If a fit fails, the estimator stays as it was.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table: pandas, polars, Arrow, NumPy or lists.
        y : array-like of shape (n_samples,)
            The class of each row.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; rows of weight zero are left out.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        clock = Clock(self.max_seconds)
        with unchanged_if_it_fails(self):
            X = check_table(self, X, y, reset=True)
            labels = checked_labels(y)
            check_consistent_length(X, labels)
            weight = self._weight(sample_weight, len(labels))
            if self.class_weight is not None:
                factors = ClassWeights.of(self.class_weight, labels, weight).of_rows(labels)
                weight = self._weight(weight * factors, len(labels))
            classes = Targets.of_labels(labels, weight).classes
            assert classes is not None
            codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
            columns = one_hot(codes, 1 if len(classes) == 2 else len(classes))
            fitted, interrupted = self._fit(X, columns, weight, codes, clock, classes_=classes)
        return self._finished(fitted, interrupted)

    def _attributes(self, result: TrainedEnsemble, outputs: FloatArray) -> dict[str, Any]:
        training, rows = result.data, result.data.held_out
        assert training.classes is not None
        right = probabilities_of(result.oof_predictions).argmax(axis=1) == training.classes[rows]
        return {
            "oof_prediction_": probabilities_of(outputs),
            "oof_score_": float(np.average(right, weights=training.weight[rows])),
            "oof_log_loss_": training.error(result.oof_predictions, rows),
        }

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict the probabilities of the classes of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Probabilities, in the order of ``classes_``.
        """
        return probabilities_of(self._outputs(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        array of shape (n_samples,)
            The class of the largest probability.
        """
        likeliest = self.predict_proba(X).argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[likeliest]
        return predicted

    def _families(self, training: TrainingSet) -> list[Family]:
        return classification_families(training.table.fields, len(training.table), max(2, training.columns.shape[1]))


def checked_target(y: ArrayLike) -> FloatArray:
    """The target of a regression as numbers.

    Raises
    ------
    ValueError
        If a value is missing, infinite, or no number.
    """
    refuse_several_columns(y, "AutoDCONRegressor")
    target = column_or_1d(y, warn=True)
    if target.dtype.kind in "mM":
        raise ValueError("y holds dates or times. Make them numbers, for example days since the first of them.")
    numbers: FloatArray = check_array(
        target, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y"
    )
    refuse_gaps(numbers)
    if np.abs(numbers).max() > LARGEST_TARGET or 0.0 < np.ptp(numbers) < 1.0 / LARGEST_TARGET:
        raise ValueError(
            f"y has values up to {np.abs(numbers).max():.1e} that differ by up to {np.ptp(numbers):.1e}: "
            "their squares cannot be computed. Measure y in another unit."
        )
    return numbers


def refuse_gaps(target: FloatArray) -> None:
    """Refuse a target in which numbers are missing, and say in how many rows."""
    gaps = int(np.isnan(target).sum())
    if gaps:
        raise ValueError(
            f"y is missing (Input y contains NaN) in {gaps} of {len(target)} rows. "
            "Leave these rows out of the training: known = ~np.isnan(y), and fit(X[known], y[known])."
        )


def of_mean_one(weight: FloatArray) -> FloatArray:
    """Weights of the same ratios: what is trained does not depend on their unit."""
    ratios = weight / weight.max()
    mean_one: FloatArray = ratios / ratios.mean()
    return mean_one


def checked_labels(y: Any) -> NDArray[Any]:
    """The class labels.

    Raises
    ------
    ValueError
        If a label is missing, or they are numbers of a regression.
    """
    refuse_several_columns(y, "AutoDCONClassifier")
    refuse_missing(y)
    if hasattr(y, "iloc") and getattr(y, "dtype", np.dtype(object)).kind in "biu" and not y.isna().any():
        y = y.to_numpy(dtype=getattr(y.dtype, "numpy_dtype", y.dtype))  # nullable columns would become floats
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        refuse_gaps(labels)
        check_array(labels, ensure_2d=False, input_name="y")
    check_classification_targets(labels)
    return labels


def _r2(y: FloatArray, predicted: FloatArray, weight: FloatArray) -> float:
    error = weight @ (y - predicted) ** 2
    spread = weight @ (y - np.average(y, weights=weight)) ** 2
    return float(1.0 - error / spread) if spread > 0.0 else 0.0
