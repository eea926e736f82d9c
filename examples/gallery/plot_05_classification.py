"""
Decision regions of three classes
=================================

``DCONClassifier`` trains one network for each class against the rest and predicts the class with the largest output.
The networks are piecewise linear, so the boundaries between the classes are polygons.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import DCONClassifier
from dconnet.inspection.plotting import style

# %%
# Three interleaved spirals: no straight line separates any of the classes from the others.

rng = np.random.default_rng(0)
arm = np.repeat(["first", "second", "third"], 120)
radius = np.tile(np.linspace(0.1, 1.0, 120), 3)
angle = 3.5 * radius + np.repeat(2.0 * np.pi / 3.0 * np.arange(3), 120) + 0.18 * rng.normal(size=360)
X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
X_train, X_test, y_train, y_test = train_test_split(X, arm, stratify=arm, random_state=0)

# %%
# The same networks with a weak and with a strong regularisation. The background shows the predicted class.

colours = ListedColormap(["#0072b2", "#d55e00", "#009e73"])
x0, x1 = np.meshgrid(*2 * [np.linspace(-1.2, 1.2, 400)])
with style():
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.9), sharey=True, layout="constrained")
    for axis, gamma in zip(axes, (0.01, 3.0), strict=True):
        model = make_pipeline(StandardScaler(), DCONClassifier(n_hidden=12, gamma=gamma, random_state=0))
        model.fit(X_train, y_train)
        predicted = model.predict(np.column_stack([x0.ravel(), x1.ravel()]))
        regions = np.searchsorted(model.classes_, predicted).reshape(x0.shape)
        axis.pcolormesh(x0, x1, regions, cmap=colours, alpha=0.25, rasterized=True)
        axis.scatter(*X_test.T, c=np.searchsorted(model.classes_, y_test), cmap=colours, s=14, linewidth=0)
        axis.set(
            title=f"gamma = {gamma:g}: test accuracy {model.score(X_test, y_test):.2f}", aspect="equal", xlabel="x0"
        )
        axis.grid(visible=False)
    axes[0].set_ylabel("x1")

# %%
# The points are the test rows. With weak regularisation the networks follow the spirals; with strong regularisation
# they have too few bends.
#
# Probabilities are calibrated. Along a line through the spirals, they are close to one inside the arms and lower
# between them.

model = DCONClassifier(n_hidden=12, gamma=0.01, random_state=0).fit(X_train, y_train)
along = np.linspace(-1.2, 1.2, 300)
with style():
    figure, axis = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
    probabilities = model.predict_proba(np.column_stack([along, np.zeros(300)]))
    for label, own, colour in zip(model.classes_, probabilities.T, colours.colors, strict=True):
        axis.plot(along, own, color=colour, label=label)
    axis.set(xlabel="x0, where x1 = 0", ylabel="probability")
    axis.legend()
