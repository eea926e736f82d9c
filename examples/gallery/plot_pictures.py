"""
Looking at a network and its training
=====================================

The classes of `dconnet.inspection.plotting` follow the Display objects of scikit-learn: ``from_estimator`` computes and
draws, ``plot`` draws again, and ``figure_`` and ``axes_`` hold the result. They need Matplotlib, which comes with the
extra ``plot``. The pictures are meant to go into a paper as they are, for example by
``display.figure_.savefig("network.pdf")``.
"""

import numpy as np
from sklearn.datasets import load_diabetes, load_iris
from sklearn.preprocessing import scale

from dconnet import DCONClassifier, DCONRegressor
from dconnet.inspection.plotting import ConvergenceDisplay, NetworkDisplay, PathDisplay

rng = np.random.default_rng(0)

# %%
# One input
# ---------
# A ReLU network of one input is a chain of straight lines. It is drawn through its hinges, which are known exactly.

time = np.sort(rng.uniform(-3.0, 3.0, size=(120, 1)), axis=0)
height = np.sin(1.7 * time[:, 0]) + 0.15 * rng.normal(size=120)
model = DCONRegressor(n_hidden=10, gamma=0.01, random_state=0).fit(time, height)
names = {"feature_names": ["time (s)"], "target_name": "height (m)"}
display = NetworkDisplay.from_estimator(model, time, height, **names)

# %%
# Two inputs
# ----------
# Of two inputs, each neuron bends the surface along a line: upwards if its output weight is positive, and downwards
# otherwise. The points are coloured like the map, so that one that stands out is one that the network misses.

X = rng.uniform(-2.0, 2.0, size=(250, 2))
y = np.abs(X[:, 0] + X[:, 1]) - 0.5 * np.maximum(X[:, 0] - X[:, 1], 0.0)
y += 0.1 * rng.normal(size=250)
model = DCONRegressor(n_hidden=6, gamma=0.05, random_state=0).fit(X, y)
display = NetworkDisplay.from_estimator(model, X, y)

# %%
# More inputs
# -----------
# Of more inputs, the mean prediction over the data is drawn as a function of one input at a time, the partial
# dependence. It is piecewise linear, too, with at most one bend for each row and neuron, and all of them are computed;
# nothing is sampled. By default the six inputs that move the output most are drawn.

diabetes = load_diabetes(scaled=False)
X, y = scale(diabetes.data), scale(diabetes.target)
model = DCONRegressor(n_hidden=10, gamma=1.0, random_state=0).fit(X, y)
names = {"feature_names": diabetes.feature_names, "target_name": "progression"}
display = NetworkDisplay.from_estimator(model, X, y, **names)

# %%
# A classifier has one network a class, whose curves are laid over each other.

iris = load_iris()
measures, species = iris.data, iris.target_names[iris.target]
classifier = DCONClassifier(n_hidden=3, gamma=0.1, random_state=0).fit(measures, species)
names = {"feature_names": iris.feature_names}
display = NetworkDisplay.from_estimator(classifier, measures, species, **names)

# %%
# Convergence
# -----------
# The four plots of the paper: RegLoss, the norm of an element of its limiting subdifferential, the distance between
# iterates, and the order of convergence as the slope of a regression. The estimator keeps no networks of earlier
# epochs, and so the second plot needs the training data: the fit is repeated. Without them, that plot is left out.

limits = {"algorithm": "paper", "max_epochs": 2000}
model = DCONRegressor(n_hidden=10, gamma=0.1, random_state=0, **limits).fit(X, y)
display = ConvergenceDisplay.from_estimator(model, X, y)

# %%
# The path over gamma
# -------------------
# What becomes of loss and neurons as the regularisation grows. Each fit starts from the one before. The dotted line is
# the gamma with the least error on the validation data.

model = DCONRegressor(n_hidden=10, tol=1e-5, random_state=0)
validation = {"X_val": X[300:], "y_val": y[300:]}
display = PathDisplay.from_estimator(model, X[:300], y[:300], **validation)
