"""A saved ensemble on data: how well it predicts rows, out of fold where it was trained on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import BoolArray, FloatArray
from dconnet._threads import one_blas_thread
from dconnet.encoding.columns import raw_columns
from dconnet.ensemble.fold_fits import TrainingSet
from dconnet.inspection.saved.examination import known_labels
from dconnet.inspection.split import split_rows
from dconnet.io.ensemble import OUT_OF_FOLD, SavedEnsemble
from dconnet.io.model_file import Score
from dconnet.io.tables import Frame, Table
from dconnet.model.calibration import probabilities_of

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
    n_left_out : int
        Rows of the table that are not among these, as all networks were trained on them.
    """

    model: SavedEnsemble
    source: str
    y: NDArray[Any]
    predicted: NDArray[Any]
    probabilities: FloatArray | None
    is_trained_on: BoolArray
    n_left_out: int = 0

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
        if self.n_left_out:
            rest += f" Another {self.n_left_out} rows are left out here: all networks were trained on them."
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
            "score": self.score.to_dict(),
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
    outputs = model.estimator._predict_outputs(X)
    is_trained_on, kept = np.zeros(len(y), dtype=np.bool_), np.ones(len(y), dtype=np.bool_)
    rows = _training_rows(model, y)
    found = None if rows is None else _out_of_fold(model, X.rows(rows), y[rows])
    if rows is not None and found is not None:
        held_out, own = found
        outputs[rows[held_out]] = own
        is_trained_on[rows[held_out]] = True
        kept[rows] = is_trained_on[rows]
    y, outputs, is_trained_on, n_left_out = y[kept], outputs[kept], is_trained_on[kept], int(np.sum(~kept))
    if model.classes is None:
        return EnsembleExamination(model, source, y, outputs[:, 0], None, is_trained_on, n_left_out)
    probabilities = probabilities_of(outputs)
    predicted = np.array(model.classes)[probabilities.argmax(axis=1)]
    return EnsembleExamination(model, source, y, predicted, probabilities, is_trained_on, n_left_out)


def _training_rows(model: SavedEnsemble, y: NDArray[Any]) -> NDArray[np.intp] | None:
    """The rows that were trained on if these are the data of ``dconnet fit``, in the order of the training."""
    seed, test = model.settings.get("random_state"), model.scores.get("test")
    n_test = 0 if test is None else test.rows
    if type(seed) is not int or not 0 <= seed < 2**32 or len(y) < n_test + 2:
        return None
    return split_rows(y, n_test, seed, model.classes is not None)[0]


def _out_of_fold(model: SavedEnsemble, X: Frame, y: NDArray[Any]) -> tuple[NDArray[np.intp], FloatArray] | None:
    """The rows of the folds, and the outputs of their networks; None if these are not the rows of the training."""
    estimator, ensemble = model.estimator, model.estimator.ensemble_
    table = estimator.schema_.read(raw_columns(X))
    codes = _codes(model, y)
    columns = y[:, None] if codes is None else codes[:, None].astype(np.float64)
    training = estimator._make_training_set(table, columns, np.ones(len(y)), codes)
    has_other_folds = any(len(fit.folds) != len(training.folds) for fit in ensemble.fits)
    if has_other_folds or len(training.held_out) != model.scores[OUT_OF_FOLD].rows:
        return None
    with one_blas_thread():
        parts = [ensemble.select_fold(fold).predict(table.rows(rows)) for fold, rows in enumerate(training.folds)]
    outputs = np.concatenate(parts)
    return (training.held_out, outputs) if _is_as_trained(model, training, outputs) else None


def _codes(model: SavedEnsemble, y: NDArray[Any]) -> NDArray[np.intp] | None:
    """The number of the class of each row."""
    return None if model.classes is None else np.searchsorted(np.array(model.classes), y)


def _is_as_trained(model: SavedEnsemble, training: TrainingSet, outputs: FloatArray) -> bool:
    """Whether the error out of fold is that of the training, to rounding."""
    score = model.scores[OUT_OF_FOLD]
    stored = score.mse if training.classes is None else score.log_loss
    found = training.error(outputs, training.held_out)
    return stored is not None and abs(found - stored) <= SAME_ERROR * abs(stored)
