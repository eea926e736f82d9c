"""The auto estimators: an ensemble of many short fits on any table, with nothing to tune."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from dconnet._arrays import FloatArray
from dconnet._threads import one_blas_thread
from dconnet.ensemble.ensemble_training import TrainedEnsemble
from dconnet.ensemble.families import (
    AnyFamily,
    choose_classification_families,
    choose_regression_families,
)
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.ensemble.intervals import Intervals
from dconnet.ensemble.stacking import one_hot
from dconnet.estimators.auto_base import AutoEstimator
from dconnet.estimators.data import ClassWeights, check_labels, check_target, check_weight
from dconnet.estimators.dcon import DCONClassifier, DCONRegressor
from dconnet.estimators.parameters import documented, parameters
from dconnet.model.targets import Calibration, Targets, probabilities_of
from dconnet.training.clock import Clock

# Least weight of a row whose class is certain, for `distil`.
MIN_DISTILLED_WEIGHT = 0.05

ATTRIBUTES = """columns_ : list of dict
        Name, kind and treatment of each column of the table; ``pandas.DataFrame(model.columns_)`` shows them.
    members_ : list of dict
        The members that were trained on all folds: family, kind, settings, out-of-fold error, and weight.
    weights_ : ndarray of shape (n_members,)
        Weight of each member, zero for most.
    feature_importances_ : ndarray of shape (`n_features_in_`,)
        Increase of the out-of-fold error when the values of a column are shuffled, as shares of all columns.
    fit_time_ : float
        Seconds that `fit` took.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if the table had any."""


_document = documented(
    ATTRIBUTES, **{name: f"{name} of ensembles" for name in ("cv", "max_seconds", "n_jobs", "random_state", "verbose")}
)


@_document
class AutoDCONRegressor(RegressorMixin, AutoEstimator):
    """Regression on any table, with nothing to tune.

    An ensemble of many short fits, trained on five folds: networks on the plain columns and on ramps between quantiles,
    each with several strengths of regularisation, networks for the logarithm of the target, boosted trees, and the mean
    of the target. Their weights minimise the out-of-fold squared error; a prediction is the weighted mean of the
    members of all folds. Columns may be numbers, text, categories, booleans or dates, with missing values, and need no
    scaling.

    {parameters}

    Attributes
    ----------
    oof_prediction_ : ndarray of shape (n_samples,)
        Out-of-fold predictions: each row is predicted by members that were not trained on it.
    oof_score_ : float
        R² of these predictions.
    {attributes}

    See Also
    --------
    DCONRegressor : One small network, trained to convergence.

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
    >>> small = model.distil(n_hidden=10)
    >>> bool(small.score(X, model.predict(X)) > 0.9)
    True
    """

    def _encode_target(
        self, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray, NDArray[np.intp] | None, dict[str, Any]]:
        target = check_target(y, type(self).__name__)
        return target[:, None], check_weight(sample_weight, target[:, None]), None, {}

    def _choose_families(self, data: TrainingSet, n_associated: int) -> list[AnyFamily]:
        return choose_regression_families(data.table.fields, data.columns[:, 0], n_associated)

    def _summarise(self, result: TrainedEnsemble, outputs: FloatArray, clock: Clock) -> dict[str, Any]:
        seconds = (lambda: 0.0) if result.is_interrupted else clock.left
        rows, predicted = result.data.held_out, result.oof_predictions[:, 0]
        y, weight = result.data.columns[rows, 0], result.data.weight[rows]
        spread = weight @ (y - np.average(y, weights=weight)) ** 2
        return {
            "oof_prediction_": outputs[:, 0],
            "oof_score_": float(1.0 - weight @ (y - predicted) ** 2 / spread) if np.ptp(y) > 0.0 else 0.0,
            "_intervals": Intervals.fit(result.data, predicted, seconds),
        }

    def _beats_baseline(self, data: TrainingSet) -> bool:
        return self.oof_score_ > 0.0 or float(np.ptp(data.columns)) == 0.0

    def _distil_network(self, network: DCONRegressor, inputs: FloatArray, outputs: FloatArray) -> DCONRegressor:
        return network.fit(inputs, outputs[:, 0])

    def predict(self, X: Any) -> FloatArray:
        """Predict the target of each row of a table, never outside the range of the training targets."""
        return self._predict_outputs(X)[:, 0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Predict an interval for the target of each row.

        The interval is wider where out-of-fold errors are larger. On rows like those of the training, about the share
        ``coverage`` of the intervals contain the target. Intervals end at zero if no training target is beyond it, and
        at an end of the range of the training targets if at least one in 50 of them, and at least five, are there.
        The largest out-of-fold error limits the widths: n training rows give a coverage of about n / (n + 1) at most.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.
        coverage : float, default=0.9
            Share of the targets that the intervals are to contain.

        Returns
        -------
        low, high : arrays of shape (n_samples,)
            Ends of the intervals.
        """
        if not (isinstance(coverage, Real) and 0.0 < coverage < 1.0):
            raise ValueError(f"coverage must be a number between 0 and 1, such as 0.9 for 90 %, got {coverage!r:.60}.")
        table = self._read(X)
        with one_blas_thread():
            return self._intervals.predict_interval(table, self.ensemble_.predict(table)[:, 0], coverage)

    def predict_quantiles(self, X: Any, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> FloatArray:
        """Predict quantiles of the target of each row.

        On rows like those of the training, about the share q of the targets lies below the quantile q. The quantiles
        of a row never cross, and have the limits of `predict_interval`.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.
        quantiles : array-like of shape (n_quantiles,), default=(0.05, 0.5, 0.95)
            Numbers between zero and one.

        Returns
        -------
        array of shape (n_samples, n_quantiles)
        """
        shares = np.asarray(quantiles, dtype=np.float64)
        if shares.ndim != 1 or not np.all((shares > 0.0) & (shares < 1.0)):
            raise ValueError(f"quantiles must be a list of numbers between 0 and 1, got {quantiles!r:.60}.")
        table = self._read(X)
        with one_blas_thread():
            return self._intervals.predict_quantiles(table, self.ensemble_.predict(table)[:, 0], shares)


@_document
@parameters
class AutoDCONClassifier(ClassifierMixin, AutoEstimator):
    """Classification of the rows of any table, with nothing to tune.

    An ensemble of many short fits, as in `AutoDCONRegressor`: a network for each class on each family of columns, a
    logistic regression on its neurons, and boosted trees. A softmax combines and calibrates them by the out-of-fold log
    loss.

    {parameters}

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    oof_prediction_ : ndarray of shape (n_samples, n_classes)
        Out-of-fold probabilities: each row is predicted by members that were not trained on it.
    oof_score_ : float
        Share of the rows whose class has the largest of these probabilities.
    oof_log_loss_ : float
        Log loss of these probabilities.
    {attributes}

    See Also
    --------
    DCONClassifier : One small network for each class, trained to convergence.

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
    >>> small = model.distil(n_hidden=10)
    >>> bool((small.predict(X) == model.predict(X)).mean() > 0.9)
    True
    """

    class_weight: dict[Any, float] | str | None = None

    def _encode_target(
        self, y: Any, sample_weight: ArrayLike | None
    ) -> tuple[FloatArray, FloatArray, NDArray[np.intp] | None, dict[str, Any]]:
        labels = check_labels(y, type(self).__name__)
        rows = np.empty((len(labels), 1))
        weight = check_weight(sample_weight, rows)
        if self.class_weight is not None:
            factors = ClassWeights.of(self.class_weight, labels, weight).of_rows(labels)
            weight = check_weight(weight * factors, rows)
        classes = Targets.of_labels(labels, weight).classes
        assert classes is not None
        codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
        return one_hot(codes, 1 if len(classes) == 2 else len(classes)), weight, codes, {"classes_": classes}

    def _choose_families(self, data: TrainingSet, n_associated: int) -> list[AnyFamily]:
        n_rows, n_classes = len(data.table), max(2, data.columns.shape[1])
        return choose_classification_families(data.table.fields, n_rows, n_classes, n_associated)

    def _summarise(self, result: TrainedEnsemble, outputs: FloatArray, clock: Clock) -> dict[str, Any]:
        data, rows = result.data, result.data.held_out
        assert data.classes is not None
        is_right = probabilities_of(result.oof_predictions).argmax(axis=1) == data.classes[rows]
        return {
            "oof_prediction_": probabilities_of(outputs),
            "oof_score_": float(np.average(is_right, weights=data.weight[rows])),
            "oof_log_loss_": data.error(result.oof_predictions, rows),
        }

    def _beats_baseline(self, data: TrainingSet) -> bool:
        assert data.classes is not None
        shares = np.bincount(data.classes, data.weight) / data.weight.sum()
        entropy = -float(shares @ np.log(shares, where=shares > 0.0, out=np.zeros(len(shares))))
        return self.oof_log_loss_ < (1.0 - 1e-6) * entropy  # members without information reach it but for rounding

    def decision_function(self, X: Any) -> FloatArray:
        """Return scores of the classes (n_samples, n_classes), whose softmax are the probabilities.

        With two classes, return the log odds of the second one (n_samples,).
        """
        logits = self._predict_outputs(X)
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities for the rows of a table, of shape (n_samples, n_classes), as in ``classes_``."""
        return probabilities_of(self._predict_outputs(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class for each row of a table."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[likeliest]
        return predicted

    def _distil_network(self, network: DCONRegressor, inputs: FloatArray, outputs: FloatArray) -> DCONClassifier:
        """Train a network on the log-odds of the ensemble; it becomes a classifier whose outputs are log-odds."""
        centred = outputs - outputs.mean(axis=1, keepdims=True) if outputs.shape[1] > 1 else outputs
        # A change of log-odds changes the probabilities most where these are near one half.
        weight = np.maximum(1.0 - np.sum(probabilities_of(outputs) ** 2, axis=1), MIN_DISTILLED_WEIGHT)
        network.fit(inputs, centred if outputs.shape[1] > 1 else centred[:, 0], weight)
        classifier = DCONClassifier(**network.get_params(), multi_class="shared")
        fitted = {name: value for name, value in vars(network).items() if name not in network.get_params()}
        targets = Targets(self.classes_, shared=True)
        classifier.__dict__.update(fitted | {"targets_": targets, "calibration_": Calibration(1.0)})
        return classifier
