"""What a descent returns."""

from __future__ import annotations

from dataclasses import dataclass

from dconnet.history import History
from dconnet.network import Network
from dconnet.status import Status


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The network that was reached, how, and why the descent stopped there.

    Attributes
    ----------
    network : Network
        The trained network, in the coordinates of the data.
    history : History
        One entry an epoch, the start included.
    status : Status
        Why the descent stopped.
    n_epochs : int
        Completed epochs.
    message : str
        The sentence of the status with its figures.
    """

    network: Network
    history: History
    status: Status
    n_epochs: int
    message: str
