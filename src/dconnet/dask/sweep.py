"""Sweeps over the neurons of a network whose rows are on workers.

With many rows, the kernel runs on the driver and its passes over the rows are rounds. The driver solves the convex
programmes over the rows near their kinks, which the workers send, and gets sums over the other rows. With few rows, the
driver fetches all of them and sweeps locally.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.convex.backend import Backend
from dconnet.convex.native import Native, as_columns
from dconnet.dask.partition import Partition
from dconnet.model.problem import WhitenedProblem
from dconnet.training.sweep import Sweep, Tally, make_sweep

if TYPE_CHECKING:
    from dconnet.dask.problem import RemoteWhitened

_sweep_numbers = count()


def make_remote_sweep(
    problem: RemoteWhitened,
    backend: Backend,
    n_hidden: int,
    *,
    split: str,
    max_dca_iter: int,
    restart: bool,
    inexact: bool,
    max_numbers: int,
) -> Sweep:
    """Return a sweep that suits the number of rows; with many, other options than the default are a ValueError.

    ``max_numbers`` limits the numbers that the driver fetches for one programme.
    """
    if not _native.has_far_rows(problem.n_rows, problem.rank):
        Q, y = zip(*problem.partitions.map(_white_rows, problem.column), strict=True)
        plain = problem.without_rows
        whitening = replace(plain.whitening, Q=np.concatenate(Q))
        fetched = WhitenedProblem(whitening, np.concatenate(y), plain.gamma, plain.total_weight)
        return make_sweep(fetched, backend, n_hidden, split, max_dca_iter, restart=restart, inexact=inexact)
    if not isinstance(backend, Native) or restart or inexact:
        raise ValueError(
            f"With {problem.n_rows} rows on a cluster, the solver must be 'native', restart False and inexact False."
        )
    return RemoteSweep(problem, backend, n_hidden, split == "net", max_dca_iter, max_numbers)


def _white_rows(partition: Partition, column: int) -> tuple[FloatArray, FloatArray]:
    return np.ascontiguousarray(partition.Q), partition.white_targets(column)


@dataclass(slots=True, eq=False)
class RemoteSweep:
    """A sweep whose passes over the rows are rounds."""

    problem: RemoteWhitened
    backend: Native
    n_hidden: int
    net_split: bool
    max_dca_iter: int
    max_numbers: int

    def run(
        self,
        V: FloatArray,
        alpha: FloatArray,
        order: NDArray[np.intp],
        seconds: float,
        kinks: FloatArray | None = None,
    ) -> Tally:
        """See `Sweep.run`."""
        problem, partitions = self.problem, self.problem.partitions
        common, queries = (problem.column, self.n_hidden, next(_sweep_numbers)), list[FloatArray]()

        def run_pass(query: FloatArray) -> FloatArray:
            """Return the concatenated results of all partitions.

            Queries refer to earlier ones, so partitions keep a state. Partitions that were loaded again repeat all
            passes of this sweep in a second round.
            """
            results = partitions.map(_run_pass, *common, len(queries), query)
            queries.append(query)
            incomplete = [number for number, result in enumerate(results) if result is None]
            if incomplete:
                again = partitions.map(_run_all_passes, *common, queries, own=dict.fromkeys(incomplete, ()))
                for number, result in zip(incomplete, again, strict=True):
                    results[number] = result
            return np.concatenate(results)

        n_rows = [n_rows for n_rows, _ in partitions.row_counts]
        kernel = _native.RemoteSweep(n_rows, problem.rank, self.n_hidden, problem.n_outputs, run_pass, self.max_numbers)
        counts = kernel.run(
            alpha=as_columns(alpha),
            gamma=problem.gamma,
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

    def renew(self) -> None:
        """Do nothing: a sweep keeps no state for the next one."""


@dataclass(slots=True, eq=False)
class _SweepState:
    """A partition's part of a sweep: the kernel's object, the number of the sweep, and the passes so far."""

    leaves: _native.SweepLeaves
    sweep: int = -1
    n_passes: int = 0


def _run_pass(
    partition: Partition, column: int, n_hidden: int, sweep: int, n_passes: int, query: FloatArray
) -> FloatArray | None:
    """Run one pass over the rows of a partition; None if it has missed an earlier pass of the same sweep."""
    if partition.n_rows == 0:
        return np.empty(0)

    def make_state() -> _SweepState:
        y, rank = as_columns(partition.white_targets(column)), partition.Q.shape[1]
        return _SweepState(
            _native.SweepLeaves(partition.padded, rank, y, n_hidden, partition.first_leaf, partition.first_row)
        )

    state = partition.cached(("sweep", column, n_hidden), make_state)
    if n_passes == 0:
        state.sweep, state.n_passes = sweep, 0
    if (state.sweep, state.n_passes) != (sweep, n_passes):
        return None
    state.n_passes += 1
    result: FloatArray = state.leaves.answer(query)
    return result


def _run_all_passes(
    partition: Partition, column: int, n_hidden: int, sweep: int, queries: list[FloatArray]
) -> FloatArray | None:
    """Run all passes of a sweep, and return the result of the last one."""
    results = [_run_pass(partition, column, n_hidden, sweep, n, query) for n, query in enumerate(queries)]
    return results[-1]
