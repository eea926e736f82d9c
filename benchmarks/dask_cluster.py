"""Measure fits on a Dask cluster of two local workers; docs/dask.md shows the results.

    python benchmarks/dask_cluster.py overhead            # 1e5 rows, against one process
    python benchmarks/dask_cluster.py rows --sizes 1e5 1e6  # more and more rows
    python benchmarks/dask_cluster.py parquet --rows 2e7  # from files, with workers of 2 GiB each
    python benchmarks/dask_cluster.py rivals              # XGBoost and dask-glm on the same rows, if installed

Every result is printed as a line of JSON; --store appends it to a file. Times are wall times.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import resource
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONRegressor, PaperAlgorithm
from dconnet.dask import DaskDCONRegressor

N_FEATURES = 20
PARTITION = 16 * 4096
SETTINGS = {"n_hidden": 20, "gamma": 0.01, "random_state": 0, "max_epochs": 1}
WORK = {"100 evaluations": {"max_evaluations": 100}, "sweep": {"algorithm": PaperAlgorithm(split="net")}}


def make_block(first: int, n_rows: int) -> tuple[Any, Any]:
    """Return some rows of an endless table, the same in every process."""
    rng = np.random.default_rng([7, first])
    X = rng.normal(size=(n_rows, N_FEATURES))
    y = np.abs(X[:, 0]) + np.maximum(X[:, 1] - X[:, 2], 0.0) + np.sin(X[:, 3]) + 0.1 * rng.normal(size=n_rows)
    return X, y


def block_lengths(n_rows: int) -> dict[int, int]:
    return {first: min(PARTITION, n_rows - first) for first in range(0, n_rows, PARTITION)}


def make_dask_rows(n_rows: int) -> tuple[Any, Any]:
    """Return the table as Dask arrays; each block is made by the worker that needs it."""
    X, y = [], []
    for first, n in block_lengths(n_rows).items():
        block = dask.delayed(make_block, pure=True)(first, n)
        X.append(da.from_delayed(block[0], (n, N_FEATURES), dtype=float))
        y.append(da.from_delayed(block[1], (n,), dtype=float))
    return da.concatenate(X), da.concatenate(y)


@contextmanager
def start_cluster(memory: str | int = 0) -> Iterator[Client]:
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": memory}
    with LocalCluster(n_workers=2, silence_logs=50, **options) as cluster, Client(cluster) as client:
        yield client


def fit(model: Any, X: Any, y: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model, time.perf_counter() - began


def describe(model: Any) -> dict[str, Any]:
    history = model.history_
    totals = {name: history.total(name) for name in ("evaluations", "rounds")}
    return totals | {
        "seconds in the epoch": float(history.seconds[-1]),
        "megabytes": history.total("traffic") / 1e6,
        "RegLoss": model.objective_,
    }


async def _no_work() -> None:
    pass


def measure_overhead(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The same work by one process and by two workers."""
    n_rows, times = int(options.rows or 1e5), []
    X, y = (np.concatenate(part) for part in zip(*(make_block(*b) for b in block_lengths(n_rows).items()), strict=True))
    with start_cluster() as client:
        for _ in range(300):
            began = time.perf_counter()
            client.run(_no_work)
            times.append(time.perf_counter() - began)
        yield {"what": "round", "milliseconds of a round": 1e3 * float(np.median(times))}
        for name, changes in WORK.items():
            local, one_thread = fit(DCONRegressor(**SETTINGS, **changes), X, y)
            _, two_threads = fit(DCONRegressor(**SETTINGS, **changes, n_jobs=2), X, y)
            model, workers = fit(DaskDCONRegressor(**SETTINGS, **changes, client=client), *make_dask_rows(n_rows))
            yield describe(model) | {
                "what": "overhead",
                "rows": n_rows,
                "work": name,
                "seconds, one thread": one_thread,
                "seconds, two threads": two_threads,
                "seconds, two workers": workers,
                "workers against one thread": workers / one_thread,
                "RegLoss against local": model.objective_ / local.objective_ - 1.0,
            }


def measure_rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The same work over more and more rows."""
    model = DaskDCONRegressor(**SETTINGS, **WORK["100 evaluations"])
    with start_cluster(options.memory):
        for n_rows in map(int, options.sizes):
            fitted, seconds = fit(model, *make_dask_rows(n_rows))
            yield {"what": "rows", "rows": n_rows, "work": "100 evaluations", "seconds": seconds} | describe(fitted)


def measure_parquet(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A fit from files by workers of limited memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_rows = int(options.rows or 2e7)
    with tempfile.TemporaryDirectory() as folder, start_cluster(options.memory) as client:
        for first, n in block_lengths(n_rows).items():
            X, y = make_block(first, n)
            table = pa.table({f"x{k}": X[:, k].astype(np.float32) for k in range(N_FEATURES)} | {"target": y})
            pq.write_table(table, Path(folder) / f"{first:011d}.parquet")
        before = set(client.run(os.getpid).values())
        model, seconds = fit(DaskDCONRegressor(**SETTINGS, max_evaluations=30, client=client), folder, "target")
        yield describe(model) | {
            "what": "parquet",
            "rows": n_rows,
            "work": "30 evaluations",
            "memory of a worker": options.memory,
            "seconds": seconds,
            "peak memory of workers": list(client.run(_peak_memory).values()),
            "peak memory of the client": _peak_memory(),
            "workers that died": len(before - set(client.run(os.getpid).values())),
        }


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_rivals(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Linear models and boosted trees on the same rows: time, and the error on other rows."""
    n_rows = int(options.rows or 1e6)
    X_test, y_test = make_block(10**9, 100_000)
    with start_cluster() as client:
        X, y = client.persist(make_dask_rows(n_rows))  # so that no method makes the rows again
        wait([X, y])
        models = {
            f"dconnet, {n}": DaskDCONRegressor(**SETTINGS, max_evaluations=n, client=client) for n in (50, 100, 200)
        }
        with suppress(ImportError):
            from dask_glm.estimators import LinearRegression

            models["dask-glm"] = LinearRegression(max_iter=100)
        with suppress(ImportError):
            from xgboost.dask import DaskXGBRegressor

            for n in (50, 200, 800):
                models[f"XGBoost, {n}"] = DaskXGBRegressor(n_estimators=n, tree_method="hist")
        for name, model in models.items():
            fitted, seconds = fit(model, X, y)
            (predictions,) = dask.compute(fitted.predict(da.from_array(X_test, chunks=(50_000, N_FEATURES))))
            error = float(np.mean((np.asarray(predictions) - y_test) ** 2))
            yield {"what": "rivals", "rows": n_rows, "method": name, "seconds": seconds, "mse": error}


def main() -> None:
    commands = {
        "overhead": measure_overhead,
        "rows": measure_rows,
        "parquet": measure_parquet,
        "rivals": measure_rivals,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands)
    parser.add_argument("--rows", type=float, help="number of rows")
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e5, 1e6, 5e6], help="numbers of rows, for `rows`")
    parser.add_argument("--memory", default="2GiB", help="memory of each worker, for `rows` and `parquet`")
    parser.add_argument("--store", type=Path, help="file to which results are appended")
    options = parser.parse_args()
    for result in commands[options.command](options):
        line = json.dumps({name: round(v, 6) if isinstance(v, float) else v for name, v in result.items()})
        print(line, flush=True)
        if options.store is not None:
            with options.store.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
