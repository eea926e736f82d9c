"""Kill fits by SIGKILL at random moments, resume them from their checkpoints, and compare the bits.

    python benchmarks/kills.py --kills 1000 --seed 0

Every scenario is fitted once without a checkpoint. Then processes with a checkpoint are killed, one after the other,
until one ends; its networks, histories and predictions must be the same to the last bit. After each kill the checkpoint
must be readable. The processes are forks of this one, so nothing is imported again.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a fork inherits no threads

import argparse
import hashlib
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONRegressor
from dconnet.training.checkpoint import Checkpoint

EARLY_STOPPING = {"early_stopping": True, "n_iter_no_change": 15}
SCENARIOS: dict[str, tuple[type, dict[str, Any]]] = {
    "accelerated, gamma chosen": (DCONRegressor, {"n_hidden": 12}),
    "paper, early stopping": (
        DCONRegressor,
        {"n_hidden": 8, "gamma": 0.03, "algorithm": "paper", **EARLY_STOPPING},
    ),
    "classes, early stopping": (DCONClassifier, {"n_hidden": 6, "gamma": 0.1, **EARLY_STOPPING}),
    "classes in threads, paper": (
        DCONClassifier,
        {"n_hidden": 5, "gamma": 0.1, "algorithm": "paper", "max_epochs": 40, "n_jobs": 2},
    ),
    "two layers": (LayerwiseDCONRegressor, {"hidden_layer_sizes": (8, 6), "gamma": 0.03, "max_epochs": 15}),
}
COUNTS = ("kills", "finished", "wrong", "torn", "leftovers")


def fit_and_hash(scenario: str, **options: Any) -> str:
    """Return a hash of everything that a fit computes, except its times."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) * X[:, 2] + 0.1 * rng.normal(size=300)
    kind, parameters = SCENARIOS[scenario]
    model = kind(random_state=0, **parameters, **options)
    model.fit(X, np.digitize(y, [-0.5, 0.5]) if kind is DCONClassifier else y)
    total = hashlib.sha256(model.predict(X).tobytes())
    for solutions in model._layers:
        for solution in solutions:
            record = solution.history.to_dict()
            del record["seconds"]
            total.update(np.append(solution.network.parameters, solution.network.intercept).tobytes())
            total.update(np.array(list(record.values())).tobytes())
            total.update(f"{solution.status} {solution.message} {solution.objective!r}".encode())
    return total.hexdigest()


def start_process(scenario: str, checkpoint: Path, answer: Path) -> int:
    """Fork a process that fits with a checkpoint and writes its hash; return its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            answer.write_text(fit_and_hash(scenario, checkpoint=checkpoint))
            code = 0
        finally:
            os._exit(code)
    return child


def is_readable(checkpoint: Path) -> bool:
    try:
        Checkpoint(checkpoint)
    except ValueError as error:
        print(error, file=sys.stderr)
        return False
    return True


def run_scenario(scenario: str, n_kills: int, rng: np.random.Generator, folder: Path) -> Counter[str]:
    """Kill a number of processes, and let the last one end."""
    began = time.perf_counter()
    expected = fit_and_hash(scenario)
    duration = time.perf_counter() - began
    path, answer, counts = folder / "fit.checkpoint", folder / "answer", Counter[str]()
    while counts["kills"] < n_kills or counts["finished"] == 0:
        child = start_process(scenario, path, answer)
        if counts["kills"] < n_kills:
            time.sleep(rng.uniform(0.0, 0.5 * duration))
            os.kill(child, signal.SIGKILL)
        _, code = os.waitpid(child, 0)
        counts["torn"] += not is_readable(path)
        if os.WIFSIGNALED(code):
            counts["kills"] += 1
        else:
            counts["finished"] += 1
            counts["wrong"] += os.WEXITSTATUS(code) != 0 or answer.read_text() != expected
            answer.unlink(missing_ok=True)
            path.unlink(missing_ok=True)  # the next process starts from the beginning
        counts["leftovers"] = max(counts["leftovers"], sum(file.suffix == ".tmp" for file in folder.iterdir()))
    return counts


def main() -> int:
    """Run the scenarios; return 1 if a result was wrong, a checkpoint torn, or files were left behind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="in each scenario")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    is_good = True
    print(f"{'scenario':28}" + "".join(f"{name:>10}" for name in COUNTS), flush=True)
    for number, scenario in enumerate(SCENARIOS):
        with tempfile.TemporaryDirectory() as folder:
            rng = np.random.default_rng([options.seed, number])
            counts = run_scenario(scenario, options.kills, rng, Path(folder))
        is_good &= counts["wrong"] == counts["torn"] == 0 and counts["leftovers"] <= 1
        print(f"{scenario:28}" + "".join(f"{counts[name]:10d}" for name in COUNTS), flush=True)
    print("all as they should be" if is_good else "NOT as they should be")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
