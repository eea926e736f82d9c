"""Auto estimators in model files: what a fitted one knows, and a saved one that predicts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import Coder, Coding, TargetMeans
from dconnet.encoding.features import Feature, Levels, Linear, Ramps
from dconnet.encoding.schema import CategoryColumn, Column, DateColumn, DroppedColumn, NumberColumn, Schema
from dconnet.ensemble.ensemble_training import MemberRecord
from dconnet.ensemble.families import Family
from dconnet.ensemble.fold_fits import FoldFit
from dconnet.ensemble.output_transforms import ClassScore, LogOdds, LogTarget, OutputTransform, TargetValue
from dconnet.ensemble.prediction import Ensemble, FamilyFit
from dconnet.estimators.auto import AutoDCONClassifier, AutoDCONRegressor
from dconnet.io.encodings import check_coder, check_column
from dconnet.io.objects import Kinds
from dconnet.io.parts import Label, Score, Setting, check, check_classes
from dconnet.io.tables import Frame, matched_columns

AutoEstimator: TypeAlias = AutoDCONRegressor | AutoDCONClassifier

OUT_OF_FOLD = "out of fold"


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What a fitted auto estimator knows, without the data of its training.

    Attributes
    ----------
    schema : Schema
        What each column of the table is.
    ensemble : Ensemble
        The networks, and how they are weighed.
    members : tuple of MemberRecord
        All members that were trained, also those without a weight.
    importances : array of shape (n_features,)
    oof_score : float
    oof_log_loss : float or None
        Of a classifier.
    residuals, residual_weights : arrays of shape (n_rows,) or None
        Absolute errors out of fold of a regressor, ascending, and their weights: the intervals are made of them.
    """

    schema: Schema
    ensemble: Ensemble
    members: tuple[MemberRecord, ...]
    importances: FloatArray
    oof_score: float
    oof_log_loss: float | None = None
    residuals: FloatArray | None = None
    residual_weights: FloatArray | None = None

    @classmethod
    def of(cls, estimator: AutoEstimator) -> Fitted:
        """What an estimator knows."""
        return cls(
            estimator.schema_,
            estimator.ensemble_,
            tuple(MemberRecord(**member) for member in estimator.members_),
            estimator.feature_importances_,
            estimator.oof_score_,
            getattr(estimator, "oof_log_loss_", None),
            getattr(estimator, "_residuals", None),
            getattr(estimator, "_residual_weights", None),
        )

    def attributes(self) -> dict[str, Any]:
        """The fitted attributes of the estimator."""
        found = {
            "schema_": self.schema,
            "ensemble_": self.ensemble,
            "columns_": self.schema.describe(),
            "members_": [asdict(member) for member in self.members],
            "weights_": np.array([member.weight for member in self.members]),
            "feature_importances_": self.importances,
            "oof_score_": self.oof_score,
            "oof_log_loss_": self.oof_log_loss,
            "_residuals": self.residuals,
            "_residual_weights": self.residual_weights,
            "n_features_in_": len(self.schema.columns),
        }
        return {name: value for name, value in found.items() if value is not None}


KINDS = Kinds(
    {
        "fit": Fitted,
        "schema": Schema,
        "number column": NumberColumn,
        "category column": CategoryColumn,
        "date column": DateColumn,
        "dropped column": DroppedColumn,
        "ensemble": Ensemble,
        "member": MemberRecord,
        "family": Family,
        "family fit": FamilyFit,
        "fold fit": FoldFit,
        "coder": Coder,
        "coding": Coding,
        "target means": TargetMeans,
        "linear": Linear,
        "ramps": Ramps,
        "levels": Levels,
        "value": TargetValue,
        "logarithm": LogTarget,
        "score": ClassScore,
        "log-odds": LogOdds,
    },
    {
        Column: (NumberColumn, CategoryColumn, DateColumn, DroppedColumn),
        Feature: (Linear, Ramps, Levels),
        OutputTransform: (
            TargetValue,
            LogTarget,
            ClassScore,
            LogOdds,
        ),
    },
)


@dataclass(frozen=True, slots=True, eq=False)
class SavedEnsemble:
    """A fitted auto estimator as it stands in a model file.

    Attributes
    ----------
    estimator : AutoDCONRegressor or AutoDCONClassifier
        The estimator without the data of its training; its columns are those of ``feature_names``, in this order.
    feature_names : tuple of str
        Names of the columns.
    target_name : str
        Name of the target.
    scores : mapping of str to Score
        Scores on parts of the data, such as "out of fold" and "test".

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dconnet import AutoDCONRegressor
    >>> from dconnet.io.model_file import load_model, save_model
    >>> X = np.linspace(-1, 1, 60).reshape(-1, 1)
    >>> estimator = AutoDCONRegressor(random_state=0).fit(X, np.abs(X[:, 0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(estimator, Path(folder) / "model.json")
    ...     model = load_model(Path(folder) / "model.json")
    >>> bool(np.array_equal(model.predict(X), estimator.predict(X)))
    True
    """

    estimator: AutoEstimator
    feature_names: tuple[str, ...]
    target_name: str
    scores: Mapping[str, Score] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_names, n_columns = len(self.feature_names), len(self.estimator.schema_.columns)
        check(n_names == n_columns, f"there are {n_names} feature names, but {n_columns} columns")
        check(len(set(self.feature_names)) == n_names, "the feature names must differ")
        if self.classes is not None:
            check_classes(self.classes)

    @classmethod
    def from_estimator(
        cls, estimator: AutoEstimator, *, feature_names: Sequence[str] | None = None, target_name: str = "y"
    ) -> SavedEnsemble:
        """Make a model of a fitted estimator.

        Parameters
        ----------
        estimator : AutoDCONRegressor or AutoDCONClassifier
            A fitted estimator.
        feature_names : sequence of str, optional
            By default the names seen during fit, or x0, x1, ... if there were none.
        target_name : str
            Name of the target.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(estimator)
        seen = getattr(estimator, "feature_names_in_", [column.name for column in estimator.schema_.columns])
        names = tuple(map(str, seen if feature_names is None else feature_names))
        bare = copy(estimator)
        for attribute in ("oof_prediction_", "feature_names_in_", "_table"):
            bare.__dict__.pop(attribute, None)
        return cls(bare, names, target_name, {OUT_OF_FOLD: _oof_score(estimator)})

    @classmethod
    def restored(
        cls,
        fitted: Fitted,
        settings: Mapping[str, Setting],
        classes: tuple[Label, ...] | None,
        **known: Any,
    ) -> SavedEnsemble:
        """Make a model of what a file holds.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        check_parts(fitted, classes)
        kind = AutoDCONRegressor if classes is None else AutoDCONClassifier
        try:
            estimator = kind(**settings)  # type: ignore[arg-type]
        except TypeError as error:
            raise ValueError(f"the settings are not those of an {kind.__name__}.") from error
        estimator._validate_params()
        estimator.__dict__.update(fitted.attributes())
        if isinstance(estimator, AutoDCONClassifier) and classes is not None:
            estimator.classes_ = np.array(classes)
        return cls(estimator, **known)

    def to_estimator(self) -> AutoEstimator:
        """The estimator, which knows the names of its columns again."""
        estimator = copy(self.estimator)
        estimator.feature_names_in_ = np.array(self.feature_names, dtype=object)
        return estimator

    @property
    def kind(self) -> str:
        """``"regressor"`` or ``"classifier"``."""
        return "regressor" if self.classes is None else "classifier"

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """Strings, numbers or booleans for a classifier; None for a regressor."""
        return tuple(self.estimator.classes_.tolist()) if isinstance(self.estimator, AutoDCONClassifier) else None

    @property
    def column_kinds(self) -> tuple[str, ...]:
        """What each column of the training was: "number", "date", "category" or "text"."""
        return tuple(column.kind for column in self.estimator.schema_.columns)

    @property
    def columns(self) -> list[dict[str, Any]]:
        """What each column is, what was done with it, and its importance."""
        shares = self.estimator.feature_importances_.tolist()
        described = zip(self.feature_names, self.estimator.columns_, shares, strict=True)
        return [{**column, "column": name, "importance": share} for name, column, share in described]

    @property
    def settings(self) -> dict[str, Setting]:
        """Parameters of the estimator that are plain values."""
        found = self.estimator.get_params()
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in found.items()}
        return {name: value for name, value in plain.items() if isinstance(value, (str, bool, int, float, type(None)))}

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the target of every row of ``X``.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The columns of a DataFrame are matched with ``feature_names`` by name, in any order, and other columns are
            ignored. Arrays must have the columns in the order of ``feature_names``.

        Returns
        -------
        array of shape (n_samples,)
            Numbers for a regressor; for a classifier, the most probable class.
        """
        return self.estimator.predict(self._matched(X))

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class in every row of ``X``, of shape (n_samples, n_classes).

        Raises
        ------
        ValueError
            If the model is a regressor.
        """
        if not isinstance(self.estimator, AutoDCONClassifier):
            raise ValueError(f"There are no classes: {self.target_name} is a number.")
        return self.estimator.predict_proba(self._matched(X))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals that hold about this share of the targets of rows like those of the training.

        Raises
        ------
        ValueError
            If the model is a classifier.
        """
        if not isinstance(self.estimator, AutoDCONRegressor):
            raise ValueError(f"There are no intervals: {self.target_name} is a class.")
        return self.estimator.predict_interval(self._matched(X), coverage)

    def with_scores(self, scores: Mapping[str, Score]) -> SavedEnsemble:
        """The same model with these scores beside those that it has."""
        return replace(self, scores={**self.scores, **scores})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model file, whole or not at all.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If the model holds something that a model file cannot hold.
        """
        from dconnet.io.ensemble_codec import encode
        from dconnet.io.model_file import write_model

        write_model(encode(self), path)

    def _matched(self, X: Any) -> Frame:
        """The columns of the model, in their order."""
        found = matched_columns(X, self.feature_names)
        return Frame(self.feature_names, tuple(raw.values for raw in found))


def with_weight(members: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The members that predict, the heaviest first."""
    return sorted((member for member in members if member["weight"] > 0.0), key=lambda member: -member["weight"])


def _oof_score(estimator: AutoEstimator) -> Score:
    if isinstance(estimator, AutoDCONClassifier):
        n_rows = int(np.isfinite(estimator.oof_prediction_[:, 0]).sum())  # the others are in no fold
        return Score(rows=n_rows, accuracy=estimator.oof_score_, log_loss=estimator.oof_log_loss_)
    mse = float(np.average(estimator._residuals**2, weights=estimator._residual_weights))
    return Score(rows=len(estimator._residuals), mse=mse, r2=estimator.oof_score_)


# --- whether the parts of a file fit together ---


def check_parts(fitted: Fitted, classes: tuple[Label, ...] | None) -> None:
    """Raise a ValueError unless all that a prediction needs is there, and of the right shape."""
    n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    ensemble, n_columns = fitted.ensemble, len(fitted.schema.columns)
    check(len(ensemble.fits) > 0, "there are no networks")
    check(fitted.importances.shape == (n_columns,), "every column needs an importance")
    n_members = sum(len(fit.transforms) for fit in ensemble.fits)
    check(ensemble.weights.shape == (n_members,), f"there are {ensemble.weights.size} weights for {n_members} members")
    if classes is None:
        _check_residuals(fitted)
        check(ensemble.intercepts is None, "a regression has no intercepts")
    else:
        check(
            ensemble.intercepts is not None and ensemble.intercepts.shape == (n_outputs,),
            "every class needs an intercept",
        )
    for column in fitted.schema.columns:
        check_column(column)
    for fit in ensemble.fits:
        _check_family(fit, fitted.schema, n_outputs, classes is None)


def _check_residuals(fitted: Fitted) -> None:
    residuals, weights = fitted.residuals, fitted.residual_weights
    check(
        residuals is not None
        and weights is not None
        and residuals.ndim == 1
        and residuals.shape == weights.shape
        and len(residuals) > 0
        and bool(np.all(np.diff(residuals, prepend=0.0) >= 0.0) and np.all(weights > 0.0)),
        "the residuals must be ascending, and have weights",
    )


def _check_family(fit: FamilyFit, schema: Schema, n_outputs: int, is_regression: bool) -> None:
    n_members = len(fit.transforms)
    kinds = (TargetValue, LogTarget) if is_regression else (ClassScore, LogOdds)
    check(all(isinstance(reading, kinds) for reading in fit.transforms), "a member is not read as its target")
    for reading in fit.transforms:
        is_positive = not isinstance(reading, LogTarget) or reading.low > 0.0
        check(is_positive, "a logarithm needs a positive range")
    check(len(fit.gammas) == n_members > 0 < len(fit.folds), "every member needs a gamma, and every family a fold")
    for coder in {id(fold.coder): fold.coder for fold in fit.folds}.values():
        check_coder(coder, schema)
    for fold in fit.folds:
        n_rows = 1 + sum(feature.n_columns for feature in fold.coder.features)
        n_hidden = fold.alpha.shape[-1] if fold.alpha.ndim else 0
        check(
            fold.U.shape == (n_members, n_outputs, n_rows, n_hidden)
            and fold.alpha.shape == (n_members, n_outputs, n_hidden)
            and fold.intercept.shape == (n_members, n_outputs),
            "the weights of a network do not fit its columns",
        )
