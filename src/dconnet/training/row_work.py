"""Interfaces between a descent and its problem, whose rows are in this process or on a cluster.

A descent handles networks and a few numbers. Sums over the rows go through `WhitenedProblem.merge_leaves`, sweeps and
searches through `RowWork`; `LocalRows` lets the kernel compute on arrays of this process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.convex.native import as_columns, pad_rows
from dconnet.convex.programme import Backend
from dconnet.model.network import Network
from dconnet.model.problem import WhitenedProblem
from dconnet.training.sweep import Sweep, make_sweep


class Explorer(Protocol):
    """A search for a low minimum, as `_native.Explorer`."""

    def explore(
        self, evaluations: int, seconds: float, V: FloatArray, alpha: FloatArray
    ) -> tuple[int, int, int, int, int]:
        """Continue from these weights, and write the best weights into the same arrays."""
        ...

    @property
    def settled(self) -> bool:
        """Whether all hops were tried without success."""
        ...

    def state(self) -> list[int]:
        """Return the state on which the next call depends."""
        ...

    def restore(self, state: list[int]) -> None:
        """Restore a state that `state` returned."""
        ...


class DataProblem(Protocol):
    """A problem in the coordinates of the data, as a descent uses it; see `Problem`."""

    @property
    def gamma(self) -> float: ...  # noqa: D102
    @property
    def shrinkage(self) -> float: ...  # noqa: D102
    @property
    def intercept(self) -> float | FloatArray: ...  # noqa: D102
    @property
    def n_features(self) -> int: ...  # noqa: D102
    @property
    def output_shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def zero_objective(self) -> float: ...  # noqa: D102
    @property
    def whitened(self) -> WhitenedProblem: ...  # noqa: D102
    def mse(self, network: Network) -> float: ...  # noqa: D102
    def objective(self, network: Network) -> float: ...  # noqa: D102
    def parameters(self, network: Network) -> FloatArray: ...  # noqa: D102
    def with_gamma(self, gamma: float) -> DataProblem: ...  # noqa: D102


class RowWork(Protocol):
    """Sweeps and searches on the rows of one problem."""

    def sweep(
        self, backend: Backend, n_hidden: int, *, split: str, max_dca_iter: int, restart: bool, inexact: bool
    ) -> Sweep:
        """Return an object that sweeps over the neurons."""
        ...

    def explorer(self, n_hidden: int, **plan: Any) -> Explorer:
        """Return a search with these settings, for targets and gamma in units of ``problem.unit``."""
        ...

    def spent(self) -> dict[str, int]:
        """Return rounds and traffic since the last call, as fields of `Epoch`."""
        ...


class LocalRows:
    """Computations on rows of this process, by several threads."""

    def __init__(self, problem: WhitenedProblem, n_threads: int) -> None:
        self.problem, self.team = problem, _native.Team(n_threads)

    def sweep(
        self, backend: Backend, n_hidden: int, *, split: str, max_dca_iter: int, restart: bool, inexact: bool
    ) -> Sweep:
        """See `RowWork.sweep`."""
        return make_sweep(
            self.problem, backend, n_hidden, split, max_dca_iter, restart=restart, inexact=inexact, team=self.team
        )

    def explorer(self, n_hidden: int, **plan: Any) -> Explorer:
        """See `RowWork.explorer`."""
        problem = self.problem
        y = as_columns(problem.y / problem.unit)
        design = pad_rows(problem.Q)
        return _native.Explorer(design, problem.rank, y, problem.gamma / problem.unit, n_hidden, team=self.team, **plan)

    def spent(self) -> dict[str, int]:
        """See `RowWork.spent`; there is no traffic in one process."""
        return {}


def rows_of(problem: WhitenedProblem, n_threads: int) -> RowWork:
    """Return the computations on the rows of a problem, by threads of this process or on the cluster with the rows."""
    on_cluster: Callable[[int], RowWork] | None = getattr(problem, "rows", None)
    return LocalRows(problem, n_threads) if on_cluster is None else on_cluster(n_threads)
