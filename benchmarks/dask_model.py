"""A cost model of fits on Dask clusters, fitted to the stored results of `dask_cluster.py rows` and `workers`.

    python benchmarks/dask_model.py                     # coefficients, fit, and tables for larger clusters
    python benchmarks/dask_model.py --results FILE

Seconds of an epoch = rounds x (latency + workers x seconds a worker) + megabytes x seconds a megabyte + rows of a
worker x (evaluations x seconds of an evaluation a row + programmes x seconds of a programme a row). Coefficients are
those that fit the logarithm of the measured seconds best, none of them negative; the share of the round that grows with
the workers comes from empty rounds. What larger clusters need is assumed to grow as the parameters of `Assumed` say. In
sweeps, bytes and work both grow with the rows, and the fit cannot tell them apart: what it gives to the bytes, which
one driver gets, more workers do not make less, so that its forecasts of sweeps are pessimistic.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

RESULTS = Path(__file__).parents[1] / "docs" / "benchmarks" / "dask.jsonl"
MEASURED_WORKERS = 2
NAMES = ("a round", "a megabyte", "a row and evaluation", "a row and programme")


@dataclass(frozen=True, slots=True)
class Assumed:
    """The work of an epoch on larger clusters: 20 features, 20 neurons."""

    work: str
    rounds: int
    evaluations: int
    programmes: int
    bytes_a_row: float  # that come to the driver
    bytes_a_partition_and_round: float


def described(result: dict[str, Any]) -> list[float]:
    """What the seconds of a measured epoch are made of."""
    rows = result["rows"] / MEASURED_WORKERS
    return [result["rounds"], result["megabytes"], rows * result["evaluations"], rows * result["programmes"]]


def fitted(results: Sequence[dict[str, Any]]) -> np.ndarray:
    """Seconds for each of `NAMES`."""
    parts = np.array([described(result) for result in results])
    seconds = np.array([result["seconds in the epoch"] for result in results])
    unit = seconds.mean() / parts.mean(axis=0)

    def errors(logarithms: np.ndarray) -> np.ndarray:
        return np.log(parts @ (unit * np.exp(logarithms)) / seconds)

    start = np.full(len(NAMES), -2.0)
    return unit * np.exp(least_squares(errors, start, bounds=(-14.0, 5.0)).x)


def seconds_a_worker(results: Sequence[dict[str, Any]], most: int) -> float:
    """How much longer a round takes for each worker, from empty rounds with at most so many."""
    points = [(r["workers"], 1e-3 * r["milliseconds of a round"]) for r in results if r["workers"] <= most]
    return float(np.polyfit(*np.array(points).T, deg=1)[0])


def forecast(work: Assumed, costs: np.ndarray, each_worker: float, rows: float, workers: int, partition: float) -> str:
    """A line of the table, with the part that costs most."""
    megabytes = 1e-6 * (work.bytes_a_row * rows + work.rounds * work.bytes_a_partition_and_round * rows / partition)
    own = rows / workers
    parts = {
        "compute": own * (work.evaluations * costs[2] + work.programmes * costs[3]),
        "bytes": megabytes * costs[1],
        "rounds": work.rounds * (costs[0] + workers * each_worker),
    }
    shown = " | ".join(f"{seconds:,.0f}" for seconds in [*parts.values(), sum(parts.values())])
    return f"| {work.work} | {rows:.0e} | {workers} | {shown} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--partition", type=float, default=1e6, help="rows of a partition in the forecasts")
    given = parser.parse_args(arguments)
    lines = [json.loads(line) for line in given.results.read_text().splitlines()]
    results = [line for line in lines if line["what"] == "rows"]
    costs = fitted(results)
    each_worker = seconds_a_worker([line for line in lines if line["what"] == "workers"], most=32)
    for name, cost in zip(NAMES, costs, strict=True):
        print(f"seconds for {name:22} {cost:.2e}")
    print(f"seconds for {'a round and worker':22} {each_worker:.2e}")
    print("\n| work | rows | measured | model |\n|---|--:|--:|--:|")
    for result in results:
        measured = result["seconds in the epoch"]
        print(f"| {result['work']} | {result['rows']:.0e} | {measured:.1f} | {costs @ described(result):.1f} |")
    print("\n| work | rows | workers | compute | bytes | rounds | in all |\n|---|--:|--:|--:|--:|--:|--:|")
    gradients = 8.0 * 20 * 22 * 4  # of a partition: blocks of leaves of two or three sizes, padded
    for work in (
        Assumed("100 evaluations", 96, 100, 0, 0.0, gradients),
        Assumed("epoch, net split", 2000, 0, 630, 1800.0, 600.0),
    ):
        for rows in (1e9, 1e11):
            for workers in (100, 1000):
                print(forecast(work, costs, each_worker, rows, workers, given.partition))
    return 0


if __name__ == "__main__":
    sys.exit(main())
