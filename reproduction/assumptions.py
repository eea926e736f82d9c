"""Count how often the assumptions of the paper's convergence theorem fail in fits on real data.

Assumption 1 is about the data: the design M has full column rank. The others concern every visit to a neuron:

2. the DCA ends at a local minimiser of the subproblem, ∂h ⊆ ∂g there;
3. it ends within the limit of iterations;
4. some ε^h, ε^g in [0, 1], one for each row at its kink, make the subgradient zero where the DCA has ended, and satisfy
   0 ≤ β^g ε^g - β^h ε^h ≤ β^g - β^h with the slopes β at the end of the epoch.

Assumption 4 is checked by a linear programme.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog

from dconnet._arrays import BoolArray, FloatArray, IndexArray
from dconnet.convex.programme import get_backend
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.dc import KINK_TOLERANCE, DCAOutcome, NeuronProblem
from dconnet.training.descent import Descent, Options, State
from dconnet.training.kinks import FLAT, Verdict, at_kink, examine
from dconnet.training.sweep import PythonSweep, Tally
from reproduction import printed
from reproduction.datasets import TABLES, Split
from reproduction.experiment import Experiment, Findings, full_grid
from reproduction.fits import FitSettings, start_of, tuned_dcon
from reproduction.page import MISSING, Section, Table, number, sheet_of_cells
from reproduction.store import Result

DECOMPOSITIONS = ("paper", "net")

CLOSE = 1e-6  # a subgradient below this share of the size of its terms counts as zero


@dataclass(frozen=True, order=True)
class Cell:
    """One dataset and width, and one decomposition into convex parts."""

    dataset: str
    n_hidden: int
    decomposition: str


@dataclass(frozen=True)
class Plan:
    """Which cells to compute."""

    datasets: tuple[str, ...] = TABLES
    widths: tuple[int, ...] = printed.WIDTHS
    decompositions: tuple[str, ...] = DECOMPOSITIONS


@dataclass(frozen=True)
class Settings(FitSettings):
    """The split, and the number of epochs whose visits are examined; gamma is chosen as for Table 1."""

    split: int = 0
    watched_epochs: int = 200


@dataclass
class Counts:
    """Numbers of visits to neurons whose output weight is not zero.

    Attributes
    ----------
    kinked : int
        Visits that ended with rows at their kinks.
    not_local, unclear : int
        Visits that ended where the objective descends (Assumption 2 fails), or where that could not be decided.
    not_ended : int
        Visits whose DCA did not end within its limit (Assumption 3 fails).
    concave : int
        Visits with a concave kink at the end of the epoch, which excludes Assumption 4.
    technical : int
        All visits for which Assumption 4 fails.
    """

    visits: int = 0
    kinked: int = 0
    not_local: int = 0
    unclear: int = 0
    not_ended: int = 0
    concave: int = 0
    technical: int = 0


@dataclass(frozen=True)
class Visit:
    """The subproblem of a neuron with its slopes at the end of its DCA, and the weights there."""

    neuron: NeuronProblem
    v: FloatArray


class WatchedSweep(PythonSweep):
    """A sweep that examines every visit at its end, and all visits of an epoch when the next epoch begins."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.counts = Counts()
        self.last: dict[int, Visit] = {}
        self.ended: list[Visit] = []

    def run(self, V: FloatArray, alpha: FloatArray, order: IndexArray, *limits: Any) -> Tally:
        """Examine the visits of the last epoch, then sweep."""
        self.examine_last_epoch(V, alpha)
        self.ended = []
        tally = super().run(V, alpha, order, *limits)
        self.last = dict(zip(order.tolist(), self.ended, strict=False))
        return tally

    def improve(self, neuron: NeuronProblem, v: FloatArray) -> DCAOutcome:
        """Run the DCA of one neuron, and examine where it ends."""
        outcome = super().improve(neuron, v)
        self.ended.append(Visit(neuron, outcome.v))
        if neuron.curvature > 0.0:
            self.counts.visits += 1
            self.counts.not_ended += not outcome.converged
            verdict = examine(neuron, outcome.v)[0] if outcome.converged else None
            self.counts.not_local += verdict is Verdict.DESCENDS
            self.counts.unclear += verdict is Verdict.NONE_FOUND
        return outcome

    def examine_last_epoch(self, V: FloatArray, alpha: FloatArray) -> None:
        """Compare the visits of the last epoch with the network at its end."""
        hidden = np.maximum(self.problem.preactivations(V), 0.0)
        for unit, visit in self.last.items():
            kinked = at_kink(visit.neuron.design @ visit.v, KINK_TOLERANCE)
            if visit.neuron.curvature == 0.0 or not kinked.any():
                continue
            after = NeuronProblem.of(self.problem, hidden, alpha, unit, self.split)
            self.counts.kinked += 1
            self.counts.concave += bool(np.any(_concave(after)[kinked]))
            self.counts.technical += not has_common_subgradient(visit.neuron, after, visit.v, kinked)


def _concave(neuron: NeuronProblem) -> BoolArray:
    """Return the rows whose net slope is negative by more than rounding."""
    return neuron.beta_g - neuron.beta_h < -FLAT * (neuron.beta_g + neuron.beta_h)


def has_common_subgradient(before: NeuronProblem, after: NeuronProblem, v: FloatArray, kinked: BoolArray) -> bool:
    """Return whether Assumption 4 holds for a neuron with weights ``v`` and the rows ``kinked`` at their kinks.

    ``before`` and ``after`` are the subproblem with the slopes at the end of its DCA and at the end of the epoch.
    """
    if np.any(_concave(after)[kinked]):
        return False
    z = before.design @ v
    bends = np.where((z > 0.0) & ~kinked, before.beta_g - before.beta_h, 0.0)
    smooth = before.design.T @ (bends + 2.0 * before.curvature * np.maximum(z, 0.0)) + 2.0 * before.gamma * v
    rows, count = before.design[kinked].T, int(kinked.sum())  # (rank, kinks)
    of_both = np.hstack([rows * before.beta_g[kinked], -rows * before.beta_h[kinked]])
    # All in units of order one, in which the solver's tolerance of 1e-7 means the same everywhere.
    size = float(np.linalg.norm(smooth) + np.linalg.norm(of_both)) or 1.0
    steepness = (after.beta_g + after.beta_h)[kinked]
    beta_g, beta_h = (beta[kinked] / np.where(steepness > 0.0, steepness, 1.0) for beta in (after.beta_g, after.beta_h))
    slopes = np.hstack([np.diag(beta_g), -np.diag(beta_h)])
    # The unknowns are ε^g, ε^h and the largest entry t of the subgradient, which is to be least.
    loose, tight = np.ones((len(smooth), 1)), np.zeros((count, 1))
    A = np.block([[of_both / size, -loose], [-of_both / size, -loose], [slopes, tight], [-slopes, tight]])
    b = np.concatenate([-smooth / size, smooth / size, np.maximum(beta_g - beta_h, 0.0), np.zeros(count)])
    found = linprog(np.r_[np.zeros(2 * count), 1.0], A, b, bounds=[*[(0.0, 1.0)] * (2 * count), (0.0, None)])
    return found.x is not None and float(found.x[-1]) <= CLOSE


class WatchedDescent(Descent):
    """Algorithm 1 with a watched sweep."""

    def prepare(self, state: State) -> None:
        """Use the sweep that examines visits."""
        self.sweep = WatchedSweep(self.problem, self.backend, self.options.split, self.options.max_dca_iter)


def watch(problem: Problem, start: Network, options: Options, seed: int) -> tuple[Counts, int]:
    """Descend from the start; return the counts and the number of epochs."""
    descent = WatchedDescent(problem, get_backend("native"), options, np.random.default_rng(seed))
    solution = descent.run(start)
    white, sweep = problem.whitened, descent.sweep
    assert isinstance(sweep, WatchedSweep)
    sweep.examine_last_epoch(white.whiten(solution.network), white.output_weights(solution.network))
    return sweep.counts, solution.n_epochs


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Choose gamma as for Table 1, then watch the first epochs."""
    parts = Split(cell.dataset, settings.split).load(home, settings)
    gamma = tuned_dcon(parts, cell.n_hidden, settings.split, "paper", settings)["gamma"]
    problem = Problem(*parts.training, gamma)
    limits: dict[str, Any] = {"max_dca_iter": settings.max_dca_iter, "max_epochs": settings.watched_epochs}
    options = Options(cell.decomposition, kinks="random", tol=settings.tol, **limits)
    counts, epochs = watch(problem, start_of(parts, cell.n_hidden, settings.split), options, settings.split)
    n_columns = problem.X.shape[1] + 1
    return {"gamma": gamma, "epochs": epochs, "missing_rank": n_columns - problem.whitened.whitening.rank} | asdict(
        counts
    )


COUNTS = tuple(each.name for each in fields(Counts))


def show(findings: Findings, section: Section) -> None:
    """Show the shares of the visits in which an assumption fails."""
    results = findings.results()
    section.parts += [
        _table(results, name) for name in DECOMPOSITIONS if any(cell.decomposition == name for cell in results)
    ]
    section.sheets = [sheet_of_cells("assumptions", results, ("gamma", "epochs", "missing_rank", *COUNTS))]


HEADER = ("", "N", "visits", "at kinks, %", "2 fails, %", "undecided, %", "3 fails, %", "4 fails, %", "concave, %")


def _table(results: dict[Cell, Result], decomposition: str) -> Table:
    rows = [
        [cell.dataset, cell.n_hidden, found["visits"], *_shares(found)]
        for cell, found in sorted(results.items())
        if cell.decomposition == decomposition
    ]
    names = {"paper": "the paper's split", "net": "the net split"}
    return Table(f"Algorithm 1 with {names[decomposition]}:", HEADER, rows)


def _shares(found: Result) -> list[str]:
    names = ("kinked", "not_local", "unclear", "not_ended", "technical", "concave")
    return [number(100.0 * found[name] / found["visits"], 1) if found["visits"] else MISSING for name in names]


EXPERIMENT = Experiment(
    name="assumptions",
    title="Assumptions of the convergence theorem",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS1",), (10,)),
    settings=Settings(),
    quick_settings=Settings(max_epochs=100, watched_epochs=20),
    cells=full_grid(Cell),
    run=run,
    show=show,
)
