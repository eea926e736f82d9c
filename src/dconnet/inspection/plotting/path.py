"""Plot of the regularisation path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from numpy.typing import ArrayLike

from dconnet.inspection.path import GammaPath, gamma_path
from dconnet.inspection.plotting.canvas import BLUE, GREEN, INK, VERMILION, legend_above, log_y, make_panels, style


@dataclass(eq=False)
class PathDisplay:
    """Loss and number of active neurons against the strength of the regularisation.

    For a classifier with several networks, the losses are averaged over the networks and the neurons are summed.

    Parameters
    ----------
    path : GammaPath
        The fits, from `dconnet.inspection.path.gamma_path`.

    Attributes
    ----------
    figure_, axes_ : Figure, array of two Axes
        The last plot: losses above, active neurons below.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.inspection.plotting import PathDisplay
    >>> X = np.linspace(-1, 1, 50).reshape(-1, 1)
    >>> model = DCONRegressor(n_hidden=3, random_state=0)
    >>> display = PathDisplay.from_estimator(model, X, np.abs(X[:, 0]), gammas=[1e-3, 0.1, 10.0])
    >>> display.path.mse.round(3).ravel().tolist()  # a strong penalty leaves no neuron
    [0.0, 0.001, 0.087]
    """

    path: GammaPath
    figure_: Any = field(default=None, init=False, repr=False)
    axes_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        gammas: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        ax: Any = None,
    ) -> Self:
        """Fit the estimator over a grid of gamma and plot the path; see `dconnet.inspection.path.gamma_path`.

        Parameters
        ----------
        estimator : DCONRegressor or DCONClassifier
            The estimator; it is cloned and need not be fitted.
        X, y : array-like
            Training data.
        gammas : array-like of shape (n_gammas,), optional
            Strengths of the regularisation.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the training rows.
        X_val, y_val : array-like, optional
            Validation data.
        sample_weight_val : array-like, optional
            Weights of the validation rows.
        ax : Axes or array of two Axes, optional
            Axes to draw on; a new figure by default.

        Returns
        -------
        PathDisplay
        """
        path = gamma_path(
            estimator,
            X,
            y,
            gammas=gammas,
            sample_weight=sample_weight,
            X_val=X_val,
            y_val=y_val,
            sample_weight_val=sample_weight_val,
        )
        return cls(path).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : Axes, array of two Axes or Figure, optional
            Axes to draw on; a new figure by default. A single axes is divided into panels; an empty Figure is filled.

        Returns
        -------
        PathDisplay
        """
        with style():
            self.axes_ = make_panels(ax, 2, 1, (4.6, 2.2))
            self._plot_losses(self.axes_[0])
            self._plot_active(self.axes_[1])
            for axis in self.axes_:
                axis.set(xscale="log")
            legend_above(self.axes_, self.axes_[0].get_legend_handles_labels()[0], ax)
        self.figure_ = self.axes_[0].figure
        return self

    def _plot_losses(self, axis: Any) -> None:
        path, marks = self.path, {"marker": "o", "ms": 3}
        axis.plot(path.gammas, path.objective.mean(axis=1), color=BLUE, label="RegLoss", **marks)
        axis.plot(path.gammas, path.mse.mean(axis=1), color=VERMILION, linestyle="--", label="training MSE", **marks)
        if path.validation_mse is not None:
            validation = path.validation_mse.mean(axis=1)
            axis.plot(path.gammas, validation, color=GREEN, linestyle="-.", label="validation MSE", **marks)
            axis.axvline(path.best_gamma, color=GREEN, linewidth=0.8, linestyle=":", zorder=1)
        axis.set(ylabel="loss (target²)")
        log_y(axis)

    def _plot_active(self, axis: Any) -> None:
        active = self.path.active.sum(axis=1)
        axis.step(self.path.gammas, active, where="mid", color=INK)
        axis.plot(self.path.gammas, active, "o", color=INK, ms=3)
        axis.set(xlabel="gamma", ylabel="active neurons", ylim=(0, 1.08 * max(active.max(), 1)))
        axis.yaxis.get_major_locator().set_params(integer=True)
