"""The global optimum of trained networks: `dconnet.optimise` against mixed-integer formulations.

    python benchmarks/optimise.py [--datasets NAME ...] [--hidden 10 20 50] [--seconds 60] [--report] [--pack]

The rivals are the plain big-M programme in SciPy's HiGHS, and the formulation of gurobi-machinelearning in Gurobi,
within the limits of its free licence: the dependency group `peers`. Proved optima must agree. Times are wall times with
the formulation.
The table shows all stored results: ``--report --results docs/benchmarks`` those of the documentation.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONRegressor, Network, optimise
from paper_data import load_raw_table
from report import Report, add_run_options, build_warnings, compute_cells, geometric_mean
from reproduction.store import Result, Store

PUBLIC = {
    "diabetes": lambda: load_diabetes(return_X_y=True, scaled=False),
    "friedman 1": lambda: make_friedman1(500, noise=1.0, random_state=0),
}
DATASETS = ("DS1", "DS7", "DS9", *PUBLIC)
# Values of two methods that are both optimal must agree to this share of the value.
AGREEMENT = 1e-4


@dataclass(frozen=True)
class Cell:
    """The maximum or minimum (``sense``) of the network of one dataset by one method."""

    dataset: str
    n_hidden: int
    sense: str
    method: str
    seconds: float


def train(dataset: str, n_hidden: int) -> tuple[Network, np.ndarray]:
    """Return a network of that size and the rows it was trained on."""
    X, y = PUBLIC[dataset]() if dataset in PUBLIC else load_raw_table(dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DCONRegressor(n_hidden, gamma=0.01, max_evaluations=5000, max_epochs=3, random_state=0).fit(X, y)
    return model.network_, X


def solve_ours(network: Network, low: np.ndarray, high: np.ndarray, sign: float, seconds: float) -> tuple[float, bool]:
    """Solve by the branch and bound of this package."""
    sense, bounds = "max" if sign > 0.0 else "min", list(zip(low, high, strict=True))
    found = optimise(network, bounds, sense=sense, max_seconds=seconds)
    return found.value, found.status.is_optimal


def solve_big_m(network: Network, low: np.ndarray, high: np.ndarray, sign: float, seconds: float) -> tuple[float, bool]:
    """Solve the textbook programme: a binary for every neuron, bounds by interval arithmetic."""
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


def solve_gurobi(
    network: Network, low: np.ndarray, high: np.ndarray, sign: float, seconds: float
) -> tuple[float, bool]:
    """Solve the formulation of gurobi-machinelearning, with the network as scikit-learn's MLPRegressor."""
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


Solver = Callable[[Network, np.ndarray, np.ndarray, float, float], tuple[float, bool]]

SOLVERS: dict[str, Solver] = {
    "branching": solve_ours,
    "big-M": solve_big_m,
    "gurobi-ml": solve_gurobi,
}


def run(cell: Cell) -> Result:
    """Return the optimum, whether it is proved, and the time."""
    network, X = train(cell.dataset, cell.n_hidden)
    sign = 1.0 if cell.sense == "max" else -1.0
    if cell.method == "gurobi-ml":
        importlib.import_module("gurobi_ml")  # before the clock starts
    began = time.perf_counter()
    value, proved = SOLVERS[cell.method](network, X.min(axis=0), X.max(axis=0), sign, cell.seconds)
    return {"value": value, "proved": bool(proved), "seconds": time.perf_counter() - began}


def check_agreement(found: dict[Cell, Result]) -> None:
    """Raise AssertionError if two proved optima of the same network differ."""
    optima: dict[tuple[str, int, str], list[float]] = {}
    for cell, result in found.items():
        if result["proved"]:
            optima.setdefault((cell.dataset, cell.n_hidden, cell.sense), []).append(result["value"])
    for key, values in optima.items():
        if max(values) - min(values) > AGREEMENT * max(map(abs, values)):
            raise AssertionError(f"Proved optima of {key} differ: {values}")


def make_report(found: dict[Cell, Result]) -> Report:
    """Return times by size and method, with the geometric mean of their ratios to ours; a limit counts in full."""
    ours = {(c.dataset, c.n_hidden, c.sense): r["seconds"] for c, r in found.items() if c.method == "branching"}
    report = Report("Optimum over a box", ("neurons", "method", "proved", "median s", "largest s", "ratio to ours"))
    for n_hidden, method in itertools.product(sorted({cell.n_hidden for cell in found}), SOLVERS):
        part = {c: r for c, r in found.items() if (c.n_hidden, c.method) == (n_hidden, method)}
        if part:
            seconds = [result["seconds"] for result in part.values()]
            ratios = [r["seconds"] / ours[c.dataset, c.n_hidden, c.sense] for c, r in part.items()]
            proved = f"{sum(result['proved'] for result in part.values())} of {len(part)}"
            figures = (f"{np.median(seconds):.4f}", f"{max(seconds):.3f}", f"{geometric_mean(ratios):.1f}")
            report.add(n_hidden, method, proved, *figures)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--hidden", nargs="+", type=int, default=(10, 20, 50))
    parser.add_argument("--methods", nargs="+", default=tuple(SOLVERS), choices=SOLVERS)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for each optimum")
    add_run_options(parser)
    options = parser.parse_args()
    grid = itertools.product(options.datasets, options.hidden, ("max", "min"), options.methods)
    store = Store(options.results, "optimise")
    compute_cells(store, [Cell(*values, options.seconds) for values in grid], run, options)
    found = store.results(Cell)
    check_agreement(found)
    report = make_report(found)
    report.notes += build_warnings(store)
    report.publish("optimise", options.results)


if __name__ == "__main__":
    main()
