"""Colours, style, panels, labels and legends of all plots."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray

# The palette of Okabe and Ito, which is safe for colour-blind readers.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
INK, GREY, PALE = "#222222", "#6e6e6e", "#c4c4c4"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
LINES = ("-", "--", "-.", ":")

# Legends above the panels: size of the text in inches, and spaces in units of the font size.
CHARACTERS_PER_INCH, LEGEND_LINE = 15.5, 0.16
TIGHT_LEGEND = {"borderaxespad": 0.2, "columnspacing": 1.2, "labelspacing": 0.3}

# Above this number, points are drawn as one image within a vector graphic, which would be too large otherwise.
MANY_POINTS = 2000

STYLE = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "axes.linewidth": 0.7,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#ebebeb",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.solid_joinstyle": "round",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "figure.facecolor": "white",
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


@contextmanager
def style() -> Iterator[None]:
    """Use the fonts, lines and spines of the plots in a with statement."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ImportError("Plots need Matplotlib: pip install 'dconnet[plot]'") from error
    with mpl.rc_context(STYLE):
        yield


def make_panels(
    ax: Any, n_panels: int, n_columns: int, size: tuple[float, float], share_y: bool = False
) -> NDArray[Any]:
    """Return the axes of the panels: those given, in a new or given figure, or instead of a single given axes."""
    from matplotlib.figure import Figure

    n_columns = min(n_columns, n_panels)
    n_rows = -(-n_panels // n_columns)
    if ax is None or isinstance(ax, Figure):
        figure: Any = ax
        if ax is None:
            import matplotlib.pyplot as plt

            figure = plt.figure()
        figure.set_size_inches(n_columns * size[0], n_rows * size[1])
        figure.set_layout_engine("constrained")
        return _grid(figure.add_gridspec(n_rows, n_columns), figure, n_panels, share_y)
    if isinstance(ax, (list, tuple, np.ndarray)):
        given = np.array(ax, dtype=object).ravel()
        if len(given) != n_panels:
            raise ValueError(f"There are {n_panels} panels to draw, but ax holds {len(given)} axes.")
        return given
    if n_panels == 1:
        return np.array([ax], dtype=object)
    if ax.get_subplotspec() is None:
        raise ValueError("An axes without a place in a grid cannot be divided. Make it with plt.subplots().")
    ax.set_axis_off()
    return _grid(ax.get_subplotspec().subgridspec(n_rows, n_columns), ax.figure, n_panels, share_y)


def _grid(spec: Any, figure: Any, n_panels: int, share_y: bool) -> NDArray[Any]:
    axes = np.empty(n_panels, dtype=object)
    n_columns = spec.ncols
    for i in range(n_panels):
        shared = axes[0] if share_y and i > 0 else None
        axes[i] = figure.add_subplot(spec[i // n_columns, i % n_columns], sharey=shared)
        if share_y and i % n_columns > 0:
            axes[i].tick_params(labelleft=False)
    return axes


def shorten(name: object, limit: int = 40) -> str:
    """Shorten a name so that it fits below an axis."""
    text = " ".join(str(name).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def label_axes(axis: Any, x: object | None = None, y: object | None = None) -> None:
    """Label the axes with names taken literally: a dollar sign does not start a formula."""
    if x is not None:
        axis.set_xlabel(shorten(x), parse_math=False)
    if y is not None:
        lines = textwrap.wrap(shorten(y, 72), 24, max_lines=2, placeholder="…")
        axis.set_ylabel("\n".join(lines), parse_math=False)


def add_legend(axis: Any, handles: Sequence[Any] | None = None, **options: Any) -> None:
    """Add a legend, if there are entries; their names are taken literally."""
    entries = axis.get_legend_handles_labels()[0] if handles is None else handles
    if not entries:
        return
    for text in axis.legend(handles=entries, **options).get_texts():
        text.set_parse_math(False)


def legend_above(axes: NDArray[Any], handles: Sequence[Any], ax: Any) -> None:
    """Add a legend above the panels, where it hides nothing: to our own figure, or to the first panel of the user's.

    ``ax`` is the argument of ``plot``; a Figure counts as our own.
    """
    from matplotlib.figure import Figure

    figure, is_ours = axes[0].figure, ax is None or isinstance(ax, Figure)
    # A legend that is wider than the user's first panel would make a layout engine shrink the others.
    width = figure.get_figwidth() * (1.0 if is_ours else axes[0].get_position().width)
    n_fitting = max(int(CHARACTERS_PER_INCH * width / (max(len(each.get_label()) for each in handles) + 6)), 1)
    n_lines = -(-len(handles) // n_fitting)
    options: dict[str, Any] = {"ncols": -(-len(handles) // n_lines), **TIGHT_LEGEND}
    if is_ours:
        figure.set_figheight(figure.get_figheight() + LEGEND_LINE * n_lines)
        add_legend(figure, handles, loc="outside upper center", **options)
    else:
        height = 1.07 if axes[0].get_title() else 1.0
        add_legend(axes[0], handles, loc="lower left", bbox_to_anchor=(0.0, height), **options)


def scatter(axis: Any, x: FloatArray, y: FloatArray, **options: Any) -> None:
    """Draw points."""
    marks: dict[str, Any] = {"s": 14, "linewidths": 0.0, "zorder": 2, "rasterized": len(x) > MANY_POINTS}
    axis.scatter(x, y, **{**marks, **options})


def log_y(axis: Any) -> None:
    """Make the y-axis logarithmic, with plain numbers as labels if they are few and short."""
    if not np.isfinite(axis.dataLim.minposy):
        return  # nothing positive was drawn
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    if high < 300.0 * low and low > 1e-4 and high < 1e4:
        from matplotlib.ticker import LogLocator, NullFormatter

        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter(NullFormatter())


def line_styles(n: int) -> list[dict[str, Any]]:
    """Return colours and dashes that distinguish n lines."""
    n_colours = len(COLOURS)
    return [{"color": COLOURS[i % n_colours], "linestyle": LINES[i // n_colours % len(LINES)]} for i in range(n)]


def add_margins(values: FloatArray, share: float = 0.04) -> tuple[FloatArray, FloatArray]:
    """Return minimum and maximum of each column, with a margin of a share of their distance."""
    low, high = values.min(axis=0), values.max(axis=0)
    margin = np.where(high > low, share * (high - low), np.maximum(np.abs(low), 1.0) * share)
    return low - margin, high + margin
