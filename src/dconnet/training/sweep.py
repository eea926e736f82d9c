"""The blocks of the descent: a pass over the neurons in a given order, and the ridge regression of the output weights.

The native backend has a compiled sweep over the neurons. Every other backend is called from the sweep in Python, the
readable specification of the compiled one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import numpy as np

from dconnet import _native
from dconnet._arrays import FloatArray, IndexArray
from dconnet._threads import check_stop
from dconnet.convex.native import Native, as_columns, pad_rows
from dconnet.convex.programme import Backend, Solver
from dconnet.model.problem import WhitenedProblem, hidden_layer
from dconnet.model.rows import merge_triangles, qr_blocks, triangle_of
from dconnet.training.dc import DCAOutcome, NeuronProblem, dca
from dconnet.training.kinks import dca_with_restarts

_SWEEP_COUNTS = ("programmes", "iterations", "refused", "unsolved", "restarts")


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


class Sweep(Protocol):
    """A sweep over the neurons of one problem."""

    def run(
        self, V: FloatArray, alpha: FloatArray, order: IndexArray, seconds: float, kinks: FloatArray | None = None
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
    team: _native.Team | None = None,
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
        self, V: FloatArray, alpha: FloatArray, order: IndexArray, seconds: float, kinks: FloatArray | None = None
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
        team: _native.Team | None = None,
    ) -> None:
        self.problem, self.backend = problem, backend
        self.net_split, self.max_dca_iter = split == "net", max_dca_iter
        self.y = as_columns(problem.y)
        self.kernel = _native.Sweep(pad_rows(problem.Q), problem.rank, n_hidden, self.y.shape[1], team)

    def run(
        self, V: FloatArray, alpha: FloatArray, order: IndexArray, seconds: float, kinks: FloatArray | None = None
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


def solve_output_weights(problem: WhitenedProblem, V: FloatArray) -> FloatArray:
    """Return the alpha that minimises ``|y - Σ alpha|² + gamma |alpha|²``, where Σ = max(Q Vᵀ, 0) is the hidden layer.

    The QR factorisation of [Σ y] reduces the problem to min(n_rows, n_hidden) rows, and the singular values of the rest
    solve (ΣᵀΣ + gamma I) alpha = Σᵀy. ΣᵀΣ itself, which would square the condition number, is never formed, and Σ only
    block by block, since it may be larger than the data. The kernel uses the faster normal equations within its hops,
    where L-BFGS continues and the last digits do not matter.
    """
    outputs = problem.output_shape
    triangle = problem.merge_leaves(_output_triangle, merge_triangles, V)
    hidden, target = triangle[:, : len(V)], triangle[:, len(V) :] if outputs else triangle[:, -1]
    alpha = np.zeros((len(V), *outputs))
    alive = hidden.any(axis=0)  # the weight of a dead neuron is exactly zero, without rounding
    left, singular, right = np.linalg.svd(hidden[:, alive], full_matrices=False)
    with np.errstate(divide="ignore", over="ignore"):
        shrinkage = 1.0 / (singular + problem.gamma / singular)  # s / (s² + gamma), without the square of s
    alpha[alive] = right.T @ ((shrinkage[:, None] if outputs else shrinkage) * (left.T @ target))
    return alpha


def _output_triangle(Q: FloatArray, y: FloatArray, V: FloatArray) -> FloatArray:
    """Return R of [Σ y] for the rows of a leaf."""
    return triangle_of(np.column_stack([hidden_layer(Q[rows], V), y[rows]]) for rows in qr_blocks(len(Q), len(V)))
