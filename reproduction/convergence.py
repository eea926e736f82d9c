"""Convergence plots: subgradients, steps, the first epochs beside Adam's, and the estimated order."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.certificates import DecayLaw, convergence_order, decay_law, stationarity, subgradient
from dconnet.convex.programme import get_backend
from dconnet.model.network import Network
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.training.dc import NeuronProblem
from dconnet.training.descent import Descent, Options, State
from dconnet.training.kinks import Kinks
from dconnet.training.observer import Validation
from reproduction import adam, printed
from reproduction.datasets import TABLES, Parts, Split
from reproduction.experiment import Experiment, Findings, full_grid
from reproduction.fits import FitSettings, start_of, tuned_dcon
from reproduction.page import MISSING, Picture, Section, Table, number, sheet_of_cells
from reproduction.store import Result, round_floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EARLY = 30
LAST = ("printed", "subgradient", "net_stationarity", "step_norm")  # curves whose last values are in the sheet
DELTA = 1e-6  # the paper's width of a kink
LAW = tuple(field.name for field in fields(DecayLaw))
N_LATER = 60  # recorded epochs after the early ones, evenly spaced in their logarithm


@dataclass(frozen=True, order=True)
class Cell:
    """One dataset and width."""

    dataset: str
    n_hidden: int


@dataclass(frozen=True)
class Plan:
    """Which cells to compute."""

    datasets: tuple[str, ...] = TABLES
    widths: tuple[int, ...] = printed.WIDTHS


@dataclass(frozen=True)
class Settings(FitSettings):
    """The split, and tolerance and epoch limit of the long fit; those of the tuning of gamma are inherited."""

    split: int = 0
    convergence_tol: float = 1e-6
    convergence_epochs: int = 20_000


class RecordingDescent(Descent):
    """Algorithm 1 with a record of the networks and printed subgradients of some epochs."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.networks: dict[int, Network] = {}
        self.printed: dict[int, float] = {}
        self.last: tuple[FloatArray, FloatArray, Any] | None = None

    def step(self, state: State) -> None:
        """Take one epoch; remember where it began, and in which order the neurons follow."""
        order = copy.deepcopy(self.rng).permutation(len(state.alpha))
        self.last = (state.V.copy(), state.alpha, order)
        super().step(state)

    def record(self, state: State, validation: Validation | None) -> None:
        """Append to the history, and record selected epochs."""
        super().record(state, validation)
        if state.n_epochs in _recorded_epochs(self.options.max_epochs or 0):
            self.record_network(state)

    def record_network(self, state: State) -> None:
        """Record the network and the printed subgradient of the last epoch."""
        assert self.last is not None
        self.networks[state.n_epochs] = state.network
        self.printed[state.n_epochs] = printed_subgradient(self.problem, *self.last, state.V, state.alpha)

    def solution(self, state: State, validation: Validation | None) -> Any:
        """Return the result, after the last epoch is recorded."""
        self.record_network(state)
        return super().solution(state, validation)


def printed_subgradient(
    white: WhitenedProblem, V: FloatArray, alpha: FloatArray, order: Any, V_after: FloatArray, alpha_after: FloatArray
) -> float:
    """Return the norm of Figure 1a as the paper computes it, from the weights before and after an epoch.

    After the DC subproblem of each neuron, the shares of its rows with a preactivation below `DELTA` are chosen so that
    the vector is shortest; at the end of the epoch the norm is that of the vector with these shares. The gradient in
    the output weights is zero there.
    """
    hidden = np.maximum(white.preactivations(V), 0.0)
    to_data = white.whitening.to_white.T / white.total_weight
    shares = {}
    for unit in order:
        v = V_after[unit]
        hidden[:, unit] = np.maximum(white.Q @ v, 0.0)
        neuron = NeuronProblem.of(white, hidden, alpha, int(unit), "paper")
        z, share = white.Q @ v, np.ones(len(hidden))
        free = (np.abs(z) < DELTA) & (neuron.beta_g > 0.0)
        if free.any():
            share[free] = 0.0
            fixed = to_data @ _vector(neuron, v, share)
            kinks = Kinks(fixed, white.Q[free] @ to_data.T, neuron.beta_g[free], np.zeros(free.sum()), size=1.0)
            share[free] = kinks.slopes(np.zeros(free.sum())) / neuron.beta_g[free]
        shares[unit] = share
    at_end = ((NeuronProblem.of(white, hidden, alpha_after, int(unit), "paper"), unit) for unit in order)
    return float(np.linalg.norm([to_data @ _vector(neuron, V_after[unit], shares[unit]) for neuron, unit in at_end]))


def _vector(neuron: NeuronProblem, v: FloatArray, share: FloatArray) -> FloatArray:
    """Return the paper's element of the subdifferential of a neuron, in whitened coordinates."""
    z = neuron.design @ v
    slope = np.where(z > -DELTA, share * neuron.beta_g, 0.0) - np.where(z >= 0.0, neuron.beta_h, 0.0)
    return neuron.design.T @ (slope + 2.0 * neuron.curvature * np.maximum(z, 0.0)) + 2.0 * neuron.gamma * v


def _recorded_epochs(limit: int) -> set[int]:
    """Return all early epochs, and later ones at growing distances."""
    later = np.geomspace(EARLY, max(limit, EARLY), N_LATER)
    return {*range(EARLY + 1), *(round(float(epoch)) for epoch in later)}


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Tune gamma as for Table 1, then descend until the iterates converge."""
    parts = Split(cell.dataset, settings.split).load(home, settings)
    gamma = tuned_dcon(parts, cell.n_hidden, settings.split, "paper", settings)["gamma"]
    problem = Problem(*parts.training, gamma)
    start = start_of(parts, cell.n_hidden, settings.split)
    limits: dict[str, Any] = {"max_dca_iter": settings.max_dca_iter, "max_epochs": settings.convergence_epochs}
    options = Options(kinks="random", tol=settings.convergence_tol, **limits)
    descent = RecordingDescent(problem, get_backend("native"), options, np.random.default_rng(settings.split))
    solution = descent.run(start)
    networks, history, kept = descent.networks, solution.history, sorted(descent.networks)
    order = convergence_order(history.objective)
    errors = [k for k in sorted({0, *kept}) if k + 1 < len(order.errors)]
    curves = {
        "step_norm": history.step_norm[kept].tolist(),
        "printed": [descent.printed[k] for k in kept],
        "subgradient": [float(subgradient(problem, networks[k], "paper").norm) for k in kept],
        "net_stationarity": [float(stationarity(problem, networks[k], "net").norm) for k in kept],
        "error": order.errors[errors].tolist(),
        "next_error": order.errors[np.array(errors, dtype=int) + 1].tolist(),
        "dcon_mse": history.mse[: EARLY + 1].tolist(),
        "adam_mse": _adam_mse(parts, start, settings.split),
    }
    figures = {
        "gamma": gamma,
        "epochs": solution.n_epochs,
        "status": solution.status.name,
        "order_early": order.early if np.isfinite(order.early) else None,
        "order": order.all if np.isfinite(order.all) else None,
        "epoch": kept,
    }
    return {**figures, **round_floats(curves, digits=4)}


def _adam_mse(parts: Parts, start: Network, seed: int) -> list[float]:
    """Return the curve of full-batch Adam from the same start that ends lowest over the grid."""
    members = [member for member in adam.full_grid() if member.batch_size == adam.ALL_ROWS]
    schedule = adam.Schedule(EARLY, patience=None)
    trained = adam.train(members, start, parts.training, parts.validation, schedule, seed, record=True)
    return min((one.curve for one in trained), key=lambda curve: curve[-1])


def show(findings: Findings, section: Section) -> None:
    """Show tables of orders and of laws of decay, and a page of plots."""
    results = findings.results()
    datasets = {cell.dataset for cell in results}
    section.parts += [
        _table_by_width(
            results,
            "Epochs until convergence (> where it was not reached), and estimated orders:",
            ("epochs", "order, first 30", "order, all"),
            _summarise,
        ),
        _table_by_width(
            results,
            "The law that fits better, the misfits of the exponential and of the power law, and the exponent p:",
            ("law", "misfits", "p"),
            lambda found: _describe_law(law_of(found)),
        ),
        _table_by_width(
            results,
            "Norm of the subgradient after the last epoch: computed as in the paper, and the shortest of its form:",
            ("as printed", "shortest"),
            lambda found: [f"{found[name][-1]:.0e}" if name in found else MISSING for name in LAST[:2]],
        ),
        Picture(
            "convergence",
            "Convergence plots; colours are the widths.",
            lambda f: _draw(f, results),
            (13.0, 2.4 * len(datasets)),
        ),
    ]
    last = {
        cell: found | {name: found[name][-1] for name in LAST if name in found} | asdict(law_of(found))
        for cell, found in results.items()
    }
    names = ("gamma", "epochs", "status", "order_early", "order", *LAST, *LAW)
    section.sheets = [sheet_of_cells("convergence", last, names)]


def _table_by_width(
    results: dict[Cell, Result], caption: str, titles: tuple[str, ...], describe: Callable[[Result], list[str]]
) -> Table:
    rows = []
    for dataset in TABLES:
        found = [results.get(Cell(dataset, n)) for n in printed.WIDTHS]
        texts = [[MISSING] * len(titles) if one is None else describe(one) for one in found]
        rows.append([dataset, *itertools.chain(*texts)])
    header = ["", *(text for n in printed.WIDTHS for text in (f"N={n}: {titles[0]}", *titles[1:]))]
    return Table(caption, header, rows)


def law_of(found: Result, skip: int = EARLY) -> DecayLaw:
    """Fit a law of decay to the recorded errors, which begin with the start, epoch 0."""
    epochs = sorted({0, *found["epoch"]})[: len(found["error"])]
    return decay_law(found["error"], epochs=epochs, skip=skip)


def _describe_law(law: DecayLaw) -> list[str]:
    misfits = f"{number(law.exponential_misfit)}, {number(law.power_misfit)}"
    return [law.name, misfits, number(law.exponent if law.name == "power" else None)]


def _summarise(found: Result) -> list[str]:
    reached = "" if found["status"] == "CONVERGED" else "> "
    return [f"{reached}{found['epochs']}", number(found["order_early"], 3), number(found["order"], 3)]


def _draw(figure: Figure, results: dict[Cell, Result]) -> None:
    """Draw four plots per dataset, as in the paper: subgradient, step, first epochs, order."""
    datasets = sorted({cell.dataset for cell in results})
    rows = figure.subplots(len(datasets), 4, squeeze=False)
    for dataset, axes in zip(datasets, rows, strict=True):
        for k, n in enumerate(printed.WIDTHS):
            found = results.get(Cell(dataset, n))
            if found is not None:
                _draw_one(axes, found, f"C{k}", f"N={n}")
        titles = ("norm of subgradient", "distance of iterates", "MSE: DCON —, Adam - -", "ln e(k+1) over ln e(k)")
        for axis, title in zip(axes, titles, strict=True):
            axis.set_title(f"{dataset}: {title}", fontsize=9)
            axis.tick_params(labelsize=7)
    rows[0][0].legend(fontsize=7)


def _draw_one(axes: Any, found: Result, colour: str, label: str) -> None:
    style = {"color": colour, "linewidth": 1.0}
    axes[0].loglog(found["epoch"], found.get("printed", found["subgradient"]), label=label, **style)
    axes[1].loglog(found["epoch"], found["step_norm"], **style)
    axes[2].semilogy(found["dcon_mse"], **style)
    axes[2].semilogy(found["adam_mse"], linestyle="--", **style)
    axes[3].loglog(found["error"], found["next_error"], linestyle="", marker=".", markersize=3, color=colour)


EXPERIMENT = Experiment(
    name="convergence",
    title="Figures 1, 2 and 4 to 12: convergence",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS1", "DS4"), (10, 30)),
    settings=Settings(),
    quick_settings=Settings(max_epochs=100, convergence_epochs=1000),
    cells=full_grid(Cell),
    run=run,
    show=show,
)
