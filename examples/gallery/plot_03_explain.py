"""
What drives the predictions?
============================

Two questions about any model: which columns matter, and how does the prediction change with each of them? The auto
estimators answer the first themselves. For the second, scikit-learn's tools work as for any other estimator.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.inspection import PartialDependenceDisplay
from sklearn.model_selection import train_test_split

from dconnet import AutoDCONRegressor
from dconnet.inspection.plotting import style

# %%
# Prices of used cars, generated for this example. A car loses value with age, electric cars faster than others; the
# colour does not matter.

rng = np.random.default_rng(0)
n_cars = 2000
table = pd.DataFrame(
    {
        "age": np.round(rng.uniform(0.0, 15.0, n_cars), 1),
        "km": np.round(rng.gamma(4.0, 20_000.0, n_cars), -2),
        "power": rng.integers(45, 250, n_cars).astype(float),
        "fuel": rng.choice(["petrol", "diesel", "electric"], n_cars, p=[0.5, 0.3, 0.2]),
        "colour": rng.choice(["black", "white", "red", "blue"], n_cars),
    }
)
loss_per_year = np.where(table["fuel"] == "electric", 0.16, 0.11)
price = (9_000 + 160 * table["power"]) * np.exp(-loss_per_year * table["age"] - table["km"] / 400_000)
price *= np.exp(0.1 * rng.normal(size=n_cars))
X, X_test, y, y_test = train_test_split(table, price, random_state=0)

model = AutoDCONRegressor(random_state=0).fit(X, y)
print(f"R² on test rows: {model.score(X_test, y_test):.3f}")

# %%
# ``feature_importances_`` is the increase of the out-of-fold error when a column is shuffled, as shares of all columns.
# Nothing else is trained for it.

for share, name in sorted(zip(model.feature_importances_, table.columns, strict=True), reverse=True):
    print(f"{name:8}{share:6.1%}")

# %%
# The partial dependence is the mean prediction when a column is set to the same value in all rows. The thin lines are
# single cars.

with style():
    figure, axes = plt.subplots(1, 3, figsize=(8.6, 3.2), sharey=True, layout="constrained")
    curves = {"kind": "both", "subsample": 30, "random_state": 0, "grid_resolution": 20, "ax": axes[:2]}
    lines = {"pd_line_kw": {"color": "#d55e00"}, "ice_lines_kw": {"color": "#0072b2"}}
    PartialDependenceDisplay.from_estimator(model, X[:300], ["age", "power"], **curves, **lines)
    PartialDependenceDisplay.from_estimator(model, X[:300], ["fuel"], categorical_features=["fuel"], ax=axes[2:])
    for axis, label in zip(axes, ("predicted price", "", ""), strict=True):
        axis.set_ylabel(label)
    axes[2].tick_params("x", rotation=0)
    axes[2].set_ylim(0, 45_000)

# %%
# One column at a time hides interactions. How does the value of the same car fall over the years, by fuel?

ages = np.arange(0.0, 15.1, 0.5)
with style():
    figure, axis = plt.subplots(figsize=(5.6, 3.2), layout="constrained")
    for fuel, colour in (("petrol", "#0072b2"), ("diesel", "#009e73"), ("electric", "#d55e00")):
        cars = pd.DataFrame({"age": ages, "km": 60_000.0, "power": 120.0, "fuel": fuel, "colour": "black"})
        low, high = model.predict_interval(cars, coverage=0.9)
        axis.fill_between(ages, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.plot(ages, model.predict(cars), color=colour, label=fuel)
    axis.set(xlabel="age (years)", ylabel="price", title="Predictions with intervals of 90 %")
    axis.legend()
