"""What a descent returns: why it stopped, what each epoch reached, and the network."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from dconnet._arrays import FloatArray
from dconnet._text import count
from dconnet.model.network import Network

if TYPE_CHECKING:
    import pandas as pd


class Status(Enum):
    """Why a fit stopped. The value is the message for the user, with placeholders for the figures."""

    RUNNING = "Still running after {epochs}."
    CONVERGED = "Converged after {epochs}: {progress}."
    EPOCH_LIMIT = "Stopped after {epochs}, not converged: {progress}. Raise max_epochs or tol."
    TIME_LIMIT = "Stopped by max_seconds after {epochs}, not converged: {progress}. Raise max_seconds or tol."
    EVALUATION_LIMIT = (
        "Stopped by max_evaluations after {epochs}, not converged: {progress}. Raise max_evaluations or tol."
    )
    WORK_LIMIT = (
        "Stopped by the limit on the work of growth after {epochs}, not converged: {progress}. "
        "Raise gamma or tol, or set max_seconds or max_evaluations, which take the place of this limit."
    )
    EARLY_STOPPED = (
        "Stopped early after {epochs}: the validation error has not improved for {patience}. "
        "The best network was restored."
    )
    STOPPED_BY_CALLBACK = "Stopped by a callback after {epochs}: the network reached so far was kept."
    INTERRUPTED = "Interrupted after {epochs}: the network reached so far was kept."

    def __reduce__(self) -> tuple[type[Status], tuple[str]]:
        return Status, (self.value,)  # the only form that skops restores to the same member

    def message(self, n_epochs: int, progress: str = "", patience: int | None = None) -> str:
        """Return the message with its figures."""
        figures = {"epochs": count(n_epochs, "epoch"), "patience": count(patience or 0, "epoch")}
        return self.value.format(progress=progress, **figures)

    @property
    def is_limit(self) -> bool:
        """Whether a limit on epochs, time, evaluations or work kept the fit from convergence."""
        return self in (Status.EPOCH_LIMIT, Status.TIME_LIMIT, Status.EVALUATION_LIMIT, Status.WORK_LIMIT)


@dataclass(frozen=True, slots=True)
class Epoch:
    """What was reached after one epoch. Epoch 0 is the start.

    Attributes
    ----------
    objective : float
        RegLoss.
    mse : float
        Mean squared error on the training data; with several outputs, the mean over the rows of the sum over them.
    step_norm : float
        Distance of the weights ``(alpha, W, b)`` from those one epoch before.
    seconds : float
        Wall time since the start of the fit.
    programmes : int
        Convex programmes solved in this epoch.
    iterations : int
        Iterations that the backend took for them.
    refused : int
        Steps of this epoch that were not taken, or undone, because they would have raised RegLoss by more than
        rounding.
    unsolved : int
        Convex programmes of this epoch that were not solved to tolerance.
    validation_mse : float
        Mean squared error on the validation data; NaN without any.
    evaluations : int
        Evaluations of RegLoss and its gradient by the accelerated algorithm.
    hops, accepted : int
        Number of hops, and of those that reached a lower minimum.
    revived : int
        Dead neurons that were replaced by useful ones.
    barren : int
        Dead neurons for which no replacement was found that lowers RegLoss.
    restarts : int
        Number of times that a better subgradient lowered RegLoss after the DCA of a neuron had stopped.
    rounds, traffic : int
        Rounds of calls to the workers of a cluster, and the bytes sent and received; zero on one machine.
    """

    objective: float
    mse: float
    step_norm: float = float("nan")
    seconds: float = 0.0
    programmes: int = 0
    iterations: int = 0
    refused: int = 0
    unsolved: int = 0
    validation_mse: float = float("nan")
    evaluations: int = 0
    hops: int = 0
    accepted: int = 0
    revived: int = 0
    barren: int = 0
    restarts: int = 0
    rounds: int = 0
    traffic: int = 0


# Share of RegLoss by which rounding may raise it from one epoch to the next.
RISE_BY_ROUNDING = 1e-6

_FIELDS = tuple(field.name for field in fields(Epoch))
_COUNTS = tuple(field.name for field in fields(Epoch) if field.type == "int")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEpoch(Epoch):
    """An epoch of a network that is being trained, as a callback sees it: all that `Epoch` has, and more.

    Attributes
    ----------
    number : int
        Completed epochs of this network.
    column : int
        Which network it is: the column of the target that it learns, from zero on.
    label : str
        What it learns, in words: the class of a classifier, the layer of a layer-wise estimator.
    network : Network
        The network reached, in the units of the data.
    """

    number: int
    column: int
    label: str
    network: Network


@dataclass(slots=True)
class History:
    """The record of a fit, epoch by epoch; each field of `Epoch` can be read as an array.

    Attributes
    ----------
    epochs : list of Epoch
        The start, and what was reached after each epoch.
    objective, mse, step_norm, ... : array of shape (n_epochs + 1,)
        The field of that name of all epochs.

    Examples
    --------
    >>> from dconnet.training.result import Epoch, History
    >>> history = History([Epoch(objective=2.0, mse=1.0), Epoch(objective=1.0, mse=0.5, hops=3)])
    >>> history.objective, history.hops
    (array([2., 1.]), array([0., 3.]))
    """

    epochs: list[Epoch] = field(default_factory=list)

    def __reduce__(self) -> tuple[type[History], tuple[list[Epoch]]]:
        return History, (self.epochs,)

    def __len__(self) -> int:
        return len(self.epochs)

    def __getattr__(self, name: str) -> FloatArray:
        if name not in _FIELDS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.column(name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *_FIELDS]

    def column(self, name: str) -> FloatArray:
        """Return one field of all epochs as an array."""
        return np.array([getattr(epoch, name) for epoch in self.epochs], dtype=np.float64)

    def total(self, name: str) -> int:
        """Return the sum of a counting field, such as ``refused``, over all epochs."""
        return int(self.column(name).sum())

    def to_dict(self) -> dict[str, list[float]]:
        """Return a list for each field, with a number for each epoch."""
        return {name: [getattr(epoch, name) for epoch in self.epochs] for name in _FIELDS}

    def table(self) -> FloatArray:
        """Return all numbers, of shape (n_epochs + 1, n_fields)."""
        return np.column_stack([self.column(name) for name in _FIELDS])

    @classmethod
    def from_table(cls, table: FloatArray) -> History:
        """Return the history that `table` represents; raise ValueError unless RegLoss is finite and does not rise."""
        if table.ndim != 2 or len(table) == 0 or table.shape[1] != len(_FIELDS):
            raise ValueError("the record of the epochs has the wrong shape")
        objective, is_finite = table[:, 0], np.isfinite(table[:, :2]).all()
        if not is_finite or np.any(np.diff(objective) > RISE_BY_ROUNDING * np.abs(objective[:-1])):
            raise ValueError("the record of the epochs has a RegLoss that rises or is not finite")
        rows = (dict(zip(_FIELDS, row, strict=True)) for row in table.tolist())
        return cls([Epoch(**(row | {name: int(row[name]) for name in _COUNTS})) for row in rows])

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each epoch."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install 'dconnet[pandas]'") from error
        return pd.DataFrame(self.to_dict()).rename_axis("epoch")


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The result of a descent."""

    network: Network  # in the units of the data
    history: History  # what each epoch reached, the start included
    status: Status  # why the descent stopped
    n_epochs: int  # completed epochs
    message: str  # the sentence of the status, with its figures
    objective: float  # RegLoss of the network
