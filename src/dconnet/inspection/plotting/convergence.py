"""A plot of the convergence of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray
from dconnet.certificates import Trajectory, convergence_order, subgradient
from dconnet.inspection.plotting.canvas import (
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    add_legend,
    legend_above,
    line_styles,
    log_y,
    make_panels,
    style,
)
from dconnet.inspection.replay import replay
from dconnet.inspection.selection import select_outputs
from dconnet.training.result import History

# Epochs of a run at which the norm of a subgradient is computed.
MAX_NORMS = 200


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The history of one fit: values (n_epochs + 1,) at the start and after each epoch. Unknown values are None."""

    objective: FloatArray  # RegLoss
    mse: FloatArray | None = None  # mean squared error on the training data
    validation_mse: FloatArray | None = None  # and on the validation data
    step_norm: FloatArray | None = None  # distance from the previous weights; the first entry is not used
    stationarity: FloatArray | None = None  # norm of `dconnet.certificates.subgradient`; NaN where it is not computed
    label: str = ""  # name in the legend

    @classmethod
    def of_history(cls, history: History) -> Run:
        """Make a run from a history."""
        validation = history.validation_mse if np.isfinite(history.validation_mse).any() else None
        return cls(history.objective, history.mse, validation, history.step_norm)

    @classmethod
    def of_trajectory(cls, trajectory: Trajectory) -> Run:
        """Make a run from a trajectory, with the norm of a subgradient at up to 200 epochs: most at the beginning."""
        n_networks = len(trajectory.networks)
        norms, epochs = np.full(n_networks, np.nan), np.arange(n_networks)
        if n_networks > MAX_NORMS:
            later = np.geomspace(MAX_NORMS // 2, n_networks - 1, MAX_NORMS // 2).round().astype(int)
            epochs = np.unique([*range(MAX_NORMS // 2), *later])
        for k in epochs:
            norms[k] = subgradient(trajectory.problem, trajectory.networks[k], trajectory.split).norm
        return replace(cls.of_history(trajectory.history), stationarity=norms)


@dataclass(eq=False)
class ConvergenceDisplay:
    """Convergence of a fit: the four plots of the paper.

    Three panels show RegLoss with the errors on training and validation data, the norm of a subgradient, and the
    length of the step, by epoch. The fourth estimates the order of convergence: the slope of ``ln e^(k+1)`` over
    ``ln e^k``, where ``e^k`` is the distance of RegLoss from its final value. Panels without data are left out.

    Parameters
    ----------
    runs : sequence of Run
        One, or several to compare.
    early : int
        Number of epochs of the early phase, for which the order is estimated separately.

    Attributes
    ----------
    orders_ : list of ConvergenceOrder
        The estimated order of each run in the early phase and over all epochs.
    figure_, axes_ : Figure, array of Axes
        The last plot.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.inspection.plotting import ConvergenceDisplay
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> y = np.abs(X[:, 0])
    >>> model = DCONRegressor(n_hidden=3, gamma=0.01, algorithm="paper", tol=1e-3, random_state=0).fit(X, y)
    >>> display = ConvergenceDisplay.from_estimator(model, X, y)
    >>> len(display.axes_)
    4
    """

    runs: Sequence[Run]
    early: int = 30
    figure_: Any = field(default=None, init=False, repr=False)
    axes_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("runs must contain at least one run.")
        self.orders_ = [convergence_order(run.objective, early=self.early) for run in self.runs]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        fit_params: Mapping[str, Any] | None = None,
        classes: Sequence[object] | None = None,
        early: int = 30,
        ax: Any = None,
    ) -> Self:
        """Plot the convergence of a fitted estimator.

        The norm of a subgradient at each epoch needs the intermediate networks, which an estimator does not store. If
        the training data are given, the fit is repeated to obtain them, which takes as long as the original fit.

        Parameters
        ----------
        estimator : DCONRegressor or DCONClassifier
            A fitted estimator.
        X, y : array-like, optional
            The training data.
        fit_params : mapping, optional
            Other arguments of `fit`, such as ``sample_weight``.
        classes : sequence of labels, optional
            Classes whose networks are drawn; all by default.
        early : int, default=30
            Number of epochs of the early phase.
        ax : Axes or array of Axes, optional
            Axes to draw on; a new figure by default.
        """
        selected, labels = select_outputs(estimator, classes), estimator.targets_.labels
        selected = [0] if estimator.targets_.shared else selected
        if (X is None) != (y is None):
            raise ValueError("X and y must be given together.")
        if X is not None and y is not None:
            every = [Run.of_trajectory(trajectory) for trajectory in replay(estimator, X, y, fit_params=fit_params)]
        else:
            every = [Run.of_history(history) for history in estimator.histories_]
        runs = [replace(every[k], label=labels[k] if len(selected) > 1 else "") for k in selected]
        return cls(runs, early=early).plot(ax=ax)

    @property
    def alt_text(self) -> str:
        """Description of the plot."""
        return f"By epoch: {', '.join(list(self._panels())[:-1])}. Last panel: estimated order of convergence."

    @property
    def _last_epoch(self) -> int:
        return max(len(run.objective) for run in self.runs) - 1

    def _panels(self) -> dict[str, Callable[[Any], None]]:
        """Return the functions that draw the panels with data, by name."""
        panels: dict[str, Callable[[Any], None]] = {"RegLoss": self._plot_loss}
        for name, attribute, label in (
            ("stationarity", "stationarity", "subgradient norm"),
            ("step norm", "step_norm", r"step $\|\theta^{k}-\theta^{k-1}\|_2$"),
        ):
            columns = [getattr(run, attribute) for run in self.runs]
            if any(values is not None for values in columns):
                panels[name] = partial(self._plot_lines, columns=columns, name=label)
        return {**panels, "order": self._plot_order}

    def plot(self, ax: Any = None) -> Self:
        """Draw on axes, an array of axes, or an empty Figure; by default, in a new figure. A single axes is divided."""
        panels = self._panels()
        with style():
            self.axes_ = make_panels(ax, len(panels), 3 if len(panels) == 3 else 2, (3.4, 2.6))
            for axis, draw in zip(self.axes_, panels.values(), strict=True):
                draw(axis)
            if len(self.runs) > 1:
                from matplotlib.lines import Line2D

                names = [run.label or f"run {k}" for k, run in enumerate(self.runs, start=1)]
                orders = [f": order {order.all:.2f}" if np.isfinite(order.all) else "" for order in self.orders_]
                entries = [
                    Line2D([], [], label=f"{name}{order}", **line)
                    for name, order, line in zip(names, orders, line_styles(len(names)), strict=True)
                ]
                legend_above(self.axes_, entries, ax)
        self.figure_ = self.axes_[0].figure
        return self

    def _plot_loss(self, axis: Any) -> None:
        if len(self.runs) > 1:
            self._plot_lines(axis, [run.objective for run in self.runs], "RegLoss")
            return
        run = self.runs[0]
        self._plot_line(axis, run.objective, color=BLUE, label="RegLoss")
        for values, name, colour, dashes in (
            (run.mse, "training MSE", VERMILION, "--"),
            (run.validation_mse, "validation MSE", GREEN, "-."),
        ):
            if values is not None:
                self._plot_line(axis, values, color=colour, linestyle=dashes, label=name)
        axis.set(ylabel="loss (target²)")
        self._over_epochs(axis)
        axis.legend()

    def _plot_lines(self, axis: Any, columns: Sequence[FloatArray | None], name: str) -> None:
        for run, values, line in zip(self.runs, columns, line_styles(len(self.runs)), strict=True):
            if values is not None:
                self._plot_line(axis, values, label=run.label or None, **line)
        axis.set(ylabel=name)
        self._over_epochs(axis)

    def _plot_line(self, axis: Any, values: FloatArray, **options: Any) -> None:
        shown = np.flatnonzero(values > 0.0)  # zero cannot be drawn on a logarithmic scale
        few = {"marker": "o", "ms": 2.5, "clip_on": False} if self._last_epoch <= 12 else {}
        axis.plot(shown, values[shown], **few, **options)

    def _over_epochs(self, axis: Any) -> None:
        if self._last_epoch > 60:
            # Most of the decrease is in the first epochs, which symlog stretches; it can show epoch 0.
            axis.set_xscale("symlog", linthresh=1)
            axis.xaxis.set_major_formatter("{x:g}")
        else:
            axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set(xlabel="epoch", xlim=(0, max(self._last_epoch, 1)))
        log_y(axis)

    def _plot_order(self, axis: Any) -> None:
        is_alone = len(self.runs) == 1
        for order, line in zip(self.orders_, line_styles(len(self.runs)), strict=True):
            before, after = np.log(order.errors[:-1]), np.log(order.errors[1:])
            axis.plot(before, after, "o", color=GREY if is_alone else line["color"], ms=3.5, alpha=0.45, mew=0.0)
            if is_alone and len(before) > self.early:
                name, dashed = f"first {self.early} epochs: order {order.early:.2f}", {"color": VERMILION, "ls": "--"}
                _plot_slope(axis, before[: self.early], after[: self.early], order.early, label=name, **dashed)
            label = f"all epochs: order {order.all:.2f}" if is_alone else None
            _plot_slope(axis, before, after, order.all, label=label, **line)
        axis.set(xlabel=r"$\ln\,e^{k}$", ylabel=r"$\ln\,e^{k+1}$")
        add_legend(axis)
        if not np.isfinite([order.all for order in self.orders_]).any():
            axis.text(0.5, 0.5, "too few epochs for an order", ha="center", transform=axis.transAxes, color=GREY)


def _plot_slope(axis: Any, before: FloatArray, after: FloatArray, slope: float, **options: Any) -> None:
    """Draw the regression line through the points, if its slope is known."""
    if np.isfinite(slope):
        ends = np.array([before.min(), before.max()])
        axis.plot(ends, after.mean() + slope * (ends - before.mean()), linewidth=1.3, **options)
