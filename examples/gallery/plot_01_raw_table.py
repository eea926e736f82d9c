"""
Predict from a raw table
========================

``AutoDCONRegressor`` takes a table as it is: numbers, text, dates and missing values. It returns predictions, intervals
and importances, and there is nothing to tune.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.dates import DateFormatter

from dconnet import AutoDCONRegressor
from dconnet.inspection.plotting import style

# %%
# Three years of a bicycle rental, generated for this example. The weather station failed on some days.

rng = np.random.default_rng(0)
date = pd.date_range("2022-01-01", periods=3 * 365)
season = np.sin(2.0 * np.pi * (np.asarray(date.day_of_year) - 105) / 365.25)
temperature = 11.0 + 10.0 * season + 3.0 * rng.normal(size=len(date))
weather = rng.choice(["sunny", "cloudy", "rain"], len(date), p=[0.45, 0.35, 0.2])
hires = 900.0 * np.exp(-(((temperature - 23.0) / 14.0) ** 2)) + 150.0 * np.asarray(date.day_of_week >= 5)
hires *= pd.Series(weather).map({"sunny": 1.0, "cloudy": 0.85, "rain": 0.45}).to_numpy()
hires = hires * (1.0 + 0.0004 * np.arange(len(date))) + 40.0 * rng.normal(size=len(date))
hires = np.round(np.maximum(hires, 0.0))
temperature[rng.random(len(date)) < 0.1] = np.nan
table = pd.DataFrame({"date": date, "temperature": temperature, "weather": weather, "station": "harbour"})
print(table.head(3))

# %%
# Train on a random three quarters of the days. ``columns_`` lists how each column was used, and ``oof_score_`` is R² on
# days that the networks were not trained on.

is_test = rng.random(len(date)) < 0.25
model = AutoDCONRegressor(random_state=0).fit(table[~is_test], hires[~is_test])
print(pd.DataFrame(model.columns_).to_string(index=False))
print(f"R²: {model.oof_score_:.3f} out of fold, {model.score(table[is_test], hires[is_test]):.3f} on the other days")

# %%
# Intervals come from the out-of-fold errors. About 90 % of them should contain the observed number.

low, high = model.predict_interval(table[is_test], coverage=0.9)
is_inside = (low <= hires[is_test]) & (hires[is_test] <= high)
shown = date[is_test] >= "2024-01-01"
with style():
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), width_ratios=(3, 2), layout="constrained")
    left.vlines(date[is_test][shown], low[shown], high[shown], color="#0072b2", alpha=0.4, label="predicted interval")
    left.scatter(date[is_test][shown], hires[is_test][shown], s=8, color="#d55e00", zorder=3, label="observed")
    left.set(ylabel="hires per day", title=f"Test days; {100 * is_inside.mean():.0f} % are in their 90 % interval")
    left.xaxis.set_major_formatter(DateFormatter("%b"))
    left.legend(loc="upper left", ncols=2)
    importances = pd.Series(model.feature_importances_, index=table.columns).sort_values()
    right.barh(importances.index, importances, color="#0072b2")
    right.set(xlabel="share of the importance", title="Which columns matter")

# %%
# If you need one small network, for example to export it, ``distil`` trains one on the predictions of the ensemble.

small = model.distil(n_hidden=10)
print(f"R² of the small network on the test days: {small.score(table[is_test], hires[is_test]):.3f}")
