"""Array types and the two checks that every kept array goes through."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]


def frozen_copy(values: ArrayLike, *, name: str, ndim: int, copy: bool = True) -> FloatArray:
    """Copy ``values`` into a read-only, contiguous float64 array; without ``copy``, only if it is not one already.

    Raises
    ------
    ValueError
        If the values are complex, not numeric, of another dimension, or not finite.
    """
    array = _as_float(values, name, copy)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got {array.ndim} (shape {array.shape}).")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity. Impute or drop those entries first.")
    array = array.view()  # freezing a view leaves the caller's own array alone
    array.flags.writeable = False
    return array


def _as_float(values: ArrayLike, name: str, copy: bool) -> FloatArray:
    if hasattr(values, "toarray"):
        raise ValueError(f"{name} is sparse, but dense data is required. Convert it with {name}.toarray().")
    array: NDArray[Any] = np.asarray(values)
    if np.iscomplexobj(array):
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}.")
    try:
        return array.astype(np.float64, order="C", copy=copy)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numeric, got dtype {array.dtype}: {error}") from error


def safe_norm(values: FloatArray) -> float:
    """Euclidean norm that neither overflows nor underflows on the way."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    return largest * float(np.linalg.norm(values / largest))
