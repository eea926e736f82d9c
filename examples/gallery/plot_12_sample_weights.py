"""
Weights of rows
===============

A row with weight two counts like the same row twice. If some measurements are less precise than others, weight each by
one over the variance of its noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from dconnet import DCONRegressor
from dconnet.inspection.plotting import style


def truth(x):
    """The function behind the measurements."""
    return np.sin(3.0 * x) + 0.5 * x


# %%
# Two instruments measure the same quantity; the second one is twelve times less precise.

rng = np.random.default_rng(0)
x = rng.uniform(-2.0, 2.0, size=240)
noise = np.where(np.arange(240) % 3 == 0, 0.1, 1.2)
y = truth(x) + noise * rng.normal(size=240)
weights = 1.0 / noise**2
weights *= len(weights) / weights.sum()

# %%
# RegLoss divides by the sum of the weights. Weights of mean one keep the meaning of ``gamma``.

model = DCONRegressor(n_hidden=10, gamma=0.02, scale=False, random_state=0)
grid = np.linspace(-2.0, 2.0, 401)
fits = {
    "all rows alike": model.fit(x[:, None], y).predict(grid[:, None]),
    "weighted": model.fit(x[:, None], y, sample_weight=weights).predict(grid[:, None]),
}

# %%
# The weighted network stays closer to the true function.

precise = noise < 1.0
with style():
    figure, axes = plt.subplots(1, 2, figsize=(8.2, 3.2), sharey=True, layout="constrained")
    for axis, (name, predicted) in zip(axes, fits.items(), strict=True):
        axis.scatter(x[~precise], y[~precise], s=9, color="#c4c4c4", label="imprecise")
        axis.scatter(x[precise], y[precise], s=9, color="#6e6e6e", label="precise")
        axis.plot(grid, truth(grid), color="#009e73", linestyle="--", label="true function")
        axis.plot(grid, predicted, color="#0072b2", linewidth=2.0, label="network")
        error = np.sqrt(np.mean((predicted - truth(grid)) ** 2))
        axis.set(title=f"{name}: RMS error {error:.3f}", xlabel="x", ylim=(-3.5, 3.0))
    axes[0].set_ylabel("y")
    axes[1].legend(ncols=2, loc="lower right")
