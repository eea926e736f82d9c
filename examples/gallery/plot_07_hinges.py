"""
A network and its hinges
========================

A ReLU network is a piecewise linear function. Each hidden neuron bends it in one place, its *hinge*. With one or two
inputs, ``NetworkDisplay`` draws the whole function with its hinges.
"""

import numpy as np

from dconnet import DCONRegressor
from dconnet.inspection.plotting import NetworkDisplay

rng = np.random.default_rng(0)

# %%
# One input
# ---------
# A noisy sine wave and a network of ten neurons.

time = np.sort(rng.uniform(-3.0, 3.0, size=(120, 1)), axis=0)
height = np.sin(1.7 * time[:, 0]) + 0.15 * rng.normal(size=120)
model = DCONRegressor(n_hidden=10, gamma=0.01, scale=False, random_state=0).fit(time, height)
curve = NetworkDisplay.from_estimator(model, time, height, feature_names=["time (s)"], target_name="height (m)")

# %%
# The positions of the hinges are exact, and available as numbers. Two neurons may share a hinge, and some bend the
# curve very little:

for place, bend in sorted(zip(curve.hinges_[0].places, curve.hinges_[0].bends, strict=True)):
    if abs(bend) > 0.01:
        print(f"at {place:5.2f} s the slope changes by {bend:+.2f} m/s")

# %%
# Two inputs
# ----------
# With two inputs, each neuron bends the surface along a straight line: upwards if its output weight is
# positive, downwards if it is negative. Points have the colours of the map: a point that stands out has a large error.

X = rng.uniform(-2.0, 2.0, size=(250, 2))
y = np.abs(X[:, 0] + X[:, 1]) - 0.5 * np.maximum(X[:, 0] - X[:, 1], 0.0)
y += 0.1 * rng.normal(size=250)
model = DCONRegressor(n_hidden=6, gamma=0.05, scale=False, random_state=0).fit(X, y)
surface = NetworkDisplay.from_estimator(model, X, y)

# %%
# The data were generated with bends along the two diagonals, and the network has found both.
# ``surface.figure_.savefig("network.pdf")`` writes the figure to a file.
