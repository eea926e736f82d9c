"""Array types, the checks of arrays that are kept, and dataclasses whose arrays are read-only."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import date, time, timedelta
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]


T = TypeVar("T")

# How the names of the types of dates and times begin in NumPy, pandas and polars.
DATES = ("date", "time", "duration", "period", "<m8")


def frozen_copy(values: ArrayLike, *, name: str, ndim: int, copy: bool = True, check_finite: bool = True) -> FloatArray:
    """Copy ``values`` into a read-only, contiguous float64 array; without ``copy``, only if it is not one already.

    Raises
    ------
    ValueError
        If the values are complex, not numeric, of another dimension, or not finite, unless ``check_finite`` is False.
    """
    array = _as_float(values, name, copy)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got {array.ndim} (shape {array.shape}).")
    if check_finite and not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity. Impute or drop those entries first.")
    frozen: FloatArray = _read_only(array)
    return frozen


def _read_only(value: Any) -> Any:
    """A view of an array that cannot be written to, which leaves the array itself alone; other values as they are."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


class Frozen:
    """Base of frozen dataclasses whose arrays are read-only, and stay so in copies and after unpickling."""

    __slots__ = ()

    def __post_init__(self) -> None:
        _restore(self, _contents(self))

    def __reduce__(self) -> tuple[Any, ...]:
        if not hasattr(self, "__dict__"):  # nothing is cached; skops, too, then calls the class with the fields
            return type(self), tuple(_contents(self).values())
        return _restored, (type(self), _contents(self))


def _contents(frozen: Any) -> dict[str, Any]:
    """The fields by name, and whatever else is cached."""
    if hasattr(frozen, "__dict__"):
        return dict(vars(frozen))
    return {field.name: getattr(frozen, field.name) for field in fields(frozen)}


def _restore(frozen: object, contents: dict[str, Any]) -> None:
    for name, value in contents.items():
        object.__setattr__(frozen, name, _read_only(value))


def _restored(kind: type[T], contents: dict[str, Any]) -> T:
    made = object.__new__(kind)
    # A pickle from before a field was added lacks it.
    defaults = {f.name: f.default for f in fields(kind) if f.default is not MISSING}  # type: ignore[arg-type]
    _restore(made, defaults | contents)
    return made


def _as_float(values: ArrayLike, name: str, copy: bool) -> FloatArray:
    refuse_unusable(values, name)
    array: NDArray[Any] = np.asarray(values)
    refuse_unusable(array, name)  # lists and Arrow tables have no dtype before
    if np.iscomplexobj(array):
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}.")
    try:
        return array.astype(np.float64, order="C", copy=copy)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric, got dtype {array.dtype}: {error}") from error


def refuse_unusable(values: object, name: str = "X") -> None:
    """Refuse what is not a dense table of numbers, where NumPy would raise an obscure error or make up numbers."""
    if hasattr(values, "toarray"):
        raise ValueError(f"{name} is sparse, but dense data is required. Convert it with {name}.toarray().")
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "names", None) is not None:
        raise ValueError(
            f"{name} is a structured array. Convert it with numpy.lib.recfunctions.structured_to_unstructured({name})."
        )
    kinds = [str(kind).lower() for kind in (getattr(values, "dtypes", ()) if dtype is None else (dtype,))]
    if any(kind.startswith(DATES) for kind in kinds) or ("object" in kinds and _has_dates(values)):
        raise ValueError(
            f"{name} holds dates or times. Convert them to numbers first, for example to days since some date."
        )


def _has_dates(values: Any) -> bool:
    """Whether one of these objects is a date or time, of which NumPy makes nanoseconds; those of pandas are too."""
    return any(
        isinstance(cell, (date, time, timedelta, np.datetime64, np.timedelta64)) for cell in np.asarray(values).flat
    )


def safe_norm(values: FloatArray) -> float:
    """Euclidean norm that neither overflows nor underflows on the way."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(values / largest))
