"""
Choosing gamma
==============

``gamma`` is the parameter that matters most for prediction: it sets the strength of the regularisation. Too small, and
the network fits the noise; too large, and the neurons vanish until it predicts nothing but zero.
"""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from dconnet import DCONRegressor
from dconnet.inspection.plotting import PathDisplay

X, y = load_diabetes(return_X_y=True, scaled=False)
X_train, X_val, y_train, y_val = train_test_split(X, scale(y), random_state=0)
scaler = StandardScaler().fit(X_train)

# %%
# The path over gamma
# -------------------
# ``PathDisplay`` fits the network over a grid of values, each fit starting from the previous one, and shows the errors and
# the number of neurons that still contribute. The dotted line marks the smallest error on the validation data.

model = DCONRegressor(n_hidden=5, tol=1e-4, random_state=0)
validation = {"X_val": scaler.transform(X_val), "y_val": y_val}
display = PathDisplay.from_estimator(model, scaler.transform(X_train), y_train, **validation)

# %%
# The path belongs to one split of the data, and a validation set of this size is small.
#
# Cross-validation
# ----------------
# A grid search averages over several splits. Short fits are enough for the choice, hence the loose ``tol``.

short = make_pipeline(StandardScaler(), DCONRegressor(n_hidden=5, tol=1e-2, random_state=0))
search = GridSearchCV(short, {"dconregressor__gamma": [0.01, 0.1, 0.3, 1.0, 3.0]}, cv=3).fit(X_train, y_train)
for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"gamma = {setting['dconregressor__gamma']:<4}  cross-validated R² = {score:.3f}")
