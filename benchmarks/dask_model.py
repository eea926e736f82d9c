"""A cost model of fits on Dask clusters, fitted to stored results of `dask_cluster.py`.

    python benchmarks/dask_model.py                     # coefficients, fit, and tables for larger clusters
    python benchmarks/dask_model.py --results FILE

Seconds of an epoch = rounds x (latency + workers x seconds a worker) + megabytes x seconds a megabyte + rows of a
worker x (evaluations x seconds of an evaluation a row + programmes x seconds of a programme a row). What a worker adds
to a round comes from empty rounds, and what a megabyte costs from rounds with long answers. The other coefficients are
those that fit the logarithm of the seconds of `rows` best, none of them negative. What larger clusters need is assumed
to grow as the parameters of `Assumed` say, those of sweeps as the measured epoch with the most rows. What the driver
does with the rows that it gets in a sweep counts as work of the workers, though more workers do not make it less: the
forecasts of sweeps are optimistic.
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


def fitted(results: Sequence[dict[str, Any]], a_megabyte: float) -> np.ndarray:
    """Seconds for each of `NAMES`, of which those of a megabyte are known."""
    parts = np.array([described(result) for result in results])
    seconds = np.array([result["seconds in the epoch"] for result in results])
    unit = seconds.mean() / parts.mean(axis=0)

    def costs(logarithms: np.ndarray) -> np.ndarray:
        a_round, *a_row = unit[[0, 2, 3]] * np.exp(logarithms)
        return np.array([a_round, a_megabyte, *a_row])

    def errors(logarithms: np.ndarray) -> np.ndarray:
        return np.log(parts @ costs(logarithms) / seconds)

    return costs(least_squares(errors, np.full(3, -2.0), bounds=(-14.0, 5.0)).x)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """How much longer a round takes for each more."""
    return float(np.polyfit(*np.array(points).T, deg=1)[0])


def seconds_a_worker(results: Sequence[dict[str, Any]], most: int) -> float:
    """How much longer a round takes for each worker, from empty rounds with at most so many."""
    return slope([(r["workers"], 1e-3 * r["milliseconds of a round"]) for r in results if r["workers"] <= most])


def seconds_a_megabyte(results: Sequence[dict[str, Any]]) -> float:
    """How much longer a round takes for each megabyte of its answers."""
    return slope([(r["megabytes"], 1e-3 * r["milliseconds of a round"]) for r in results])


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
    costs = fitted(results, seconds_a_megabyte([line for line in lines if line["what"] == "megabytes"]))
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
    sweeps = max((result for result in results if result["programmes"]), key=lambda result: result["rows"])
    bytes_a_row = 1e6 * sweeps["megabytes"] / sweeps["rows"]
    for work in (
        Assumed("100 evaluations", 96, 100, 0, 0.0, gradients),
        Assumed("epoch, net split", sweeps["rounds"], 0, sweeps["programmes"], bytes_a_row, 600.0),
    ):
        for rows in (1e9, 1e11):
            for workers in (100, 1000):
                print(forecast(work, costs, each_worker, rows, workers, given.partition))
    return 0


if __name__ == "__main__":
    sys.exit(main())
