"""From a block of a table, as a worker gets it, to a part: checked numbers in the place of arrays or data frames."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray, refuse_unusable
from dconnet.dask.part import PROBES, Part, Summary
from dconnet.dask.storage import Storage
from dconnet.estimators.data import refuse_missing


@dataclass(frozen=True, slots=True)
class Expected:
    """What every block must be like.

    Attributes
    ----------
    n_features : int
        Columns of X.
    is_regression : bool
        Whether the target is made of numbers; else of class labels.
    n_targets : int
        Columns of y.
    """

    n_features: int
    is_regression: bool
    n_targets: int


def loaded(
    X: Any, y: Any, weight: Any, expected: Expected, number: int, address: str, storage: Storage | None = None
) -> tuple[Part, Summary]:
    """The part of a block, and what to tell about it.

    Raises
    ------
    ValueError
        If the block is not what was expected.
    """
    try:
        inputs = _inputs(X, expected)
        n_given = len(inputs)
        target = _target(y, expected, n_given)
        rows_weight = _weight(weight, n_given)
    except ValueError as error:
        raise ValueError(f"Partition {number}: {error}") from error
    kept = rows_weight > 0.0
    if not kept.all():
        inputs, target, rows_weight = inputs[kept], target[kept], rows_weight[kept]
    storage = storage or Storage()
    part = Part(storage.keep(inputs), target, storage.keep(rows_weight), inputs[:PROBES].copy(), storage)
    return part, _summary(part, expected, address)


def _numbers(values: Any, name: str) -> FloatArray:
    """A block as an array of finite numbers."""
    refuse_unusable(values, name)
    if np.iscomplexobj(values):
        raise ValueError(f"{name} holds complex numbers. Give real and imaginary parts as columns of their own.")
    try:
        array: FloatArray = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} has values that are not numbers ({error}). Code categories and text as numbers first."
        ) from error
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity. Drop such rows, or fill them in, before the fit.")
    return array


def _inputs(X: Any, expected: Expected) -> FloatArray:
    inputs = _numbers(X, "X")
    if inputs.ndim != 2 or inputs.shape[1] != expected.n_features:
        raise ValueError(f"X has the shape {inputs.shape}, but {expected.n_features} columns were expected.")
    return inputs


def _target(y: Any, expected: Expected, n_rows: int) -> NDArray[Any]:
    if expected.is_regression:
        target: NDArray[Any] = _numbers(y, "y")
    else:
        target = np.asarray(y)
        refuse_missing(target.astype(object) if target.dtype.kind == "f" else target)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim != (1 if expected.n_targets == 1 else 2):
        raise ValueError(f"y has the shape {target.shape}, but {expected.n_targets} columns were expected.")
    if len(target) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but y has {len(target)}. Partition both in the same way.")
    return target


def _weight(weight: Any, n_rows: int) -> FloatArray:
    if weight is None:
        return np.ones(n_rows)
    given = _numbers(weight, "sample_weight").ravel()
    if len(given) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but sample_weight has {len(given)}. Partition both in the same way.")
    if np.any(given < 0.0):
        raise ValueError("Sample weights must not be negative.")
    return given


def _summary(part: Part, expected: Expected, address: str) -> Summary:
    labels = weights = None
    if not expected.is_regression:
        labels, codes = np.unique(part.target, return_inverse=True)
        weights = np.bincount(codes.ravel(), weights=part.weight, minlength=len(labels)).astype(np.float64)
    return Summary(address, part.n_rows, float(part.weight.sum()), labels, weights)
