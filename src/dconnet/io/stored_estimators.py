"""What a model file stores of each estimator: its parameters, and the fitted attributes of the tables below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from typing import Annotated, Any, NotRequired, get_args

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from dconnet._arrays import FloatArray
from dconnet.encoding.matrix import TableEncoding
from dconnet.encoding.schema import Schema
from dconnet.ensemble.output_transforms import ClassScore, LogOdds, LogTarget, OutputTransform, TargetValue
from dconnet.ensemble.prediction import Ensemble
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
from dconnet.io.consistency import check_encoding, check_ensemble, check_networks
from dconnet.io.object_codec import FloatArrayWithNaN, Form, Registry, is_storable
from dconnet.model.calibration import Calibration
from dconnet.model.targets import Targets
from dconnet.training.result import History, Solution, Status
from dconnet.training.trainer import PaperAlgorithm


def _are_names(values: NDArray[Any]) -> bool:
    return values.ndim == 1 and all(type(name) is str for name in values.tolist())


Names = Annotated[NDArray[Any], _are_names]
Labels = NDArray[Any]
# Parameters by name. Those that a file cannot hold are stored as their defaults.
Parameters = Annotated[dict[str, Any], "parameters"]

# Parameters that belong to the process or the machine of the fit: a file must not decide where files are written.
NOT_STORED_PARAMETERS = frozenset({"callback", "checkpoint"})
# Attributes that are not stored: the training data.
NOT_STORED_ATTRIBUTES = frozenset({"_table", "metadata_"})

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
_LAYERWISE = {
    **_NETWORKS,
    "stationarities_": FloatArrayWithNaN,
}
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
    AutoDCONRegressor: _AUTO | {"_residuals": FloatArray, "_residual_weights": FloatArray},
    AutoDCONClassifier: _AUTO | {"classes_": Labels, "oof_log_loss_": float},
    TableEncoder: _SEEN
    | {
        "encoding_": TableEncoding,
        "columns_": list[dict[str, Any]],
        "_sklearn_output_config": NotRequired[dict[str, str]],
    },
}
IMPLEMENTATIONS: Mapping[type, tuple[type, ...]] = {
    OutputTransform: (TargetValue, LogTarget, ClassScore, LogOdds),
}


@cache
def registry() -> Registry:
    """Return all classes that a model file may hold: estimators, and the dataclasses of their attributes."""
    forms = {kind: _form_of_estimator(kind) for kind in ATTRIBUTES}
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


def _form_of_estimator(kind: type[BaseEstimator]) -> Form:
    return Form({"parameters": Parameters, **ATTRIBUTES[kind]}, _take_apart, partial(_build_estimator, kind))


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
