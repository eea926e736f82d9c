"""Fit on a local Dask cluster whose workers are killed at random moments, and compare RegLoss with an undisturbed fit.

    python benchmarks/dask_kills.py --kills 20

Each scenario is fitted until the given number of workers was killed by SIGKILL, never the last one. RegLoss of every
epoch must agree to 1e-8. Results are printed as lines of JSON; docs/dask.md shows them.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import signal
import sys
import warnings
from threading import Event, Thread
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning

from dconnet.dask import DaskDCONRegressor

TOLERANCE = 1e-8
COMMON = {"n_hidden": 4, "gamma": 0.01, "scale": False, "random_state": 0}
SCENARIOS: dict[str, tuple[int, dict[str, Any]]] = {
    "paper": (6_000, {"algorithm": "paper", "max_epochs": 30}),
    "accelerated": (20_000, {"max_evaluations": 20, "max_epochs": 1}),
    "accelerated with sweeps": (20_000, {"max_evaluations": 1500, "max_epochs": 2}),
}


def fit(scenario: str, client: Client) -> Any:
    n_rows, options = SCENARIOS[scenario]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    y = np.abs(X[:, 0]) + np.maximum(X[:, 1] - X[:, 2], 0.0) + 0.1 * rng.normal(size=n_rows)
    model = DaskDCONRegressor(**COMMON, **options, client=client)
    return model.fit(*(da.from_array(a, chunks=(n_rows // 5, *a.shape[1:])) for a in (X, y))).history_.objective


def kill_workers(client: Client, rng: np.random.Generator, done: Event, kills: list[int]) -> None:
    """Kill a worker after random times, but never the last one."""
    while not done.wait(rng.uniform(0.0, 1.0)):
        processes = sorted(client.run(os.getpid, on_error="ignore").values())
        if len(processes) > 1:
            kills.append(int(rng.choice(processes)))
            os.kill(kills[-1], signal.SIGKILL)


def run_scenario(scenario: str, n_kills: int, client: Client) -> dict[str, Any]:
    expected = fit(scenario, client)
    rng, kills, differences = np.random.default_rng(0), list[int](), list[float]()
    while len(kills) < n_kills:
        client.wait_for_workers(2, timeout=600)
        done = Event()
        killer = Thread(target=kill_workers, args=(client, rng, done, kills))
        killer.start()
        try:
            differences.append(float(np.max(np.abs(fit(scenario, client) / expected - 1.0))))
        finally:
            done.set()
            killer.join()
    return {
        "scenario": scenario,
        "kills": len(kills),
        "fits": len(differences),
        "wrong": sum(difference > TOLERANCE for difference in differences),
        "largest difference": max(differences),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="kills in each scenario")
    n_kills, n_wrong = parser.parse_args().kills, 0
    warnings.simplefilter("ignore", ConvergenceWarning)
    for scenario in SCENARIOS:
        # Workers that were killed may take long to come back: a cluster would give them up after 15 seconds.
        with (
            dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as cluster,
            Client(cluster) as client,
        ):
            result = run_scenario(scenario, n_kills, client)
        print(json.dumps(result), flush=True)
        n_wrong += result["wrong"]
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
