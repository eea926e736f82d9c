"""Pictures of the standings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from tables.datasets import BY_NAME, CHOOSING, CLASSIFICATION, NUMERIC, REGRESSION, REPORTING
from tables.standings import Duel, Ranks, duel, duels, everywhere, part

OURS_COLOUR, RIVAL_COLOUR = "tab:red", "0.25"
MARKERS = "osD^v"
TICKS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0)
TASKS = (REGRESSION, CLASSIFICATION)
PANELS = [(half, task) for half in (CHOOSING, REPORTING) for task in TASKS]


def draw_ranks(figure: Figure, found: pd.DataFrame, ours: str) -> None:
    """Critical-difference diagrams: a bar joins methods that do not differ."""
    for axes, (half, task) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        ranks = Ranks.of(part(found, half=half, task=task), everywhere())
        n_sets, n_methods = ranks.by_set.shape
        axes.set_title(f"{task}, {half} half ({n_sets} sets)", fontsize=10)
        axes.axis("off")
        if n_sets and n_methods > 1:
            _draw_ranks(axes, ranks, ours)


def _draw_ranks(axes: Axes, ranks: Ranks, ours: str) -> None:
    means = ranks.means
    size = len(means)
    axes.set_xlim(0.0, size + 1.0)
    axes.set_ylim(-0.5 * size - 1.6, 2.2)
    axes.hlines(0.0, 1.0, size, color="black", linewidth=1)
    for tick in range(1, size + 1):
        axes.vlines(tick, 0.0, 0.2, color="black", linewidth=1)
        axes.text(tick, 0.35, str(tick), ha="center", fontsize=8)
    _draw_ruler(axes, ranks.critical_difference)
    for order, (method, mean) in enumerate(means.items()):
        _draw_method(axes, str(method), mean, order, size, ours)
    for order, (low, high) in enumerate(ranks.cliques):
        axes.hlines(-0.3 - 0.22 * order, low - 0.05, high + 0.05, color="black", linewidth=2.5)


def _draw_ruler(axes: Axes, difference: float) -> None:
    axes.hlines(1.5, 1.0, 1.0 + difference, color="black", linewidth=2.5)
    axes.text(1.0, 1.7, f"critical difference {difference:.2f}", fontsize=8)


def _draw_method(axes: Axes, method: str, mean: float, order: int, size: int, ours: str) -> None:
    """The better half of the names stands on the left, the other one on the right."""
    left = order < (size + 1) // 2
    level = -1.3 - 0.5 * (order if left else size - 1 - order)
    end = 0.9 if left else size + 0.1
    colour = OURS_COLOUR if method == ours else RIVAL_COLOUR
    axes.plot([mean, mean, end], [0.0, level, level], color=colour, linewidth=1)
    label = f"{method} {mean:.2f}"
    axes.text(
        end + (-0.05 if left else 0.05),
        level,
        label,
        ha="right" if left else "left",
        va="center",
        color=colour,
        fontsize=9,
    )


def draw_sets(figure: Figure, shown: Sequence[Duel], ours: str) -> None:
    """For every dataset our loss over that of some rivals."""
    axes = figure.subplots()
    order = pd.concat([one.sets for one in shown], axis=1).mean(axis=1).sort_values(ascending=False).index
    for one, marker in zip(shown, MARKERS, strict=False):
        _draw_duel(axes, one, list(order), marker)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    _few_ticks(axes.xaxis)
    axes.set_yticks(
        range(len(order)), [f"{name} *" if BY_NAME[name].kind == NUMERIC else name for name in order], fontsize=8
    )
    axes.set_ylim(-1, len(order))
    axes.grid(axis="y", color="0.93")
    axes.set_xlabel(f"loss of {ours} over that of the rival")
    axes.legend(loc="best", fontsize=8)


def _draw_duel(axes: Axes, one: Duel, order: list[str], marker: str) -> None:
    places = [order.index(name) for name in one.sets.index]
    axes.plot(np.exp(one.sets), places, marker, label=one.rival, markersize=4, alpha=0.8)


def _few_ticks(axis: Axis) -> None:
    """Plain numbers, and not too many, on an axis of ratios."""
    low, high = axis.get_view_interval()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def draw_times(figure: Figure, found: pd.DataFrame, ours: str) -> None:
    """Loss and CPU time of the rivals over ours; up and to the right is worse."""
    for axes, task in zip(figure.subplots(1, 2), TASKS, strict=True):
        fits = part(found, task=task)
        _draw_point(axes, ours, (1.0, 1.0), OURS_COLOUR)
        for one in duels(fits, ours):
            point = (1.0 / duel(fits, ours, one.rival, "cpu").ratio, 1.0 / one.ratio)
            _draw_point(axes, one.rival, point, RIVAL_COLOUR)
        axes.set_title(task, fontsize=10)
        axes.set_xscale("log")
        axes.set_yscale("log")
        _few_ticks(axes.yaxis)
        axes.margins(0.12)
        axes.set_xlabel(f"CPU seconds of a fit, as a multiple of those of {ours}")
        axes.set_ylabel(f"loss, as a multiple of that of {ours}")


def _draw_point(axes: Axes, name: str, point: tuple[float, float], colour: str) -> None:
    axes.plot(*point, "o", color=colour)
    axes.annotate(name, point, color=colour, fontsize=8, xytext=(4, 4), textcoords="offset points")
