"""The data of the paper, where its raw files are at hand: nine tables as it scales them, and MNIST as 10x10 pixels."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path

import numpy as np

from dconnet import Problem
from reproduction.datasets import TABLES, Choices, load_dataset, load_mnist, load_scaled
from reproduction.datasets.files import is_present
from reproduction.datasets.uci import ALL_LAGS

HOME = Path(os.environ.get("DCONNET_DATA", Path(__file__).parents[2] / "shared" / "datasets"))
DATASETS = TABLES

# Images of MNIST that are left of its training set after the paper's validation split.
MNIST_ROWS = 42_000

# The digit that is told from the others.
MNIST_DIGIT = 8


def require_data() -> None:
    """End with a clear message where there is nothing to load."""
    if not HOME.is_dir():
        sys.exit(f"The paper's datasets are not at {HOME}. Set DCONNET_DATA to the folder with their files.")


@cache
def table(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and target of a dataset, scaled as in the paper; DS6 with all its lags, the wider problem."""
    return load_scaled(dataset, HOME, Choices(building_lags=ALL_LAGS))


def raw_table(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the features and target of a dataset in their own units; DS6 has all its lags."""
    found = load_dataset(dataset, HOME, Choices(building_lags=ALL_LAGS))
    return np.asarray(found.X, dtype=np.float64), np.asarray(found.y, dtype=np.float64)


@cache
def problem_of(dataset: str, gamma: float) -> Problem:
    """The dataset as in the paper."""
    return Problem(*table(dataset), gamma)


def has_mnist() -> bool:
    """Whether the files of MNIST are there."""
    return is_present("MNIST", HOME)


def mnist() -> tuple[np.ndarray, np.ndarray]:
    """Images of 10x10 pixels between zero and one; the target is one for the digit, and minus one for all others."""
    images = load_mnist(10, HOME)[0][:MNIST_ROWS]
    return images.X, images.signs(MNIST_DIGIT)
