"""From a model file of networks back to the fitted estimator, with what prepares its data and its target."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

from dconnet._arrays import FloatArray
from dconnet.convex.backend import backend_names
from dconnet.encoding.matrix import TableEncoding
from dconnet.estimators import DCONClassifier, DCONRegressor, TableEncoder
from dconnet.estimators.data import ClassWeights
from dconnet.estimators.units import Units
from dconnet.io.model_file import SavedModel
from dconnet.io.parts import Scaling
from dconnet.io.steps import target_scaled
from dconnet.training.result import Epoch, History, Solution


def estimator_of(model: SavedModel) -> Any:
    """The fitted estimator of a model; see `SavedModel.to_estimator`."""
    estimator = _network_estimator(model)
    names = _names(model)
    steps: list[Any] = []
    if model.encoding is not None:
        steps.append(_with_names(_encoder(model, model.encoding), names))
    if not _is_identity(model.feature_scaling):
        scaler = _scaler(model.feature_scaling)
        steps.append(scaler if steps else _with_names(scaler, names))
    if not steps:
        _with_names(estimator, names)
    prepared = make_pipeline(*steps, estimator) if steps else estimator
    if model.classes is not None or _is_identity(model.target_scaling):
        return prepared
    several = len(model.target_scaling.mean) > 1
    return target_scaled(clone(prepared), prepared, _scaler(model.target_scaling), 2 if several else 1)


def _names(model: SavedModel) -> list[str] | None:
    """The names of the features, unless they only number them."""
    numbered = tuple(f"x{j}" for j in range(len(model.feature_names)))
    return None if model.feature_names == numbered else list(model.feature_names)


def _with_names(step: Any, names: list[str] | None) -> Any:
    if names is not None:
        step.feature_names_in_ = np.array(names, dtype=object)
    return step


# --- what comes before and after the networks ---


def _is_identity(scaling: Scaling) -> bool:
    return not np.any(scaling.mean) and bool(np.all(scaling.scale == 1.0))


def _scaler(scaling: Scaling) -> StandardScaler:
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_, scaler.var_ = scaling.mean.copy(), scaling.scale.copy(), scaling.scale**2
    scaler.n_features_in_ = len(scaling.mean)
    return scaler


def _encoder(model: SavedModel, encoding: TableEncoding) -> TableEncoder:
    seed = model.settings.get("random_state")
    encoder = TableEncoder(
        encoding.coder.coding.n_bins,
        target_type="number" if model.classes is None else "class",
        random_state=seed if isinstance(seed, int) else None,
    )
    encoder.encoding_ = encoding
    encoder.columns_ = encoding.describe()
    encoder.n_features_in_ = len(encoding.schema.columns)
    return encoder


# --- the networks ---


def _network_estimator(model: SavedModel) -> Any:
    estimator = _configured(model)
    gamma = _gamma(model)
    solutions = tuple(_solution(model, k) for k in range(len(model.networks)))
    units = _units(model, estimator, gamma)
    stationarities = [math.nan if t.stationarity is None else t.stationarity for t in model.trainings]
    fitted: dict[str, Any] = {
        "targets_": model.targets,
        "solutions_": solutions,
        "_levels": (solutions,),
        "n_iter_": max(solution.n_epochs for solution in solutions),
        "n_features_in_": model.networks[0].n_features,
        "gamma_": gamma,
        "gammas_": None,
        "mse_path_": None,
        "target_scale_": units.measure,
        "_units": units,
        "_fitted_params": estimator._lasting_params(),
        "_settings": estimator._lasting_params(),
        "networks_": model.networks,
        "histories_": tuple(solution.history for solution in solutions),
        "statuses_": tuple(solution.status for solution in solutions),
        "messages_": tuple(solution.message for solution in solutions),
        "objectives_": np.array([solution.objective for solution in solutions]),
        "stationarities_": np.array(stationarities),
    }
    if model.classes is not None:
        fitted["calibration_"] = model.calibration
        factors = model.class_weights
        weights = None if factors is None else ClassWeights(dict(zip(model.classes, factors, strict=True)))
        fitted["_class_weights"] = weights
    numbered = tuple(f"{model.target_name}{k}" for k in range(len(model.target_names)))
    if model.target_names != numbered:
        fitted["target_names_in_"] = np.array(model.target_names, dtype=object)
    estimator.__dict__.update(fitted)
    return estimator


def _solution(model: SavedModel, k: int) -> Solution:
    training = model.trainings[k]
    return Solution(
        network=model.networks[k],
        history=History([Epoch(objective=objective, mse=math.nan) for objective in training.objectives]),
        status=training.status,
        n_epochs=training.recorded_epochs,
        message=training.message,
        objective=training.objective,
    )


def _gamma(model: SavedModel) -> float:
    """The strength of the regularisation in the units of the networks; files of dconnet 0.2 have it in the settings."""
    gamma = model.trainings[0].gamma
    gamma = model.settings.get("gamma") if gamma is None else gamma  # type: ignore[assignment]
    if isinstance(gamma, bool) or not isinstance(gamma, (int, float)):
        raise ValueError("The model file does not tell gamma, without which there is no estimator.")
    return float(gamma)


def _units(model: SavedModel, estimator: Any, gamma: float) -> Units:
    """What the fit has measured inputs, targets and gamma by."""
    intercepts: FloatArray = np.concatenate([np.atleast_1d(network.intercept) for network in model.networks])
    if not estimator.scale:
        return Units(None, intercepts, 1.0)
    if estimator.shrinkage > 0.0 and model.coordinates is None:
        raise ValueError(
            "The shrinkage is on standardised columns, and the model does not tell their scale: fit it again."
        )
    scale = model.trainings[0].output_scale
    if scale is not None:
        return Units(model.coordinates, intercepts, 1.0, np.array(scale))
    return Units(model.coordinates, intercepts, gamma / float(estimator.gamma))


# --- parameters ---


def _configured(model: SavedModel) -> Any:
    """The estimator with the parameters of the settings, not fitted."""
    kind: Any = DCONRegressor if model.classes is None else DCONClassifier
    estimator = kind(scale=False)  # dconnet 0.2 knew no scale
    if model.class_weights is not None and model.settings.get("class_weight") == "dict":
        estimator.class_weight = dict(zip(model.classes or (), model.class_weights, strict=True))
    known = set(estimator.get_params(deep=False))
    lost = []
    for name, value in model.settings.items():
        if name not in known:
            raise ValueError(f"The settings of the model are not those of a {kind.__name__}: {name!r:.60}.")
        found = _number_of(value)
        if _takes(estimator, name, found):
            setattr(estimator, name, found)
        elif not isinstance(value, str):
            raise ValueError(f"The model cannot have been fitted with {name}={value!r:.60}.")
        elif name != "class_weight" or estimator.class_weight is None:
            lost.append(f"{name} ({value})")
    if lost:
        warnings.warn(
            f"The file has only the name of {', '.join(lost)}, which has its default value now: set it before fit.",
            stacklevel=4,
        )
    return estimator


def _number_of(value: Any) -> Any:
    """The value, where infinity stands as text in files."""
    return math.inf if value == "inf" else value


def _takes(estimator: Any, name: str, value: Any) -> bool:
    """Whether a parameter may have this value."""
    if name == "solver":
        return value in backend_names()
    constraints = {name: estimator._parameter_constraints[name]}
    try:
        validate_parameter_constraints(constraints, {name: value}, type(estimator).__name__)
    except InvalidParameterError:
        return False
    return True
