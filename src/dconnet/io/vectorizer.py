"""skrub's TableVectorizer in files: what a few made-up rows can teach it again.

Its fitted state is spread over private steps for each column. Where a column is a number, a date or a category, this
state follows from public attributes: the format of dates, whether they have a time, the levels of categories. A file
holds rows with the same properties, to which the installed skrub is fitted when the file is loaded. Whether it then
knows the same is checked twice, when a file is written and when it is read.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from dconnet.io.values import Kind

NAMES = ("TableVectorizer", "PassThrough", "DatetimeEncoder", "StringEncoder")
# Days beyond the twelfth of different years and months, so that only one format of a date fits them.
MOMENTS = ("2023-01-13T05:14:15", "2024-05-24T13:20:30", "2025-09-30T20:40:50", "2026-12-17T23:59:59")
DATES = re.compile(r"datetime64\[(s|ms|us|ns)(, [A-Za-z0-9_/+:-]{1,60})?\]")
LEAST_ROWS = 8
PROBES = 4  # rows whose encoding is kept, too


@cache
def kinds() -> Mapping[str, Kind]:
    """How the objects of skrub are kept; skrub is imported.

    Raises
    ------
    ImportError
        If skrub is not installed.
    """
    try:
        from skrub import DatetimeEncoder, StringEncoder, TableVectorizer
    except ImportError as error:
        raise ImportError("The pipeline has a TableVectorizer, which needs skrub: pip install skrub") from error
    plain = (type(TableVectorizer().numeric), DatetimeEncoder, StringEncoder)
    return {
        "TableVectorizer": Kind(TableVectorizer, _fields, lambda own: _made(TableVectorizer, own)),
        **{name: _plain_kind(cls) for name, cls in zip(NAMES[1:], plain, strict=True)},
    }


def _plain_kind(cls: Any) -> Kind:
    """An encoder that a TableVectorizer was given, which fits copies of it."""

    def fields(step: Any) -> dict[str, Any]:
        if any(name.endswith("_") for name in vars(step)):
            raise TypeError(
                f"A model file cannot hold a fitted {cls.__name__} of skrub outside of a TableVectorizer. Use "
                "skops.io.dump."
            )
        return {"params": step.get_params(deep=False)}

    return Kind(cls, fields, lambda own: cls(**own["params"]))


def _fields(vectorizer: Any) -> dict[str, Any]:
    params = vectorizer.get_params(deep=False)
    if len(params["specific_transformers"]):
        raise _refusal("it has specific_transformers")
    columns = [_example_of(vectorizer, name) for name in vectorizer.feature_names_in_]
    own = {"params": params, "columns": columns, "learnt": _learnt(vectorizer), "output": _output(vectorizer)}
    frame = _frame(columns)
    again = _fitted(type(vectorizer), params, frame)
    _compare(_learnt(again), own["learnt"])
    try:
        own["probe"] = _probed(vectorizer, frame)
        outputs = [each.transform(frame).to_numpy() for each in (vectorizer, again)]
    except Exception as error:  # such as that of a vectorizer of polars
        raise _refusal(f"it does not take a pandas DataFrame like that of the training: {error}") from error
    if not _are_equal(*outputs):
        raise _refusal("it encodes rows in another way after it was fitted to rows with the same properties")
    return own


def _made(cls: Any, own: dict[str, Any]) -> Any:
    vectorizer = _fitted(cls, own["params"], _frame(own["columns"]))
    try:
        _compare(_learnt(vectorizer), own["learnt"])
    except TypeError as error:
        raise ValueError(f"the installed skrub does not learn the same: {error}") from error
    if not _are_equal(_probed(vectorizer, _frame(own["columns"])), own["probe"]):
        raise ValueError("the installed skrub encodes rows in another way than that which has written the file")
    if own["output"] is not None:
        vectorizer.set_output(transform=own["output"])
    return vectorizer


def _refusal(why: str) -> TypeError:
    return TypeError(
        f"A model file cannot hold this TableVectorizer: {why}. TableEncoder prepares tables of all kinds; or use "
        "skops.io.dump, or pickle for files of your own."
    )


def _output(vectorizer: Any) -> Any:
    return getattr(vectorizer, "_sklearn_output_config", {}).get("transform")


def _fitted(cls: Any, params: Mapping[str, Any], frame: Any) -> Any:
    vectorizer = cls(**dict(params) | {"n_jobs": None})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the first fit has told
        vectorizer.fit(frame)
    return vectorizer.set_params(n_jobs=params["n_jobs"])


def _probed(vectorizer: Any, frame: Any) -> Any:
    return np.asarray(vectorizer.transform(frame[:PROBES]), dtype=np.float64)


def _are_equal(one: Any, other: Any) -> bool:
    is_close: bool = np.shape(one) == np.shape(other) and np.array_equal(one, other, equal_nan=True)
    return is_close


# --- what was learnt ---


def _learnt(vectorizer: Any) -> list[list[str]]:
    """What is public about each column: its name, its outputs, and its steps with what they know."""
    return [
        [str(name), *map(str, vectorizer.input_to_outputs_[name]), *map(_told, vectorizer.all_processing_steps_[name])]
        for name in vectorizer.feature_names_in_
    ]


def _told(step: Any) -> str:
    """A step and its public fitted attributes; which texts are missing values follows from a parameter."""
    if isinstance(step, dict):
        return "; ".join(f"{name}: {_told(step[name])}" for name in sorted(step))
    known = {name: value for name, value in vars(step).items() if name.endswith("_") and name != "null_strings_"}
    return f"{type(step).__name__}({', '.join(f'{name}={_text(known[name])}' for name in sorted(known))})"


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value.tolist()) if isinstance(value, np.ndarray) else str(value)


def _compare(found: list[list[str]], expected: Any) -> None:
    for own, other in zip(found, expected, strict=True):
        if own != other:
            raise _refusal(f"what it knows about the column {own[0]!r:.60} does not follow from its public attributes")


# --- rows with the same properties ---


def _example_of(vectorizer: Any, name: str) -> dict[str, Any]:
    """The values of a column from which the same is learnt."""
    steps = {type(step).__name__: step for step in vectorizer.all_processing_steps_[name]}
    encoder = vectorizer.transformers_.get(name)
    kind = vectorizer.column_to_kind_.get(name)
    is_text = "CleanNullStrings" in steps
    dtype = "text" if is_text else "number"
    values: list[Any] = ["0", "1"] if is_text else [0.0, 1.0]
    if encoder is None:
        values = [None] if is_text else [float("nan")]
    elif isinstance(encoder, (OneHotEncoder, OrdinalEncoder)) and "ToFloat" not in steps:
        dtype = "category" if "CleanCategories" in steps else "text"
        values = _levels(encoder)
    elif type(encoder).__name__ == "DatetimeEncoder" and "ToDatetime" in steps:
        dtype, values = _dates(steps["ToDatetime"], "hour" in encoder.extracted_features_)
    elif kind != "numeric" or type(encoder).__name__ != "PassThrough":
        raise _refusal(
            f"its column {name!r:.60} goes through the step {type(encoder).__name__}, whose learnt state is private"
        )
    return {"name": name, "dtype": dtype, "values": values}


def _levels(encoder: Any) -> list[Any]:
    """Each level twice; a missing value comes last."""
    levels = [level for level in encoder.categories_[0].tolist() if isinstance(level, str)]
    gaps = [None] * (len(levels) < len(encoder.categories_[0]))
    return [*(level for level in levels for _ in range(2)), *gaps]


def _dates(step: Any, has_hours: bool) -> tuple[str, list[str]]:
    import pandas as pd

    moments = pd.to_datetime(list(MOMENTS))
    moments = moments if has_hours else moments.normalize()
    if step.format_ is None:
        return str(step.output_dtype_), moments.strftime("%Y-%m-%dT%H:%M:%S").tolist()
    return "text", moments.strftime(step.format_).tolist()


def _frame(columns: list[Any]) -> Any:
    """The rows that a file holds."""
    import pandas as pd

    n_rows = max(LEAST_ROWS, *(len(column["values"]) for column in columns))
    return pd.DataFrame({column["name"]: _series(column, n_rows) for column in columns})


def _series(column: Mapping[str, Any], n_rows: int) -> Any:
    import pandas as pd

    values, dtype = list(column["values"]), column["dtype"]
    values += [values[0]] * (n_rows - len(values))
    if dtype == "number":
        return pd.Series(values, dtype=np.float64)
    if dtype == "category":
        return pd.Series(values, dtype="category")
    if dtype == "text":
        return pd.Series(values, dtype=object)
    if not DATES.fullmatch(dtype):
        raise _refusal(f"dates of the type {dtype!r:.60} are not known")
    moments = pd.Series(pd.to_datetime(values))
    zone = re.search(", (.*)]", dtype)
    return moments.astype(dtype) if zone is None else moments.dt.tz_localize(zone[1]).astype(dtype)
