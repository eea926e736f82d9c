"""
A second hidden layer
=====================

``LayerwiseDCONRegressor`` stacks hidden layers: the activations of one network are the features of the next. The layers
are trained one after the other, so each has the guarantees of a single network. Depth helps where the target is a
function of a quantity that the first layer can learn roughly, here the distance from the origin.
"""

import matplotlib.pyplot as plt
import numpy as np

from dconnet import DCONRegressor, LayerwiseDCONRegressor
from dconnet.inspection.plotting import style


def ripple(X):
    """A wave that depends on the distance from the origin alone."""
    return np.cos(8.0 * np.linalg.norm(X, axis=1))


rng = np.random.default_rng(0)
X_train, X_test = rng.uniform(-1.0, 1.0, size=(2, 500, 2))
y_train = ripple(X_train) + 0.05 * rng.normal(size=500)

# %%
# Both networks have about the same number of weights.

shallow = DCONRegressor(35, gamma=0.01, scale=False, random_state=0).fit(X_train, y_train)
deep = LayerwiseDCONRegressor((10, 10), gamma=0.01, random_state=0).fit(X_train, y_train)
n_weights = {
    "one hidden layer": sum(part.size for part in (shallow.network_.W, shallow.network_.b, shallow.network_.alpha)),
    "two hidden layers": sum(network.W.size + network.b.size for network in deep.networks_) + 10,
}

# %%
# Maps of the true function and of the two networks. The second layer bends the rough bowl of the first into rings.

grid = np.stack(np.meshgrid(*2 * [np.linspace(-1.0, 1.0, 201)]), axis=-1).reshape(-1, 2)
maps = {"true function": ripple(grid)}
for name, model in zip(n_weights, (shallow, deep), strict=True):
    maps[f"{name}, {n_weights[name]} weights\ntest R² = {model.score(X_test, ripple(X_test)):.3f}"] = model.predict(
        grid
    )
with style():
    figure, axes = plt.subplots(1, 3, figsize=(8.6, 3.2), sharey=True, layout="constrained")
    for axis, (title, values) in zip(axes, maps.items(), strict=True):
        x0, x1, heights = (column.reshape(201, 201) for column in (*grid.T, values))
        filled = axis.contourf(x0, x1, heights, np.linspace(-1.4, 1.4, 15), cmap="RdBu", extend="both")
        axis.set(title=title, aspect="equal", xlabel="x0")
    axes[0].set_ylabel("x1")
    figure.colorbar(filled, ax=axes, shrink=0.8)

# %%
# RegLoss does not rise from layer to layer, because each layer starts as a copy of the one below:

print("RegLoss after each layer:", ", ".join(f"{value:.4f}" for value in deep.objectives_))
