"""A plot of the regularisation path."""

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
    def from_estimator(cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, ax: Any = None, **options: Any) -> Self:
        """Fit the estimator over a grid of gamma and plot the path.

        Parameters
        ----------
        estimator : DCONRegressor or DCONClassifier
            The estimator; it is cloned and need not be fitted.
        X, y : array-like
            Training data.
        ax : Axes or array of two Axes, optional
            Axes to draw on; a new figure by default.
        **options : Any
            The grid ``gammas``, validation data and sample weights: see `dconnet.inspection.path.gamma_path`.
        """
        return cls(gamma_path(estimator, X, y, **options)).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on axes, an array of axes, or an empty Figure; by default, in a new figure. A single axes is divided."""
        path, marks = self.path, {"marker": "o", "ms": 3}
        with style():
            self.axes_ = losses, counts = make_panels(ax, 2, 1, (4.6, 2.2))
            losses.plot(path.gammas, path.objective.mean(axis=1), color=BLUE, label="RegLoss", **marks)
            losses.plot(path.gammas, path.mse.mean(axis=1), "--", color=VERMILION, label="training MSE", **marks)
            if path.validation_mse is not None:
                validation = path.validation_mse.mean(axis=1)
                losses.plot(path.gammas, validation, "-.", color=GREEN, label="validation MSE", **marks)
                losses.axvline(path.best_gamma, color=GREEN, linewidth=0.8, linestyle=":", zorder=1)
            losses.set(xscale="log", ylabel="loss (target²)")
            log_y(losses)
            active = path.active.sum(axis=1)
            counts.step(path.gammas, active, where="mid", color=INK)
            counts.plot(path.gammas, active, "o", color=INK, ms=3)
            counts.set(xscale="log", xlabel="gamma", ylabel="active neurons", ylim=(0, 1.08 * max(active.max(), 1)))
            counts.yaxis.get_major_locator().set_params(integer=True)
            legend_above(self.axes_, losses.get_legend_handles_labels()[0], ax)
        self.figure_ = losses.figure
        return self
