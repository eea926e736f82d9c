"""How far apart rounding takes two fits by joint steps, after more and more evaluations.

    python benchmarks/dask_rounding.py --store docs/benchmarks/dask_rounding.jsonl

Fits of 10,000 rows are compared with the same fit that differs by rounding alone:

- one machine: `DCONRegressor` for y and for y (1 + k 1e-15), k = 1 to 5;
- SciPy: L-BFGS-B on the same loss, for the same targets;
- partitions: `DaskDCONRegressor` with partitions that are not whole leaves, against `DCONRegressor`;
- whole leaves: the same with partitions that are.

Every result is a line of JSON with the relative differences of RegLoss.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from dask_cluster import tell, two_workers
from dconnet import DCONRegressor
from dconnet.dask import DaskDCONRegressor
from dconnet.model.rows import LEAF

N_ROWS, N_HIDDEN, GAMMA = 10_000, 4, 0.01
EVALUATIONS = (10, 20, 40, 80, 160, 320)
N_CASES = 5


def rows() -> tuple[Any, Any]:
    """Rows in the order in which one machine has them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 3))
    X = X[np.lexsort(X.T[::-1])]
    return X, np.abs(X[:, 0]) + np.maximum(X[:, 1] - X[:, 2], 0.0) + 0.1 * rng.normal(size=N_ROWS)


def settings(evaluations: int) -> dict[str, Any]:
    common = {"n_hidden": N_HIDDEN, "gamma": GAMMA, "scale": False, "max_epochs": 1, "random_state": 0}
    return common | {"max_evaluations": evaluations}


def here(X: Any, y: Any, evaluations: int) -> float:
    """RegLoss of a fit in this process."""
    return float(DCONRegressor(**settings(evaluations)).fit(X, y).history_.objective[-1])


def by_scipy(X: Any, y: Any, evaluations: int) -> float:
    """RegLoss of another optimiser of the same loss."""
    M = np.column_stack([X, np.ones(len(X))])
    shape = (N_HIDDEN, M.shape[1] + 1)

    def loss(theta: Any) -> tuple[float, Any]:
        W, alpha = np.split(theta.reshape(shape), [-1], axis=1)
        hidden = np.maximum(M @ W.T, 0.0)
        residual = hidden @ alpha[:, 0] - y
        slopes = (2.0 / len(y)) * residual
        for_W = (np.outer(slopes, alpha[:, 0]) * (hidden > 0.0)).T @ M
        gradient = np.column_stack([for_W, hidden.T @ slopes]) + 2.0 * GAMMA * theta.reshape(shape)
        return float(residual @ residual / len(y) + GAMMA * theta @ theta), gradient.ravel()

    start = np.random.default_rng(1).normal(size=shape).ravel()
    options = {"maxfun": evaluations, "maxiter": evaluations, "ftol": 0.0, "gtol": 0.0}
    return float(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).fun)


def nudged(fit: Callable[[Any, Any, int], float], evaluations: int) -> list[float]:
    """Relative differences for targets that differ by rounding."""
    X, y = rows()
    expected = fit(X, y, evaluations)
    return [abs(fit(X, y * (1.0 + 1e-15 * k), evaluations) / expected - 1.0) for k in range(1, N_CASES + 1)]


def spread(client: Client, partitions: Sequence[Sequence[int]], evaluations: int) -> list[float]:
    """Relative differences of fits on a cluster from one in this process."""
    X, y = rows()
    expected, found = here(X, y, evaluations), []
    for lengths in partitions:
        far = [da.from_array(a, chunks=(tuple(lengths), *a.shape[1:])) for a in (X, y)]
        model = DaskDCONRegressor(**settings(evaluations), client=client).fit(*far)
        found.append(abs(float(model.history_.objective[-1]) / expected - 1.0))
    return found


def results() -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(2)
    borders = [np.sort(rng.integers(0, N_ROWS, size=4)) for _ in range(N_CASES)]
    others = [np.diff([0, *some, N_ROWS]).tolist() for some in borders]
    whole = [[LEAF, 0, N_ROWS - LEAF], [2 * LEAF, N_ROWS - 2 * LEAF], [LEAF, LEAF, N_ROWS - 2 * LEAF]]
    with two_workers() as client:
        for n in EVALUATIONS:
            yield {"what": "one machine", "evaluations": n, "differences": nudged(here, n)}
            yield {"what": "SciPy", "evaluations": n, "differences": nudged(by_scipy, n)}
            yield {"what": "partitions", "evaluations": n, "differences": spread(client, others, n)}
            yield {"what": "whole leaves", "evaluations": n, "differences": spread(client, whole, n)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="file to append the results to")
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    for result in results():
        tell(result | {"differences": [float(f"{d:.2e}") for d in result["differences"]]}, given.store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
