"""
Where is the network largest?
=============================

``optimise`` finds the global maximum of a trained network and proves it. Within a box the maximum tends to be a corner
without data. ``near=X`` keeps it in the convex hull of the rows.
"""

# %%
# Two correlated inputs: two corners of the box have no data.
import matplotlib.pyplot as plt
import numpy as np

from dconnet import DCONRegressor, optimise

rng = np.random.default_rng(0)
first = rng.normal(size=200)
X = np.column_stack([first, 0.8 * first + 0.5 * rng.normal(size=200)])
y = np.sin(1.5 * X[:, 0]) + 0.5 * np.abs(X[:, 1] - X[:, 0]) + 0.1 * rng.normal(size=200)
network = DCONRegressor(n_hidden=12, gamma=0.01, random_state=0).fit(X, y).network_

# %%
# The maximum over the box, over the hull of all rows, and over the hull of the 80 % that are most central.
box = list(zip(X.min(axis=0), X.max(axis=0), strict=True))
optima = {
    "box": optimise(network, box),
    "hull of the data": optimise(network, near=X),
    "most central 80 %": optimise(network, near=X, coverage=0.8),
}
for name, optimum in optima.items():
    print(f"{name}: {optimum.value:.3f} at {np.round(optimum.x, 2)}, {optimum.status.name.lower()}")
print(optima["box"].message)

# %%
# The function, the rows, and the three maxima.
across, up = (np.linspace(low, high, 120) for low, high in box)
grid = np.stack(np.meshgrid(across, up), axis=-1)
surface = network.predict(grid.reshape(-1, 2)).reshape(120, 120)
fig, ax = plt.subplots(figsize=(6, 4.5))
fig.colorbar(ax.contourf(across, up, surface, levels=20, cmap="viridis"), label="network")
ax.plot(X[:, 0], X[:, 1], ".", color="white", markersize=3)
for (name, optimum), marker in zip(optima.items(), "*os", strict=True):
    ax.plot(*optimum.x, marker, markersize=12, markeredgecolor="black", label=name, clip_on=False)
ax.legend(loc="upper left")
plt.show()
