"""
Choosing gamma
==============

``gamma`` is the strength of the regularisation and matters most for prediction. If it is too small, the network fits
the noise. If it is too large, the neurons vanish and the network predicts the mean. Its unit is the standard deviation
of the target.
"""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from dconnet import DCONRegressor
from dconnet.inspection.plotting import PathDisplay

X, y = load_diabetes(return_X_y=True, scaled=False)
X_train, X_val, y_train, y_val = train_test_split(X, y, random_state=0)

# %%
# The path over gamma
# -------------------
# ``PathDisplay`` fits the network over a grid of values, each fit starting from the previous one, and shows the
# errors and the number of neurons that still contribute. The dotted line marks the smallest error on the
# validation data.

model = DCONRegressor(n_hidden=5, tol=1e-4, random_state=0)
display = PathDisplay.from_estimator(model, X_train, y_train, X_val=X_val, y_val=y_val)

# %%
# This is one split of the data, and the validation set is small. A cross-validation averages over several splits.
#
# Cross-validation
# ----------------
# Given an array, ``DCONRegressor`` compares the candidates by short fits on five folds and trains on all rows with
# the best. The default ``gamma="auto"`` does the same with candidates of its own.

search = DCONRegressor(n_hidden=5, gamma=[0.01, 0.1, 0.3, 1.0, 3.0], random_state=0).fit(X_train, y_train)
for gamma, errors in zip(search.gammas_, search.mse_path_, strict=True):
    print(
        f"gamma = {gamma / search.target_scale_:<4.2g}  cross-validated R² = {1.0 - errors.mean() / y_train.var():.3f}"
    )
