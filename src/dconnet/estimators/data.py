"""Data as the estimators take them: checked tables, targets and weights, rows with coded targets, and their units."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from dconnet._arrays import FloatArray, IndexArray, refuse_masked
from dconnet._text import count, printable
from dconnet.encoding.columns import RawColumn, as_labels, find_invalid_row, is_missing, read_columns
from dconnet.encoding.schema import CategoryColumn, DateColumn, DroppedColumn, NumberColumn, Schema
from dconnet.model.network import Network
from dconnet.model.whitening import Coordinates, mean_and_spread

# Targets beyond this, or that differ by less than its inverse, have squares that overflow or underflow.
LARGEST_TARGET = 1e120

# Standard deviation of a target below which its squares lose digits, and with them RegLoss.
SMALLEST = float(np.sqrt(np.finfo(np.float64).tiny / np.finfo(np.float64).eps))


# --- tables ---


class ColumnWarning(UserWarning):
    """A column is dropped although it may hold information, or read in a way that may not be intended."""


class TakesTables:
    """Mixin of estimators whose input may hold text, categories and missing values."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def check_table(estimator: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool) -> list[RawColumn]:
    """Check a table and return its columns; set their names, or compare them with the names of the training."""
    if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
        raise TypeError("X is a lazy table. Call its method collect() first.")
    refuse_masked(X, "X")
    if not hasattr(X, "columns") or hasattr(X, "toarray"):
        X = check_array(
            X,
            dtype=None,
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
            estimator=estimator,
            input_name="X",
        )
    repeated = [
        name for name, n in Counter(map(str, getattr(X, "column_names", getattr(X, "columns", ())))).items() if n > 1
    ]
    if repeated:
        raise ValueError(f"X has several columns named {printable(repeated[0])!r}. Give each column its own name.")
    validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    raws = read_columns(X)
    if len(X) < 1 or len(raws) < 1:
        raise ValueError(f"X has {count(len(X), 'row')} and {count(len(raws), 'column')}. Give at least one of each.")
    return raws


def warn_about_columns(schema: Schema, raws: Sequence[RawColumn]) -> None:
    """Warn of columns that are dropped, that a few cells keep from being numbers or dates, or that are ambiguous."""
    notes = []
    for column, raw in zip(schema.columns, raws, strict=True):
        subject = f"Column {printable(raw.name)!r} of X"
        row = find_invalid_row(raw) if isinstance(column, (CategoryColumn, DroppedColumn)) else None
        if row is not None and column.kind in ("category", "text"):
            notes.append(
                f"{subject} is read as text: most of its cells are numbers or dates, but row {row + 1} holds "
                f"{printable(repr(raw.values[row]))[:60]}. Correct the cell, or replace it with NaN if the value is "
                "missing."
            )
        if isinstance(column, DroppedColumn) and column.kind == "text":
            example = printable(repr(as_labels(raw.rows(slice(1)))[0]))[:60]
            notes.append(
                f"{subject} is dropped: {column.reason}, such as {example}. Extract numbers, dates or categories from "
                "it, or leave it out."
            )
        if isinstance(column, (NumberColumn, DateColumn)) and column.format.is_assumed:
            notes.append(f"{subject}: {column.format.explain_assumption(raw.values.tolist())}")
    for note in notes:
        warnings.warn(note, ColumnWarning, stacklevel=3)


@contextmanager
def explain_refusal(estimator: object) -> Iterator[None]:
    """Say what to do if scikit-learn refuses an X with missing values or without columns."""
    name = type(estimator).__name__
    try:
        yield
    except ValueError as error:
        if str(error).startswith("Found array with 0 feature"):
            raise ValueError(
                f"X has no column to learn from: a TableEncoder, for example, drops columns that do not vary. Add a "
                f"column that does. ({error})"
            ) from error
        if not str(error).startswith("Input X contains NaN"):
            raise
        other = "AutoDCONClassifier" if "Classifier" in name else "AutoDCONRegressor"
        raise ValueError(
            f"Input X contains NaN, but {name} takes no missing values. Use {other}, which does, or "
            f"make_pipeline(TableEncoder(), {name}())."
        ) from error


# --- targets and weights ---


def check_target(y: ArrayLike, name: str) -> FloatArray:
    """Return the target of the regressor of this name as numbers that are finite and not too large."""
    refuse_several_columns(y, name)
    refuse_masked(y, "y")
    target = column_or_1d(y, warn=True)
    if target.dtype.kind in "mM":
        raise ValueError("y holds dates or times. Convert them to numbers, for example days since the first of them.")
    try:
        numbers: FloatArray = check_array(
            target, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y"
        )
    except ValueError as error:
        if target.dtype.kind in "OUST" and "could not convert" in str(error):
            classifier = name.replace("Regressor", "Classifier")
            raise ValueError(
                f"y is not a number everywhere ({error}). Correct it, or use {classifier} if the values are classes."
            ) from error
        raise
    _refuse_gaps(numbers)
    if np.abs(numbers).max() > LARGEST_TARGET or 0.0 < np.ptp(numbers) < 1.0 / LARGEST_TARGET:
        raise ValueError(
            f"y has values up to {np.abs(numbers).max():.1e} that differ by up to {np.ptp(numbers):.1e}, whose squares "
            "cannot be computed. Measure y in another unit."
        )
    return numbers


def check_labels(y: Any, name: str) -> NDArray[Any]:
    """Return the class labels for the classifier of this name; refuse missing labels and numbers of a regression."""
    refuse_several_columns(y, name)
    refuse_unusable_labels(y)
    if hasattr(y, "isna") and getattr(y, "dtype", np.dtype(object)).kind in "biu" and not y.isna().any():
        y = y.to_numpy(dtype=getattr(y.dtype, "numpy_dtype", y.dtype))  # nullable columns would become floats
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        _refuse_gaps(labels)
        check_array(labels, ensure_2d=False, input_name="y")
    check_classification_targets(labels)
    return labels


def refuse_unusable_labels(labels: object) -> None:
    """Raise ValueError for class labels that NumPy cannot compare or store: missing ones, text beside numbers, ..."""
    refuse_masked(labels, "y")
    # In an array of text, NaN would become a text.
    array = np.array(labels, dtype=object) if isinstance(labels, (list, tuple)) else np.asarray(labels)
    cells = array.ravel().tolist() if array.ndim > 0 and array.dtype == object else []
    if any(is_missing(cell) and not isinstance(cell, str) for cell in cells):
        raise ValueError("y contains missing class labels (NaN or None). Drop these rows, or give them a class.")
    if len({isinstance(cell, str) for cell in cells}) > 1:
        raise ValueError(
            "y mixes text with other class labels. Convert all of them to text, for example y.astype(str)."
        )
    with_nul = next((cell for cell in cells if isinstance(cell, str) and cell.endswith("\0")), None)
    if with_nul is not None:
        raise ValueError(f"The class label {with_nul!r} ends in a NUL character, which arrays of text drop. Remove it.")


def _refuse_gaps(target: FloatArray) -> None:
    n_gaps = int(np.isnan(target).sum())
    if n_gaps:
        raise ValueError(
            f"y is missing (Input y contains NaN) in {n_gaps} of {len(target)} rows. "
            "Drop these rows: known = ~np.isnan(y), and fit(X[known], y[known])."
        )


def refuse_several_columns(y: object, name: str) -> None:
    """Raise ValueError for several targets."""
    if has_several_columns(y):
        raise ValueError(
            f"{name} takes one target, but y has several columns. DCONRegressor learns several "
            "numbers with one network; for all else, fit one estimator for each column, as "
            "sklearn.multioutput.MultiOutputRegressor and MultiOutputClassifier do."
        )


def has_several_columns(y: object) -> bool:
    """Return whether a target has two dimensions and more than one column."""
    shape: tuple[int, ...] = np.shape(y) if isinstance(y, (list, tuple)) else getattr(y, "shape", ())
    return len(shape) == 2 and shape[1] > 1


def names_of_columns(y: object) -> NDArray[Any] | None:
    """Return the names of the columns of a DataFrame if they are distinct texts, else None."""
    names = list(getattr(y, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return None
    return np.array(names, dtype=object)


def check_weight(sample_weight: ArrayLike | None, X: FloatArray) -> FloatArray:
    """Return sample weights, one by default; raise ValueError if one is negative or all are zero."""
    refuse_masked(sample_weight, "sample_weight")
    weight: FloatArray = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if np.any(weight < 0.0):
        raise ValueError("Sample weights must not be negative.")
    if not np.any(weight > 0.0):
        raise ValueError("All sample weights are zero: no row is left.")
    return weight


@dataclass(frozen=True, slots=True, eq=False)
class ClassWeights:
    """Weights of classes, with the meaning of scikit-learn's ``class_weight``: a factor for each class of y."""

    factors: dict[Any, float]

    @classmethod
    def of(cls, class_weight: dict[Any, float] | str, labels: NDArray[Any], weight: FloatArray) -> ClassWeights:
        """Return the weights for these training rows.

        "balanced" gives all classes with rows of positive weight the same total weight. A weight must not be negative,
        nor belong to an unknown class while a known one has none.
        """
        if not isinstance(class_weight, dict):
            found, codes = np.unique(labels, return_inverse=True)
            totals = np.bincount(codes.ravel(), weights=weight, minlength=len(found))
            there = totals > 0.0
            balanced = np.ones(len(found))
            balanced[there] = totals.sum() / (np.count_nonzero(there) * totals[there])
            return cls(dict(zip(found.tolist(), balanced.tolist(), strict=True)))
        classes = np.unique(labels).tolist()
        strange = [label for label in class_weight if label not in classes]
        if strange and not all(label in class_weight for label in classes):
            raise ValueError(
                f"class_weight gives a weight to {strange[0]!r}, which is not a class of y. The classes are "
                f"{', '.join(repr(label) for label in classes[:20])}."
            )
        factors = {label: float(class_weight.get(label, 1.0)) for label in classes}
        if not all(np.isfinite(factor) and factor >= 0.0 for factor in factors.values()):
            raise ValueError(f"class_weight must be finite and not negative, got {class_weight!r}.")
        return cls(factors)

    def of_rows(self, labels: NDArray[Any]) -> FloatArray:
        """Return the factor of each row; one for unknown classes."""
        return np.array([self.factors.get(label, 1.0) for label in labels.tolist()])


# --- rows with coded targets ---


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of data with their coded targets."""

    X: FloatArray  # inputs (n_rows, n_features)
    Y: FloatArray  # the columns that the networks learn (n_rows, n_columns)
    weight: FloatArray  # sample weights (n_rows,)

    def __post_init__(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.sum(self.weight @ self.Y**2)
        if not np.isfinite(squares):
            raise ValueError(
                "y contains NaN or infinity, or the squares of y overflow. Drop such rows, or scale y down."
            )

    def select(self, chosen: NDArray[Any]) -> Rows:
        """Return some of the rows."""
        return Rows(self.X[chosen], self.Y[chosen], self.weight[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of inputs, targets and gamma in a fit.

    ``size``, the standard deviation of the target or one, is the unit of gamma. Columns of classes have one size for
    all, the root of their mean variance. Several targets of a regression are measured by the standard deviation of
    each, ``output_scale``; gamma is a pure number then, and ``size`` one.
    """

    coordinates: Coordinates | None  # standardised columns of the inputs; None for the columns as they are
    intercepts: FloatArray  # (n_columns,), output intercept for each column of the target: its mean, or zero
    size: float
    output_scale: FloatArray | None = None  # (n_columns,)

    @property
    def measure(self) -> float | FloatArray:
        """The divisor of the columns of the target."""
        return self.size if self.output_scale is None else self.output_scale

    @classmethod
    def plain(cls, rows: Rows) -> Units:
        """Return the units of unscaled data."""
        return cls(None, np.zeros(rows.Y.shape[1]), 1.0)

    @classmethod
    def standard(cls, rows: Rows, *, each_target: bool = False) -> Units:
        """Return units in which inputs and targets have mean 0 and standard deviation 1; all targets, or each."""
        moments = np.array([mean_and_spread(column, rows.weight) for column in rows.Y.T])
        return cls.of_moments(Coordinates.of(rows.X, rows.weight), moments, each_target=each_target)

    @classmethod
    def of_moments(cls, coordinates: Coordinates, moments: FloatArray, *, each_target: bool = False) -> Units:
        """Return the same from the mean and standard deviation of each target, of shape (n_columns, 2)."""
        if each_target:
            scale = np.where(moments[:, 1] > 0.0, moments[:, 1], 1.0)
            return cls(coordinates, moments[:, 0], 1.0, scale)
        if 0.0 < moments[:, 1].max() < SMALLEST:
            raise ValueError(
                f"The values of y differ by so little ({moments[:, 1].max():.1e}) that their squares underflow. "
                "Scale y up, for example with sklearn.compose.TransformedTargetRegressor."
            )
        size = float(np.sqrt(np.mean(moments[:, 1] ** 2)))
        return cls(coordinates, moments[:, 0], size or 1.0)

    def convert_start(self, network: Network) -> Network:
        """Convert a network for standardised data to these units; for s y and s gamma, weights grow by √s."""
        root = np.sqrt(self.size)
        alpha = root * network.alpha if self.output_scale is None else network.alpha * self.output_scale
        scaled = Network(root * network.W, root * network.b, alpha)
        return network if self.coordinates is None else self.coordinates.in_units_of_data(scaled)


def split_rows(n_rows: int, fraction: float, seed: int, labels: NDArray[Any] | None) -> tuple[IndexArray, IndexArray]:
    """Split rows into a training and a validation part, stratified by class.

    If some class is too small for that, each class gives at most its share, and never its last row.
    """
    rows, n_held_out = np.arange(n_rows), int(np.ceil(fraction * n_rows))
    if labels is not None:
        _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if counts.min() < 2 or len(counts) > min(n_held_out, n_rows - n_held_out):
            order = np.random.default_rng(seed).permutation(n_rows)
            members = [order[codes[order] == code] for code in range(len(counts))]
            held_out = np.concatenate([own[: int(fraction * len(own))] for own in members])
            if len(held_out) == 0:
                raise ValueError(
                    f"The classes are too small to set aside {fraction:g} of their rows for validation. "
                    "Raise validation_fraction, or give X_val and y_val."
                )
            return np.setdiff1d(order, held_out), held_out
    train, held_out = train_test_split(rows, test_size=fraction, random_state=seed, stratify=labels)
    return train, held_out
