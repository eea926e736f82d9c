"""Maximise a trained network with OMLT and Pyomo, and with `dconnet.optimise` for comparison.

    pip install dconnet omlt pyomo gurobipy
    python examples/optimisation_omlt.py

OMLT describes a network by its layers and adds it to a Pyomo model, which may have other parts. Any mixed-integer
solver of Pyomo can be used; here it is Gurobi, without a licence.
"""

import itertools

import numpy as np
import pyomo.environ as pyo
from omlt import OmltBlock
from omlt.neuralnet import NetworkDefinition, ReluBigMFormulation
from omlt.neuralnet.layer import DenseLayer, InputLayer
from sklearn.datasets import load_diabetes

from dconnet import DCONRegressor, Network, optimise


def describe_layers(network: Network, bounds: list[tuple[float, float]]) -> NetworkDefinition:
    """Return the two layers of a network for OMLT."""
    n, h = network.n_features, network.n_hidden
    described = NetworkDefinition(scaled_input_bounds=dict(enumerate(bounds)))
    layers = [
        InputLayer([n]),
        DenseLayer([n], [h], weights=network.W.T, biases=network.b, activation="relu"),
        DenseLayer([h], [1], weights=network.alpha[:, None], biases=np.array([network.intercept])),
    ]
    for layer in layers:
        described.add_layer(layer)
    for first, second in itertools.pairwise(layers):
        described.add_edge(first, second)
    return described


X, y = load_diabetes(return_X_y=True, scaled=False)
network = DCONRegressor(n_hidden=8, gamma=0.1, random_state=0).fit(X, y).network_
bounds = [(float(low), float(high)) for low, high in zip(X.min(axis=0), X.max(axis=0), strict=True)]

model = pyo.ConcreteModel()
model.network = OmltBlock()
model.network.build_formulation(ReluBigMFormulation(describe_layers(network, bounds)))
model.largest = pyo.Objective(expr=model.network.outputs[0], sense=pyo.maximize)
pyo.SolverFactory("gurobi_direct").solve(model)
theirs = pyo.value(model.largest)

ours = optimise(network, bounds)
print(f"OMLT: {theirs:.4f}, dconnet: {ours.value:.4f}")
assert abs(theirs - ours.value) <= 1e-3 * abs(ours.value)
