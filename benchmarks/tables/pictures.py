"""Pictures of the comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from tables.datasets import BY_NAME, CHOOSING, CLASSIFICATION, NUMERIC, REGRESSION, REPORTING
from tables.standings import UNLIMITED, Duel, Ranks, compare, compare_all, select

OURS_COLOUR, RIVAL_COLOUR = "tab:red", "0.25"
MARKERS = "osD^v"
TICKS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0)
TASKS = (REGRESSION, CLASSIFICATION)
PANELS = [(half, task) for half in (CHOOSING, REPORTING) for task in TASKS]


def draw_ranks(figure: Figure, found: pd.DataFrame, ours: str) -> None:
    """Draw critical-difference diagrams: a bar joins methods that do not differ."""
    for axes, (half, task) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        ranks = Ranks.of(select(found, half=half, task=task), UNLIMITED)
        n_sets, n_methods = ranks.by_set.shape
        axes.set_title(f"{task}, {half} half ({n_sets} sets)", fontsize=10)
        axes.axis("off")
        if n_sets and n_methods > 1:
            _draw_diagram(axes, ranks, ours)


def _draw_diagram(axes: Axes, ranks: Ranks, ours: str) -> None:
    means, black = ranks.means, {"color": "black"}
    n_methods, difference = len(means), ranks.critical_difference
    axes.set_xlim(0.0, n_methods + 1.0)
    axes.set_ylim(-0.5 * n_methods - 1.6, 2.2)
    axes.hlines(0.0, 1.0, n_methods, linewidth=1, **black)
    for tick in range(1, n_methods + 1):
        axes.vlines(tick, 0.0, 0.2, linewidth=1, **black)
        axes.text(tick, 0.35, str(tick), ha="center", fontsize=8)
    axes.hlines(1.5, 1.0, 1.0 + difference, linewidth=2.5, **black)
    axes.text(1.0, 1.7, f"critical difference {difference:.2f}", fontsize=8)
    for order, (method, mean) in enumerate(means.items()):
        # The better half of the names is on the left, the other half on the right.
        is_left = order < (n_methods + 1) // 2
        level = -1.3 - 0.5 * (order if is_left else n_methods - 1 - order)
        end, offset = (0.9, -0.05) if is_left else (n_methods + 0.1, 0.05)
        colour = OURS_COLOUR if method == ours else RIVAL_COLOUR
        axes.plot([mean, mean, end], [0.0, level, level], color=colour, linewidth=1)
        style = {"ha": "right" if is_left else "left", "va": "center", "color": colour, "fontsize": 9}
        axes.text(end + offset, level, f"{method} {mean:.2f}", **style)
    for order, (low, high) in enumerate(ranks.cliques):
        axes.hlines(-0.3 - 0.22 * order, low - 0.05, high + 0.05, linewidth=2.5, **black)


def draw_sets(figure: Figure, shown: Sequence[Duel], ours: str) -> None:
    """Draw our loss over that of some rivals for every dataset."""
    axes = figure.subplots()
    means = pd.concat([duel.sets for duel in shown], axis=1).mean(axis=1)
    order = list(means.sort_values(ascending=False).index)
    for duel, marker in zip(shown, MARKERS, strict=False):
        places = [order.index(name) for name in duel.sets.index]
        axes.plot(np.exp(duel.sets), places, marker, label=duel.rival, markersize=4, alpha=0.8)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log")
    _set_few_ticks(axes.xaxis)
    labels = [f"{name} *" if BY_NAME[name].kind == NUMERIC else name for name in order]
    axes.set_yticks(range(len(order)), labels, fontsize=8)
    axes.set_ylim(-1, len(order))
    axes.grid(axis="y", color="0.93")
    axes.set_xlabel(f"loss of {ours} over that of the rival")
    axes.legend(loc="best", fontsize=8)


def _set_few_ticks(axis: Axis) -> None:
    low, high = axis.get_view_interval()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def draw_times(figure: Figure, found: pd.DataFrame, ours: str) -> None:
    """Draw loss and CPU time of the rivals over ours; up and to the right is worse."""
    for axes, task in zip(figure.subplots(1, 2), TASKS, strict=True):
        fits = select(found, task=task)
        points = {ours: (1.0, 1.0)} | {
            duel.rival: (1.0 / compare(fits, ours, duel.rival, "cpu").ratio, 1.0 / duel.ratio)
            for duel in compare_all(fits, ours)
        }
        for name, point in points.items():
            colour = OURS_COLOUR if name == ours else RIVAL_COLOUR
            axes.plot(*point, "o", color=colour)
            axes.annotate(name, point, color=colour, fontsize=8, xytext=(4, 4), textcoords="offset points")
        axes.set_title(task, fontsize=10)
        axes.set_xscale("log")
        axes.set_yscale("log")
        _set_few_ticks(axes.yaxis)
        axes.margins(0.12)
        axes.set_xlabel(f"CPU seconds of a fit, as a multiple of those of {ours}")
        axes.set_ylabel(f"loss, as a multiple of that of {ours}")
