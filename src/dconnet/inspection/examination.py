"""The results of a fitted estimator on a table: predictions, scores, importances, and certificates."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

from dconnet._arrays import BoolArray, FloatArray
from dconnet.certificates import Certificate, Trajectory
from dconnet.estimators import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    TableEncoder,
)
from dconnet.inspection.importance import Importance
from dconnet.model.network import Network
from dconnet.training.result import Solution

AUTO = (AutoDCONRegressor, AutoDCONClassifier)
NETWORKS = (DCONRegressor, DCONClassifier, LayerwiseDCONRegressor, LayerwiseDCONClassifier)

# Two values of RegLoss that agree to this share belong to the same rows.
SAME_OBJECTIVE = 1e-8
# Share of new rows that an interval is meant to contain.
COVERAGE = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class NetworkExamination:
    """A network of the estimator on the examined rows."""

    name: str  # the class that the network recognises; empty if it serves all classes or targets
    solution: Solution  # the network, with the history, status and message of its fit
    fitted_objective: float  # RegLoss at the end of the fit
    certificate: Certificate  # how close the network is to the best RegLoss on the examined rows
    trajectory: Trajectory | None = None  # the network after every epoch, if the fit was repeated

    @property
    def network(self) -> Network:
        """The network, in the units of its inputs."""
        return self.solution.network

    @property
    def is_as_fitted(self) -> bool:
        """True if RegLoss on the examined rows is that of the end of the fit."""
        return agree(self.certificate.objective, self.fitted_objective, SAME_OBJECTIVE)


@dataclass(frozen=True, slots=True, eq=False)
class Examination:
    """A fitted estimator and its results on a table.

    Attributes
    ----------
    estimator, model : estimators
        The estimator that predicts from ``X``, and the last step if that is a pipeline.
    encoder : TableEncoder or None
        The first step of a pipeline that encodes tables.
    source : str
        Where the table comes from.
    X : table
        The features.
    inputs : array of shape (n_rows, n_inputs) or None
        The inputs of the networks; None for auto estimators.
    y, predictions : arrays of shape (n_rows,) or (n_rows, n_targets)
        Observed and predicted numbers or class labels. Training rows of auto estimators are predicted out of fold.
    probabilities : array of shape (n_rows, n_classes) or None
        Predicted probabilities, if the estimator has ``predict_proba``.
    is_training_row : array of bool, of shape (n_rows,)
        True for rows that the estimator is known to be trained on.
    is_evaluated : array of bool, of shape (n_rows,)
        True for rows that measure the quality: those that are held out or predicted out of fold, otherwise all rows.
    feature_names, target_names, input_names : tuples of str
        Names of the features, targets and inputs of the networks.
    importances : tuple of Importance
        Most important feature first.
    networks : tuple of NetworkExamination
        One for each network of the (top) hidden layer; empty for auto estimators.
    stored_scores : mapping of str to mapping of str to float
        Scores in the ``metadata_`` of the estimator, by part of the data.
    """

    estimator: Any
    model: Any
    encoder: TableEncoder | None
    source: str
    X: Any
    inputs: FloatArray | None
    y: NDArray[Any]
    predictions: NDArray[Any]
    probabilities: FloatArray | None
    is_training_row: BoolArray
    is_evaluated: BoolArray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    input_names: tuple[str, ...]
    stored_scores: dict[str, dict[str, float]]
    importances: tuple[Importance, ...] = ()
    networks: tuple[NetworkExamination, ...] = ()

    @property
    def kind(self) -> str:
        """Either "regressor" or "classifier"."""
        return "regressor" if self.classes is None else "classifier"

    @property
    def classes(self) -> list[Any] | None:
        """The class labels; None for a regressor."""
        return self.model.classes_.tolist() if is_classifier(self.model) else None

    @property
    def is_auto(self) -> bool:
        """True for auto estimators."""
        return isinstance(self.model, AUTO)

    @property
    def is_single_layer(self) -> bool:
        """True for networks with one hidden layer."""
        return isinstance(self.model, (DCONRegressor, DCONClassifier))

    @property
    def output_networks(self) -> list[Network]:
        """A network with one output for each output of an estimator with a single hidden layer."""
        return [network.of_output(k) for network in self.model.networks_ for k in range(network.n_outputs)]

    @property
    def is_training_data(self) -> bool:
        """True if the training rows were found in the table."""
        return bool(self.is_training_row.any())

    @property
    def evaluated_rows(self) -> str:
        """The evaluated rows in words, such as "20 held-out rows"."""
        n_rows, n_training = int(self.is_evaluated.sum()), int(self.is_training_row[self.is_evaluated].sum())
        if self.is_auto:
            return f"{n_rows} rows"
        return f"{n_rows} {'training ' if n_training else 'held-out ' if self.is_training_data else ''}rows"

    @property
    def score(self) -> dict[str, float]:
        """The scores on the evaluated rows; see `score_predictions`."""
        return self.score_rows(self.is_evaluated)

    def score_rows(self, rows: BoolArray, target: int | None = None) -> dict[str, float]:
        """Return the scores on some rows, for all targets or one of several; see `score_predictions`."""
        own = rows if target is None else (rows, target)
        probabilities = None if self.probabilities is None else self.probabilities[rows]
        return score_predictions(self.y[own], self.predictions[own], probabilities, self.classes)

    @property
    def half_widths(self) -> FloatArray:
        """Half the width of a 90 % interval around predictions of a regressor, for each target.

        The intervals of auto estimators differ; the median over the rows is returned. For other estimators, the
        half width is the ⌈0.9 (n + 1)⌉-th smallest absolute residual of the n evaluated rows (split conformal
        prediction), or the largest residual of few rows.
        """
        if self.is_auto:
            low, high = self.intervals
            return np.asarray(np.median(high - low, axis=0) / 2.0)
        residuals = np.abs(self.y - self.predictions)[self.is_evaluated]
        residuals = np.sort(residuals.reshape(len(residuals), -1), axis=0)
        return np.asarray(residuals[min(int(np.ceil(COVERAGE * (len(residuals) + 1))), len(residuals)) - 1])

    @property
    def intervals(self) -> tuple[FloatArray, FloatArray]:
        """Ends of the 90 % interval around each prediction of a regressor, of shape (n_rows, n_targets)."""
        predictions = self.predictions.reshape(len(self.y), -1)
        if self.is_auto:
            table = self.model._read(self.X)
            low, high = self.model._intervals.predict_interval(table, self.predictions, COVERAGE)
            return low[:, None], high[:, None]
        return predictions - self.half_widths, predictions + self.half_widths

    @property
    def summary(self) -> str:
        """Which rows of the table the estimator was trained on, and how these are predicted."""
        n_rows, n_training = len(self.y), int(self.is_training_row.sum())
        if not n_training:
            return f"The {n_rows} rows of {self.source} are not the training rows, although some may be among them."
        some = f"The {n_rows} rows" if n_training == n_rows else f"{n_training} of the {n_rows} rows"
        text = f"{some} of {self.source} are the training rows."
        if self.is_auto:
            text += " They are predicted out of fold, by networks that were not trained on them."
            n_left_out = int((self.is_training_row & ~self.is_evaluated).sum())
            if n_left_out:
                text += f" {n_left_out} of them are left out here, because all networks were trained on them."
        return text + (" The other rows were held out." if n_training < n_rows else "")

    @property
    def certificate_note(self) -> str:
        """The rows that the certificates are about."""
        n_rows = self.networks[0].certificate.n_rows
        if self.is_training_data:
            return f"RegLoss on the {n_rows} training rows agrees with RegLoss at the end of the fit."
        reason = " Early stopping always sets some rows aside." if self.model.get_params().get("early_stopping") else ""
        return (
            f"RegLoss on the {n_rows} rows of {self.source} differs from RegLoss at the end of the fit: they are not "
            f"the training rows.{reason} The certificate is about RegLoss on these rows."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain values for JSON."""
        found: dict[str, Any] = {
            "data": self.source,
            "rows": len(self.y),
            "evaluated_rows": int(self.is_evaluated.sum()),
            "is_training_data": self.is_training_data,
            "score": self.score,
        }
        if self.networks:
            found["networks"] = [
                {
                    "class": each.name or None,
                    "fitted_objective": each.fitted_objective,
                    "certificate": each.certificate.to_dict(),
                }
                for each in self.networks
            ]
        return found


def score_predictions(
    y: NDArray[Any],
    predictions: NDArray[Any],
    probabilities: FloatArray | None = None,
    classes: Sequence[object] | None = None,
) -> dict[str, float]:
    """Return ``n_rows`` and ``mse``, ``r2``, or ``accuracy`` and ``log_loss``; measures without a value are left out.

    With several targets, mse and r2 are means over the targets.
    """
    scores: dict[str, float] = {"n_rows": len(y)}
    if classes is not None:
        scores["accuracy"] = float(accuracy_score(y, predictions))
        if probabilities is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of probabilities that add up to 1 - 1e-7
                scores["log_loss"] = float(log_loss(y, probabilities, labels=np.array(classes)))
        return scores
    scores["mse"] = float(mean_squared_error(y, predictions))
    if len(y) > 1 and np.all(np.ptp(y, axis=0) > 0.0):
        scores["r2"] = float(r2_score(y, predictions))
    return {name: value for name, value in scores.items() if np.isfinite(value)}


def agree(found: float, stored: float, tolerance: float) -> bool:
    """Return True if two values agree up to a share of the second."""
    return abs(found - stored) <= tolerance * abs(stored)
