"""What a model file holds beside its networks: scalings, how the training ended, and scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray, Frozen, frozen_copy
from dconnet.training.result import Status

if TYPE_CHECKING:
    from dconnet.io.ensemble import SavedEnsemble
    from dconnet.io.model_file import SavedModel

Label: TypeAlias = str | bool | int | float
Setting: TypeAlias = Label | None

# Largest number of a model file; the product of two such numbers is finite.
LARGEST = 1e150


@dataclass(frozen=True, slots=True, eq=False)
class Scaling(Frozen):
    """Shift and scale of columns, ``(x - mean) / scale``.

    Parameters
    ----------
    mean : array-like of shape (n_columns,)
        Means of the columns.
    scale : array-like of shape (n_columns,)
        Divisors, positive.

    Examples
    --------
    >>> from dconnet.io.model_file import Scaling
    >>> scaling = Scaling.of([[1.0, 5.0], [3.0, 5.0]])
    >>> scaling.apply([[1.0, 5.0], [3.0, 6.0]])
    array([[-1.,  0.],
           [ 1.,  1.]])
    """

    mean: FloatArray
    scale: FloatArray

    def __init__(self, mean: ArrayLike, scale: ArrayLike) -> None:
        object.__setattr__(self, "mean", frozen_copy(mean, name="mean", ndim=1))
        object.__setattr__(self, "scale", frozen_copy(scale, name="scale", ndim=1))
        if len(self.mean) != len(self.scale):
            raise ValueError(f"mean has {len(self.mean)} entries, but scale has {len(self.scale)}.")
        if not np.all(self.scale > 0.0):
            raise ValueError("scale must be positive.")

    @classmethod
    def of(cls, values: ArrayLike, names: Sequence[str] | None = None) -> Scaling:
        """The scaling that standardises the columns of ``values``; constant columns get scale one.

        Raises
        ------
        ValueError
            If finite values are too large; the message has the name of the column, or its number without ``names``.
        """
        values = np.asarray(values, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            scale = values.std(axis=0)
            too_large = np.isfinite(values).all(axis=0) & ~(np.abs(values.mean(axis=0)) + scale <= LARGEST)
        if too_large.any():
            column = int(np.flatnonzero(too_large)[0])
            name = column if names is None else repr(names[column])
            raise ValueError(f"The values of column {name} are too large to be standardised. Scale them down.")
        # Rounding gives a constant column a tiny spread, which must not be blown up to one, and a mean off its value.
        constant = (np.ptp(values, axis=0) == 0.0) | (scale == 0.0)
        return cls(np.where(constant, values[0], values.mean(axis=0)), np.where(constant, 1.0, scale))

    @classmethod
    def identity(cls, n_columns: int) -> Scaling:
        """The scaling that changes nothing."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def apply(self, values: ArrayLike) -> FloatArray:
        """Standardise values, of shape (n_samples, n_columns)."""
        return (np.asarray(values, dtype=np.float64) - self.mean) / self.scale

    def undo(self, values: ArrayLike) -> FloatArray:
        """Bring standardised values back to their units."""
        return self.mean + self.scale * np.asarray(values, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Training:
    """How the training of a network ended.

    Attributes
    ----------
    status : Status
        Why the training stopped.
    message : str
        The sentence of the status, with its figures.
    objective : float
        RegLoss of the network, in the scaled units of the training.
    stationarity : float or None
        Distance from a stationary point; None if it is not known.
    objectives : tuple of float
        RegLoss at the start and after each epoch.
    gamma : float or None
        Strength of the regularisation, in the scaled units of the training; None if only the settings tell it.
    output_scale : tuple of float or None
        What RegLoss measures each of several targets by, in the scaled units of the training.
    """

    status: Status
    message: str
    objective: float
    stationarity: float | None
    objectives: tuple[float, ...]
    gamma: float | None = None
    output_scale: tuple[float, ...] | None = None

    @property
    def recorded_epochs(self) -> int:
        """Number of recorded epochs, including one that a limit or an interrupt has cut short."""
        return max(len(self.objectives) - 1, 0)


@dataclass(frozen=True, slots=True)
class Score:
    """How well a model predicts some rows, in the units of the data. A measure that has no value is None.

    Of several targets, MSE and R² are the means of those in ``each``, which has a score for each target in their order.
    """

    rows: int
    mse: float | None = None
    r2: float | None = None
    accuracy: float | None = None
    log_loss: float | None = None
    each: tuple[Score, ...] = ()

    @property
    def measures(self) -> dict[str, float]:
        """The measures that have a value, by name."""
        found = {"mse": self.mse, "r2": self.r2, "accuracy": self.accuracy, "log_loss": self.log_loss}
        return {name: value for name, value in found.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        each = {"each": [score.measures for score in self.each]} if self.each else {}
        return {"rows": self.rows, **self.measures, **each}

    @classmethod
    def of(cls, model: SavedModel | SavedEnsemble, X: Any, y: NDArray[Any]) -> Score:
        """Score the predictions of ``model``: MSE and R² of a regressor, accuracy of a classifier."""
        try:
            predicted = model.predict(X)
        except OverflowError:
            return cls(rows=len(y))
        return cls.between(y, predicted, is_class=model.classes is not None)

    @classmethod
    def between(cls, y: NDArray[Any], predicted: NDArray[Any], *, is_class: bool) -> Score:
        """Score predictions."""
        if is_class:
            return cls(rows=len(y), accuracy=float(np.mean(predicted == y)))
        if y.ndim == 2:
            return cls._mean([cls.between(*pair, is_class=False) for pair in zip(y.T, predicted.T, strict=True)])
        with np.errstate(over="ignore"):
            mse, spread = float(np.mean((y - predicted) ** 2)), float(np.var(y))
        if not math.isfinite(mse):
            return cls(rows=len(y))
        return cls(rows=len(y), mse=mse, r2=1.0 - mse / spread if spread > 0.0 else None)

    @classmethod
    def _mean(cls, each: Sequence[Score]) -> Score:
        """The score of several targets; a mean has no value if one of them has none."""
        mses, r2s = [score.mse for score in each], [score.r2 for score in each]
        mse = None if None in mses else float(np.mean(np.array(mses, dtype=float)))
        r2 = None if None in r2s else float(np.mean(np.array(r2s, dtype=float)))
        return cls(rows=each[0].rows, mse=mse, r2=r2, each=tuple(each))


def check(holds: bool, fault: str) -> None:
    """Raise a ValueError that states the fault unless the condition holds."""
    if not holds:
        raise ValueError(f"{fault}.")


def check_classes(classes: tuple[Label, ...]) -> None:
    """Raise a ValueError unless these can be the classes of a model."""
    kinds = {type(label) for label in classes}
    check(
        len(kinds) == 1 and kinds <= {str, bool, int, float},
        f"the classes must be all strings, all integers, all decimals or all booleans, got {classes!r}"[:300],
    )
    check(
        all(isinstance(label, str) or abs(label) < 2**63 for label in classes),
        "the classes must be finite and fit into 64 bits",
    )
    cut = [label for label in classes if isinstance(label, str) and label.endswith("\0")]
    check(not cut, f"a class must not end in the character NUL, which NumPy cuts off, got {cut[:1]!r:.100}")
    check(
        len(classes) >= 2 and len(set(classes)) == len(classes),
        "there must be at least two classes, all different",
    )
