"""
Choosing gamma
==============

``gamma`` is the parameter that matters most for prediction: it sets the strength of the regularisation. Too
small, and the network fits the noise; too large, and the neurons vanish until it predicts nothing but zero.
"""

from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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

features, target = StandardScaler().fit(X_train), StandardScaler().fit(y_train[:, None])
training = features.transform(X_train), target.transform(y_train[:, None])[:, 0]
validation = {"X_val": features.transform(X_val), "y_val": target.transform(y_val[:, None])[:, 0]}
model = DCONRegressor(n_hidden=5, tol=1e-4, random_state=0)
display = PathDisplay.from_estimator(model, *training, **validation)

# %%
# The path belongs to one split of the data, and a validation set of this size is small.
#
# Cross-validation
# ----------------
# A grid search averages over several splits. Short fits are enough for the choice, hence the loose ``tol``.

short = make_pipeline(StandardScaler(), DCONRegressor(n_hidden=5, tol=1e-2, random_state=0))
scaled = TransformedTargetRegressor(short, transformer=StandardScaler())
grid = {"regressor__dconregressor__gamma": [0.01, 0.1, 0.3, 1.0, 3.0]}
search = GridSearchCV(scaled, grid, cv=3).fit(X_train, y_train)
for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"gamma = {setting['regressor__dconregressor__gamma']:<4}  cross-validated R² = {score:.3f}")
