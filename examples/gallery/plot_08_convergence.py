"""
Convergence on the same objective
=================================

Three optimisers minimise the same regularised loss (RegLoss) from the same start: the accelerated algorithm, which is
the default; Algorithm 1 of the paper, ``algorithm="paper"``; and SciPy's L-BFGS on all weights.
"""

import warnings
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

from dconnet import DCONRegressor, Network, Problem
from dconnet.inspection.plotting import ConvergenceDisplay, style

X, y = load_diabetes(return_X_y=True, scaled=False)
X, y = scale(X), scale(y)
problem = Problem(X, y, gamma=0.01)
rng = np.random.default_rng(0)
start = Network(rng.uniform(-0.5, 0.5, size=(10, 10)), np.zeros(10), rng.uniform(-0.7, 0.7, size=10))

# %%
# L-BFGS needs RegLoss and its gradient as functions of a flat vector of weights.


def unpack(weights):
    """Split a flat vector into W, b and alpha."""
    return Network(weights[:100].reshape(10, 10), weights[100:110], weights[110:])


def loss_and_gradient(weights):
    """RegLoss and its gradient."""
    network = unpack(weights)
    before = X @ network.W.T + network.b
    hidden = np.maximum(before, 0.0)
    residual = hidden @ network.alpha - y
    loss = (residual @ residual + problem.gamma * (np.sum(before**2) + network.alpha @ network.alpha)) / len(y)
    by_before = 2.0 * (residual[:, None] * network.alpha * (before > 0.0) + problem.gamma * before)
    by_alpha = 2.0 * (hidden.T @ residual + problem.gamma * network.alpha)
    gradient = np.concatenate([(by_before.T @ X).ravel(), by_before.sum(axis=0), by_alpha]) / len(y)
    return loss, gradient


# %%
# Each run records RegLoss and the time that has passed.

began = perf_counter()
lbfgs = [(0.0, problem.objective(start))]
result = minimize(
    loss_and_gradient,
    np.concatenate([start.W.ravel(), start.b, start.alpha]),
    method="L-BFGS-B",
    jac=True,
    options={"maxiter": 10_000, "maxfun": 20_000},
    callback=lambda weights: lbfgs.append((perf_counter() - began, problem.objective(unpack(weights)))),
)

print(result.message)

common = {"n_hidden": 10, "gamma": 0.01, "scale": False, "init": start, "random_state": 0, "max_seconds": 3.0}
accelerated = DCONRegressor(**common).fit(X, y)
with warnings.catch_warnings(action="ignore"):  # Algorithm 1 needs more than three seconds to converge
    paper = DCONRegressor(algorithm="paper", max_epochs=None, **common).fit(X, y)

# %%
# The regularised loss over time. Each optimiser is drawn up to the point where it stops; Algorithm 1 is stopped
# after three seconds.

with style():
    figure, axis = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axis.step(*np.transpose(lbfgs), color="#009e73", where="post", label="L-BFGS (SciPy)")
    for model, name, colour in (
        (paper, "Algorithm 1 of the paper", "#d55e00"),
        (accelerated, "accelerated", "#0072b2"),
    ):
        history = model.history_
        axis.step(history.seconds, history.objective, color=colour, where="post", label=name)
        axis.plot(history.seconds[-1], history.objective[-1], "o", color=colour, markersize=4)
    axis.plot(*lbfgs[-1], "o", color="#009e73", markersize=4)
    axis.set_xscale("symlog", linthresh=0.01)
    axis.set(xlabel="seconds", ylabel="RegLoss", xlim=(0, 4), ylim=(0.2, 0.8))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.legend()

# %%
# L-BFGS stops in the first minimum that it finds. The accelerated algorithm continues with *hops*: it perturbs the
# weights, descends again, and keeps the result if it is lower. This is one start on one dataset; the
# :doc:`races <../accelerated>` compare many.
#
# What Algorithm 1 converges to
# -----------------------------
# ``ConvergenceDisplay`` draws the four convergence plots of the paper. It repeats the fit on the training data to
# compute a subgradient after each epoch.

model = DCONRegressor(n_hidden=5, gamma=1.0, scale=False, algorithm="paper", max_epochs=2000, random_state=0).fit(X, y)
display = ConvergenceDisplay.from_estimator(model, X, y)
