"""
Choosing gamma
==============

``gamma`` is the parameter that matters most for prediction: it sets the strength of the regularisation. Too
small, and the network fits the noise; too large, and the neurons vanish until it predicts nothing but the mean. It is
in units of the target's standard deviation.
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
# The path belongs to one split of the data, and a validation set of this size is small.
#
# Cross-validation
# ----------------
# A cross-validation averages over several splits. Short fits are enough for the choice, and the network is then
# trained at the best value; ``DCONRegressor`` does the same by default.

search = DCONRegressor(n_hidden=5, gamma=[0.01, 0.1, 0.3, 1.0, 3.0], random_state=0).fit(X_train, y_train)
for gamma, errors in zip(search.gammas_, search.mse_path_, strict=True):
    print(
        f"gamma = {gamma / search.target_scale_:<4.2g}  cross-validated R² = {1.0 - errors.mean() / y_train.var():.3f}"
    )
