"""Data of the benchmarks: nine tables of the paper and MNIST, from local files, and random regressions."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import numpy as np

from dconnet import Problem
from dconnet.training.initialization import xavier
from reproduction.datasets import ALL_LAGS, TABLES, Choices, is_present, load_dataset, load_mnist, load_scaled

HOME = Path(os.environ.get("DCONNET_DATA", Path(__file__).parents[2] / "shared" / "datasets"))
DATASETS = TABLES

MNIST_ROWS = 42_000  # images left for training after the paper's validation split
MNIST_DIGIT = 8  # the class of the target +1

WIDE = Choices(building_lags=ALL_LAGS)  # DS6 with all its lags, a wider problem than in the paper


def require_data() -> None:
    """Exit with a message if the folder of the data does not exist."""
    if not HOME.is_dir():
        sys.exit(f"The paper's datasets are not at {HOME}. Set DCONNET_DATA to the folder with their files.")


@cache
def load_table(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target of a table, scaled as in the paper."""
    return load_scaled(dataset, HOME, WIDE)


def load_raw_table(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and target of a table in their own units."""
    found = load_dataset(dataset, HOME, WIDE)
    return np.asarray(found.X, dtype=np.float64), np.asarray(found.y, dtype=np.float64)


@cache
def load_problem(dataset: str, gamma: float) -> Problem:
    """Return a table as a training problem."""
    return Problem(*load_table(dataset), gamma)


def has_mnist() -> bool:
    """Return whether the files of MNIST are present."""
    return is_present("MNIST", HOME)


def load_mnist_digit() -> tuple[np.ndarray, np.ndarray]:
    """Return pixels between zero and one, and +1 for one digit, -1 for all others."""
    images = load_mnist(10, HOME)[0][:MNIST_ROWS]
    return images.X, images.signs(MNIST_DIGIT)


def make_regression(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal inputs, and a standardised target: a random network plus noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    teacher = xavier(n_features, 5, rng)
    y = teacher.predict(X)
    y += 0.3 * np.std(y) * rng.standard_normal(n_rows)
    return X, (y - np.mean(y)) / np.std(y)
