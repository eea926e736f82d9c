"""Steps of scikit-learn's pipelines in files: their parameters, and what they have learnt.

Scalers have public attributes alone. The others are fitted once more when they are loaded, to a few rows that lead to
the same public attributes: whatever else they know then fits together, and is what the installed scikit-learn expects.
"""

from __future__ import annotations

import warnings
from collections import UserList
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from dconnet.encoding.schema import CategoryColumn, DateColumn
from dconnet.estimators.table_encoder import TableEncoder
from dconnet.io.values import Kind

ARRAYS = {
    StandardScaler: ("mean_", "var_", "scale_"),
    MinMaxScaler: ("min_", "scale_", "data_min_", "data_max_", "data_range_"),
    MaxAbsScaler: ("max_abs_", "scale_"),
    RobustScaler: ("center_", "scale_"),
}
SEEN = ("n_features_in_", "feature_names_in_")
SEEN_ROWS = "n_samples_seen_"


def _common(step: Any) -> dict[str, Any]:
    """Parameters, features, and the kind of the output."""
    return {
        "params": step.get_params(deep=False),
        **{name: getattr(step, name) for name in SEEN if name in vars(step)},
        "output": getattr(step, "_sklearn_output_config", {}).get("transform"),
    }


def _with_common(step: Any, own: Mapping[str, Any]) -> Any:
    """The features and the kind of the output of a step that was made anew."""
    n_features, names = own.get("n_features_in_"), own.get("feature_names_in_")
    if n_features is not None and (type(n_features) is not int or n_features < 0):
        raise ValueError("n_features_in_ must be a whole number")
    if names is not None and (n_features is None or np.shape(names) != (n_features,)):
        raise ValueError("every feature needs a name")
    for name in SEEN:
        vars(step).pop(name, None)
    vars(step).update({name: own[name] for name in SEEN if own.get(name) is not None})
    if own["output"] is not None:
        step.set_output(transform=own["output"])
    return step


# --- scalers ---


def _scaler_fields(scaler: Any) -> dict[str, Any]:
    learnt = (*ARRAYS[type(scaler)], SEEN_ROWS)
    return _common(scaler) | {name: getattr(scaler, name) for name in learnt if hasattr(scaler, name)}


def _scaler(cls: Any, own: dict[str, Any]) -> Any:
    scaler = cls(**own["params"])
    scaler._validate_params()
    for name in ARRAYS[cls]:
        values = own[name]
        if values is not None and not (
            isinstance(values, np.ndarray) and values.shape == (own["n_features_in_"],) and values.dtype.kind == "f"
        ):
            raise ValueError(f"{name} must have a number for each feature")
        setattr(scaler, name, values)
    if SEEN_ROWS in own:
        setattr(scaler, SEEN_ROWS, own[SEEN_ROWS])
    return _with_common(scaler, own)


# --- categories ---


def _categories_fields(encoder: Any) -> dict[str, Any]:
    infrequent = getattr(encoder, "infrequent_categories_", None)
    return _common(encoder) | {"categories_": list(encoder.categories_), "infrequent": infrequent}


def _categories(cls: Any, own: dict[str, Any]) -> Any:
    levels = own["categories_"]
    if not levels or not all(isinstance(own_levels, np.ndarray) and own_levels.ndim == 1 for own_levels in levels):
        raise ValueError("every column needs its categories")
    grouped = own["infrequent"] is not None
    rare = own["infrequent"] if grouped else [None] * len(levels)
    columns = [_rows_of(own_levels, own_rare) for own_levels, own_rare in zip(levels, rare, strict=True)]
    n_rows = max(map(len, columns))
    table = np.empty((n_rows, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column + [column[0]] * (n_rows - len(column))
    encoder = cls(**own["params"] | ({"min_frequency": 2, "max_categories": None} if grouped else {}))
    encoder.fit(table)
    found = [len(each) for each in encoder.categories_]
    if found != [len(each) for each in levels]:
        raise ValueError("the categories do not fit the parameters")
    encoder.set_params(**own["params"])
    encoder.categories_ = levels
    return _with_common(encoder, own)


def _rows_of(levels: NDArray[Any], rare: NDArray[Any] | None) -> list[Any]:
    """Rows in which a category occurs twice, or once if it is rare; the first may be repeated."""
    known = levels.tolist()
    if rare is None or len(rare) == 0:
        return [level for level in known for _ in range(2)]
    few = rare.tolist()
    often = [level for level in known if level not in few]
    if not often:
        raise ValueError("a column has rare categories alone, which cannot be restored")
    return [*(level for level in often for _ in range(2)), *few]


# --- gaps ---


def _imputer_fields(imputer: SimpleImputer) -> dict[str, Any]:
    indicator = imputer.indicator_
    return _common(imputer) | {
        "statistics_": imputer.statistics_,
        "dtype": "object" if imputer.statistics_.dtype == object else "float64",
        "indicated": None if indicator is None else indicator.features_,
    }


def _imputer(own: dict[str, Any]) -> SimpleImputer:
    statistics, indicated = own["statistics_"], own["indicated"]
    if not isinstance(statistics, np.ndarray) or statistics.shape != (own["n_features_in_"],):
        raise ValueError("every feature needs a statistic")
    imputer = SimpleImputer(**own["params"])
    is_empty = [value is None or value != value for value in statistics.tolist()]
    first = np.where(is_empty, imputer.missing_values, statistics)
    second = first.copy()
    if indicated is not None and len(indicated):
        second[indicated] = imputer.missing_values
    rows = np.array([first, second], dtype=np.float64 if own["dtype"] == "float64" else object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of features without any value, which the first fit has told
        imputer.fit(rows)
    if np.shape(imputer.statistics_) != statistics.shape:
        raise ValueError("the statistics do not fit the parameters")
    imputer.statistics_ = statistics
    return _with_common(imputer, own)


# --- functions ---


def _function_fields(step: FunctionTransformer) -> dict[str, Any]:
    return _common(step)


def _function(own: dict[str, Any]) -> FunctionTransformer:
    step = FunctionTransformer(**own["params"])
    step._validate_params()
    return _with_common(step, own)


# --- steps made of steps ---


def _pipeline_fields(pipeline: Pipeline) -> dict[str, Any]:
    return {"params": pipeline.get_params(deep=False) | {"memory": None}}


def _pipeline(own: dict[str, Any]) -> Pipeline:
    if own["params"].get("memory") is not None:
        raise ValueError("a cache is a folder of pickles, which a file must not name")
    pipeline = Pipeline(**own["params"])
    pipeline._validate_params()
    pipeline._validate_steps()
    return pipeline


def _column_transformer_fields(step: ColumnTransformer) -> dict[str, Any]:
    given = {name: transformer for name, transformer, _ in step.transformers} | {"remainder": step.remainder}
    return _common(step) | {
        "transformers_": [
            (name, given[name] if isinstance(given[name], str) else transformer, _plain_columns(columns))
            for name, transformer, columns in step.transformers_
        ],
        "sparse_output_": step.sparse_output_,
    }


def _plain_columns(columns: Any) -> Any:
    """The columns of a transformer; older versions of scikit-learn have a kind of list for those of the remainder."""
    return columns.data if isinstance(columns, UserList) else columns


def _column_transformer(own: dict[str, Any]) -> ColumnTransformer:
    from sklearn.frozen import FrozenEstimator

    fitted, params = own["transformers_"], own["params"]
    frozen = [(n, t if isinstance(t, str) else FrozenEstimator(t), columns) for n, t, columns in fitted]
    rest = {n: t for n, t, _ in frozen}.get("remainder", "drop")
    step = ColumnTransformer(
        **params
        | {"transformers": [each for each in frozen if each[0] != "remainder"], "remainder": rest, "n_jobs": None}
    )
    step.fit(_example_of_columns(own))
    known = {n: t for n, t, _ in fitted if not isinstance(t, str)}
    step.transformers_ = [(n, known.get(n, t), columns) for n, t, columns in step.transformers_]
    step.set_params(transformers=params["transformers"], remainder=params["remainder"], n_jobs=params["n_jobs"])
    step.sparse_output_ = bool(own["sparse_output_"])
    return _with_common(step, own)


def _example_of_columns(own: Mapping[str, Any]) -> Any:
    """Two rows of a table that all transformers of the columns take."""
    n_features, names = own["n_features_in_"], own.get("feature_names_in_")
    if type(n_features) is not int or not 0 < n_features <= 2**20:
        raise ValueError("n_features_in_ must be a positive number")
    columns: list[NDArray[Any]] = [np.zeros(2) for _ in range(n_features)]
    for _, transformer, chosen in own["transformers_"]:
        if isinstance(transformer, str):
            continue
        for place, values in zip(_places(chosen, n_features, names), _example(transformer), strict=True):
            columns[place] = values
    if names is not None:
        import pandas as pd

        return pd.DataFrame(dict(zip(names.tolist(), columns, strict=True)))
    if all(column.dtype.kind == "f" for column in columns):
        return np.column_stack(columns)
    return np.column_stack([column.astype(object) for column in columns])


def _places(chosen: Any, n_features: int, names: NDArray[Any] | None) -> list[int]:
    """The columns that were chosen, as numbers."""
    if isinstance(chosen, (str, int)):
        chosen = [chosen]
    if not isinstance(chosen, slice) and any(isinstance(column, str) for column in chosen):
        known = [] if names is None else names.tolist()
        return [known.index(column) for column in chosen]
    every: NDArray[np.intp] = np.arange(n_features)
    return list(every[chosen].tolist())


def _example(step: Any) -> list[NDArray[Any]]:
    """The columns of two rows that a fitted step takes."""
    if isinstance(step, Pipeline):
        first = next((each for _, each in step.steps if each not in (None, "passthrough")), None)
        return _example(first)
    if isinstance(step, (OneHotEncoder, OrdinalEncoder)):
        return [np.array([levels.tolist()[0]] * 2, dtype=levels.dtype) for levels in step.categories_]
    if isinstance(step, SimpleImputer) and step.statistics_.dtype == object:
        return [np.array([value] * 2, dtype=object) for value in step.statistics_.tolist()]
    if isinstance(step, TableEncoder):
        return [_example_of_column(column) for column in step.encoding_.schema.columns]
    n_features = getattr(step, "n_features_in_", None)
    if n_features is None:
        raise ValueError(f"it is not known how many columns a {type(step).__name__} takes")
    return [np.zeros(2) for _ in range(n_features)]


def _example_of_column(column: Any) -> NDArray[Any]:
    if isinstance(column, CategoryColumn):
        return np.array([column.levels[0]] * 2, dtype=object)
    return np.array(["2020-01-01"] * 2, dtype="datetime64[s]") if isinstance(column, DateColumn) else np.zeros(2)


def _target_fields(step: TransformedTargetRegressor) -> dict[str, Any]:
    return {
        "params": step.get_params(deep=False),
        "regressor_": step.regressor_,
        "transformer_": None if step.transformer is None else step.transformer_,
        "training_dim": int(step._training_dim),
    }


def _target(own: dict[str, Any]) -> TransformedTargetRegressor:
    params, regressor, transformer = own["params"], own["regressor_"], own["transformer_"]
    return _transformed_target(params, regressor, transformer, own["training_dim"])


def target_scaled(regressor: Any, fitted: Any, scaler: StandardScaler, n_dimensions: int) -> TransformedTargetRegressor:
    """A fitted TransformedTargetRegressor.

    Parameters
    ----------
    regressor : estimator
        What a next fit is to start from.
    fitted : estimator
        The same, fitted to scaled targets.
    scaler : StandardScaler
        The fitted scaler of the target.
    n_dimensions : {1, 2}
        Of the target in the fit.
    """
    params = TransformedTargetRegressor(regressor, transformer=StandardScaler()).get_params(deep=False)
    return _transformed_target(params, fitted, scaler, n_dimensions)


def _transformed_target(
    params: Mapping[str, Any], regressor: Any, transformer: Any, n_dimensions: int
) -> TransformedTargetRegressor:
    from sklearn.frozen import FrozenEstimator

    frozen = {"regressor": FrozenEstimator(regressor), "check_inverse": False}
    if transformer is not None:
        frozen["transformer"] = FunctionTransformer()
    step = TransformedTargetRegressor(**dict(params) | frozen)
    y = np.ones(2) if n_dimensions == 1 else np.ones((2, max(1, getattr(transformer, "n_features_in_", 1))))
    step.fit(np.zeros((2, 1)), y)
    step.set_params(**params)
    step.regressor_ = regressor
    if transformer is not None:
        step.transformer_ = transformer
    return step


def _kind(cls: type, fields: Any, made: Any) -> tuple[str, Kind]:
    return cls.__name__, Kind(cls, fields, made)


STEPS: Mapping[str, Kind] = dict(
    [
        *(_kind(cls, _scaler_fields, partial(_scaler, cls)) for cls in ARRAYS),
        *(_kind(cls, _categories_fields, partial(_categories, cls)) for cls in (OneHotEncoder, OrdinalEncoder)),
        _kind(SimpleImputer, _imputer_fields, _imputer),
        _kind(FunctionTransformer, _function_fields, _function),
        _kind(Pipeline, _pipeline_fields, _pipeline),
        _kind(ColumnTransformer, _column_transformer_fields, _column_transformer),
        _kind(TransformedTargetRegressor, _target_fields, _target),
    ]
)

__all__: Sequence[str] = ("SEEN", "STEPS")
