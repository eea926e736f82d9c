"""
Exact partial dependence
========================

A network of more than two inputs cannot be drawn as a whole. Its *partial dependence* on a feature is the mean
prediction over the data as a function of that feature. For a ReLU network it is piecewise linear, with at most one bend
for each pair of row and neuron. ``NetworkDisplay`` computes all bends instead of sampling a grid.
"""

import numpy as np
from sklearn.datasets import load_diabetes, load_iris
from sklearn.inspection import partial_dependence
from sklearn.preprocessing import scale

from dconnet import DCONClassifier, DCONRegressor
from dconnet.inspection.plotting import NetworkDisplay

# %%
# A regression
# ------------
# The progression of diabetes after a year, from ten measurements. The six features with the largest effect are drawn.

diabetes = load_diabetes(scaled=False)
X, y = scale(diabetes.data), scale(diabetes.target)
model = DCONRegressor(n_hidden=10, gamma=1.0, random_state=0).fit(X, y)
names = {"feature_names": diabetes.feature_names, "target_name": "progression"}
display = NetworkDisplay.from_estimator(model, X, y, **names)

# %%
# scikit-learn computes the same on a grid, by predicting every row at every point. Both agree:

curve = display.curves_[display.features_.index(2)][0]  # of the body mass index
sampled = partial_dependence(model, X, [2], grid_resolution=50, percentiles=(0, 1))
exact = np.interp(sampled["grid_values"][0], curve.points, curve.values)
print(f"{len(curve.points)} points on the exact curve; all bends among them: {curve.through_breakpoints}")
print(f"largest difference on the grid: {np.abs(exact - sampled['average'][0]).max():.0e}")

# %%
# A classifier
# ------------
# A classifier has one network for each class. Their curves share the axes.

iris = load_iris()
measures, species = iris.data, iris.target_names[iris.target]
classifier = DCONClassifier(n_hidden=3, gamma=0.1, random_state=0).fit(measures, species)
display = NetworkDisplay.from_estimator(classifier, measures, species, feature_names=iris.feature_names)
