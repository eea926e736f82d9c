"""Fits on a local Dask cluster whose workers are killed by SIGKILL at random moments, and end with the same RegLoss.

Every scenario is fitted once undisturbed. Then it is fitted again and again, while a thread kills one of the two worker
processes now and then, until there were as many kills as asked for. RegLoss of every epoch must agree to 1e-8.

    python benchmarks/dask_kills.py --kills 20 --seed 0
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning

from dconnet.dask import DaskDCONRegressor

TOLERANCE = 1e-8
# Seconds that a worker may take to start, on a machine with other work.
PATIENCE = 30
# Name, rows, and the parameters of the estimator.
COMMON: dict[str, Any] = {"n_hidden": 4, "gamma": 0.01, "scale": False, "random_state": 0}
SCENARIOS: dict[str, tuple[int, dict[str, Any]]] = {
    "paper, few rows": (6_000, {"algorithm": "paper", "max_epochs": 30}),
    "net split, many rows": (20_000, {"algorithm": "paper", "split": "net", "max_epochs": 3}),
    "accelerated, many rows": (20_000, {"max_evaluations": 20, "max_epochs": 1}),
}


def _rows(n_rows: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    y = np.abs(X[:, 0]) + np.maximum(X[:, 1] - X[:, 2], 0.0) + 0.1 * rng.normal(size=n_rows)
    chunks = tuple(np.diff(np.linspace(0, n_rows, 6).astype(int)).tolist())
    return da.from_array(X, chunks=(chunks, 4)), da.from_array(y, chunks=(chunks,))


class Killer:
    """Kills a worker after random times, but never the last one."""

    def __init__(self, client: Client, rng: np.random.Generator, longest: float) -> None:
        self.client, self.rng, self.longest = client, rng, longest
        self.kills, self._stop = 0, Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Kill for as long as this lasts."""
        thread = Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._stop.clear()

    def _run(self) -> None:
        while not self._stop.wait(self.rng.uniform(0.0, self.longest)):
            pids = sorted(self.client.run(os.getpid, on_error="ignore").values())
            if len(pids) > 1:
                os.kill(int(self.rng.choice(pids)), signal.SIGKILL)
                self.kills += 1


@contextmanager
def _cluster() -> Iterator[Client]:
    """A cluster of two workers."""
    options: dict[str, Any] = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",
        "silence_logs": 50,
    }
    with LocalCluster(n_workers=2, **options) as cluster, Client(cluster) as client:
        yield client


def _is_whole(client: Client) -> bool:
    """Whether both workers are there; one that was killed while it started may never come back."""
    try:
        client.wait_for_workers(2, timeout=PATIENCE)
    except TimeoutError:
        return False
    return True


def fitted(n_rows: int, parameters: dict[str, Any], client: Client) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DaskDCONRegressor(**COMMON, **parameters, client=client).fit(*_rows(n_rows))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="in each scenario")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenarios", type=int, nargs="+", default=range(len(SCENARIOS)), help="by their numbers")
    parser.add_argument("--store", type=Path, help="file to append the results to, a line of JSON for each scenario")
    given = parser.parse_args(arguments)
    good = True
    print(f"{'scenario':28} {'kills':>6} {'fits':>6} {'wrong':>6} {'largest difference':>20}", flush=True)
    for number in given.scenarios:
        name, (n_rows, parameters) = list(SCENARIOS.items())[number]
        with _cluster() as client:
            began = time.perf_counter()
            expected = fitted(n_rows, parameters, client).history_.objective
            longest = max(1.0, time.perf_counter() - began)
        rng = np.random.default_rng([given.seed, number])
        kills, differences = 0, list[float]()
        while kills < given.kills:
            with _cluster() as client:
                while kills < given.kills and _is_whole(client):
                    killer = Killer(client, rng, longest)
                    with killer.at_work():
                        found = fitted(n_rows, parameters, client).history_.objective
                    kills += killer.kills
                    differences.append(float(np.max(np.abs(found / expected - 1.0))))
        seconds = time.perf_counter() - began
        wrong = sum(not difference <= TOLERANCE for difference in differences)
        good &= wrong == 0
        print(f"{name:28} {kills:6d} {len(differences):6d} {wrong:6d} {max(differences):20.1e}", flush=True)
        result = {
            "scenario": name,
            "kills": kills,
            "fits": len(differences),
            "wrong": wrong,
            "largest difference": max(differences),
            "seconds": round(seconds, 1),
        }
        if given.store is not None:
            with given.store.open("a") as file:
                file.write(json.dumps(result) + "\n")
    print("all as they should be" if good else "NOT as they should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
