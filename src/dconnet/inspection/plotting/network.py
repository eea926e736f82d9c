"""A plot of networks as functions of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dconnet._arrays import FloatArray
from dconnet.inspection.plotting.canvas import (
    BLUE,
    GREY,
    INK,
    VERMILION,
    add_margins,
    label_axes,
    legend_above,
    line_styles,
    make_panels,
    scatter,
    shorten,
    style,
)
from dconnet.inspection.selection import select_outputs
from dconnet.model.network import Network
from dconnet.model.piecewise import Curve, Hinges, hinges, output_strengths, partial_dependence

MAX_FEATURES = 6
# Pale enough for lines and points on the map.
MAP_COLOURS = ("#fffbe8", "#cfe3d6", "#86bdd3", "#3d7fb5", "#123f7a")
# Values along each side of a map.
MAP_SIZE = 201


@dataclass(eq=False)
class NetworkDisplay:
    """A network as a function of its inputs.

    With one input, the function is drawn over the data, with its hinges. With two inputs, it is a contour plot, crossed
    by the hinges: the lines along which the neurons bend the function. With more inputs, or if ``features`` is given,
    it is the partial dependence on single features: the mean prediction over all rows when that feature is set to a
    value. The partial dependence is piecewise linear and exact: its breakpoints are computed, not sampled.

    Parameters
    ----------
    networks : sequence of Network
        One network, or one for each class of a classifier, each with one output: see `Network.of_output`.
    X : array of shape (n_samples, n_features)
        Data to draw or to average over.
    targets : array of shape (n_samples, n_networks) or None
        Targets of each network, drawn as points; None draws no points.
    features : sequence of int or None
        Columns whose partial dependence is drawn; None chooses the plot by the number of inputs.
    feature_names : sequence of str or None
        Names of the columns, x0, x1, ... by default.
    target_name : str
        Name of the output, including its unit.
    labels : sequence of str or None
        Names of the networks.

    Attributes
    ----------
    kind_ : {"curve", "map", "partial dependence"}
        Kind of plot.
    curves_ : list of lists of Curve
        ``curves_[i][k]`` is network k as a function of feature ``features_[i]``; empty for a map.
    hinges_ : list of Hinges
        Hinges of each network within the plot; empty for a partial dependence.
    features_ : list of int
        Columns that are drawn.
    figure_, axes_ : Figure, array of Axes
        The last plot.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.inspection.plotting import NetworkDisplay
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> model = DCONRegressor(n_hidden=3, gamma=0.01, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> display = NetworkDisplay.from_estimator(model, X, np.abs(X[:, 0]))
    >>> display.kind_
    'curve'
    """

    networks: Sequence[Network]
    X: FloatArray
    targets: FloatArray | None = None
    features: Sequence[int] | None = None
    feature_names: Sequence[str] = ()
    target_name: str = "y"
    labels: Sequence[str] | None = None
    figure_: Any = field(default=None, init=False, repr=False)
    axes_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        n_features = self.X.shape[1]
        self.feature_names = self.feature_names or [f"x{i}" for i in range(n_features)]
        if len(self.feature_names) != n_features:
            raise ValueError(f"There are {n_features} features, but {len(self.feature_names)} feature_names.")
        if self.features is not None:
            self.kind_, self.features_ = "partial dependence", [int(i) for i in self.features]
            if not self.features_ or not all(0 <= i < n_features for i in self.features_):
                raise ValueError(
                    f"features must be columns from 0 to {n_features - 1}, at least one, got {self.features_}."
                )
        elif n_features <= 2:
            self.kind_, self.features_ = ("curve", "map")[n_features - 1], list(range(n_features))
        else:
            order = np.argsort(-input_strengths(self.networks, self.X), kind="stable")
            self.kind_, self.features_ = "partial dependence", order[:MAX_FEATURES].tolist()
        self.low_, self.high_ = add_margins(self.X)
        rows = np.vstack([self.X, self.low_, self.high_]) if self.kind_ == "curve" else self.X
        self.curves_: list[list[Curve]] = []
        if self.kind_ != "map":
            self.curves_ = [[partial_dependence(each, rows, i) for each in self.networks] for i in self.features_]
        self.hinges_: list[Hinges] = []
        if self.kind_ != "partial dependence":
            self.hinges_ = [hinges(network, self.low_, self.high_) for network in self.networks]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        features: Sequence[int | str] | None = None,
        feature_names: Sequence[str] | None = None,
        target_name: str = "y",
        classes: Sequence[object] | None = None,
        ax: Any = None,
    ) -> Self:
        """Plot the networks of a fitted estimator; each of several outputs counts as a network.

        Parameters
        ----------
        estimator : DCONRegressor or DCONClassifier
            A fitted estimator.
        X : array-like of shape (n_samples, n_features)
            Data to draw or to average over.
        y : array-like of shape (n_samples,), optional
            Targets or class labels of these data, drawn as points.
        features : sequence of int or str, optional
            Columns or names of features whose partial dependence is drawn. By default, the hinges of a network with
            one or two inputs, and otherwise the partial dependence on the six features that move the output most.
        feature_names : sequence of str, optional
            By default, the names seen during fit.
        target_name : str, default="y"
            Name of the output of a regressor, including its unit.
        classes : sequence of labels, optional
            Classes whose networks are drawn; all by default.
        ax : Axes or array of Axes, optional
            Axes to draw on; a new figure by default.
        """
        selected, coding = select_outputs(estimator, classes), estimator.targets_
        outputs = [network.of_output(k) for network in estimator.networks_ for k in range(network.n_outputs)]
        inputs = validate_data(estimator, X, dtype=np.float64, reset=False)
        targets = None if y is None else coding.columns(y)
        if targets is not None and len(targets) != len(inputs):
            raise ValueError(f"y has {len(targets)} entries, but X has {len(inputs)} rows.")
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(inputs.shape[1])])
        names, labels = [str(name) for name in feature_names], coding.column_labels
        unknown = [feature for feature in features or () if isinstance(feature, str) and feature not in names]
        if unknown:
            raise ValueError(f"There is no feature {unknown[0]!r}. The features are: {', '.join(names[:20])}.")
        display = cls(
            [outputs[k] for k in selected],
            inputs,
            None if targets is None else targets[:, selected],
            features=None if features is None else [names.index(f) if isinstance(f, str) else f for f in features],
            feature_names=names,
            target_name=target_name if coding.classes is None else "network output",
            labels=None if labels == [""] else [labels[k] for k in selected],
        )
        return display.plot(ax=ax)

    @property
    def alt_text(self) -> str:
        """Description of the plot."""
        names = ", ".join(shorten(self.feature_names[i]) for i in self.features_)
        return {
            "curve": f"The network as a function of {names}, with its hinges.",
            "map": f"Contours of the network over {names}, crossed by the lines along which it bends.",
            "partial dependence": f"Partial dependence of the network on {names}.",
        }[self.kind_]

    def plot(self, ax: Any = None) -> Self:
        """Draw on axes, an array of axes, or an empty Figure; by default, in a new figure. A single axes is divided."""
        with style():
            draw = {"curve": self._plot_curve, "map": self._plot_maps, "partial dependence": self._plot_dependences}
            self.axes_ = draw[self.kind_](ax)
        self.figure_ = self.axes_[0].figure
        return self

    def _plot_curve(self, ax: Any) -> NDArray[Any]:
        from matplotlib.lines import Line2D

        axes = make_panels(ax, 1, 1, (4.6, 3.3))
        axis, x, names = axes[0], self.X[:, 0], self.labels or ["network"]
        is_alone = len(self.networks) == 1
        lines = [{"color": BLUE}] if is_alone else line_styles(len(self.networks))
        for k, (curve, found, line) in enumerate(zip(self.curves_[0], self.hinges_, lines, strict=True)):
            if self.targets is not None:
                own = slice(None) if is_alone else self.targets[:, k] > 0.0
                scatter(axis, x[own], self.targets[own, k], color=GREY if is_alone else line["color"], alpha=0.45)
            axis.plot(curve.points, curve.values, label=names[k], zorder=3, **line)
            at = np.interp(found.places, curve.points, curve.values)
            axis.plot(found.places, at, "o", color="white", mec=line["color"], ms=4.5, mew=1.2, zorder=4)
        label_axes(axis, x=self.feature_names[0], y=self.target_name)
        axis.set_xlim(self.low_[0], self.high_[0])
        circle: dict[str, Any] = {"marker": "o", "linestyle": "none"}
        entries = [Line2D([], [], label=name, **line) for name, line in zip(names, lines, strict=True)]
        entries.append(Line2D([], [], label="hinges", color="white", mec=INK, ms=4.5, mew=1.2, **circle))
        if self.targets is not None:
            entries.append(Line2D([], [], label="data", color=GREY, alpha=0.6, ms=3.5, mew=0.0, **circle))
        legend_above(axes, entries, ax)
        return axes

    def _plot_maps(self, ax: Any) -> NDArray[Any]:
        axes = make_panels(ax, len(self.networks), 3, (3.1, 2.7) if len(self.networks) > 1 else (4.4, 3.5))
        for k, axis in enumerate(axes):
            self._plot_map(axis, k)
            if self.labels:
                axis.set_title(shorten(self.labels[k]), parse_math=False)
        entries = {handle.get_label(): handle for axis in axes for handle in axis.get_legend_handles_labels()[0]}
        if entries:
            legend_above(axes, list(entries.values()), ax)
        return axes

    def _plot_map(self, axis: Any, k: int) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.colors import LinearSegmentedColormap

        grid = np.linspace(self.low_, self.high_, MAP_SIZE)
        inputs = np.column_stack([side.ravel() for side in np.meshgrid(*grid.T)])
        values = self.networks[k].predict(inputs).reshape(MAP_SIZE, MAP_SIZE)
        axis.grid(False)
        filled = axis.contourf(*grid.T, values, levels=14, cmap=LinearSegmentedColormap.from_list("sea", MAP_COLOURS))
        filled.set_edgecolor("face")  # no hairlines between the levels in vector graphics
        bar = axis.figure.colorbar(filled, ax=axis, pad=0.02)
        bar.outline.set_visible(False)
        label_axes(bar.ax, y=self.target_name)
        if self.targets is not None:
            edges, (x, y), own = {"edgecolors": "black", "linewidths": 0.5}, self.X.T, self.targets[:, k] > 0.0
            if self.labels:
                scatter(axis, x[own], y[own], color="black", label="in class", **edges)
                scatter(axis, x[~own], y[~own], color="white", label="others", **edges)
            else:
                # In the colours of the map, a point with a large error is easy to see.
                scatter(axis, x, y, c=self.targets[:, k], cmap=filled.cmap, norm=filled.norm, label="data", **edges)
        found = self.hinges_[k]
        for sign, dashes, name in ((1, "-", "bends up"), (-1, (0, (4, 2)), "bends down")):
            segments = list(found.places[found.bends * sign > 0.0])
            if segments:
                lines = LineCollection(segments, colors=VERMILION, linewidths=1.3, linestyles=[dashes], zorder=3)
                lines.set_label(name)
                axis.add_collection(lines)
        label_axes(axis, x=self.feature_names[0], y=self.feature_names[1])
        axis.set(xlim=grid[[0, -1], 0], ylim=grid[[0, -1], 1])

    def _plot_dependences(self, ax: Any) -> NDArray[Any]:
        n_columns = 2 if len(self.features_) == 4 else 3
        axes = make_panels(ax, len(self.features_), n_columns, (2.35, 2.2), share_y=True)
        lines = line_styles(len(self.networks))
        for i, (axis, feature) in enumerate(zip(axes, self.features_, strict=True)):
            for k, curve in enumerate(self.curves_[i]):
                axis.plot(curve.points, curve.values, label=self.labels[k] if self.labels else None, **lines[k])
            # The deciles show where the rows are, and where the curve is based on few of them.
            deciles = np.quantile(self.X[:, feature], np.arange(0.1, 0.95, 0.1))
            axis.plot(deciles, np.zeros(9), "|", color=INK, ms=6, transform=axis.get_xaxis_transform(), clip_on=False)
            is_first_of_row = axis.get_subplotspec() is None or axis.get_subplotspec().is_first_col()
            label_axes(axis, x=self.feature_names[feature], y=f"mean {self.target_name}" if is_first_of_row else None)
        if self.labels and len(self.labels) > 1:
            legend_above(axes, axes[0].get_legend_handles_labels()[0], ax)
        return axes


def input_strengths(networks: Sequence[Network], X: FloatArray) -> FloatArray:
    """Bound how much each feature moves the outputs: sum of ``|alpha w|`` times its standard deviation."""
    slopes = sum(output_strengths(network.alpha) @ np.abs(network.W) for network in networks)
    return np.asarray(slopes * X.std(axis=0))
