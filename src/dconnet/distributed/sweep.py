"""Sweeps over the neurons of a network whose rows are with the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet.convex.native import Native
from dconnet.model.problem import WhitenedProblem
from dconnet.model.whitening import Whitening
from dconnet.training.sweep import NativeSweep, Tally

if TYPE_CHECKING:
    from dconnet.distributed.problem import RemoteWhitened


class RemoteSweep:
    """A sweep by the kernel over rows that came here."""

    def __init__(self, problem: RemoteWhitened, backend: Native, n_hidden: int, split: str, max_dca_iter: int) -> None:
        self.problem, self.settings = problem, (backend, n_hidden, split, max_dca_iter)
        self._sweep: NativeSweep | None = None

    def run(self, V: FloatArray, alpha: FloatArray, order: NDArray[np.intp], seconds: float) -> Tally:
        """See `Sweep.run`."""
        if self._sweep is None:
            self._sweep = NativeSweep(self._gathered(), *self.settings)
        return self._sweep.run(V, alpha, order, seconds)

    def renew(self) -> None:
        """Nothing to forget: one sweep leaves nothing to the next."""

    def _gathered(self) -> WhitenedProblem:
        problem = self.problem
        Q, y = zip(*problem.parts.ask("all_rows", problem.column), strict=True)
        plain = problem.plain
        whitening = Whitening(np.concatenate(Q), plain.whitening.to_white, plain.whitening.from_white)
        return WhitenedProblem(whitening, np.concatenate(y), plain.gamma, plain.total_weight)
