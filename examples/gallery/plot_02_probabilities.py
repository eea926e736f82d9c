"""
Probabilities from a raw table
==============================

``AutoDCONClassifier`` calibrates its probabilities on out-of-fold predictions. Of the rows with a predicted probability
of 30 %, about 30 % should be positive.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import calibration_curve
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from dconnet import AutoDCONClassifier
from dconnet.inspection.plotting import style

# %%
# Customers who may cancel a contract, generated for this example with known probabilities.

rng = np.random.default_rng(0)
n_rows = 4000
table = pd.DataFrame(
    {
        "age": rng.integers(18, 80, n_rows),
        "months": rng.integers(1, 72, n_rows),
        "price": np.round(rng.gamma(6.0, 6.0, n_rows), 2),
        "tariff": rng.choice(["basic", "family", "premium"], n_rows),
        "calls": rng.poisson(1.2, n_rows),
    }
)
logit = 2.0 * np.exp(-table["months"] / 18.0) + 0.5 * table["calls"] + 0.03 * table["price"] - 3.7
logit += ((table["age"] - 45.0) / 25.0) ** 2 + 1.0 * (table["tariff"] == "basic")
is_lost = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logit))
label = np.where(is_lost, "cancelled", "stayed")
table.loc[rng.random(n_rows) < 0.1, "age"] = np.nan
X, X_test, y, y_test = train_test_split(table, label, test_size=0.5, random_state=0)

# %%
# Boosted trees with their defaults are the comparison. They need text columns as categories.


def as_categories(table):
    """Mark the text column as categories."""
    return table.astype({"tariff": "category"})


auto = AutoDCONClassifier(random_state=0).fit(X, y)
trees = HistGradientBoostingClassifier(random_state=0).fit(as_categories(X), y)
probabilities = {
    "AutoDCONClassifier": auto.predict_proba(X_test),
    "HistGradientBoostingClassifier": trees.predict_proba(as_categories(X_test)),
}

# %%
# The closer to the diagonal, the better. The log loss measures the same and more in one number; lower is better.

with style():
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.8), sharey=True, layout="constrained")
    for axis, (name, found) in zip(axes, probabilities.items(), strict=True):
        observed, predicted = calibration_curve(y_test == "cancelled", found[:, 0], n_bins=10, strategy="quantile")
        axis.axline((0, 0), slope=1, color="#6e6e6e", linewidth=0.8)
        axis.plot(predicted, observed, "o-", color="#0072b2", markersize=5)
        loss = log_loss(y_test, found)
        axis.set(title=f"{name}\nlog loss {loss:.3f}", xlabel="predicted probability", aspect="equal")
    axes[0].set_ylabel("share that cancelled")

# %%
# The importances, as shares of the increase of the out-of-fold log loss when a column is shuffled:

for name, share in sorted(zip(table.columns, auto.feature_importances_, strict=True), key=lambda pair: -pair[1]):
    print(f"{name:8} {share:5.1%}")
