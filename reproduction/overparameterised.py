"""Over-parameterised networks: many more neurons than rows, against Adam."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reproduction import adam
from reproduction.datasets import Split
from reproduction.experiment import Experiment, Findings, full_grid
from reproduction.fits import LABELS, FitSettings, dcon, errors, start_of, tuned_adam, tuned_dcon
from reproduction.page import Picture, Section, Sheet, Table, significant
from reproduction.store import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASET = "DS7"
KEPT = 100  # points of a curve


@dataclass(frozen=True, order=True)
class Cell:
    """One width and method."""

    n_hidden: int
    method: str


@dataclass(frozen=True)
class Plan:
    """Which cells to compute."""

    widths: tuple[int, ...] = tuple(2**power for power in range(9, 14))
    methods: tuple[str, ...] = ("paper", "accelerated", "adam")


@dataclass(frozen=True)
class Settings(FitSettings):
    """Limits of the wide networks, none of which the paper states; those of the tuning are inherited.

    The hyper-parameters are chosen with ``tuned_width`` neurons. ``wide_epochs``, ``wide_rounds`` and
    ``wide_adam_epochs`` limit Algorithm 1, the accelerated algorithm and Adam, which has ``wide_patience`` epochs of
    patience with the training error.
    """

    split: int = 0
    tuned_width: int = 30
    wide_epochs: int = 100
    wide_rounds: int = 10
    wide_adam_epochs: int = 5000
    wide_patience: int = 50


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Choose the hyper-parameters with the tuned width, then train the wide network with them."""
    parts = Split(DATASET, settings.split).load(home, settings)
    if cell.method == "adam":
        tuned = tuned_adam(parts, settings.tuned_width, settings.split, settings)
        member = adam.Member(*(tuned[name] for name in ("learning_rate", "beta1", "batch_size", "penalty")))
        schedule = adam.Schedule(
            settings.wide_adam_epochs,
            settings.wide_patience,
            watch_training=True,
            watch_penalty=settings.watch_penalty,
        )
        start = start_of(parts, cell.n_hidden, settings.split)
        began = time.perf_counter()
        (trained,) = adam.train(
            [member], start, parts.training, parts.validation, schedule, settings.split, record=True
        )
        figures = {"epochs": trained.epochs, "seconds": time.perf_counter() - began}
        return errors(trained.network.predict, parts) | figures | thin(trained.curve)
    gamma = tuned_dcon(parts, settings.tuned_width, settings.split, cell.method, settings)["gamma"]
    limits = replace(settings, max_epochs=settings.wide_epochs, accelerated_epochs=settings.wide_rounds)
    began = time.perf_counter()
    model = dcon(parts, cell.n_hidden, settings.split, cell.method, gamma, limits)
    figures = {"epochs": model.n_iter_, "seconds": time.perf_counter() - began, "gamma": gamma}
    return errors(model.predict, parts) | figures | thin(model.history_.mse.tolist())


def thin(curve: list[float]) -> dict[str, list[float]]:
    """Return about a hundred points of a curve, including the first and the last."""
    every = max(1, len(curve) // KEPT)
    kept = sorted({*range(0, len(curve), every), len(curve) - 1})
    return {"curve_epoch": [float(k) for k in kept], "curve": [curve[k] for k in kept]}


def show(findings: Findings, section: Section) -> None:
    """Show errors by width, and the training curves."""
    results = findings.results()
    rows = []
    for cell, found in sorted(results.items()):
        figures = (significant(found["training"]), significant(found["test"]), found["epochs"])
        rows.append([cell.n_hidden, LABELS[cell.method], *figures, significant(found["cell_seconds"])])
    section.parts += [
        Table("MSE, epochs and seconds:", HEADER, rows),
        Picture(
            "overparameterised", "Training MSE over epochs, and test MSE over N.", lambda f: _draw(f, results), (13, 7)
        ),
    ]
    section.sheets = [Sheet("overparameterised", HEADER, rows)]


HEADER = ("N", "method", "training", "test", "epochs", "seconds")


def _draw(figure: Figure, results: dict[Cell, Result]) -> None:
    axes = figure.subplots(2, 3).ravel()
    methods = EXPERIMENT.plan.methods
    for axis, n_hidden in zip(axes, EXPERIMENT.plan.widths, strict=False):
        for k, method in enumerate(methods):
            found = results.get(Cell(n_hidden, method))
            if found is not None:
                axis.loglog(
                    [epoch + 1 for epoch in found["curve_epoch"]], found["curve"], color=f"C{k}", label=LABELS[method]
                )
        axis.set(title=f"training MSE, N={n_hidden}", xlabel="epoch + 1")
    for k, method in enumerate(methods):
        found_cells = [cell for cell in sorted(results) if cell.method == method]
        widths, tests = [cell.n_hidden for cell in found_cells], [results[cell]["test"] for cell in found_cells]
        axes[5].semilogx(widths, tests, marker="o", color=f"C{k}", label=LABELS[method])
    widths = sorted({cell.n_hidden for cell in results})
    highest = max(found["test"] for found in results.values())
    axes[5].set(title="test MSE", xlabel="N", ylim=(0.0, 1.1 * highest))
    axes[5].set_xticks(widths, map(str, widths))
    axes[5].minorticks_off()
    axes[5].legend()


EXPERIMENT = Experiment(
    name="overparameterised",
    title="Figure 15: over-parameterised networks",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan((512,)),
    settings=Settings(),
    quick_settings=Settings(
        max_epochs=100, accelerated_epochs=20, adam_epochs=100, wide_epochs=10, wide_rounds=2, wide_adam_epochs=300
    ),
    cells=full_grid(Cell),
    datasets=lambda plan: (DATASET,),
    run=run,
    show=show,
)
