"""Fits on a local Dask cluster whose workers are killed by SIGKILL at random moments, and end with the same RegLoss.

Every scenario is fitted once undisturbed. Then it is fitted again and again, while a thread kills one of the two worker
processes now and then, until there were as many kills as asked for. RegLoss of every epoch must agree to 1e-8. A worker
that is killed while it starts may never come back; if so, there is another cluster for the next fit, and a fit that is
left without any worker must say so. One that takes more than ten minutes hangs: the benchmark tells where, and ends. A
line is printed after each fit.

    python benchmarks/dask_kills.py --kills 20 --seed 0
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import faulthandler
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning

from dask_cluster import tell
from dconnet.dask import DaskDCONRegressor
from dconnet.dask.waiting import NoWorkersError

TOLERANCE = 1e-8
# Seconds that a worker may take to start, on a machine with other work.
PATIENCE = 60
# Seconds after which a fit, or the end of a cluster, hangs.
HANGS = 600
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
    """A cluster of two workers, which does not give up one that takes more than 15 seconds to start again."""
    options: dict[str, Any] = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": ":0",
        "silence_logs": 50,
    }
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        LocalCluster(n_workers=2, **options) as cluster,
        Client(cluster) as client,
    ):
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


@dataclass(slots=True)
class Outcome:
    """What has become of the fits of a scenario."""

    kills: int = 0
    given_up: int = 0
    differences: list[float] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """How many fits differ by more than rounding."""
        return sum(not difference <= TOLERANCE for difference in self.differences)


def disturbed(name: str, n_kills: int, rng: np.random.Generator) -> Outcome:
    """Fit a scenario until so many workers were killed."""
    with _cluster() as client:
        began = time.perf_counter()
        expected = fitted(*SCENARIOS[name], client).history_.objective
        longest = max(1.0, time.perf_counter() - began)
    outcome = Outcome()
    while outcome.kills < n_kills:
        with _cluster() as client:
            while outcome.kills < n_kills and _is_whole(client):
                faulthandler.dump_traceback_later(HANGS, exit=True)
                killer = Killer(client, rng, longest)
                try:
                    with killer.at_work():
                        found = fitted(*SCENARIOS[name], client).history_.objective
                    outcome.differences.append(float(np.max(np.abs(found / expected - 1.0))))
                except NoWorkersError as error:
                    print(error, flush=True)
                    outcome.given_up += 1
                outcome.kills += killer.kills
                print(f"{name}: {len(outcome.differences)} fits, {outcome.kills} kills", flush=True)
    faulthandler.cancel_dump_traceback_later()
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="in each scenario")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenarios", type=int, nargs="+", default=range(len(SCENARIOS)), help="by their numbers")
    parser.add_argument("--store", type=Path, help="file to append the results to, a line of JSON for each scenario")
    given = parser.parse_args(arguments)
    good = True
    for number in given.scenarios:
        name, began = list(SCENARIOS)[number], time.perf_counter()
        outcome = disturbed(name, given.kills, np.random.default_rng([given.seed, number]))
        good &= outcome.wrong == 0
        result = {
            "scenario": name,
            "kills": outcome.kills,
            "fits": len(outcome.differences),
            "wrong": outcome.wrong,
            "largest difference": max(outcome.differences),
            "without any worker": outcome.given_up,
            "seconds": round(time.perf_counter() - began, 1),
        }
        tell(result, given.store)
    print("all as they should be" if good else "NOT as they should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
