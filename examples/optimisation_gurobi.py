"""Maximise a trained network with gurobi-machinelearning, and with `dconnet.optimise` for comparison.

    pip install dconnet gurobipy gurobi-machinelearning
    python examples/optimisation_gurobi.py

The network is exported as scikit-learn's MLPRegressor, which gurobi-machinelearning accepts. In Gurobi it can be part
of a larger model, with further variables and constraints. Gurobi runs without a licence up to 2000 variables.
"""

import gurobipy
from gurobi_ml import add_predictor_constr
from sklearn.datasets import load_diabetes

from dconnet import DCONRegressor, optimise

X, y = load_diabetes(return_X_y=True, scaled=False)
network = DCONRegressor(n_hidden=8, gamma=0.1, random_state=0).fit(X, y).network_
low, high = X.min(axis=0), X.max(axis=0)

with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as model:
    inputs = model.addMVar((1, network.n_features), lb=low[None, :], ub=high[None, :])
    output = model.addMVar((1, 1), lb=-gurobipy.GRB.INFINITY)
    add_predictor_constr(model, network.to_sklearn(), inputs, output)
    model.setObjective(output[0, 0], gurobipy.GRB.MAXIMIZE)
    model.optimize()
    theirs = model.ObjVal

ours = optimise(network, list(zip(low, high, strict=True)))
print(f"Gurobi: {theirs:.4f}, dconnet: {ours.value:.4f}")
assert abs(theirs - ours.value) <= 1e-3 * abs(ours.value)
