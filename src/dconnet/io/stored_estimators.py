"""What a model file stores of each estimator: its parameters, and the fitted attributes of the tables below.

Checks make sure that the attributes match each other, so that predictions stay within array bounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from typing import Annotated, Any, NotRequired, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import Coder
from dconnet.encoding.design import Levels, Linear, Ramps
from dconnet.encoding.matrix import TableEncoding
from dconnet.encoding.schema import DATE_PARTS, CategoryColumn, DateColumn, Schema
from dconnet.ensemble.fold_fits import TreeFit
from dconnet.ensemble.intervals import Intervals
from dconnet.ensemble.output_transforms import ClassScore, LogOdds, LogTarget, OutputTransform, TargetValue
from dconnet.ensemble.prediction import Ensemble, FamilyFit
from dconnet.ensemble.trees import Trees
from dconnet.estimators import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    TableEncoder,
)
from dconnet.estimators.data import ClassWeights, Units
from dconnet.io.object_codec import FloatArrayWithNaN, Form, Registry, is_storable
from dconnet.model.targets import Calibration, Targets
from dconnet.training.result import History, Solution, Status
from dconnet.training.trainer import PaperAlgorithm

Labels = NDArray[Any]
# Parameters by name. Those that a file cannot hold are stored as their defaults.
Parameters = Annotated[dict[str, Any], "parameters"]
# Parameters that belong to the process or the machine of the fit: a file must not decide where files are written.
NOT_STORED_PARAMETERS = frozenset({"callback", "checkpoint"})
IMPLEMENTATIONS: Mapping[type, tuple[type, ...]] = {OutputTransform: (TargetValue, LogTarget, ClassScore, LogOdds)}
# The number of features in a file of a network without neurons, which no array confirms.
MAX_FEATURES = 2**24


def _are_names(values: NDArray[Any]) -> bool:
    return values.ndim == 1 and all(type(name) is str for name in values.tolist())


Names = Annotated[NDArray[Any], _are_names]


_SEEN = {"n_features_in_": int, "feature_names_in_": NotRequired[Names]}
_NETWORKS = {
    **_SEEN,
    "targets_": Targets,
    "_layers": tuple[tuple[Solution, ...], ...],
    "_fitted_params": Parameters,
    "_class_weights": NotRequired[ClassWeights | None],
}
_SHALLOW = {
    **_NETWORKS,
    "target_names_in_": NotRequired[Names],
    "gamma_": float,
    "gammas_": FloatArray | None,
    "mse_path_": FloatArrayWithNaN | None,
    "target_scale_": float | FloatArray,
    "stationarities_": FloatArrayWithNaN,
    "_units": Units,
}
_LAYERWISE = {**_NETWORKS, "stationarities_": FloatArrayWithNaN}
_AUTO = {
    **_SEEN,
    "schema_": Schema,
    "ensemble_": Ensemble,
    "columns_": list[dict[str, Any]],
    "members_": list[dict[str, Any]],
    "weights_": FloatArray,
    "feature_importances_": FloatArray,
    "oof_prediction_": FloatArrayWithNaN,
    "oof_score_": float,
    "fit_time_": float,
}
ATTRIBUTES: Mapping[type[BaseEstimator], Mapping[str, Any]] = {
    DCONRegressor: _SHALLOW,
    DCONClassifier: _SHALLOW | {"calibration_": Calibration},
    LayerwiseDCONRegressor: _LAYERWISE,
    LayerwiseDCONClassifier: _LAYERWISE,
    AutoDCONRegressor: _AUTO | {"_intervals": Intervals},
    AutoDCONClassifier: _AUTO | {"classes_": Labels, "oof_log_loss_": float},
    TableEncoder: _SEEN
    | {
        "encoding_": TableEncoding,
        "columns_": list[dict[str, Any]],
        "_sklearn_output_config": NotRequired[dict[str, str]],
    },
}


@cache
def registry() -> Registry:
    """Return all classes that a model file may hold: estimators, and the dataclasses of their attributes."""
    forms = {
        kind: Form({"parameters": Parameters, **attributes}, _take_apart, partial(_build_estimator, kind))
        for kind, attributes in ATTRIBUTES.items()
    }
    forms[Pipeline] = Form(
        {"steps": tuple[tuple[str, Any], ...]},
        lambda pipeline: {"steps": tuple(map(tuple, pipeline.steps))},
        _build_pipeline,
    )
    forms[History] = Form(
        {"epochs": FloatArrayWithNaN},
        lambda history: {"epochs": history.table()},
        lambda own: History.from_table(own["epochs"]),
    )
    remaining: list[Any] = [PaperAlgorithm, *(hint for form in forms.values() for hint in form.fields.values())]
    while remaining:
        hint = remaining.pop()
        if is_dataclass(hint) and isinstance(hint, type) and hint not in forms:
            forms[hint] = Form.of_dataclass(hint)
            remaining += forms[hint].fields.values()
        remaining += [*get_args(hint), *IMPLEMENTATIONS.get(hint, ())] if hint.__hash__ else get_args(hint)
    assert len({kind.__name__ for kind in forms}) == len(forms), "the names of stored classes must differ"
    return Registry(forms, (Status,), IMPLEMENTATIONS)


def _take_apart(estimator: BaseEstimator) -> dict[str, Any]:
    table, defaults = ATTRIBUTES[type(estimator)], type(estimator)().get_params(deep=False)
    stored = {"parameters": estimator.get_params(deep=False)}
    stored |= {name: value for name, value in vars(estimator).items() if name in table}
    for name, hint in {"parameters": Parameters, **table}.items():
        if hint is Parameters and name in stored:
            stored[name] = {
                own: value if own not in NOT_STORED_PARAMETERS and is_storable(registry(), value) else defaults.get(own)
                for own, value in stored[name].items()
            }
    return stored


def _build_estimator(kind: type[BaseEstimator], own: dict[str, Any]) -> BaseEstimator:
    estimator, parameters = kind(), own.pop("parameters")
    unknown = set(parameters) - set(estimator.get_params(deep=False))
    if unknown:
        raise ValueError(f"{kind.__name__} has no parameter {min(unknown)!r:.40}")
    estimator.set_params(**parameters | dict.fromkeys(NOT_STORED_PARAMETERS & set(parameters)))
    estimator._validate_params()
    estimator.__dict__.update(own)
    if kind is TableEncoder:
        check_encoding(estimator)
    elif kind in (AutoDCONRegressor, AutoDCONClassifier):
        check_ensemble(estimator)
    else:
        check_networks(estimator)
    return estimator


def _build_pipeline(own: dict[str, Any]) -> Pipeline:
    for name, step in own["steps"]:
        if type(step) not in ATTRIBUTES:
            raise ValueError(f"the step {name!r:.40} is no estimator of dconnet")
    pipeline = Pipeline(list(own["steps"]))
    pipeline._validate_steps()
    return pipeline


# --- checks that the attributes match each other ---


def require(holds: bool, fault: str) -> None:
    """Raise a ValueError with this message unless the condition holds."""
    if not holds:
        raise ValueError(fault)


def check_prediction(estimator: Any) -> None:
    """Raise a ValueError if predicting a row of zeros, or of missing values in a table, fails.

    A prediction that is too large for a float is no failure.
    """
    first = estimator[0] if hasattr(estimator, "steps") else estimator
    takes_tables = get_tags(first).input_tags.allow_nan
    row = np.full((1, first.n_features_in_), None if takes_tables else 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row has no feature names
        try:
            (estimator.predict if hasattr(estimator, "predict") else estimator.transform)(row)
        except OverflowError:
            pass
        except Exception as error:
            raise ValueError(f"its parts do not match each other: {error}") from error


def check_networks(estimator: Any) -> None:
    """Check an estimator with networks."""
    n_features, targets = estimator.n_features_in_, estimator.targets_
    require(0 < n_features <= MAX_FEATURES, f"n_features_in_ must be positive, got {n_features}")
    _check_names(estimator)
    if targets.classes is not None:
        check_classes(targets.classes)
    require(targets.n_targets > 0, "there must be a target")
    n_outputs = sum(solution.network.n_outputs for solution in estimator.solutions_)
    require(n_outputs == targets.n_columns, f"there are {n_outputs} outputs for {targets.n_columns} columns of y")


def check_classes(classes: Any) -> None:
    """Check the labels of a classifier."""
    labels = classes.tolist()
    require(classes.ndim == 1 and len(set(labels)) == len(labels) >= 2, "classes must be at least two different labels")


def _check_names(estimator: Any) -> None:
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        require(len(names) == estimator.n_features_in_, "every feature needs a name")


def check_encoding(encoder: Any) -> None:
    """Check a `TableEncoder`."""
    encoding = encoder.encoding_
    require(encoder.n_features_in_ == len(encoding.schema.columns), "every feature needs a column")
    _check_names(encoder)
    _check_schema(encoding.schema)
    _check_coder(encoding.coder, encoding.schema)
    require(
        encoding.mean.shape == encoding.scale.shape == (encoding.n_columns,) and bool(np.all(encoding.scale > 0.0)),
        "every column needs a mean and a positive scale",
    )


def check_ensemble(estimator: Any) -> None:
    """Check an auto estimator."""
    ensemble, schema = estimator.ensemble_, estimator.schema_
    classes = getattr(estimator, "classes_", None)
    n_outputs = 1
    if classes is not None:
        check_classes(classes)
        n_outputs = 1 if len(classes) == 2 else len(classes)
    n_columns = len(schema.columns)
    require(estimator.n_features_in_ == n_columns, "every feature needs a column")
    require(estimator.feature_importances_.shape == (n_columns,), "every column needs an importance")
    require(estimator.weights_.shape == (len(estimator.members_),), "every member needs a weight")
    _check_names(estimator)
    _check_schema(schema)
    require(len(ensemble.fits) > 0, "there are no networks")
    n_members = sum(len(fit.transforms) for fit in ensemble.fits)
    require(
        ensemble.weights.shape == (n_members,), f"there are {ensemble.weights.size} weights for {n_members} members"
    )
    if classes is None:
        require(ensemble.intercepts is None, "a regressor has no intercepts")
    else:
        intercepts = ensemble.intercepts
        require(intercepts is not None and intercepts.shape == (n_outputs,), "every output needs an intercept")
    for fit in ensemble.fits:
        _check_family(fit, schema, n_outputs, is_regression=classes is None)
    if classes is None:
        _check_intervals(estimator._intervals, ensemble, schema)


def _check_schema(schema: Schema) -> None:
    for column in schema.columns:
        if isinstance(column, CategoryColumn):
            is_valid = len(column.levels) == len(column.counts) == len(set(column.levels))
            require(is_valid, f"the levels of {column.name!r:.40} must differ, and each needs its count")
        if isinstance(column, DateColumn):
            days = set(column.weekdays)
            is_valid = len(column.weekdays) == len(column.weekday_counts) == len(days) and days <= set(range(7))
            require(is_valid and set(column.parts) <= set(DATE_PARTS), f"the parts of {column.name!r:.40} are invalid")


def _check_coder(coder: Coder, schema: Schema) -> None:
    known = schema.fields
    fields_exist = all(0 <= j < len(known) for j in (*coder.plain, *(means.field for means in coder.means)))
    require(fields_exist, "a coded field does not exist")
    for means in coder.means:
        field = known[means.field]
        require(
            field.is_category and means.means.ndim == 2 and len(means.means) == field.n_levels + 1,
            f"every level of {field.name!r:.40} needs its means",
        )
    require(len({means.means.shape[1] for means in coder.means}) < 2, "all categories need means of the same targets")
    n_features = len(coder.plain) + sum(means.means.shape[1] for means in coder.means)
    require(len(coder.features) == n_features, "every field needs a feature")
    for place, feature in enumerate(coder.features):
        is_category = place < len(coder.plain) and known[coder.plain[place]].is_category
        if isinstance(feature, Levels):
            require(
                is_category and 0 <= feature.n_columns <= known[coder.plain[place]].n_levels, "levels need a category"
            )
        elif isinstance(feature, Ramps):
            is_ascending = feature.edges.ndim == 1 and len(feature.edges) > 1 and np.all(np.diff(feature.edges) > 0.0)
            require(not is_category and bool(is_ascending), "the edges of bins must be ascending")
        elif isinstance(feature, Linear):
            require(not is_category and feature.scale > 0.0, "a scale must be positive")


def _check_family(fit: FamilyFit, schema: Schema, n_outputs: int, *, is_regression: bool) -> None:
    n_members = len(fit.transforms)
    require(len(fit.settings) == n_members > 0 < len(fit.folds), "every member needs settings, and every family a fold")
    allowed = (TargetValue, LogTarget) if is_regression else (ClassScore, LogOdds)
    for transform in fit.transforms:
        require(isinstance(transform, allowed), "a member does not predict the kind of the target")
        require(not isinstance(transform, LogTarget) or transform.low > 0.0, "a logarithm needs a positive range")
    for coder in {id(fold.coder): fold.coder for fold in fit.folds}.values():
        _check_coder(coder, schema)
    for fold in fit.folds:
        if isinstance(fold, TreeFit):
            require(n_members == 1 <= len(fold.trees.roots), "the trees do not match each other")
            _check_trees(fold.trees, len(fold.coder.features), n_outputs)
            continue
        n_columns = 1 + sum(feature.n_columns for feature in fold.coder.features)
        n_hidden = fold.alpha.shape[-1] if fold.alpha.ndim else 0
        require(
            n_hidden > 0
            and fold.U.shape == (n_members, n_outputs, n_columns, n_hidden)
            and fold.alpha.shape == (n_members, n_outputs, n_hidden)
            and fold.intercept.shape == (n_members, n_outputs),
            "the weights of a network do not match its columns",
        )


def _check_intervals(intervals: Intervals, ensemble: Ensemble, schema: Schema) -> None:
    scores, weights = intervals.scores, intervals.weights
    require(
        scores.ndim == 1
        and scores.shape == weights.shape
        and len(scores) > 0
        and bool(np.all(np.diff(scores) >= 0.0) and np.all(weights > 0.0)),
        "the scores of the intervals must be ascending, and have positive weights",
    )
    require(intervals.unit >= 0.0 <= intervals.exponent <= 1.0, "the intervals have an invalid scale")
    low = -np.inf if intervals.low is None else intervals.low
    high = np.inf if intervals.high is None else intervals.high
    ranges = [own for fit in ensemble.fits for own in fit.transforms if isinstance(own, TargetValue | LogTarget)]
    require(
        all(low <= own.low <= own.high <= high for own in ranges),
        "the range of the predictions must lie within the limits of the intervals",
    )
    for trees in intervals.trees:
        require(len(trees.roots) > 0, "every model of the error size needs a tree")
        _check_trees(trees, 1 + len(schema.fields) * intervals.uses_fields, 1)


def _check_trees(trees: Trees, n_inputs: int, n_outputs: int) -> None:
    own = np.arange(len(trees.values))
    has_shapes = (
        trees.columns.shape == trees.thresholds.shape == trees.values.shape == own.shape
        and trees.children.shape == (len(own), 2)
        and trees.roots.shape == (len(trees.roots), n_outputs)
        and trees.baseline.shape == (n_outputs,)
    )
    require(has_shapes, "the trees do not match each other")
    n_columns = 2 * n_inputs  # with missing values to the left and to the right
    is_inside = np.all((trees.columns >= 0) & (trees.columns < n_columns)) and np.all(trees.roots < len(own))
    require(bool(is_inside and np.all(trees.roots >= 0)), "a tree has a node that does not exist")
    # Both children come after their parent, so that every path ends, or a leaf is both of them.
    is_leaf = np.all(trees.children == own[:, None], axis=1)
    is_ascending = np.all((trees.children > own[:, None]) & (trees.children < len(own)), axis=1)
    require(bool(np.all(is_leaf | is_ascending)), "a tree has a node with invalid children")
