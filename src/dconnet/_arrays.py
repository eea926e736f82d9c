"""Array types, checks of array arguments, and dataclasses whose arrays are read-only."""

from __future__ import annotations

from dataclasses import fields
from datetime import date, time, timedelta
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IndexArray: TypeAlias = NDArray[np.intp]


T = TypeVar("T")

# Prefixes of the names of date and time types in NumPy, pandas and polars.
DATES = ("date", "time", "duration", "period", "<m8")


def frozen_copy(values: ArrayLike, *, name: str, ndim: int, copy: bool = True, check_finite: bool = True) -> FloatArray:
    """Return ``values`` as a read-only, contiguous float64 array; without ``copy``, copy only if necessary.

    Raises ValueError for complex or non-numeric values, another dimension, and (with ``check_finite``) NaN or infinity.
    """
    array = _as_float(values, name, copy)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got {array.ndim} (shape {array.shape}).")
    if check_finite and not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity. Impute or drop those entries first.")
    return _read_only(array)


def _read_only(value: Any) -> Any:
    """Return a read-only view of an array; other values unchanged."""
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
        if not hasattr(self, "__dict__"):  # with slots, there are no cached properties; skops calls the class
            return type(self), tuple(_contents(self).values())
        return _rebuild, (type(self), _contents(self))


def _contents(frozen: Any) -> dict[str, Any]:
    """Return the fields and cached properties by name."""
    if hasattr(frozen, "__dict__"):
        return dict(vars(frozen))
    return {field.name: getattr(frozen, field.name) for field in fields(frozen)}


def _restore(frozen: object, contents: dict[str, Any]) -> None:
    for name, value in contents.items():
        object.__setattr__(frozen, name, _read_only(value))


def _rebuild(kind: type[T], contents: dict[str, Any]) -> T:
    made = object.__new__(kind)
    _restore(made, contents)
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
    """Raise ValueError for sparse, masked, structured and date arrays, which NumPy would misread or reject."""
    refuse_masked(values, name)
    if hasattr(values, "toarray"):
        raise ValueError(f"{name} is sparse, but dense data is required. Convert it with {name}.toarray().")
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "names", None) is not None:
        raise ValueError(
            f"{name} is a structured array. Convert it with numpy.lib.recfunctions.structured_to_unstructured({name})."
        )
    kinds = [str(kind).lower() for kind in (getattr(values, "dtypes", ()) if dtype is None else (dtype,))]
    dates = (date, time, timedelta, np.datetime64, np.timedelta64)  # NumPy would convert them to nanoseconds
    has_dates = "object" in kinds and any(isinstance(cell, dates) for cell in np.asarray(values).flat)
    if has_dates or any(kind.startswith(DATES) for kind in kinds):
        raise ValueError(
            f"{name} holds dates or times. Convert them to numbers, for example to days since a fixed date."
        )


def refuse_masked(values: object, name: str) -> None:
    """Raise ValueError for arrays with masked entries, because NumPy's conversions ignore the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked entries. Replace them, for example with {name}.filled(np.nan).")


def padded_zeros(n_rows: int, n_columns: int) -> FloatArray:
    """Return zeros whose rows begin at multiples of four numbers, so that the kernel need not copy them."""
    return np.zeros((n_rows, padded_width(n_columns)))[:, :n_columns]


def padded_width(n_columns: int) -> int:
    """Return the least multiple of four that is not smaller."""
    return -(-n_columns // 4) * 4


def safe_norm(values: FloatArray) -> float:
    """Return the Euclidean norm without overflow or underflow of the squares."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(values / largest))
