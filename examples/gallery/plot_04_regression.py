"""
Regression with the defaults
============================

``DCONRegressor`` trains one network. You do not need to scale features or target, and ``gamma``, the strength of the
regularisation, is chosen by cross-validation.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_friedman1
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import DCONRegressor
from dconnet.inspection.plotting import style

X, y = make_friedman1(n_samples=400, noise=1.0, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# A ridge regression serves as the baseline; its features have to be scaled.

models = {
    "ridge regression": make_pipeline(StandardScaler(), RidgeCV()),
    "DCONRegressor": DCONRegressor(n_hidden=10, random_state=0),
}
for model in models.values():
    model.fit(X_train, y_train)

# %%
# Observed against predicted values of the test rows. The closer to the diagonal, the better.

with style():
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.5), sharex=True, sharey=True, layout="constrained")
    for axis, (name, model) in zip(axes, models.items(), strict=True):
        predicted = model.predict(X_test)
        axis.axline((15, 15), slope=1, color="#6e6e6e", linewidth=0.8)
        axis.scatter(predicted, y_test, s=18, color="#0072b2", alpha=0.7, linewidth=0)
        axis.set(title=f"{name}: R² = {r2_score(y_test, predicted):.2f}", xlabel="predicted", aspect="equal")
    axes[0].set_ylabel("observed")

# %%
# ``message_`` says why the training stopped. ``gamma`` is printed in units of the target's standard deviation.

fitted = models["DCONRegressor"]
print(fitted.message_)
print(f"stationarity: {fitted.stationarity_:.0e}, gamma: {fitted.gamma_ / fitted.target_scale_:g}")
