"""Convergence plots: subgradients, steps, the first epochs beside Adam's, and the estimated order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet.certificates import DecayLaw, convergence_order, decay_law, stationarity, subgradient
from dconnet.convex.backend import get_backend
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.descent import Descent, Options, State
from dconnet.training.early_stopping import Validation
from reproduction import adam, printed
from reproduction.datasets import TABLES, Parts, Split
from reproduction.experiment import Experiment, Findings
from reproduction.fits import FitSettings, start_of, tuned_dcon
from reproduction.page import MISSING, Picture, Section, Sheet, Table, number
from reproduction.store import Result, round_floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EARLY = 30
LAST = ("subgradient", "net_stationarity", "step_norm")  # curves whose last values stand in the sheet
LAW = tuple(field.name for field in fields(DecayLaw))
KEPT = 60  # epochs beyond the early ones whose figures are kept, evenly spaced in their logarithm


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
    """Limits of the long fit; those of the tuning of gamma before it are inherited.

    Attributes
    ----------
    split : int
        The split that is looked at.
    convergence_tol : float
        Distance of two iterates at which DCON has converged.
    convergence_epochs : int
        Limit on its epochs.
    """

    split: int = 0
    convergence_tol: float = 1e-6
    convergence_epochs: int = 20_000


class WatchedDescent(Descent):
    """Algorithm 1 that keeps the networks of some epochs."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.networks: dict[int, Network] = {}

    def record(self, state: State, validation: Validation | None) -> None:
        """Append to the history, and keep the network if the epoch is among those to be kept."""
        super().record(state, validation)
        if state.n_epochs in _kept_epochs(self.options.max_epochs or 0):
            self.networks[state.n_epochs] = state.network


def _kept_epochs(limit: int) -> set[int]:
    """All early epochs, and others further and further apart."""
    later = np.geomspace(EARLY, max(limit, EARLY), KEPT)
    return {*range(EARLY + 1), *(round(float(epoch)) for epoch in later)}


def cells(plan: Plan) -> list[Cell]:
    """Every dataset with every width."""
    return [Cell(*pair) for pair in itertools.product(plan.datasets, plan.widths)]


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Tune gamma as for Table 1, then descend until nothing moves."""
    parts = Split(cell.dataset, settings.split).load(home, settings)
    gamma = tuned_dcon(parts, cell.n_hidden, settings.split, "paper", settings)["gamma"]
    problem = Problem(*parts.training, gamma)
    start = start_of(parts, cell.n_hidden, settings.split)
    options = Options(
        max_epochs=settings.convergence_epochs, max_dca_iter=settings.max_dca_iter, tol=settings.convergence_tol
    )
    descent = WatchedDescent(problem, get_backend("native"), options, np.random.default_rng(settings.split))
    solution = descent.run(start)
    networks = descent.networks | {solution.n_epochs: solution.network}
    history, kept = solution.history, sorted(networks)
    order = convergence_order(history.objective)
    errors = [k for k in sorted({0, *kept}) if k + 1 < len(order.errors)]
    curves = {
        "step_norm": history.step_norm[kept].tolist(),
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
        "order_early": _or_none(order.early),
        "order": _or_none(order.all),
        "epoch": kept,
    }
    return {**figures, **round_floats(curves, digits=4)}


def _or_none(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _adam_mse(parts: Parts, start: Network, seed: int) -> list[float]:
    """The first epochs of full-batch Adam from the same start, with the parameters that lead lowest."""
    members = [member for member in adam.full_grid() if member.batch_size == adam.ALL_ROWS]
    schedule = adam.Schedule(EARLY, patience=None)
    trained = adam.train(members, start, parts.training, parts.validation, schedule, seed, record=True)
    return min((one.curve for one in trained), key=lambda curve: curve[-1])


def show(findings: Findings, section: Section) -> None:
    """Tables of orders and of laws of decay, and a page of plots."""
    results = findings.results()
    section.parts += [
        "Algorithm 1 with gamma chosen as for Table 1, on one split, until two iterates are closer than the tolerance "
        "or the limit of epochs is reached. The order is the slope of ln e(k+1) over ln e(k), where e(k) is the "
        f"distance of RegLoss from its last value; the paper prints {printed.CONVERGENCE_ORDER:.3f} for DS1 with N=30 "
        "and calls all others linear but DS5, where it stops after finitely many epochs. "
        "Adam takes full batches, and of the paper's learning and decay rates and "
        "penalties those that lead lowest in 30 epochs.",
        _table(results),
        f"An order of one does not show linear convergence: e(k) = 1/k has it, too. So two laws are fitted to what "
        f"RegLoss loses in an epoch, after the first {EARLY}: exponential, exp(-ck), which is linear convergence, and "
        "a power of the epoch, under which e(k) falls like k^-p. This needs no limit. The misfit is the root mean "
        "square of what a law leaves of the natural logarithm.",
        _laws(results),
        Picture(
            "convergence", "Convergence plots; colours are the widths.", lambda f: _draw(f, results), _size(results)
        ),
    ]
    header = ("dataset", "n_hidden", "gamma", "epochs", "status", "order_early", "order", *LAST, *LAW)
    section.sheets = [Sheet("convergence", header, list(_lines(results)))]


def _table(results: dict[Cell, Result]) -> Table:
    rows = []
    for dataset in TABLES:
        row = [dataset]
        for n in printed.WIDTHS:
            found = results.get(Cell(dataset, n))
            row += [MISSING] * 3 if found is None else _summary(found)
        rows.append(row)
    header = ["", *(text for n in printed.WIDTHS for text in (f"N={n}: epochs", "order, first 30", "order, all"))]
    return Table("Epochs until convergence (> where it was not reached), and estimated orders:", header, rows)


def law_of(found: Result, skip: int = EARLY) -> DecayLaw:
    """The law of decay by the errors that were kept, which begin with the start, epoch 0."""
    epochs = sorted({0, *found["epoch"]})[: len(found["error"])]
    return decay_law(found["error"], epochs=epochs, skip=skip)


def _laws(results: dict[Cell, Result]) -> Table:
    """The law of every fit; power laws with their exponents."""
    rows = []
    for dataset in TABLES:
        row = [dataset]
        for n in printed.WIDTHS:
            found = results.get(Cell(dataset, n))
            row += [MISSING] * 3 if found is None else _law(law_of(found))
        rows.append(row)
    header = ["", *(text for n in printed.WIDTHS for text in (f"N={n}: law", "misfits", "p"))]
    caption = "The law that fits better, the misfits of the exponential and of the power law, and the exponent p:"
    return Table(caption, header, rows)


def _law(law: DecayLaw) -> list[str]:
    misfits = f"{number(law.exponential_misfit)}, {number(law.power_misfit)}"
    return [law.name, misfits, number(law.exponent if law.name == "power" else None)]


def _summary(found: Result) -> list[str]:
    reached = "" if found["status"] == "CONVERGED" else "> "
    return [f"{reached}{found['epochs']}", number(found["order_early"], 3), number(found["order"], 3)]


def _lines(results: dict[Cell, Result]) -> Iterator[list[object]]:
    for cell in sorted(results):
        found = results[cell]
        names = ("gamma", "epochs", "status", "order_early", "order")
        last = (found[name][-1] if name in found else None for name in LAST)
        law = law_of(found)
        yield [
            cell.dataset,
            cell.n_hidden,
            *(found[name] for name in names),
            *last,
            *(getattr(law, name) for name in LAW),
        ]


def _found(results: dict[Cell, Result]) -> list[str]:
    return sorted({cell.dataset for cell in results})


def _size(results: dict[Cell, Result]) -> tuple[float, float]:
    return 13.0, 2.4 * len(_found(results))


def _draw(figure: Figure, results: dict[Cell, Result]) -> None:
    """Four plots a dataset, as in the paper: subgradient, step, first epochs, order."""
    rows = figure.subplots(len(_found(results)), 4, squeeze=False)
    for dataset, axes in zip(_found(results), rows, strict=True):
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
    axes[0].loglog(found["epoch"], found["subgradient"], label=label, **style)
    axes[1].loglog(found["epoch"], found["step_norm"], **style)
    axes[2].semilogy(found["dcon_mse"], **style)
    axes[2].semilogy(found["adam_mse"], linestyle="--", **style)
    axes[3].loglog(found["error"], found["next_error"], linestyle="", marker=".", markersize=3, color=colour)


EXPERIMENT = Experiment(
    name="convergence",
    title="Convergence plots",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS1", "DS4"), (10, 30)),
    settings=Settings(),
    quick_settings=Settings(max_epochs=100, convergence_epochs=1000),
    cells=cells,
    datasets=lambda plan: plan.datasets,
    run=run,
    show=show,
)
