"""Training of the auto estimators: folds, families, time limit and fitted attributes."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from dataclasses import asdict
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted

from dconnet._arrays import FloatArray
from dconnet._text import count
from dconnet._threads import one_blas_thread
from dconnet.encoding.coder import deal
from dconnet.encoding.schema import FieldTable, Schema
from dconnet.ensemble.ensemble_training import TrainedEnsemble, train_ensemble
from dconnet.ensemble.families import NOISY, AnyFamily, TreeFamily, count_folds
from dconnet.ensemble.flattening import flatten_ensemble
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.fold_runner import FoldRunner
from dconnet.ensemble.importance import compute_importances
from dconnet.ensemble.intervals import Intervals
from dconnet.ensemble.prediction import Ensemble
from dconnet.ensemble.screening import has_time_for_screening
from dconnet.ensemble.synthetic_rows import interpolate_rows
from dconnet.estimators.base import unchanged_if_it_fails
from dconnet.estimators.data import TakesTables, check_table, warn_about_columns
from dconnet.estimators.dcon import DCONClassifier, DCONRegressor
from dconnet.estimators.gamma_choice import check_folds
from dconnet.estimators.parameters import parameters
from dconnet.estimators.table_encoder import TableEncoder
from dconnet.export.flat_ensemble import FlatEnsemble, ensemble_to_c
from dconnet.training.clock import Clock
from dconnet.training.observer import work_bar

if TYPE_CHECKING:
    from onnx import ModelProto

# For `distil`: training rows at most, synthetic rows for each, ramps of a number, and gamma.
MAX_DISTILLED, SYNTHETIC_PER_ROW, DISTILLED_BINS, DISTILLED_GAMMA = 20_000, 4, 6, 0.01


class FittedEnsemble:
    """Types of the fitted attributes."""

    classes_: NDArray[Any]
    schema_: Schema
    ensemble_: Ensemble
    columns_: list[dict[str, str]]
    members_: list[dict[str, Any]]
    weights_: FloatArray
    oof_prediction_: FloatArray
    oof_score_: float
    oof_log_loss_: float
    _intervals: Intervals
    feature_importances_: FloatArray
    fit_time_: float


@parameters
class AutoEstimator(FittedEnsemble, TakesTables, BaseEstimator):
    """Base of the auto estimators: from a table to an ensemble."""

    quality: str = "default"
    members: str = "all"
    cv: Any = None
    max_seconds: float | None = None
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __getstate__(self) -> dict[str, Any]:
        # Files do not hold the training rows.
        state: dict[str, Any] = {name: value for name, value in super().__getstate__().items() if name != "_table"}
        return state

    @abstractmethod
    def _encode_target(
        self, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray, NDArray[np.intp] | None, dict[str, Any]]:
        """Return targets of the networks (n_rows, n_columns), weights, classes of the rows, and fitted attributes."""

    @abstractmethod
    def _choose_families(self, data: TrainingSet, n_associated: int) -> list[AnyFamily]:
        """Return the families that suit the data, of whose fields ``n_associated`` are associated with the target."""

    @abstractmethod
    def _beats_baseline(self, data: TrainingSet) -> bool:
        """Return whether the out-of-fold error is lower than that of the best constant prediction."""

    @abstractmethod
    def _summarise(self, result: TrainedEnsemble, outputs: FloatArray, clock: Clock) -> dict[str, Any]:
        """Return fitted attributes; ``outputs`` are the out-of-fold predictions of all rows."""

    @abstractmethod
    def _distil_network(
        self, network: DCONRegressor, inputs: FloatArray, outputs: FloatArray
    ) -> DCONRegressor | DCONClassifier:
        """Return a network that was trained to predict the outputs of the ensemble for encoded rows."""

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> Self:
        """Train on a table.

        Ctrl-C during the training keeps the members that are trained, so that the estimator can predict, and raises
        KeyboardInterrupt. If `fit` fails, the estimator stays unchanged.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table: pandas, polars, Arrow, NumPy or lists.
        y : array-like of shape (n_samples,)
            The target of each row: a number for a regression, a label for a classification.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; rows of weight zero are left out.
        groups : array-like of shape (n_samples,), optional
            Labels of rows that belong together, such as the visits of a patient. All rows of a group are in the same
            fold, so that the out-of-fold score is that of new groups.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        clock = Clock(self.max_seconds)
        with unchanged_if_it_fails(self):
            raws = check_table(self, X, y, reset=True)
            columns, weight, classes, attributes = self._encode_target(y, sample_weight)
            check_consistent_length(raws[0].values, columns)
            counts = weight > np.finfo(np.float64).tiny * weight.max()  # smaller ones would vanish beside the largest
            if np.sum(counts) < 2:
                raise ValueError(f"{type(self).__name__} needs two rows of positive weight, got n_samples = 1.")
            some = slice(None) if counts.all() else counts  # a slice copies nothing
            schema = Schema.fit([raw.rows(some) for raw in raws])
            warn_about_columns(schema, raws)
            table = schema.read(raws)
            own_classes = None if classes is None else classes[some]
            own_groups = None
            if groups is not None:
                check_consistent_length(groups, columns)
                own_groups = np.unique(np.asarray(groups)[some], return_inverse=True)[1]
            data = self._make_training_set(table.rows(some), columns[some], weight[some], own_classes, own_groups)
            with one_blas_thread():
                result = self._train(data, clock)
                is_cut = clock.left() <= 0.0
                # Rows of weight zero are predicted by all members, and rows outside of all folds by none.
                outputs = np.full(columns.shape, np.nan)
                outputs[np.flatnonzero(counts)[result.data.held_out]] = result.oof_predictions
                if not counts.all():
                    outputs[~counts] = result.ensemble.predict(table.rows(~counts))
                importances = compute_importances(result.ensemble, result.data, len(raws), is_cut=is_cut)
                attributes |= self._summarise(result, outputs, clock)
            attributes |= {
                "schema_": schema,
                "ensemble_": result.ensemble,
                "columns_": schema.describe(),
                "members_": [asdict(member) for member in result.members],
                "weights_": np.array([member.weight for member in result.members]),
                "feature_importances_": importances,
                "_table": data.table,
                "fit_time_": clock.spent(),
            }
        self.__dict__.update(attributes)
        if result.is_interrupted:
            raise KeyboardInterrupt("Interrupted: the estimator predicts with the members that were trained.")
        if is_cut:
            warnings.warn(
                f"Stopped by max_seconds={self.max_seconds:g}: {count(len(result.members), 'member')} trained, on "
                f"{len(result.data.folds)} of {count(len(data.folds), 'fold')}. More time gives a better ensemble.",
                ConvergenceWarning,
                stacklevel=2,
            )
        elif not self._beats_baseline(result.data):
            score = "log loss" if is_classifier(self) else "R²"
            warnings.warn(
                f"The out-of-fold {score} is no better than that of the same prediction for all rows: the columns do "
                "not predict y. Check the target and the columns, or add columns or rows.",
                stacklevel=2,
            )
        return self

    def distil(self, n_hidden: int = 50, *, X: Any = None) -> Pipeline:
        """Train one small network to predict nearly the same.

        It learns the predictions of this estimator, or its log-odds of the classes, for the training rows, and for four
        synthetic rows between neighbours for each of them.

        Parameters
        ----------
        n_hidden : int, default=50
            Number of hidden neurons.
        X : DataFrame or array-like of shape (n_samples, n_features), optional
            Rows to learn on, without targets. By default the training rows, which are not saved with a model.

        Returns
        -------
        Pipeline
            A `TableEncoder`, and a fitted `DCONRegressor` or `DCONClassifier`. The network is no minimum of RegLoss for
            the targets or labels of the data, so `certify` with these does not apply to it.
        """
        check_is_fitted(self)
        if X is None and not hasattr(self, "_table"):
            raise ValueError("The training table was not saved with this model; pass X=...")
        table: FieldTable = self._table if X is None else self._read(X)
        if len(table) < 2 or not table.fields:
            raise ValueError(
                "distil needs two rows, and a column that varied in the training table, but there are "
                f"{count(len(table), 'row')} and {count(len(table.fields), 'varying field')}."
            )
        rng = np.random.default_rng(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        some = table.rows(np.sort(rng.permutation(len(table))[:MAX_DISTILLED]))
        with one_blas_thread():
            rows = some.append(interpolate_rows(some, SYNTHETIC_PER_ROW * len(some), rng))
            outputs = self.ensemble_.predict(rows)
        encoder = TableEncoder(DISTILLED_BINS).fit_fields(self.schema_, some, like=self)
        network = DCONRegressor(n_hidden, gamma=DISTILLED_GAMMA, max_epochs=1, random_state=self.random_state)
        with warnings.catch_warnings():
            # The predictions have errors of their own, so there is no need to follow them to convergence.
            warnings.simplefilter("ignore", ConvergenceWarning)
            distilled = self._distil_network(network, encoder.encoding_.encode(rows), outputs)
        return Pipeline([("encoder", encoder), ("network", distilled)])

    def to_onnx(self, path: str | os.PathLike[str] | None = None, *, output: str | None = None) -> ModelProto:
        """Return an ONNX model of the ensemble, in double precision; needs the extra ``onnx``.

        All columns of the training table must be numbers. The input is ``X``, of shape (n_samples, n_features), with
        NaN for missing values, and the output ``variable``. A classifier has the outputs ``label``, of shape
        (n_samples,), and ``probabilities``, of shape (n_samples, n_classes), or ``scores``.

        Parameters
        ----------
        path : path-like, optional
            File to write the model to.
        output : {"raw", "probabilities"}, optional
            Log-odds or probabilities of a classifier; by default the probabilities.
        """
        from dconnet.export.onnx import to_onnx

        return to_onnx(self._flatten(), path, output=output)

    def to_c(self, name: str = "predict", *, output: str = "raw") -> str:
        """Return C99 source of ``void name(const double x[n_features], double y[n_outputs])``.

        All columns of the training table must be numbers; NaN is a missing value. The source needs only ``math.h``.
        With ``output="raw"``, y is the prediction of a regressor, or what `decision_function` of a classifier returns;
        with "probabilities", it is the probability of each class.
        """
        return ensemble_to_c(self._flatten(), name, output)

    def _flatten(self) -> FlatEnsemble:
        check_is_fitted(self)
        classes = tuple(self.classes_.tolist()) if is_classifier(self) else None
        names = tuple(map(str, getattr(self, "feature_names_in_", ())))
        return flatten_ensemble(self.ensemble_, self.schema_, names, classes)

    def _make_training_set(
        self,
        table: FieldTable,
        columns: FloatArray,
        weight: FloatArray,
        classes: NDArray[np.intp] | None,
        groups: NDArray[np.intp] | None,
    ) -> TrainingSet:
        """Split the rows into folds; weights get mean one, so that their unit does not matter."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        held_out: list[NDArray[np.intp]] = []
        if self.cv is None or isinstance(self.cv, Integral):
            n_folds, n_held_out, n_repeats = count_folds(len(table), self.quality, is_regression=classes is None)
            if self.cv is not None:
                n_folds, n_held_out, n_repeats = int(self.cv), int(self.cv), 1
            groups = table.duplicate_groups() if groups is None else groups
            for repeat in range(n_repeats):
                folds = deal(len(table), n_folds, seed + repeat, classes, groups)
                held_out += [fold for fold in folds if len(fold)][:n_held_out]
        else:
            target = columns[:, 0] if classes is None else classes
            splits = check_cv(self.cv, target, classifier=classes is not None).split(columns, target, groups)
            for train, test in check_folds(splits, len(table)):
                if len(np.union1d(train, test)) < len(table):
                    raise ValueError(
                        f"cv={self.cv!r:.40} has a fold without some of the rows. The members are trained on all rows "
                        "outside a fold; pass a splitter such as KFold, GroupKFold or PredefinedSplit."
                    )
                held_out.append(np.sort(test))
        if any(len(fold) == len(table) for fold in held_out):
            raise ValueError(
                "A fold holds all rows, so that none is left to train on. Pass more groups or other folds."
            )
        ratios = weight / weight.max()
        return TrainingSet(table, columns, ratios / ratios.mean(), tuple(held_out), classes, seed)

    def _train(self, data: TrainingSet, clock: Clock) -> TrainedEnsemble:
        n_fields = len(data.table.fields)
        has_screening = n_fields >= NOISY and has_time_for_screening(data.table, clock.left())
        families = self._choose_families(data, data.count_associated() if has_screening else n_fields)
        if self.members == "networks":
            families = [family for family in families if not isinstance(family, TreeFamily)]
        runner = FoldRunner(families, data, effective_n_jobs(self.n_jobs), clock)
        total = len(data.folds) * sum(family.cost for family in families)
        with work_bar(int(self.verbose), type(self).__name__, total) as runner.report_progress:
            return train_ensemble(runner, drop_early=self.quality == "default")

    def _read(self, X: Any) -> FieldTable:
        check_is_fitted(self)
        return self.schema_.read(check_table(self, X, reset=False))

    def _predict_outputs(self, X: Any) -> FloatArray:
        table = self._read(X)
        with one_blas_thread():
            return self.ensemble_.predict(table)
