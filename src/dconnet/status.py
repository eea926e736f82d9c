"""Why a fit stopped: an enum whose members carry their sentence."""

from __future__ import annotations

from enum import Enum


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
