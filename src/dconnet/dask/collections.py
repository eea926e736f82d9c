"""From Dask collections, or a folder of Parquet files, to blocks of rows; and predictions as Dask collections."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.delayed import Delayed, delayed
from numpy.typing import NDArray

from dconnet.estimators.data import names_of_columns

TAKES = (
    "takes Dask arrays, Dask DataFrames, or the path of a folder of Parquet files. Give arrays and data frames of this "
    "process to DCONRegressor or DCONClassifier, or wrap them, for example by dask.array.from_array"
)

# How the names of columns begin that are put beside the inputs.
ADDED = "dconnet beside "


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table as blocks of rows, none of which is here.

    Attributes
    ----------
    blocks : list of tuples
        X, y and the weights of each block; None for weights of one.
    n_features, n_targets : int
        Columns of X and of y.
    feature_names, target_names : arrays of str or None
        Their names, if they have any.
    """

    blocks: list[tuple[Delayed, Delayed, Delayed | None]]
    n_features: int
    n_targets: int
    feature_names: NDArray[Any] | None
    target_names: NDArray[Any] | None

    def __post_init__(self) -> None:
        for name, n_columns in (("X", self.n_features), ("y", self.n_targets)):
            if n_columns == 0:
                raise ValueError(f"{name} has no columns.")


def table_of(X: Any, y: Any, sample_weight: Any = None) -> Table:
    """The table of inputs, targets and weights.

    Parameters
    ----------
    X : dask.array.Array, dask.dataframe.DataFrame or path
        Inputs. Of a folder of Parquet files, all columns but those of y and sample_weight.
    y : dask.array.Array, dask.dataframe.Series or DataFrame, str or list of str
        Targets; of a data frame or a folder, names of its columns.
    sample_weight : dask.array.Array, dask.dataframe.Series or str, optional
        Weights; of a data frame or a folder, the name of a column.

    Raises
    ------
    TypeError, ValueError
        If that is no such table.
    """
    X = _read(X) if isinstance(X, (str, os.PathLike)) else X
    if y is None:
        raise ValueError("y is missing. Give targets, or the names of their columns.")
    _refuse_equal_names(X, "X")
    X, y, sample_weight = _columns_taken(X, y, sample_weight)
    _refuse_equal_names(y, "y")
    names = names_of_columns(X), names_of_columns(y)
    if is_frame(X) and is_frame(y) and (sample_weight is None or is_frame(sample_weight)):
        return Table(*_blocks_of_frames(X, y, sample_weight), *names)
    inputs, n_features = _blocks_of_matrix(X, "X")
    targets, n_targets = _blocks(y, inputs, X, "y")
    weights = [None] * len(inputs) if sample_weight is None else _blocks_of_weights(sample_weight, inputs, X)
    return Table(list(zip(inputs, targets, weights, strict=True)), n_features, n_targets, *names)


def _refuse_equal_names(values: Any, name: str) -> None:
    """Refuse a frame of which a name does not tell which column is meant."""
    twice = [column for column, times in Counter(getattr(values, "columns", ())).items() if times > 1]
    if twice:
        raise ValueError(f"{name} has several columns with the name {twice[0]!r}. Each must have a name of its own.")


def _blocks_of_frames(X: Any, y: Any, weight: Any) -> tuple[list[tuple[Delayed, Delayed, Delayed | None]], int, int]:
    """Blocks of one frame with all columns: by themselves, columns of the same files may have other partitions."""
    if weight is not None and weight.ndim == 2:
        raise ValueError("sample_weight must be a Series, or the name of a column, got a DataFrame.")
    n_features, targets = len(X.columns), [y[name] for name in y.columns] if y.ndim == 2 else [y]
    added = {f"{ADDED}{k}": column for k, column in enumerate([*targets, *([] if weight is None else [weight])])}
    try:
        blocks = X.assign(**added).to_delayed()
    except (ValueError, NotImplementedError) as error:
        raise ValueError(f"X and y, or the weights, cannot be put side by side: {error}.") from error
    end = n_features + len(targets)
    places = slice(0, n_features), slice(n_features, end), slice(end, end + 1)
    taken = [[delayed(_some_columns)(block, place) for place in places] for block in blocks]
    return [(own[0], own[1], None if weight is None else own[2]) for own in taken], n_features, len(targets)


def _some_columns(frame: Any, places: slice) -> Any:
    return frame.iloc[:, places]


def is_array(values: Any) -> bool:
    """Whether it is a Dask array."""
    return isinstance(values, da.Array)


def is_frame(values: Any) -> bool:
    """Whether it is a Dask DataFrame or Series."""
    return type(values).__module__.startswith("dask.dataframe") and hasattr(values, "to_delayed")


def _read(path: str | os.PathLike[str]) -> Any:
    import dask.dataframe as dd

    if not os.path.exists(path):  # noqa: PTH110
        raise ValueError(f"There is no file or folder {os.fspath(path)}.")
    return dd.read_parquet(os.fspath(path))


def _columns_taken(X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """The same with columns in the place of their names."""
    named = [*_names(y), *_names(weight)]
    if not named:
        return X, y, weight
    if not is_frame(X):
        raise ValueError("Names of columns need a Dask DataFrame, or a folder of Parquet files, as X.")
    refuse_missing_columns(X, named)
    taken_y = X[y if isinstance(y, str) else _names(y)] if _names(y) else y
    taken_weight = X[weight] if _names(weight) else weight
    return X.drop(columns=named), taken_y, taken_weight


def refuse_missing_columns(X: Any, names: Sequence[str]) -> None:
    """Refuse a frame without columns of these names."""
    missing = [name for name in names if name not in X.columns]
    if missing:
        raise ValueError(f"There is no column {missing[0]!r}. The columns are {', '.join(map(str, X.columns))}.")


def _names(given: Any) -> list[str]:
    """Names of columns, if that is what was given."""
    names = [given] if isinstance(given, str) else given
    is_list = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return list(names) if is_list else []


def _refuse_dimensions(values: Any, known: tuple[int, ...], name: str) -> None:
    if values.ndim not in known:
        raise ValueError(f"{name} must have {' or '.join(map(str, known))} dimensions, got {values.ndim}.")


def _blocks_of_matrix(X: Any, name: str) -> tuple[list[Delayed], int]:
    if is_array(X):
        _refuse_dimensions(X, (2,), name)
        return list(X.rechunk({1: -1}).to_delayed().ravel()), int(X.shape[1])
    if is_frame(X) and hasattr(X, "columns"):
        return list(X.to_delayed()), len(X.columns)
    raise TypeError(f"A fit on a cluster {TAKES}; got {name} of type {type(X).__name__}.")


def _blocks(values: Any, inputs: Sequence[Delayed], X: Any, name: str) -> tuple[list[Delayed], int]:
    """Blocks of targets or weights that go with those of the inputs, and how many columns they have."""
    if is_array(values):
        _refuse_dimensions(values, (1, 2), name)
        n_columns = 1 if values.ndim == 1 else int(values.shape[1])
        values = values if values.ndim == 1 else values.rechunk({1: -1})
        if is_array(X) and not (np.isnan(X.chunks[0]).any() or np.isnan(values.chunks[0]).any()):
            if sum(X.chunks[0]) != sum(values.chunks[0]):
                raise ValueError(f"X has {sum(X.chunks[0])} rows, but {name} has {sum(values.chunks[0])}.")
            values = values.rechunk({0: X.chunks[0]})
        blocks = list(values.to_delayed().ravel())
    elif is_frame(values):
        n_columns = len(values.columns) if values.ndim == 2 else 1
        blocks = list(values.to_delayed())
    else:
        raise TypeError(f"A fit on a cluster {TAKES}; got {name} of type {type(values).__name__}.")
    if len(blocks) != len(inputs):
        raise ValueError(
            f"X has {len(inputs)} partitions, but {name} has {len(blocks)}. Partition both in the same way, or let "
            "Dask know the lengths of the partitions (compute_chunk_sizes)."
        )
    return blocks, n_columns


def _blocks_of_weights(values: Any, inputs: Sequence[Delayed], X: Any) -> list[Delayed]:
    blocks, n_columns = _blocks(values, inputs, X, "sample_weight")
    if n_columns != 1:
        raise ValueError(f"sample_weight has {n_columns} columns, but rows have one weight each.")
    return blocks


def mapped(function: Callable[[Any], NDArray[Any]], X: Any, n_columns: int | None, dtype: Any) -> Any:
    """What a function says for each row, as a Dask array: lazily, block by block.

    ``n_columns`` is that of the result, None for one dimension.
    """
    if is_frame(X):
        columns = list(X.columns)
        X = X.map_partitions(_values, meta=np.empty((0, len(columns))))
    _refuse_dimensions(X, (2,), "X")
    X = X.rechunk({1: -1})
    meta = np.empty(0 if n_columns is None else (0, n_columns), dtype=dtype)
    shape = {"drop_axis": 1} if n_columns is None else {"chunks": (X.chunks[0], (n_columns,))}
    return X.map_blocks(_OfBlock(function, meta), dtype=dtype, meta=meta, token=f"dconnet-{function.__name__}", **shape)


@dataclass(frozen=True, slots=True, eq=False)
class _OfBlock:
    """A function of the rows of a block, which may be empty."""

    function: Callable[[Any], NDArray[Any]]
    nothing: NDArray[Any]

    def __call__(self, block: Any) -> NDArray[Any]:
        return self.function(block) if len(block) else self.nothing


def _values(frame: Any) -> NDArray[Any]:
    return np.asarray(frame, dtype=np.float64)
