"""Fits that are killed by SIGKILL at random moments, and go on from their checkpoint to the same bits.

Every scenario is fitted once without a checkpoint. Then processes with a checkpoint are killed, one after the other,
until one gets to the end; its networks, histories and predictions must be the same to the last bit. After each kill the
checkpoint must be whole. The processes are forks of this one, so that nothing is imported again.

    python benchmarks/kills.py --kills 1000 --seed 0
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONRegressor
from dconnet.training.checkpoint import Checkpoint

FAILED = 3


def _data() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = np.sin(2.0 * X[:, 0]) + np.abs(X[:, 1]) * X[:, 2] + 0.1 * rng.normal(size=300)
    return X, y, np.digitize(y, [-0.5, 0.5])


def _scenarios() -> dict[str, tuple[Callable[..., Any], bool]]:
    """How to make each estimator, and whether it learns classes."""
    stopping = {"early_stopping": True, "n_iter_no_change": 15}
    made: dict[str, tuple[type, dict[str, Any], bool]] = {
        "accelerated, gamma chosen": (DCONRegressor, {"n_hidden": 12}, False),
        "paper, early stopping": (
            DCONRegressor,
            {"n_hidden": 8, "gamma": 0.03, "algorithm": "paper", **stopping},
            False,
        ),
        "classes, early stopping": (DCONClassifier, {"n_hidden": 6, "gamma": 0.1, **stopping}, True),
        "classes in threads, paper": (
            DCONClassifier,
            {"n_hidden": 5, "gamma": 0.1, "algorithm": "paper", "max_epochs": 40, "n_jobs": 2},
            True,
        ),
        "two layers": (LayerwiseDCONRegressor, {"hidden_layer_sizes": (8, 6), "gamma": 0.03, "max_epochs": 15}, False),
    }

    def maker(kind: type, parameters: dict[str, Any]) -> Callable[..., Any]:
        return lambda **more: kind(random_state=0, **parameters, **more)

    return {name: (maker(kind, parameters), classify) for name, (kind, parameters, classify) in made.items()}


def fitted(make: Callable[..., Any], classify: bool, **more: Any) -> str:
    """A hash of all that a fit reaches, but for the clock."""
    X, y, labels = _data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make(**more).fit(X, labels if classify else y)
    total = hashlib.sha256(model.predict(X).tobytes())
    for solutions in model._layers:
        for solution in solutions:
            record = solution.history.to_dict()
            del record["seconds"]
            total.update(np.append(solution.network.parameters, solution.network.intercept).tobytes())
            total.update(np.array(list(record.values())).tobytes())
            total.update(f"{solution.status} {solution.message} {solution.objective!r}".encode())
    return total.hexdigest()


@dataclass
class Tally:
    """What happened to the processes of a scenario."""

    kills: int = 0
    finished: int = 0
    wrong: int = 0
    torn: int = 0
    leftovers: int = 0

    @property
    def is_good(self) -> bool:
        """Whether every process that got to the end reached the same bits, from files that were whole."""
        return self.finished > 0 and self.wrong == self.torn == 0 and self.leftovers <= 1


def killed(make: Callable[..., Any], classify: bool, kills: int, rng: np.random.Generator, folder: Path) -> Tally:
    """Kill so many processes, and let the last one get to the end."""
    began = time.perf_counter()
    expected = fitted(make, classify)
    duration = time.perf_counter() - began
    path, answer, tally = folder / "fit.checkpoint", folder / "answer", Tally()
    while tally.kills < kills or tally.finished == 0:
        child = os.fork()
        if child == 0:
            _work(make, classify, path, answer)
        if tally.kills < kills:
            time.sleep(rng.uniform(0.0, 0.5 * duration))
            os.kill(child, signal.SIGKILL)
        _, code = os.waitpid(child, 0)
        if os.WIFSIGNALED(code):
            tally.kills += 1
        else:
            tally.finished += 1
            tally.wrong += os.WEXITSTATUS(code) != 0 or answer.read_text() != expected
            answer.unlink(missing_ok=True)
        tally.torn += not _is_whole(path)
        if not os.WIFSIGNALED(code):
            path.unlink(missing_ok=True)  # the next one begins anew
        tally.leftovers = max(tally.leftovers, sum(file.suffix == ".tmp" for file in folder.iterdir()))
    return tally


def _work(make: Callable[..., Any], classify: bool, path: Path, answer: Path) -> None:
    code = FAILED
    try:
        answer.write_text(fitted(make, classify, checkpoint=path))
        code = 0
    finally:
        os._exit(code)


def _is_whole(path: Path) -> bool:
    try:
        Checkpoint(path)
    except ValueError as error:
        print(error, file=sys.stderr)
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scenarios; the exit code tells whether all was well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="in each scenario")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    scenarios, good = _scenarios(), True
    print(f"{'scenario':28} {'kills':>6} {'finished':>8} {'wrong':>6} {'torn':>6} {'leftovers':>9}", flush=True)
    for number, (name, (make, classify)) in enumerate(scenarios.items()):
        with tempfile.TemporaryDirectory() as folder:
            tally = killed(make, classify, given.kills, np.random.default_rng([given.seed, number]), Path(folder))
        good &= tally.is_good
        counts = f"{tally.kills:6d} {tally.finished:8d} {tally.wrong:6d} {tally.torn:6d} {tally.leftovers:9d}"
        print(f"{name:28} {counts}", flush=True)
    print("all as they should be" if good else "NOT as they should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
