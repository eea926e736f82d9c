"""What a descent returns: why it stopped, what each epoch reached, and the network."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.model.network import Network

if TYPE_CHECKING:
    import pandas as pd


class Status(Enum):
    """Outcome of a fit. The value is the sentence for the user, with places for the figures."""

    RUNNING = "Still running after {epochs} epochs."
    CONVERGED = "Converged after {epochs} epochs: {progress}."
    EPOCH_LIMIT = "Stopped after {epochs} epochs, not converged: {progress}. Raise max_epochs or tol."
    TIME_LIMIT = "Stopped by max_seconds after {epochs} epochs, not converged: {progress}. Raise max_seconds or tol."
    EARLY_STOPPED = (
        "Stopped early after {epochs} epochs: the validation error has not improved for {patience} epochs. "
        "The best network was restored."
    )
    INTERRUPTED = "Interrupted after {epochs} epochs: the network reached so far was kept."

    @property
    def is_success(self) -> bool:
        """Whether the fit ended by a criterion of its own and not by a limit."""
        return self in (Status.CONVERGED, Status.EARLY_STOPPED)


@dataclass(frozen=True, slots=True)
class Epoch:
    """What was reached after one epoch. Epoch 0 is the start.

    Attributes
    ----------
    objective : float
        RegLoss.
    mse : float
        Mean squared error on the training data.
    step_norm : float
        Distance of the weights ``(alpha, W, b)`` from those one epoch before.
    seconds : float
        Wall time since the start of the fit.
    programmes : int
        Convex programmes solved in this epoch.
    iterations : int
        Iterations that the backend took for them.
    refused : int
        Steps of this epoch that would have raised RegLoss by more than rounding, and were not taken.
    unsolved : int
        Programmes of this epoch that the backend gave up at its iteration limit.
    validation_mse : float
        Mean squared error on the validation data; NaN without any.
    evaluations : int
        Evaluations of RegLoss and its gradient by the accelerated algorithm.
    hops, accepted : int
        Hops out of the minimum reached that were tried, and those that ended lower.
    revived : int
        Neurons that carried nothing and were replaced by a useful one.
    barren : int
        Neurons that carry nothing, and for which no replacement was found that lowers RegLoss.
    restarts : int
        How often a better subgradient led on from where the DCA of a neuron stood still.
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


_FIELDS = tuple(field.name for field in fields(Epoch))


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

    def __len__(self) -> int:
        return len(self.epochs)

    def __getattr__(self, name: str) -> FloatArray:
        if name not in _FIELDS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.column(name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *_FIELDS]

    def column(self, name: str) -> FloatArray:
        """One field of every epoch, as an array."""
        return np.array([getattr(epoch, name) for epoch in self.epochs], dtype=np.float64)

    def total(self, name: str) -> int:
        """Sum of a counting field, such as ``refused``, over all epochs."""
        return int(self.column(name).sum())

    def to_dict(self) -> dict[str, list[float]]:
        """A list for each field, with a number for each epoch."""
        return {name: [getattr(epoch, name) for epoch in self.epochs] for name in _FIELDS}

    def to_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with a row for each epoch."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install 'dconnet[pandas]'") from error
        return pd.DataFrame(self.to_dict()).rename_axis("epoch")


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The network that was reached, how, and why the descent stopped there.

    Attributes
    ----------
    network : Network
        The trained network, in the coordinates of the data.
    history : History
        What each epoch reached, the start included.
    status : Status
        Why the descent stopped.
    n_epochs : int
        Completed epochs.
    message : str
        The sentence of the status with its figures.
    objective : float
        RegLoss of the network.
    """

    network: Network
    history: History
    status: Status
    n_epochs: int
    message: str
    objective: float
