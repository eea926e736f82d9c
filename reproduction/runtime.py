"""Run times of DCON and Adam over the number of samples and of random Fourier features."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.estimators import DCONRegressor
from dconnet.training.initialization import xavier
from reproduction import adam
from reproduction.datasets import load_mnist
from reproduction.experiment import Experiment, Findings, full_grid
from reproduction.page import MISSING, Picture, Section, Table, sheet_of_cells, significant
from reproduction.store import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, order=True)
class Cell:
    """One size of the data."""

    n_samples: int
    n_features: int


@dataclass(frozen=True)
class Plan:
    """Which cells to compute; the paper shows only the ends of its axes."""

    samples: tuple[int, ...] = (50, 100, 200, 400, 700, 1000)
    features: tuple[int, ...] = (5, 10, 20, 30, 40, 50)


@dataclass(frozen=True)
class Settings:
    """Data and limits.

    ``n_hidden``, ``gamma`` and ``epochs`` are those of the paper, which does not state the target: here one digit
    against all others. A member of Adam's grid stops after ``adam_epochs`` if it has not reached DCON's error.
    """

    n_hidden: int = 10
    gamma: float = 0.01
    epochs: int = 30
    digit: int = 8
    adam_epochs: int = 1000
    seed: int = 0


def load_data(cell: Cell, settings: Settings, home: Path) -> tuple[FloatArray, FloatArray]:
    """Return random Fourier features of random images, and the sign of the digit."""
    from sklearn.kernel_approximation import RBFSampler

    images, _ = load_mnist(28, home)
    rows = np.random.default_rng(settings.seed).permutation(len(images.digits))[: cell.n_samples]
    chosen = images[rows]
    sampler = RBFSampler(gamma="scale", n_components=cell.n_features, random_state=settings.seed)
    return sampler.fit_transform(chosen.X), chosen.signs(settings.digit)


def run(cell: Cell, settings: Settings, home: Path) -> Result:
    """Time DCON, then every member of Adam's grid on its own until its training error is as low."""
    X, y = load_data(cell, settings, home)
    start = xavier(X.shape[1], settings.n_hidden, np.random.default_rng(settings.seed))
    options: dict[str, Any] = {"gamma": settings.gamma, "scale": False, "init": start}
    options["random_state"] = settings.seed
    paper = DCONRegressor(settings.n_hidden, algorithm="paper", max_epochs=settings.epochs, tol=0.0, **options)
    accelerated = DCONRegressor(settings.n_hidden, **options)
    for model in (paper, accelerated):
        model.fit(X, y)
    goal = float(paper.history_.mse[-1])
    schedule = adam.Schedule(settings.adam_epochs, patience=None, watch_training=True, goal=goal)
    adam_seconds, reached = [], []
    for member in adam.full_grid():
        began = time.perf_counter()
        (trained,) = adam.train([member], start, (X, y), (X, y), schedule, settings.seed)
        adam_seconds.append(time.perf_counter() - began)
        reached.append(trained.reached)
    return {
        "mse": goal,
        "seconds": float(paper.history_.seconds[-1]),
        "accelerated_mse": float(accelerated.history_.mse[-1]),
        "accelerated_seconds": float(accelerated.history_.seconds[-1]),
        "adam_seconds": adam_seconds,
        "adam_reached": reached,
    }


def _seconds_to_goal(found: Result, average: Callable[[list[float]], Any]) -> float:
    """Average the seconds of the members of Adam's grid that reached the goal; NaN if none did."""
    pairs = zip(found["adam_seconds"], found["adam_reached"], strict=True)
    reached = [seconds for seconds, is_reached in pairs if is_reached]
    return float(average(reached)) if reached else float("nan")


MEASURES: dict[str, Callable[[Result], float]] = {
    "Algorithm 1, seconds": lambda found: found["seconds"],
    "Adam, best seconds": lambda found: _seconds_to_goal(found, min),
    "Adam, median seconds of those that arrive": lambda found: _seconds_to_goal(found, np.median),
    "Adam, average seconds, cap included": lambda found: float(np.mean(found["adam_seconds"])),
    "Adam's best over Algorithm 1": lambda found: _seconds_to_goal(found, min) / found["seconds"],
    "Adam's total over Algorithm 1, cap included": lambda found: sum(found["adam_seconds"]) / found["seconds"],
    "share of Adam's grid that arrives": lambda found: float(np.mean(found["adam_reached"])),
    "accelerated, seconds until converged": lambda found: found["accelerated_seconds"],
}


def show(findings: Findings, section: Section) -> None:
    """Show heat maps, and a summary below them."""
    results = findings.results()
    section.parts += [
        Picture(
            "runtime",
            "Run times over samples and features; white where no member of Adam's grid arrives.",
            lambda f: _draw(f, results),
            (17.0, 7.0),
        ),
        _summary(results),
    ]
    names = ("mse", "seconds", "accelerated_mse", "accelerated_seconds")
    measured = {c: found | {name: of(found) for name, of in MEASURES.items()} for c, found in results.items()}
    section.sheets = [sheet_of_cells("runtime", measured, (*names, *MEASURES))]


def _summary(results: dict[Cell, Result]) -> Table:
    rows = []
    for title, measure in MEASURES.items():
        values = [value for found in results.values() if np.isfinite(value := measure(found))]
        figures = [significant(of(values)) for of in (np.min, np.median, np.max)] if values else [MISSING] * 3
        rows.append([title, len(values), *figures])
    return Table("Over all sizes, or those where a member arrives:", ("", "sizes", "least", "median", "largest"), rows)


def _draw(figure: Figure, results: dict[Cell, Result]) -> None:
    samples, features = (sorted({getattr(cell, name) for cell in results}) for name in ("n_samples", "n_features"))
    axes = figure.subplots(2, 4).ravel()
    for axis, (title, measure) in zip(axes, MEASURES.items(), strict=True):
        grid = np.full((len(features), len(samples)), np.nan)
        for cell, found in results.items():
            grid[features.index(cell.n_features), samples.index(cell.n_samples)] = measure(found)
        image = axis.imshow(grid, origin="lower", aspect="auto", cmap="viridis")
        for (row, column), value in np.ndenumerate(grid):
            if np.isfinite(value):
                colour = "black" if image.norm(value) > 0.6 else "white"
                axis.text(column, row, significant(value, 2), ha="center", va="center", fontsize=7, color=colour)
        axis.set_title(title, fontsize=10)
        axis.set_xticks(range(len(samples)), samples)
        axis.set_yticks(range(len(features)), features)
        axis.set(xlabel="samples", ylabel="features")
        figure.colorbar(image, ax=axis)


EXPERIMENT = Experiment(
    name="runtime",
    title="Figures 13 and 14: run times",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan((50, 400), (5, 30)),
    settings=Settings(),
    quick_settings=Settings(adam_epochs=100),
    cells=full_grid(Cell),
    datasets=lambda plan: ("MNIST",),
    run=run,
    show=show,
)
