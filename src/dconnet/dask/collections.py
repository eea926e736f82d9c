"""From Dask collections or Parquet files to blocks of rows, and predictions as Dask arrays."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from dconnet.estimators.data import names_of_columns

# X, y and weights of each block; None for weights of one.
Blocks = list[tuple[Delayed, Delayed, Delayed | None]]

# Prefix of the names under which targets and weights are appended to a data frame of inputs.
APPENDED = "dconnet appended "


@dataclass(frozen=True, slots=True, eq=False)
class PartitionedTable:
    """A table as blocks of rows, none of which is computed; names are None for columns without names."""

    blocks: Blocks
    n_features: int
    n_targets: int
    feature_names: NDArray[Any] | None
    target_names: NDArray[Any] | None

    def __post_init__(self) -> None:
        if 0 in (self.n_features, self.n_targets):
            raise ValueError(f"{'y' if self.n_features else 'X'} has no columns.")


def partition_table(X: Any, y: Any, sample_weight: Any = None) -> PartitionedTable:
    """Split inputs, targets and weights, as `DaskDCONRegressor.fit` accepts them, into blocks of rows."""
    if isinstance(X, (str, os.PathLike)):
        import dask.dataframe as dd

        if not Path(X).exists():
            raise ValueError(f"There is no file or folder {os.fspath(X)}.")
        X = dd.read_parquet(os.fspath(X))
    if y is None:
        raise ValueError("y is missing. Pass targets, or the names of their columns.")
    _check_unique_names(X, "X")
    X, y, sample_weight = _extract_named_columns(X, y, sample_weight)
    _check_unique_names(y, "y")
    names = names_of_columns(X), names_of_columns(y)
    if is_frame(X) and is_frame(y) and (sample_weight is None or is_frame(sample_weight)):
        return PartitionedTable(*_split_frames(X, y, sample_weight), *names)
    if is_array(X):
        _check_dimensions(X, (2,), "X")
    elif not (is_frame(X) and hasattr(X, "columns")):
        raise _type_error(X, "X")
    inputs, n_features = _split(X, None, "X")
    targets, n_targets = _split(y, X, "y")
    weights: Sequence[Delayed | None] = [None] * len(inputs)
    if sample_weight is not None:
        weights, n_columns = _split(sample_weight, X, "sample_weight")
        if n_columns != 1:
            raise ValueError(f"sample_weight has {n_columns} columns, but must have one.")
    for name, blocks in (("y", targets), ("sample_weight", weights)):
        if len(blocks) != len(inputs):
            raise ValueError(
                f"X has {len(inputs)} partitions, but {name} has {len(blocks)}. Partition both in the same way, or "
                "call compute_chunk_sizes so that Dask knows their lengths."
            )
    return PartitionedTable(list(zip(inputs, targets, weights, strict=True)), n_features, n_targets, *names)


def is_array(values: Any) -> bool:
    """Whether this is a Dask array."""
    return isinstance(values, da.Array)


def is_frame(values: Any) -> bool:
    """Whether this is a Dask DataFrame or Series."""
    return type(values).__module__.startswith("dask.dataframe") and hasattr(values, "to_delayed")


def check_columns_exist(X: Any, names: Sequence[str]) -> None:
    """Raise a ValueError if a frame lacks one of these columns."""
    missing = [name for name in names if name not in X.columns]
    if missing:
        raise ValueError(f"There is no column {missing[0]!r}. The columns are {', '.join(map(str, X.columns))}.")


def _type_error(values: Any, name: str) -> TypeError:
    return TypeError(
        "A fit on a cluster takes Dask arrays, Dask DataFrames, or the path of a folder of Parquet files; "
        f"got {name} of type {type(values).__name__}. Use DCONRegressor or DCONClassifier for data in memory."
    )


def _check_dimensions(values: Any, allowed: tuple[int, ...], name: str) -> None:
    if values.ndim not in allowed:
        raise ValueError(f"{name} must have {' or '.join(map(str, allowed))} dimensions, got {values.ndim}.")


def _check_unique_names(values: Any, name: str) -> None:
    repeated = [column for column, times in Counter(getattr(values, "columns", ())).items() if times > 1]
    if repeated:  # Dask would silently use the wrong column
        raise ValueError(f"{name} has several columns named {repeated[0]!r}. Rename them so that all names differ.")


def _extract_named_columns(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Replace names of columns by the columns, which leave X."""
    is_list = isinstance(y, (list, tuple)) and all(isinstance(name, str) for name in y)
    target_names = [y] if isinstance(y, str) else list(y) if is_list else []
    names = target_names + ([weight] if isinstance(weight, str) else [])
    if not names:
        return X, y, weight
    if not is_frame(X):
        raise ValueError("Names of columns need a Dask DataFrame or a folder of Parquet files as X.")
    check_columns_exist(X, names)
    y = X[y if isinstance(y, str) else target_names] if target_names else y
    return X.drop(columns=names), y, X[weight] if isinstance(weight, str) else weight


def _split_frames(X: Any, y: Any, weight: Any) -> tuple[Blocks, int, int]:
    """Split data frames as one frame: on their own, columns of the same files may have other partitions."""
    if weight is not None and weight.ndim == 2:
        raise ValueError("sample_weight must be a Series or the name of a column, got a DataFrame.")
    targets = [y[name] for name in y.columns] if y.ndim == 2 else [y]
    appended = targets if weight is None else [*targets, weight]
    try:
        blocks = X.assign(**{f"{APPENDED}{k}": column for k, column in enumerate(appended)}).to_delayed()
    except (ValueError, NotImplementedError) as error:
        raise ValueError(f"X, y and sample_weight cannot be joined: {error}.") from error
    n_features, end = len(X.columns), len(X.columns) + len(targets)
    take = delayed(lambda frame, first, stop: frame.iloc[:, first:stop])
    weights = [None if weight is None else take(block, end, end + 1) for block in blocks]
    rows = [(take(block, 0, n_features), take(block, n_features, end)) for block in blocks]
    return [(*pair, own) for pair, own in zip(rows, weights, strict=True)], n_features, len(targets)


def _split(values: Any, X: Any, name: str) -> tuple[list[Delayed], int]:
    """Return the blocks of an array or frame, where possible with the lengths of those of X, and its columns."""
    if is_frame(values):
        return list(values.to_delayed()), len(values.columns) if values.ndim == 2 else 1
    if not is_array(values):
        raise _type_error(values, name)
    _check_dimensions(values, (1, 2), name)
    values = values if values.ndim == 1 else values.rechunk({1: -1})
    if is_array(X) and not (np.isnan(X.chunks[0]).any() or np.isnan(values.chunks[0]).any()):
        if sum(X.chunks[0]) != sum(values.chunks[0]):
            raise ValueError(f"X has {sum(X.chunks[0])} rows, but {name} has {sum(values.chunks[0])}.")
        values = values.rechunk({0: X.chunks[0]})
    return list(values.to_delayed().ravel()), 1 if values.ndim == 1 else int(values.shape[1])


def map_rows(function: Callable[[Any], NDArray[Any]], X: Any, n_columns: int | None, dtype: Any) -> Any:
    """Apply a function of rows to a Dask collection, lazily; ``n_columns`` is None for a result of one dimension."""
    if is_frame(X):
        meta = np.empty((0, len(X.columns)))
        X = X.map_partitions(lambda frame: np.asarray(frame, dtype=np.float64), meta=meta)
    _check_dimensions(X, (2,), "X")
    X = X.rechunk({1: -1})
    empty = np.empty(0 if n_columns is None else (0, n_columns), dtype=dtype)
    shape = {"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}
    return X.map_blocks(
        lambda block: function(block) if len(block) else empty,
        dtype=dtype,
        meta=empty,
        token=f"dconnet-{function.__name__}",
        **shape,
    )
