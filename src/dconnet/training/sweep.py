"""One sweep over the neurons: the DC subproblem of each, in a given order.

The native backend has a compiled sweep. Every other backend is called from the sweep in Python, the readable
specification of the compiled one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._native import Team
from dconnet._threads import check_stop
from dconnet.convex.backend import Backend, Solver
from dconnet.convex.native import Native, as_columns
from dconnet.model.problem import WhitenedProblem
from dconnet.training.dc import DCAOutcome, NeuronProblem, dca
from dconnet.training.restart import dca_with_restarts


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of an epoch: those of `Epoch`, and the number of neurons that a sweep visited."""

    visited: int = 0
    programmes: int = 0
    iterations: int = 0
    refused: int = 0
    unsolved: int = 0
    evaluations: int = 0
    hops: int = 0
    accepted: int = 0
    revived: int = 0
    barren: int = 0
    restarts: int = 0

    def counts(self) -> dict[str, int]:
        """Return the counts for the record of the epoch."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "visited"}

    def with_sweep(self, swept: Tally) -> Tally:
        """Return the counts of this exploration and of the sweep after it."""
        return replace(self, visited=swept.visited, **{name: getattr(swept, name) for name in _SWEEP_COUNTS})

    def add(self, outcome: DCAOutcome) -> Tally:
        """Return the counts after one more neuron."""
        sums = {name: getattr(self, name) + getattr(outcome, name) for name in _SWEEP_COUNTS}
        return Tally(visited=self.visited + 1, **sums)


_SWEEP_COUNTS = ("programmes", "iterations", "refused", "unsolved", "restarts")


class Sweep(Protocol):
    """A sweep over the neurons of one problem."""

    def run(
        self,
        V: FloatArray,
        alpha: FloatArray,
        order: NDArray[np.intp],
        seconds: float,
        kinks: FloatArray | None = None,
    ) -> Tally:
        """Improve the neurons in place, in this order; start none after ``seconds``.

        V (n_hidden, rank) are the whitened hidden weights; each neuron changes in one assignment. ``kinks`` are the
        kink directions of the neurons; see `NeuronProblem.not_negative`.
        """
        ...


def make_sweep(
    problem: WhitenedProblem,
    backend: Backend,
    n_hidden: int,
    split: str,
    max_dca_iter: int,
    restart: bool = False,
    inexact: bool = False,
    team: Team | None = None,
) -> Sweep:
    """Return the compiled sweep if the backend is native; only the sweep in Python can restart and solve inexactly."""
    if isinstance(backend, Native) and not restart and not inexact:
        return NativeSweep(problem, backend, n_hidden, split, max_dca_iter, team)
    return PythonSweep(problem, backend, split, max_dca_iter, restart, inexact)


@dataclass(slots=True)
class PythonSweep:
    """The sweep in Python, with any backend.

    Each sweep prepares its own solver: the state of a solver cannot be saved, and a descent that resumes from a
    checkpoint is to have the same bits.
    """

    problem: WhitenedProblem
    backend: Backend
    split: str
    max_dca_iter: int
    restart: bool = False
    inexact: bool = False
    solver: Solver = field(init=False)

    def run(
        self,
        V: FloatArray,
        alpha: FloatArray,
        order: NDArray[np.intp],
        seconds: float,
        kinks: FloatArray | None = None,
    ) -> Tally:
        """See `Sweep.run`."""
        deadline = time.perf_counter() + seconds
        self.solver = self.backend.prepare(self.problem.Q)
        size = self.problem.total_weight * self.problem.regloss(V, alpha)
        hidden = np.maximum(self.problem.preactivations(V), 0.0)
        tally = Tally()
        for unit in order:
            check_stop()
            if time.perf_counter() >= deadline:
                break
            direction = None if kinks is None else kinks[unit]
            neuron = NeuronProblem.of(self.problem, hidden, alpha, int(unit), self.split, size, direction)
            outcome = self.improve(neuron, V[unit])
            V[unit] = outcome.v
            hidden[:, unit] = np.maximum(self.problem.Q @ outcome.v, 0.0)
            tally = tally.add(outcome)
        return tally

    def improve(self, neuron: NeuronProblem, v: FloatArray) -> DCAOutcome:
        """Run the DCA of one neuron from v; the reproduction watches it here."""
        if self.restart:
            return dca_with_restarts(neuron, v, self.solver, self.max_dca_iter, inexact=self.inexact)
        walks = self.split == "net" and not self.inexact
        return dca(neuron, v, self.solver, self.max_dca_iter, inexact=self.inexact, walks=walks)


class NativeSweep:
    """The compiled sweep. It owns its working memory: use one in each thread."""

    def __init__(
        self,
        problem: WhitenedProblem,
        backend: Native,
        n_hidden: int,
        split: str,
        max_dca_iter: int,
        team: Team | None = None,
    ) -> None:
        self.problem, self.backend = problem, backend
        self.net_split, self.max_dca_iter = split == "net", max_dca_iter
        self.y = as_columns(problem.y)
        self.kernel = backend.prepare_sweep(problem.Q, n_hidden, self.y.shape[1], team)

    def run(
        self,
        V: FloatArray,
        alpha: FloatArray,
        order: NDArray[np.intp],
        seconds: float,
        kinks: FloatArray | None = None,
    ) -> Tally:
        """See `Sweep.run`."""
        counts = self.kernel.run(
            y=self.y,
            alpha=as_columns(alpha),
            gamma=self.problem.gamma,
            order=order.astype(np.uintp),
            net_split=self.net_split,
            max_dca_iterations=self.max_dca_iter,
            max_solver_iterations=self.backend.max_iter,
            tolerance=self.backend.tol,
            seconds=seconds,
            V=V,
            kinks=kinks,
        )
        return Tally(*counts)
