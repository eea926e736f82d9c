"""What a Dask cluster of two local workers costs and carries: against one process, over rows, and from Parquet files.

    python benchmarks/dask_cluster.py overhead            # 1e5 rows, against the local engine
    python benchmarks/dask_cluster.py rows                # an evaluation and a sweep over more and more rows
    python benchmarks/dask_cluster.py parquet --rows 2e7  # from files, with workers that may use 2 GiB each
    python benchmarks/dask_cluster.py rivals              # XGBoost and dask-glm on the same rows, if installed
    python benchmarks/dask_cluster.py workers             # an empty round with more and more workers
    python benchmarks/dask_cluster.py megabytes           # rounds with long answers

Every result is a line of JSON, printed and, with --store, appended to a file. Times are wall times; nothing else should
run.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import json
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONRegressor
from dconnet.dask import DaskDCONRegressor, worker
from dconnet.dask.rounds import asked

N_FEATURES, N_HIDDEN, GAMMA = 20, 20, 0.01
LEAVES_PER_PARTITION = 16
PARTITION = LEAVES_PER_PARTITION * 4096


def block(first: int, n_rows: int) -> tuple[Any, Any]:
    """Some rows of an endless table; the same whoever makes them."""
    rng = np.random.default_rng([7, first])
    X = rng.normal(size=(n_rows, N_FEATURES))
    y = np.abs(X[:, 0]) + np.maximum(X[:, 1] - X[:, 2], 0.0) + np.sin(X[:, 3]) + 0.1 * rng.normal(size=n_rows)
    return X, y


def far_rows(n_rows: int) -> tuple[Any, Any]:
    """The table as Dask arrays, each block made by the worker that needs it."""
    firsts = range(0, n_rows, PARTITION)
    lengths = [min(PARTITION, n_rows - first) for first in firsts]
    both = [dask.delayed(block, pure=True)(first, n) for first, n in zip(firsts, lengths, strict=True)]
    X = [da.from_delayed(b[0], (n, N_FEATURES), dtype=float) for b, n in zip(both, lengths, strict=True)]
    y = [da.from_delayed(b[1], (n,), dtype=float) for b, n in zip(both, lengths, strict=True)]
    return da.concatenate(X), da.concatenate(y)


def near_rows(n_rows: int) -> tuple[Any, Any]:
    """The same table as arrays of this process."""
    parts = [block(first, min(PARTITION, n_rows - first)) for first in range(0, n_rows, PARTITION)]
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


@contextmanager
def two_workers(memory: str | int = 0) -> Iterator[Client]:
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": memory}
    with LocalCluster(n_workers=2, silence_logs=50, **options) as cluster, Client(cluster) as client:
        yield client


def timed(model: Any, X: Any, y: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = model.fit(X, y)
    return fitted, time.perf_counter() - began


def settings(**changes: Any) -> dict[str, Any]:
    return {"n_hidden": N_HIDDEN, "gamma": GAMMA, "random_state": 0, "max_epochs": 1} | changes


WORK = {
    "100 evaluations": {"max_evaluations": 100},
    "epoch of the paper": {"algorithm": "paper"},
    "epoch, net split": {"algorithm": "paper", "split": "net"},
}


def seconds_of_a_round(client: Client, n_rounds: int = 300) -> float:
    """The median time of a question that takes no work."""
    return _median_seconds(client, n_rounds, worker.answer, worker.Question("no such fit", {}, 0, ("ready", ())))


def _median_seconds(client: Client, n_rounds: int, function: Callable[..., Any], *arguments: Any) -> float:
    times, addresses = [], list(client.nthreads())
    for _ in range(n_rounds):
        began = time.perf_counter()
        asked(client, set(), addresses, function, *arguments)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


async def _numbers(count: int) -> Any:
    return np.ones(count)


def megabytes(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Rounds in which each of two workers answers with so many megabytes."""
    with two_workers() as client:
        for size in (1, 4, 16, 64):
            seconds = _median_seconds(client, 20, _numbers, size * 125_000)
            yield {"what": "megabytes", "megabytes": 2 * size, "milliseconds of a round": 1e3 * seconds}


def workers(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """An empty round with more and more workers, all of them threads of this process: what the driver does for each."""
    for n_workers in (2, 8, 32, 128):
        options = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0", "memory_limit": 0}
        with (
            LocalCluster(n_workers=n_workers, protocol="tcp", silence_logs=50, **options) as cluster,
            Client(cluster) as c,
        ):
            yield {"what": "workers", "workers": n_workers, "milliseconds of a round": 1e3 * seconds_of_a_round(c, 50)}


def overhead(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The same work by one process and by two workers."""
    n_rows = int(given.rows or 100_000)
    with two_workers() as client:
        yield {"what": "round", "milliseconds of a round": 1e3 * seconds_of_a_round(client)}
        for name, changes in [list(WORK.items())[k] for k in given.work]:
            local, here = timed(DCONRegressor(**settings(**changes)), *near_rows(n_rows))
            two, threads = timed(DCONRegressor(**settings(**changes), n_jobs=2), *near_rows(n_rows))
            model, there = timed(DaskDCONRegressor(**settings(**changes), client=client), *far_rows(n_rows))
            rounds = model.history_.total("rounds")
            yield {
                "what": "overhead",
                "rows": n_rows,
                "work": name,
                "seconds, one thread": here,
                "seconds, two threads": threads,
                "seconds, two workers": there,
                "workers against one thread": there / here,
                "workers against two threads": there / threads,
                "rounds": rounds,
                "megabytes": model.history_.total("traffic") / 1e6,
                "RegLoss against local": model.objective_ / local.objective_ - 1.0,
                "same RegLoss with threads": two.objective_ == local.objective_,
            }


def rows(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The same work over more and more rows."""
    sizes = [int(float(size)) for size in given.sizes]
    with two_workers(given.memory) as client:
        for n_rows in sizes:
            for name, changes in [list(WORK.items())[k] for k in given.work]:
                model, seconds = timed(DaskDCONRegressor(**settings(**changes), client=client), *far_rows(n_rows))
                yield {
                    "what": "rows",
                    "rows": n_rows,
                    "work": name,
                    "seconds": seconds,
                    "seconds in the epoch": float(model.history_.seconds[-1]),
                    "microseconds a row": 1e6 * float(model.history_.seconds[-1]) / n_rows,
                    "evaluations": model.history_.total("evaluations"),
                    "rounds": model.history_.total("rounds"),
                    "programmes": model.history_.total("programmes"),
                    "megabytes": model.history_.total("traffic") / 1e6,
                }


def _write_parquet(folder: Path, n_rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, first in enumerate(range(0, n_rows, PARTITION)):
        if (folder / f"part-{number:05d}.parquet").exists():  # of the last run
            continue
        X, y = block(first, min(PARTITION, n_rows - first))
        table = pa.table({f"x{k}": X[:, k].astype(np.float32) for k in range(N_FEATURES)} | {"target": y})
        pq.write_table(table, folder / f"part-{number:05d}.parquet")


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _spilled(dask_worker: Any) -> int:
    return int(getattr(dask_worker.data, "spilled_total", (0, 0))[0])


def _in_files(dask_worker: Any) -> int:
    """Bytes that rows take in files of the worker."""
    return worker.storage_of(dask_worker.local_directory, dask_worker.memory_manager.memory_limit).in_files


def parquet(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A fit from files, with workers of limited memory: nothing is gathered, nothing is spilled."""
    n_rows = int(given.rows or 2e7)
    with tempfile.TemporaryDirectory() as name:
        folder = given.folder or Path(name)
        folder.mkdir(exist_ok=True)
        _write_parquet(folder, n_rows)
        with two_workers(given.memory) as client:
            before, in_files = client.run(os.getpid), dict[str, int]()

            def look(epoch: Any) -> None:
                in_files.update(client.run(_in_files))

            changes = WORK["epoch, net split"] if given.sweep else {"max_evaluations": int(given.evaluations)}
            options = settings(**changes, max_seconds=given.seconds, client=client, callback=look)
            model, seconds = timed(DaskDCONRegressor(**options), folder, "target")
            yield {
                "what": "parquet",
                "rows": n_rows,
                "memory of a worker": given.memory,
                "work": "epoch, net split" if given.sweep else f"{int(given.evaluations)} evaluations",
                "seconds": seconds,
                "seconds in the epoch": float(model.history_.seconds[-1]),
                "evaluations": model.history_.total("evaluations"),
                "programmes": model.history_.total("programmes"),
                "rounds": model.history_.total("rounds"),
                "megabytes": model.history_.total("traffic") / 1e6,
                "peak memory of workers": list(client.run(_memory).values()),
                "in files": list(in_files.values()),
                "workers that died": len(set(before.values()) - set(client.run(os.getpid).values())),
                "peak memory of the client": _memory(),
                "spilled": list(client.run(_spilled).values()),
                "RegLoss": model.objective_,
            }


def _methods() -> Iterator[tuple[str, Callable[[Client], Any]]]:
    """Ours and those of others that are installed, with more and more work each."""
    for evaluations in (50, 100, 200):
        yield f"dconnet, {evaluations}", partial(_ours, evaluations)
    with suppress(ImportError):
        from dask_glm.estimators import LinearRegression

        yield "dask-glm", lambda client: LinearRegression(max_iter=100)
    with suppress(ImportError):
        from xgboost.dask import DaskXGBRegressor

        for n_trees in (50, 200, 800):
            yield f"XGBoost, {n_trees}", partial(_trees, DaskXGBRegressor, n_trees)


def _ours(evaluations: int, client: Client) -> Any:
    return DaskDCONRegressor(**settings(max_evaluations=evaluations), client=client)


def _trees(kind: Any, n_trees: int, client: Client) -> Any:
    trees = kind(n_estimators=n_trees, tree_method="hist")
    trees.client = client
    return trees


def rivals(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Linear models and boosted trees on Dask on the same rows: time, and the error on other rows."""
    n_rows = int(given.rows or 1_000_000)
    X_test, y_test = block(10**9, 100_000)
    far_test = da.from_array(X_test, chunks=(50_000, N_FEATURES))
    with two_workers() as client:
        X, y = client.persist(far_rows(n_rows))  # for all of them: rows are not made anew in each pass
        wait([X, y])
        for name, make in _methods():
            fitted, seconds = timed(make(client), X, y)
            error = float(np.mean((np.asarray(dask.compute(fitted.predict(far_test))[0]) - y_test) ** 2))
            yield {"what": "rivals", "rows": n_rows, "method": name, "seconds": seconds, "mse": error}


def tell(result: dict[str, Any], store: Path | None) -> None:
    """Print a result as a line of JSON, and append it to a file."""
    line = json.dumps(result)
    print(line, flush=True)
    if store is not None:
        with store.open("a") as file:
            file.write(line + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["overhead", "rows", "parquet", "rivals", "workers", "megabytes"])
    parser.add_argument("--rows", type=float, help="number of rows")
    parser.add_argument("--sizes", nargs="+", default=["1e5", "3e5", "1e6"], help="numbers of rows, of `rows`")
    parser.add_argument("--work", type=int, nargs="+", default=range(len(WORK)), help="which work, by number")
    parser.add_argument("--memory", default="2GiB", help="of each worker, of `rows` and `parquet`")
    parser.add_argument("--evaluations", type=float, default=50, help="of `parquet`")
    parser.add_argument("--sweep", action="store_true", help="of `parquet`: an epoch of sweeps instead")
    parser.add_argument("--folder", type=Path, help="where the files of `parquet` are, or are written, and stay")
    parser.add_argument("--seconds", type=float, help="limit of the fit, of `parquet`")
    parser.add_argument("--store", type=Path, help="file to append the results to")
    given = parser.parse_args(arguments)
    for result in globals()[given.which](given):
        tell({name: round(v, 6) if isinstance(v, float) else v for name, v in result.items()}, given.store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
