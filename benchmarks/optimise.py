"""The global optimum of trained networks: ours against mixed-integer formulations, as ratios in one run.

    python benchmarks/optimise.py [--datasets NAME ...] [--hidden 10 20 50] [--seconds 60] [--report] [--pack FILE]

Rivals are the plain big-M programme in SciPy's HiGHS, our own programme there, and the formulations of
gurobi-machinelearning and of OMLT (big-M, and a partition of the inputs of each neuron) in Gurobi, within the limits of
its free licence: the dependency group `peers`. Values must agree where both are optimal. Times are wall times,
of the formulation too.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import time
import warnings
from dataclasses import dataclass
from typing import Any

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning

from cells import Result, Store, add_pack_option, add_run_options, builds
from dconnet import DCONRegressor, Network, optimise
from paper_data import raw_table
from report import Report, geometric_mean, make_console

PUBLIC = {
    "diabetes": lambda: load_diabetes(return_X_y=True, scaled=False),
    "friedman 1": lambda: make_friedman1(500, noise=1.0, random_state=0),
}
DATASETS = ("DS1", "DS7", "DS9", *PUBLIC)
METHODS = ("branching", "highs", "big-M", "gurobi-ml", "OMLT big-M", "OMLT partition")
PACKAGES = {
    "gurobi-ml": ("gurobipy", "gurobi_ml"),
    "OMLT big-M": ("gurobipy", "omlt.neuralnet", "pyomo.environ"),
    "OMLT partition": ("gurobipy", "omlt.neuralnet", "pyomo.environ"),
}
# Values of two methods that are both optimal must agree to this share of the value.
AGREEMENT = 1e-4


@dataclass(frozen=True)
class Cell:
    """One optimum: a method on the network of a dataset, its maximum or its minimum."""

    dataset: str
    n_hidden: int
    sense: str
    method: str
    seconds: float


def trained(dataset: str, n_hidden: int) -> tuple[Network, np.ndarray]:
    """A network of that size, the same in every run, and the rows it was trained on."""
    X, y = PUBLIC[dataset]() if dataset in PUBLIC else raw_table(dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DCONRegressor(n_hidden, gamma=0.01, max_evaluations=5000, max_epochs=3, random_state=0).fit(X, y)
    return model.network_, X


def by_big_m(network: Network, low: np.ndarray, high: np.ndarray, sign: float, seconds: float) -> tuple[float, bool]:
    """The textbook programme: a binary for every neuron, bounds by interval arithmetic."""
    n, h = network.n_features, network.n_hidden
    W, b = network.W * (high - low), network.W @ low + network.b
    least = np.minimum(np.minimum(W, 0.0).sum(axis=1) + b, 0.0)
    most = np.maximum(np.maximum(W, 0.0).sum(axis=1) + b, 0.0)
    one, none = np.eye(h), np.zeros((h, h))
    rows = np.vstack(
        [
            np.hstack([-W, one, none]),
            np.hstack([-W, one, -np.diag(least)]),
            np.hstack([np.zeros((h, n)), one, -np.diag(most)]),
        ]
    )
    lower = np.concatenate([b, np.full(2 * h, -np.inf)])
    upper = np.concatenate([np.full(h, np.inf), b - least, np.zeros(h)])
    found = milp(
        -sign * np.concatenate([np.zeros(n), network.alpha, np.zeros(h)]),
        integrality=np.repeat([0, 1], [n + h, h]),
        bounds=Bounds(0.0, np.concatenate([np.ones(n), most, np.ones(h)])),
        constraints=LinearConstraint(rows, lower, upper),
        options={"mip_rel_gap": 1e-6, "time_limit": seconds},
    )
    value = np.nan if found.x is None else -sign * found.fun + network.intercept
    return float(value), found.status == 0


def by_gurobi(network: Network, low: np.ndarray, high: np.ndarray, sign: float, seconds: float) -> tuple[float, bool]:
    """The formulation of gurobi-machinelearning, of the network as scikit-learn's MLPRegressor."""
    import gurobipy
    from gurobi_ml import add_predictor_constr

    with gurobipy.Env(params={"OutputFlag": 0, "Threads": 1}) as env, gurobipy.Model(env=env) as model:
        model.Params.TimeLimit, model.Params.MIPGap = seconds, 1e-6
        x = model.addMVar((1, network.n_features), lb=low[None, :], ub=high[None, :])
        y = model.addMVar((1, 1), lb=-gurobipy.GRB.INFINITY)
        add_predictor_constr(model, network.to_sklearn(), x, y)
        model.setObjective(sign * y[0, 0], gurobipy.GRB.MAXIMIZE)
        model.optimize()
        value = sign * model.ObjVal if model.SolCount else np.nan
        return float(value), model.Status == gurobipy.GRB.OPTIMAL


def by_omlt(
    network: Network, low: np.ndarray, high: np.ndarray, sign: float, seconds: float, formulation: str
) -> tuple[float, bool]:
    """A formulation of OMLT, with the inputs scaled to their bounds."""
    import omlt
    import pyomo.environ as pyo
    from omlt import neuralnet
    from omlt.neuralnet.layer import DenseLayer, InputLayer

    n, h = network.n_features, network.n_hidden
    W, b = network.W * (high - low), network.W @ low + network.b
    layers = [
        InputLayer([n]),
        DenseLayer([n], [h], weights=W.T, biases=b, activation="relu"),
        DenseLayer([h], [1], weights=network.alpha[:, None], biases=np.array([network.intercept])),
    ]
    described = neuralnet.NetworkDefinition(scaled_input_bounds=dict.fromkeys(range(n), (0.0, 1.0)))
    for layer in layers:
        described.add_layer(layer)
    for first, second in itertools.pairwise(layers):
        described.add_edge(first, second)
    formulated = {
        "OMLT big-M": neuralnet.ReluBigMFormulation,
        "OMLT partition": neuralnet.ReluPartitionFormulation,
    }[formulation]
    model = pyo.ConcreteModel()
    model.network = omlt.OmltBlock()
    model.network.build_formulation(formulated(described))
    model.goal = pyo.Objective(expr=sign * model.network.outputs[0], sense=pyo.maximize)
    solver = pyo.SolverFactory("gurobi_direct", options={"TimeLimit": seconds, "MIPGap": 1e-6, "Threads": 1})
    found = solver.solve(model, load_solutions=False)
    if found.solver.termination_condition != pyo.TerminationCondition.optimal:
        return np.nan, False  # Pyomo gives zero where there is no point yet
    model.solutions.load_from(found)
    return sign * float(pyo.value(model.goal)), True


def run(cell: Cell) -> Result:
    """Value, whether it is proved, and the time."""
    network, X = trained(cell.dataset, cell.n_hidden)
    low, high, sign = X.min(axis=0), X.max(axis=0), 1.0 if cell.sense == "max" else -1.0
    for package in PACKAGES.get(cell.method, ()):
        importlib.import_module(package)  # before the clock starts
    began = time.perf_counter()
    if cell.method in ("branching", "highs"):
        found = optimise(
            network, list(zip(low, high, strict=True)), sense=cell.sense, max_seconds=cell.seconds, method=cell.method
        )
        value, proved = found.value, found.status.is_optimal
    elif cell.method.startswith("OMLT"):
        value, proved = by_omlt(network, low, high, sign, cell.seconds, cell.method)
    else:
        solve = by_big_m if cell.method == "big-M" else by_gurobi
        value, proved = solve(network, low, high, sign, cell.seconds)
    return {"value": value, "proved": bool(proved), "seconds": time.perf_counter() - began}


def rows_of(store: Store, cells: list[Cell]) -> list[tuple[Cell, Result]]:
    """What is there."""
    return [(cell, result) for cell in cells if (result := store.read(cell)) is not None]


def assert_agreement(found: list[tuple[Cell, Result]]) -> None:
    """Two proved optima of the same network are the same."""
    for _, group in itertools.groupby(found, key=lambda pair: (pair[0].dataset, pair[0].n_hidden, pair[0].sense)):
        values = [result["value"] for _, result in group if result["proved"]]
        if values and max(values) - min(values) > AGREEMENT * max(map(abs, values)):
            raise AssertionError(f"Optima differ: {values}")


def show(store: Store, cells: list[Cell], console: Any) -> None:
    """Times by size and method, and the geometric mean of the ratios to ours; a limit counts as its seconds."""
    found = rows_of(store, cells)
    assert_agreement(found)
    ours = {(c.dataset, c.n_hidden, c.sense): r["seconds"] for c, r in found if c.method == "branching"}
    report = Report("Optimum over a box", ("neurons", "method", "proved", "median s", "largest s", "ratio to ours"))
    for n_hidden, method in itertools.product(sorted({c.n_hidden for c in cells}), METHODS):
        part = [(c, r) for c, r in found if c.n_hidden == n_hidden and c.method == method]
        if not part:
            continue
        seconds = [r["seconds"] for _, r in part]
        ratios = [r["seconds"] / ours[c.dataset, c.n_hidden, c.sense] for c, r in part]
        proved = f"{sum(r['proved'] for _, r in part)} of {len(part)}"
        report.add(
            n_hidden,
            method,
            proved,
            f"{np.median(seconds):.4f}",
            f"{max(seconds):.3f}",
            f"{geometric_mean(ratios):.1f}",
        )
    for warning in builds(result for _, result in found):
        console.print(warning)
    report.publish("optimise", console, store.folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--hidden", nargs="+", type=int, default=(10, 20, 50))
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for each optimum")
    add_pack_option(parser)
    add_run_options(parser, "optimise")
    options = parser.parse_args()
    cells = [
        Cell(dataset, n_hidden, sense, method, options.seconds)
        for dataset, n_hidden, sense, method in itertools.product(
            options.datasets, options.hidden, ("max", "min"), options.methods
        )
    ]
    store, console = Store(options.results), make_console()
    if not options.report:
        store.compute(cells, run, options.jobs, console)
    show(store, cells, console)
    if options.pack:
        store.pack(cells, options.pack)


if __name__ == "__main__":
    main()
