"""What a descent needs of a problem, whose rows are in this process or on a cluster.

A descent handles networks and a few numbers. Sums over the rows go through `WhitenedProblem.merge_leaves`, sweeps and
searches through `RowWork`.
"""

from __future__ import annotations

from typing import Any, Protocol

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.convex.native import as_columns, pad_rows
from dconnet.convex.programme import Backend
from dconnet.model.network import Network
from dconnet.model.problem import WhitenedProblem
from dconnet.training.sweep import Sweep, make_sweep


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


class RowWork:
    """Sweeps and searches on the rows of a problem in this process, by several threads."""

    def __init__(self, problem: WhitenedProblem, n_threads: int) -> None:
        self.problem, self.team = problem, _native.Team(n_threads)

    def sweep(self, backend: Backend, n_hidden: int, **options: Any) -> Sweep:
        """Return an object that sweeps over the neurons, with options of `make_sweep`."""
        return make_sweep(self.problem, backend, n_hidden, **options, team=self.team)

    def explorer(self, n_hidden: int, **plan: Any) -> _native.Explorer:
        """Return a search for a low minimum, for targets and gamma in units of ``problem.unit``."""
        problem = self.problem
        y = as_columns(problem.y / problem.unit)
        design = pad_rows(problem.Q)
        return _native.Explorer(design, problem.rank, y, problem.gamma / problem.unit, n_hidden, team=self.team, **plan)

    def spent(self) -> dict[str, int]:
        """Return rounds and traffic since the last call, as fields of `Epoch`; there are none in one process."""
        return {}


def rows_of(problem: WhitenedProblem, n_threads: int) -> RowWork:
    """Return the computations on the rows of a problem, by threads of this process or on the cluster with the rows."""
    on_cluster = getattr(problem, "rows", None)
    return RowWork(problem, n_threads) if on_cluster is None else on_cluster(n_threads)
