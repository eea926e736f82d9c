"""Sweeps over the neurons of a network whose rows are with the workers.

Where rows are many, the driver of the kernel runs here, and its passes over the rows are rounds: programmes are solved
over the rows near their kinks, which come here, and the others enter through sums. Where rows are few, they all come.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.convex.backend import Backend
from dconnet.convex.native import Native, by_output
from dconnet.dask.cluster import MOST_NUMBERS
from dconnet.dask.part import OutOfTurn
from dconnet.model.problem import WhitenedProblem
from dconnet.model.whitening import Whitening
from dconnet.training.sweep import Sweep, Tally, make_sweep

if TYPE_CHECKING:
    from dconnet.dask.problem import RemoteWhitened


def sweep_of(
    problem: RemoteWhitened,
    backend: Backend,
    n_hidden: int,
    *,
    split: str,
    max_dca_iter: int,
    restart: bool,
    inexact: bool,
) -> Sweep:
    """The sweep that suits the number of rows.

    Raises
    ------
    ValueError
        If rows are many, and the options are not for sweeps over rounds.
    """
    if not _native.has_far_rows(problem.n_rows, problem.rank):
        gathered = _gathered(problem)
        return make_sweep(gathered, backend, n_hidden, split, max_dca_iter, restart=restart, inexact=inexact)
    if not isinstance(backend, Native) or restart or inexact:
        raise ValueError(
            f"With {problem.n_rows} rows on a cluster, the solver must be 'native', restart False and inexact False."
        )
    return RemoteSweep(problem, backend, n_hidden, split == "net", max_dca_iter)


def _gathered(problem: RemoteWhitened) -> WhitenedProblem:
    """The problem with its rows."""
    Q, y = zip(*problem.parts.ask("all_rows", problem.column), strict=True)
    plain = problem.plain
    whitening = Whitening(np.concatenate(Q), plain.whitening.to_white, plain.whitening.from_white)
    return WhitenedProblem(whitening, np.concatenate(y), plain.gamma, plain.total_weight)


_numbers = count()


@dataclass(slots=True, eq=False)
class _Passes:
    """The passes of one sweep over the rows: rounds of questions, of which parts must have answered all before."""

    problem: RemoteWhitened
    n_hidden: int
    sweep: int
    asked: list[FloatArray] = field(default_factory=list)

    def ask(self, questions: FloatArray) -> FloatArray:
        """The answers of all parts, one after the other; one round, and another one if a part was made anew."""
        parts, common = self.problem.parts, (self.problem.column, self.n_hidden, self.sweep)
        answers = parts.ask("sweep_answer", *common, len(self.asked), questions)
        self.asked.append(questions)
        forgetful = [number for number, answer in enumerate(answers) if isinstance(answer, OutOfTurn)]
        if forgetful:
            again = parts.ask("sweep_answers", *common, self.asked, own=dict.fromkeys(forgetful, ()))
            for number, answer in zip(forgetful, again, strict=True):
                answers[number] = answer
        return np.concatenate(answers)


@dataclass(slots=True, eq=False)
class RemoteSweep:
    """A sweep whose passes over the rows are rounds."""

    problem: RemoteWhitened
    backend: Native
    n_hidden: int
    net_split: bool
    max_dca_iter: int

    def run(
        self,
        V: FloatArray,
        alpha: FloatArray,
        order: NDArray[np.intp],
        seconds: float,
        kinks: FloatArray | None = None,
    ) -> Tally:
        """See `Sweep.run`."""
        problem = self.problem
        passes = _Passes(problem, self.n_hidden, next(_numbers))
        n_rows = [n_rows for n_rows, _ in problem.parts.counts]
        kernel = _native.RemoteSweep(n_rows, problem.rank, self.n_hidden, problem.n_outputs, passes.ask, MOST_NUMBERS)
        told = kernel.run(
            alpha=by_output(alpha),
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
        return Tally(*told)

    def renew(self) -> None:
        """Nothing to forget: one sweep leaves nothing to the next."""
