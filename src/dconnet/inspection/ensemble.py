"""A saved ensemble on data: how well it predicts rows, out of fold where it was trained on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet._threads import one_blas_thread
from dconnet.encoding.columns import raw_columns
from dconnet.ensemble.stacking import probabilities_of
from dconnet.inspection.examination import known_labels
from dconnet.inspection.split import split_rows
from dconnet.persistence.ensemble import OUT_OF_FOLD, SavedEnsemble
from dconnet.persistence.model_file import Score
from dconnet.persistence.tables import Frame, Table

# Errors out of fold on the rows of the training agree with the stored ones to rounding; on other rows they do not.
SAME_ERROR = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class EnsembleExamination:
    """A saved ensemble, the rows on which it is examined, and what it predicts for them.

    Attributes
    ----------
    model : SavedEnsemble
        The model.
    source : str
        Where the data come from.
    y : array of shape (n_rows,)
        Targets or class labels of all rows.
    predicted : array of shape (n_rows,)
        Predictions of all rows: by networks that were not trained on the row, as far as this is known.
    probabilities : array of shape (n_rows, n_classes) or None
        Those of a classifier.
    is_trained_on : array of bool, of shape (n_rows,)
        Rows that the model is known to be trained on, which are predicted out of fold.
    """

    model: SavedEnsemble
    source: str
    y: NDArray[Any]
    predicted: NDArray[Any]
    probabilities: FloatArray | None
    is_trained_on: BoolArray

    @property
    def is_training_data(self) -> bool:
        """Whether rows of the training were found."""
        return bool(self.is_trained_on.any())

    @property
    def score(self) -> Score:
        """How well all rows are predicted."""
        return Score.between(self.y, self.predicted, is_class=self.model.classes is not None)

    @property
    def sentence(self) -> str:
        """Which rows these are, and how they were predicted."""
        n_trained_on, n_rows = int(self.is_trained_on.sum()), len(self.y)
        if not n_trained_on:
            return (
                f"The {n_rows} rows of {self.source} are not those that the model was trained on, although some may be "
                "among them."
            )
        rest = " The others were held out from the training." if n_trained_on < n_rows else ""
        which = f"The {n_rows}" if n_trained_on == n_rows else f"{n_trained_on} of the {n_rows}"
        return (
            f"{which} rows of {self.source} are those that the model was trained on. They are predicted out of fold, "
            f"by networks that were not trained on them.{rest}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "data": self.source,
            "rows": len(self.y),
            "is_training_data": self.is_training_data,
            "score": {"rows": self.score.rows, **self.score.measures},
        }


def examine_ensemble(model: SavedEnsemble, table: Table) -> EnsembleExamination:
    """Examine an ensemble on a table.

    If the table is the one that ``dconnet fit`` was given, the folds of the training are found again, and its rows are
    predicted by the networks that were not trained on them.

    Parameters
    ----------
    model : SavedEnsemble
        The model.
    table : Table
        Data with the columns and the target of the model.

    Raises
    ------
    ValueError
        If a column is missing or not what it was in the training, or a class is unknown.
    """
    table.require([*model.feature_names, model.target_name])
    if model.classes is None:
        y: NDArray[Any] = table.numeric([model.target_name], needed=True)[:, 0]
    else:
        y = known_labels(table.labels(model.target_name), model)
    X = table.frame(model.feature_names, model.column_kinds)
    return examine_rows(model, X, y, source=table.source)


def examine_rows(model: SavedEnsemble, X: Frame, y: NDArray[Any], *, source: str = "the data") -> EnsembleExamination:
    """Examine an ensemble on rows; see `examine_ensemble`."""
    outputs = model.estimator._outputs(X)
    rows = _training_rows(model, y)
    own = None if rows is None else _oof_outputs(model, X.rows(rows), y[rows])
    is_trained_on = np.zeros(len(y), dtype=np.bool_)
    if rows is not None and own is not None and _is_as_trained(model, own, y[rows]):
        outputs[rows] = own
        is_trained_on[rows] = True
    if model.classes is None:
        return EnsembleExamination(model, source, y, outputs[:, 0], None, is_trained_on)
    probabilities = probabilities_of(outputs)
    predicted = np.array(model.classes)[probabilities.argmax(axis=1)]
    return EnsembleExamination(model, source, y, predicted, probabilities, is_trained_on)


def _training_rows(model: SavedEnsemble, y: NDArray[Any]) -> NDArray[np.intp] | None:
    """The rows that were trained on if these are the data of ``dconnet fit``, in the order of the training."""
    seed, n_trained_on = model.settings.get("random_state"), model.scores[OUT_OF_FOLD].rows
    test = model.scores.get("test")
    n_test = 0 if test is None else test.rows
    if type(seed) is not int or not 0 <= seed < 2**32 or n_trained_on + n_test != len(y):
        return None
    return split_rows(y, n_test, seed, model.classes is not None)[0]


def _oof_outputs(model: SavedEnsemble, X: Frame, y: NDArray[Any]) -> FloatArray | None:
    """Outputs of the networks of each fold in its rows; None if there were other folds."""
    estimator = model.estimator
    table = estimator.schema_.read(raw_columns(X))
    training = estimator._training(table, np.empty((len(y), 1)), np.ones(len(y)), _codes(model, y))
    ensemble = estimator.ensemble_
    if any(len(fit.folds) != len(training.folds) for fit in ensemble.fits):
        return None
    outputs = np.empty((len(y), ensemble.fits[0].folds[0].intercept.shape[1]))
    with one_blas_thread():
        for fold, rows in enumerate(training.folds):
            outputs[rows] = ensemble.of_fold(fold).outputs(table.rows(rows))
    return outputs


def _codes(model: SavedEnsemble, y: NDArray[Any]) -> NDArray[np.intp] | None:
    """The number of the class of each row."""
    return None if model.classes is None else np.searchsorted(np.array(model.classes), y)


def _is_as_trained(model: SavedEnsemble, outputs: FloatArray, y: NDArray[Any]) -> bool:
    """Whether the error out of fold is that of the training, to rounding."""
    codes = _codes(model, y)
    if codes is None:
        stored = model.scores[OUT_OF_FOLD].mse
        found = float(np.mean((y - outputs[:, 0]) ** 2))
    else:
        stored = model.scores[OUT_OF_FOLD].log_loss
        found = -float(np.mean(np.log(probabilities_of(outputs)[np.arange(len(y)), codes])))
    return stored is not None and abs(found - stored) <= SAME_ERROR * abs(stored)
