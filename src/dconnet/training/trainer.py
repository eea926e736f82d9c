"""The choice of an algorithm with its options and its convex backend."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dconnet.convex.programme import Backend, get_backend
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.dc import KINKS, SPLITS
from dconnet.training.descent import Descent, Options
from dconnet.training.growth import GrowingDescent
from dconnet.training.row_work import DataProblem

# The DC split of the accelerated algorithm.
ACCELERATED_SPLIT = "net"


@dataclass(frozen=True)
class PaperAlgorithm:
    """Settings of Algorithm 1 of the paper, for the parameter ``algorithm`` of the estimators.

    Parameters
    ----------
    split : {"paper", "net"}, default="paper"
        How the problem of a neuron is split into a difference of convex functions.
    kinks : {"random", "active"}, default="random"
        Which subgradient of the concave part to take where rows are at the kink of a neuron. Every choice is valid.
        "random" takes the one at weights moved by a little in a random direction, drawn once for each visit of a
        neuron; "active" counts all such rows as active. "random" ends at lower losses with the split of the paper.
    solver : str or Backend, default="native"
        Solver of the convex programmes: "native", "reference", "admm", "parallel", a solver of qpsolvers such as
        "osqp" or "clarabel", or a configured backend such as ``ADMM(device="cuda")``.
    max_dca_iter : int, default=50
        Maximum number of DCA iterations for a neuron in an epoch.
    restart : bool, default=False
        Whether to check, when the DCA of a neuron has converged, that the point is a local minimum of its problem, and
        to restart from a better subgradient if it is not. ``history_`` counts the restarts.
    inexact : bool, default=False
        Whether to solve each convex programme only until its duality gap is a tenth of the decrease so far. Only the
        solvers "native" and "reference" can stop early; the others always solve to tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor, PaperAlgorithm
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> model = DCONRegressor(2, gamma=0.1, algorithm=PaperAlgorithm(split="net", restart=True), random_state=0)
    >>> model.fit(X, np.abs(X[:, 0])).status_.name
    'CONVERGED'
    """

    split: str = "paper"
    kinks: str = "random"
    solver: str | Backend = "native"
    max_dca_iter: int = 50
    restart: bool = False
    inexact: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.solver, type) or not (isinstance(self.solver, str) or hasattr(self.solver, "prepare")):
            raise ValueError(f"solver must be a name or an object with a method prepare, got {self.solver!r}.")
        for name, names in (("split", SPLITS), ("kinks", KINKS)):
            if getattr(self, name) not in names:
                raise ValueError(f"{name} must be one of {sorted(names)}, got {getattr(self, name)!r}.")
        for name in ("restart", "inexact"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}.")
        n_iter = self.max_dca_iter
        if not isinstance(n_iter, (int, np.integer)) or isinstance(n_iter, bool) or n_iter < 1:
            raise ValueError(f"max_dca_iter must be a positive integer, got {n_iter!r}.")


@dataclass(frozen=True, slots=True)
class Trainer:
    """An algorithm, its convex backend and its options: everything of a descent but the problem."""

    algorithm: type[Descent]
    backend: Backend
    options: Options

    @classmethod
    def of(cls, algorithm: str | PaperAlgorithm, *, grows: bool = False, **limits: Any) -> Trainer:
        """Return the trainer for the parameter ``algorithm`` of an estimator and limits of `Options`."""
        if algorithm == "accelerated":
            kind = GrowingDescent if grows else AcceleratedDescent
            return cls(kind, get_backend("native"), Options(ACCELERATED_SPLIT, **limits))
        if grows:
            raise ValueError(
                'n_hidden="auto" needs algorithm="accelerated": the algorithm of the paper has a fixed width.'
            )
        paper = algorithm if isinstance(algorithm, PaperAlgorithm) else PaperAlgorithm()
        settings = {field.name: getattr(paper, field.name) for field in fields(paper) if field.name != "solver"}
        return cls(Descent, get_backend(paper.solver), Options(**settings, **limits))

    def with_time_limit(self, seconds: float) -> Trainer:
        """Return the trainer with a limit on the time of each network; infinity for none."""
        return replace(self, options=replace(self.options, max_seconds=None if seconds == np.inf else seconds))

    def with_threads(self, n_threads: int, n_networks: int) -> Trainer:
        """Return the trainer for networks that are trained at once: remaining threads share the rows of each."""
        return replace(self, options=replace(self.options, n_threads=max(1, n_threads // n_networks)))

    def descent(self, problem: DataProblem, rng: np.random.Generator) -> Descent:
        """Return a descent on a problem."""
        return self.algorithm(problem, self.backend, self.options, rng)
