"""Fits on random tables, damaged files, and kills.

    python benchmarks/fuzz.py tables files checkpoints kills --cases 1000 --output fuzz.jsonl

A case is determined by its part and its seed. Its result is a line of the output: ok, refused with a clear error, or a
fault. Cases that the output already has are skipped, so a run that was stopped resumes.

tables: fit, predict, save and load on random tables; predictions are finite, and the same after loading.
files: load model files with changed bytes or values; they are refused, or predict finite numbers.
checkpoints: the same for checkpoints, from which a fit resumes.
kills: kill processes that fit with a checkpoint, at last let one end; its bits are those of a fit without interruption.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a fork inherits no threads

import argparse
import copy
import hashlib
import json
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier
from sklearn.pipeline import make_pipeline

import dconnet
from dconnet import AutoDCONClassifier, AutoDCONRegressor, DCONClassifier, DCONRegressor, LayerwiseDCONRegressor
from dconnet.training.checkpoint import Checkpoint

# Seconds after which a case stops the run, and kills before a process may end.
MAX_SECONDS, MAX_KILLS = 600, 10
SHORT = {"gamma": 0.1, "max_epochs": 3, "random_state": 0}
PAPER = {"gamma": 0.1, "algorithm": "paper", "max_epochs": 40, "random_state": 0}
KILLED = (
    DCONRegressor(12, random_state=0),
    DCONClassifier(6, gamma=0.1, early_stopping=True, random_state=0),
    DCONClassifier(5, early_stopping=True, n_jobs=2, **PAPER),
    LayerwiseDCONRegressor((8, 6), gamma=0.03, max_epochs=15, random_state=0),
)
VALUES = (None, True, 0, -1, 10**400, 1e308, -0.5, "", "nan", [], [1], {}, {"float": "nan"}, {"object": 3}, [[[]]])


def fuzz_tables(rng: np.random.Generator, folder: Path) -> str:
    table, y = make_table(rng)
    autos = AutoDCONRegressor(random_state=0), AutoDCONClassifier(random_state=0)
    networks = (make_pipeline(dconnet.TableEncoder(3), kind(4, **SHORT)) for kind in (DCONRegressor, DCONClassifier))
    estimator = [*autos, *networks][rng.integers(4)]
    estimator.fit(table, np.digitize(y, np.quantile(y, [0.3, 0.6])) if is_classifier(estimator) else y)
    rows = table.iloc[rng.integers(len(table), size=5)].copy()
    rows[rows.columns[rng.random(rows.shape[1]) < 0.2]] = None
    predicted = check_predictions(estimator, rows)
    dconnet.save(estimator, folder / "model.json", feature_names=table.columns)
    assert np.array_equal(predicted, check_predictions(dconnet.load(folder / "model.json"), rows)), "loaded bits differ"
    return "ok"


def make_table(rng: np.random.Generator) -> tuple[pd.DataFrame, Any]:
    """Return a table of random kinds of columns, and a target that may depend on the first of them."""
    n_rows, columns = int(rng.integers(2, 150)), {}
    z = rng.normal(size=n_rows)
    for j in range(int(rng.integers(1, 7))):
        x, whole = rng.normal(size=n_rows) if j else z, rng.integers(0, rng.choice([2, 5, 1000]), size=n_rows)
        when = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(np.round(50.0 * x), unit="D"))
        kinds: list[Any] = [
            x, 1e150 * x**3, x.astype("f4"), whole, whole > 0, np.ones(n_rows), [10**20 + int(i) for i in whole],
            [f"{a:.2f}%" for a in x], [f"${abs(1000 * a):,.0f}" for a in x], [f"{a:.3f}".replace(".", ",") for a in x],
            [f"level {i}" for i in whole], [f"{i:03d}" for i in whole], pd.Categorical(whole),
            when, when.dt.tz_localize("Europe/Berlin"), when.dt.strftime("%d/%m/%Y"),
            when - when[0], [None] * n_rows, [(1, "a", 2.5, None)[i % 4] for i in whole],
            [b"x" * (i % 3) for i in whole], [f"{a} kg" for a in x],
        ]  # fmt: skip
        column = pd.Series(kinds[rng.integers(len(kinds))])
        columns[f"c{j}"] = column.mask(rng.random(n_rows) < rng.choice([0.0, 0.0, 0.1, 0.9]))
    return pd.DataFrame(columns), np.abs(z) + 0.1 * rng.normal(size=n_rows)


def check_predictions(estimator: Any, rows: Any) -> Any:
    found = estimator.predict_proba(rows) if is_classifier(estimator) else estimator.predict(rows)
    assert np.isfinite(found).sum() == found.size >= len(rows), "a prediction is missing"
    if hasattr(estimator, "predict_interval"):
        low, high = estimator.predict_interval(rows)
        assert np.all((low <= found) & (found <= high)), "a prediction is outside its interval"
    return found


X = np.random.default_rng(0).normal(size=(300, 5))
Y = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) * X[:, 2] + 0.1 * X[:, 4]
LABELS = np.digitize(Y, [-0.5, 0.5])


def fit_data(estimator: Any, **options: Any) -> Any:
    return copy.deepcopy(estimator).set_params(**options).fit(X[:, :4], LABELS if is_classifier(estimator) else Y)


@cache
def model_files() -> list[bytes]:
    table = pd.DataFrame(X[:60, :4], columns=list("abcd")).assign(
        t=["x", "y", "z"] * 20, p=[f"{j}%" for j in range(60)]
    )
    table["when"] = pd.date_range("2024", periods=60, tz="UTC")
    models = [
        AutoDCONRegressor(max_seconds=0.1, random_state=0).fit(table, Y[:60]),
        AutoDCONClassifier(max_seconds=0.1, random_state=0).fit(table, LABELS[:60]),
        make_pipeline(dconnet.TableEncoder(2), DCONRegressor(3, **SHORT)).fit(table, Y[:60]),
        *(fit_data(kind) for kind in (DCONClassifier(3, **SHORT), LayerwiseDCONRegressor((3, 2), **SHORT))),
    ]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        return [dconnet.save(model, file.name) or Path(file.name).read_bytes() for model in models]


def fuzz_files(rng: np.random.Generator, folder: Path) -> str:
    content = model_files()[rng.integers(len(model_files()))]
    (folder / "model.json").write_bytes((change_bytes if rng.random() < 0.3 else change_json)(content, rng))
    model = dconnet.load(folder / "model.json")
    rows = rng.normal(size=(4, len(model.metadata_.feature_names))).astype(object)
    rows[:, 4:] = [["x", "3%", pd.Timestamp("2024-02-03", tz="UTC")][: rows.shape[1] - 4]] * 4
    check_predictions(model, rows)
    return "ok"


def change_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace some bytes by others, fewer or more, or remove the rest of the file."""
    first, n_removed = int(rng.integers(len(content))), int(rng.choice([0, 1, 20, len(content)]))
    return content[:first] + rng.bytes(int(rng.integers(4))) + content[first + n_removed :]


def change_json(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace, remove or repeat a value at a random place of a JSON document."""
    whole = item = json.loads(content)
    parent: Any = None
    while isinstance(item, (dict, list)) and item and (parent is None or rng.random() < 0.95):
        parent = item
        key: Any = list(item)[rng.integers(len(item))] if isinstance(item, dict) else int(rng.integers(len(item)))
        item = parent[key]
    kind = rng.integers(4)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(item))
    elif kind == 2 and type(item) in (int, float):
        parent[key] = type(item)(item * float(rng.choice([-1.0, 0.5, 2.0, 1e9])) + int(rng.integers(-1, 2)))
    else:
        parent[key] = VALUES[rng.integers(len(VALUES))]
    return json.dumps(whole).encode()


def fuzz_checkpoints(rng: np.random.Generator, folder: Path) -> str:
    path = folder / "state.npz"
    fit_data(DCONRegressor(3, **SHORT), checkpoint=path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = arrays.pop("header")
    name = str(rng.choice(list(arrays)))
    own = arrays[name]
    arrays[name] = (own, own[:-1], own * np.nan, -1.0 * own, own.astype("<f4"), own[None])[rng.integers(6)]
    arrays["header"] = np.frombuffer(change_json(header.tobytes(), rng), "u1") if arrays[name] is own else header
    if rng.random() < 0.3:
        path.write_bytes(change_bytes(path.read_bytes(), rng))
    else:
        np.savez(path, **arrays)
    check_predictions(fit_data(DCONRegressor(3, **SHORT | {"max_epochs": 5}), checkpoint=path), X[:, :4])
    return "ok"


def hash_fit(model: Any) -> str:
    """Return a hash of everything that a fit computes, except its times."""
    total = hashlib.sha256(model.predict(X[:, :4]).tobytes())
    for solution in (solution for solutions in model._layers for solution in solutions):
        record = {name: values for name, values in solution.history.to_dict().items() if name != "seconds"}
        total.update(np.append(solution.network.parameters, solution.network.intercept).tobytes())
        total.update(np.array(list(record.values())).tobytes())
        total.update(f"{solution.status} {solution.message} {solution.objective!r}".encode())
    return total.hexdigest()


def fuzz_kills(rng: np.random.Generator, folder: Path) -> str:
    number, n_kills = int(rng.integers(len(KILLED))), 0
    began = time.perf_counter()
    expected, duration = hash_fit(fit_data(KILLED[number])), time.perf_counter() - began
    path, answer = folder / "state.npz", folder / "answer"
    while not answer.exists():
        child = os.fork()
        if child == 0:
            answer.with_suffix(".new").write_text(hash_fit(fit_data(KILLED[number], checkpoint=path)))
            answer.with_suffix(".new").rename(answer)
            os._exit(0)
        if n_kills < MAX_KILLS:
            time.sleep(rng.uniform(0.0, 0.5 * duration))
            os.kill(child, signal.SIGKILL)
        n_kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        Checkpoint(path)  # raises a ValueError if the file is damaged
        assert sum(file.suffix == ".tmp" for file in folder.iterdir()) <= 1, "temporary files are left"
    assert answer.read_text() == expected, "the bits differ"
    return f"ok after {n_kills} kills"


PARTS = {"tables": fuzz_tables, "files": fuzz_files, "checkpoints": fuzz_checkpoints, "kills": fuzz_kills}
# What the message of a ValueError must contain to be a refusal. A damaged file may describe other columns.
REFUSALS = {
    "tables": " of X |0 feature",
    "files": "is not a valid model file|^Column .* of X ",
    "checkpoints": "heckpoint",
    "kills": "$^",
}


def run_case(part: str, seed: int) -> str:
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"{part}, seed {seed}: no end after {MAX_SECONDS} s"))
    signal.alarm(MAX_SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return PARTS[part](np.random.default_rng([seed, list(PARTS).index(part)]), Path(folder))
    except Exception as error:
        is_refusal = isinstance(error, ValueError) and re.search(REFUSALS[part], str(error))
        place = "" if is_refusal else f" at {traceback.extract_tb(error.__traceback__)[-1]}"
        return f"{'refused' if is_refusal else 'fault'}: {type(error).__name__}: {str(error)[:200]}{place}"
    finally:
        signal.alarm(0)


def main() -> int:
    """Run the cases that the output lacks; return 1 if there are faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--cases", type=int, default=100, help="in each part")
    parser.add_argument("--output", type=Path, default=Path("fuzz.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with options.output.open("a+") as file:
        file.seek(0)
        done = {(case["part"], case["seed"]): case["result"] for case in map(json.loads, file)}
        for part, seed in ((part, seed) for part in options.parts for seed in range(options.cases)):
            if (part, seed) not in done:
                done[part, seed] = result = run_case(part, seed)
                print(json.dumps({"part": part, "seed": seed, "result": result}), file=file, flush=True)
                if result.startswith("fault"):
                    print(f"{part}, seed {seed}: {result}", flush=True)
    for part in options.parts:
        results = [result for (own, _), result in done.items() if own == part]
        n_kills = sum(int(result.split()[2]) for result in results if result.endswith("kills"))
        counts = Counter(re.split("[: ]", result)[0] for result in results)
        print(f"{part}: {len(results)} cases, {n_kills} kills, {dict(counts)}")
    return int(any(result.startswith("fault") for result in done.values()))


if __name__ == "__main__":
    sys.exit(main())
