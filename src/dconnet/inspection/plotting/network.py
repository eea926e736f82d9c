"""Plot of a network as a function of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dconnet._arrays import FloatArray
from dconnet.inspection.path import chosen_columns
from dconnet.inspection.plotting.canvas import (
    BLUE,
    GREY,
    INK,
    VERMILION,
    label_axes,
    legend_above,
    line_styles,
    make_panels,
    padded,
    scatter,
    shortened,
    style,
)
from dconnet.model.network import Network
from dconnet.model.piecewise import Curve, Hinges, hinges, output_strengths, partial_dependence

MAX_FEATURES = 6
SURFACE = ("#fffbe8", "#cfe3d6", "#86bdd3", "#3d7fb5", "#123f7a")  # pale enough for lines and points on it


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
    offset : float
        Value added to the output, such as the mean of a target that was centred.
    max_points : int
        Maximum number of points of a partial dependence, see `dconnet.model.piecewise.partial_dependence`.

    Attributes
    ----------
    kind_ : {"curve", "map", "partial dependence"}
        Kind of plot.
    curves_ : list of lists of Curve
        ``curves_[i][k]`` is network k as a function of feature ``features_[i]``, with the offset; empty for a map.
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
    feature_names: Sequence[str] | None = None
    target_name: str = "y"
    labels: Sequence[str] | None = None
    offset: float = 0.0
    max_points: int = 4000
    figure_: Any = field(default=None, init=False, repr=False)
    axes_: Any = field(default=None, init=False, repr=False)

    GRID: ClassVar[int] = 201  # values along each side of a map

    def __post_init__(self) -> None:
        n_features = self.X.shape[1]
        if self.feature_names is None:
            self.feature_names = [f"x{i}" for i in range(n_features)]
        if len(self.feature_names) != n_features:
            raise ValueError(f"There are {n_features} features, but {len(self.feature_names)} feature_names.")
        self.kind_ = "partial dependence"
        if self.features is None and n_features <= 2:
            self.kind_ = ("curve", "map")[n_features - 1]
        self.features_ = self._chosen_features()
        self.low_, self.high_ = padded(self.X)
        drawn = self.X if self.kind_ != "curve" else np.vstack([self.X, self.low_, self.high_])
        self.curves_: list[list[Curve]] = []
        if self.kind_ != "map":
            self.curves_ = [[self._curve(network, drawn, i) for network in self.networks] for i in self.features_]
        self.hinges_: list[Hinges] = []
        if self.kind_ != "partial dependence":
            self.hinges_ = [hinges(network, self.low_, self.high_) for network in self.networks]

    def _chosen_features(self) -> list[int]:
        """Return the given features, or those that move the output most."""
        n_features = self.X.shape[1]
        if self.features is not None:
            chosen = [int(i) for i in self.features]
            if not chosen or not all(0 <= i < n_features for i in chosen):
                raise ValueError(f"features must be columns from 0 to {n_features - 1}, at least one, got {chosen}.")
            return chosen
        if n_features <= 2:
            return list(range(n_features))
        order = np.argsort(-input_strengths(self.networks, self.X), kind="stable")
        return [int(i) for i in order[:MAX_FEATURES]]

    def _curve(self, network: Network, X: FloatArray, feature: int) -> Curve:
        curve = partial_dependence(network, X, feature, max_points=self.max_points)
        return Curve(curve.points, curve.values + self.offset, curve.through_breakpoints)

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
        max_points: int = 4000,
        ax: Any = None,
    ) -> Self:
        """Plot the networks of a fitted estimator, those with several outputs as one for each.

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
        max_points : int, default=4000
            Maximum number of points of a partial dependence.
        ax : Axes or array of Axes, optional
            Axes to draw on; a new figure by default.

        Returns
        -------
        NetworkDisplay
        """
        chosen, coding = chosen_columns(estimator, classes), estimator.targets_
        outputs = [network.of_output(k) for network in estimator.networks_ for k in range(network.n_outputs)]
        inputs = validate_data(estimator, X, dtype=np.float64, reset=False)
        targets = None if y is None else coding.columns(y)
        if targets is not None and len(targets) != len(inputs):
            raise ValueError(f"y has {len(targets)} entries, but X has {len(inputs)} rows.")
        names, labels = _feature_names(estimator, feature_names), coding.column_labels
        display = cls(
            [outputs[k] for k in chosen],
            inputs,
            None if targets is None else targets[:, chosen],
            features=None if features is None else [_position(feature, names) for feature in features],
            feature_names=names,
            target_name=target_name if coding.classes is None else "network output",
            labels=None if labels == [""] else [labels[k] for k in chosen],
            max_points=max_points,
        )
        return display.plot(ax=ax)

    @property
    def alt_text(self) -> str:
        """Description of the plot."""
        names = ", ".join(shortened(self.feature_names[i]) for i in self.features_)  # type: ignore[index]
        what = {
            "curve": f"The network as a function of {names}, with its hinges",
            "map": f"Levels of the network over {names}, crossed by the lines along which it bends",
            "partial dependence": f"Partial dependence of the network on {names}",
        }
        return f"{what[self.kind_]}."

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : Axes, array of Axes or Figure, optional
            Axes to draw on; a new figure by default. A single axes is divided into panels; an empty Figure is filled.

        Returns
        -------
        NetworkDisplay
        """
        with style():
            draw = {"curve": self._plot_curve, "map": self._plot_maps, "partial dependence": self._plot_dependences}
            self.axes_ = draw[self.kind_](ax)
        self.figure_ = self.axes_[0].figure
        return self

    def _name(self, feature: int) -> str:
        return self.feature_names[feature]  # type: ignore[index]

    def _plot_curve(self, ax: Any) -> NDArray[Any]:
        axes = make_panels(ax, 1, 1, (4.6, 3.3))
        axis, x = axes[0], self.X[:, 0]
        several = len(self.networks) > 1
        lines = line_styles(len(self.networks)) if several else [{"color": BLUE}]
        for k, (curve, found) in enumerate(zip(self.curves_[0], self.hinges_, strict=True)):
            line = lines[k]
            if self.targets is not None:
                own = self.targets[:, k] > 0.0 if several else slice(None)
                scatter(axis, x[own], self.targets[own, k], color=line["color"] if several else GREY, alpha=0.45)
            label = self.labels[k] if self.labels else "network"
            axis.plot(curve.points, curve.values, label=label, zorder=3, **line)
            at = np.interp(found.places, curve.points, curve.values)
            axis.plot(found.places, at, "o", color="white", mec=line["color"], ms=4.5, mew=1.2, zorder=4)
        label_axes(axis, x=self._name(0), y=self.target_name)
        axis.set_xlim(self.low_[0], self.high_[0])
        legend_above(axes, self._curve_entries(lines), ax)
        return axes

    def _curve_entries(self, lines: list[dict[str, Any]]) -> list[Any]:
        from matplotlib.lines import Line2D

        names = self.labels or ["network"]
        entries = [Line2D([], [], label=name, **line) for name, line in zip(names, lines, strict=True)]
        circle: dict[str, Any] = {"marker": "o", "linestyle": "none"}
        entries.append(Line2D([], [], label="hinges", color="white", mec=INK, ms=4.5, mew=1.2, **circle))
        if self.targets is not None:
            entries.append(Line2D([], [], label="data", color=GREY, alpha=0.6, ms=3.5, mew=0.0, **circle))
        return entries

    def _plot_maps(self, ax: Any) -> NDArray[Any]:
        axes = make_panels(ax, len(self.networks), 3, (3.1, 2.7) if len(self.networks) > 1 else (4.4, 3.5))
        grid = [np.linspace(lo, hi, self.GRID) for lo, hi in zip(self.low_, self.high_, strict=True)]
        inputs = np.column_stack([side.ravel() for side in np.meshgrid(*grid)])
        for k, axis in enumerate(axes):
            levels = (self.networks[k].predict(inputs) + self.offset).reshape(self.GRID, self.GRID)
            self._plot_map(axis, k, grid, levels)
            if self.labels:
                axis.set_title(shortened(self.labels[k]), parse_math=False)
        entries = {handle.get_label(): handle for axis in axes for handle in axis.get_legend_handles_labels()[0]}
        if entries:
            legend_above(axes, list(entries.values()), ax)
        return axes

    def _plot_map(self, axis: Any, k: int, grid: list[FloatArray], levels: FloatArray) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        axis.grid(False)
        filled = axis.contourf(*grid, levels, levels=14, cmap=LinearSegmentedColormap.from_list("sea", SURFACE))
        filled.set_edgecolor("face")  # no hairlines between the levels in vector graphics
        bar = axis.figure.colorbar(filled, ax=axis, pad=0.02)
        bar.outline.set_visible(False)
        label_axes(bar.ax, y=self.target_name)
        if self.targets is not None:
            self._map_points(axis, self.targets[:, k], filled)
        self._map_hinges(axis, self.hinges_[k])
        label_axes(axis, x=self._name(0), y=self._name(1))
        axis.set(xlim=grid[0][[0, -1]], ylim=grid[1][[0, -1]])

    @staticmethod
    def _map_hinges(axis: Any, found: Hinges) -> None:
        from matplotlib.collections import LineCollection

        for sign, dashes, name in ((1, "-", "bends up"), (-1, (0, (4, 2)), "bends down")):
            segments = list(found.places[found.bends * sign > 0.0])
            if segments:
                lines = LineCollection(segments, colors=VERMILION, linewidths=1.3, linestyles=[dashes], zorder=3)
                lines.set_label(name)
                axis.add_collection(lines)

    def _map_points(self, axis: Any, targets: FloatArray, filled: Any) -> None:
        x, y = self.X.T
        edges = {"edgecolors": "black", "linewidths": 0.5}
        if not self.labels:
            # In the colours of the map, so that points with a large error stand out.
            scatter(axis, x, y, c=targets, cmap=filled.cmap, norm=filled.norm, label="data", **edges)
            return
        own = targets > 0.0
        scatter(axis, x[own], y[own], color="black", label="in class", **edges)
        scatter(axis, x[~own], y[~own], color="white", label="others", **edges)

    def _plot_dependences(self, ax: Any) -> NDArray[Any]:
        n_columns = 2 if len(self.features_) == 4 else 3
        axes = make_panels(ax, len(self.features_), n_columns, (2.35, 2.2), share_y=True)
        lines = line_styles(len(self.networks))
        for i, (axis, feature) in enumerate(zip(axes, self.features_, strict=True)):
            for k, curve in enumerate(self.curves_[i]):
                axis.plot(curve.points, curve.values, label=self.labels[k] if self.labels else None, **lines[k])
            # The deciles show where the rows are, and where the curve rests on few of them.
            deciles = np.quantile(self.X[:, feature], np.arange(0.1, 0.95, 0.1))
            axis.plot(deciles, np.zeros(9), "|", color=INK, ms=6, transform=axis.get_xaxis_transform(), clip_on=False)
            first_of_row = axis.get_subplotspec() is None or axis.get_subplotspec().is_first_col()
            label_axes(axis, x=self._name(feature), y=f"mean {self.target_name}" if first_of_row else None)
        if self.labels and len(self.labels) > 1:
            legend_above(axes, axes[0].get_legend_handles_labels()[0], ax)
        return axes


def input_strengths(networks: Sequence[Network], X: FloatArray) -> FloatArray:
    """Bound how much each feature moves the outputs: sum of ``|alpha w|`` times its standard deviation."""
    slopes = sum(output_strengths(network.alpha) @ np.abs(network.W) for network in networks)
    return np.asarray(slopes * X.std(axis=0))


def _feature_names(estimator: Any, given: Sequence[str] | None) -> list[str]:
    seen = getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(estimator.n_features_in_)])
    return [str(name) for name in (seen if given is None else given)]


def _position(feature: int | str, names: list[str]) -> int:
    if not isinstance(feature, str):
        return int(feature)
    if feature not in names:
        raise ValueError(f"There is no feature {feature!r}. The features are: {', '.join(names[:20])}.")
    return names.index(feature)
