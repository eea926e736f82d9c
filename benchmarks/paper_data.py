"""The data of the paper, where its raw files are at hand: nine tables as it scales them, and MNIST as 10x10 pixels."""

from __future__ import annotations

import gzip
import sys
from functools import cache
from pathlib import Path

import numpy as np

from dconnet import Problem

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from shared_data import HOME, load

DATASETS = tuple(f"DS{number}" for number in range(1, 10))

# Images of MNIST that are left of its training set after the paper's validation split.
MNIST_ROWS = 42_000
MNIST_HEADERS = {"train-images-idx3-ubyte.gz": 16, "train-labels-idx1-ubyte.gz": 8}  # bytes

# The digit that is told from the others.
MNIST_DIGIT = 8


def require_data() -> None:
    """End with a clear message where there is nothing to load."""
    if not HOME.is_dir():
        sys.exit(f"The paper's datasets are not at {HOME}. Set DCONNET_DATA to the folder with their files.")


@cache
def table(dataset: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and target of a dataset, scaled as in the paper."""
    return load(dataset)


@cache
def problem_of(dataset: str, gamma: float) -> Problem:
    """The dataset as in the paper."""
    return Problem(*table(dataset), gamma)


def has_mnist() -> bool:
    """Whether the files of MNIST are there."""
    return all((HOME / "MNIST" / name).is_file() for name in MNIST_HEADERS)


def mnist() -> tuple[np.ndarray, np.ndarray]:
    """Images of 10x10 pixels between zero and one; the target is one for the digit, and minus one for all others."""
    images, labels = (_idx(name) for name in MNIST_HEADERS)
    pixels = images.reshape(-1, 28, 28)[:MNIST_ROWS] / 255.0
    shrink = _averages(28, 10)
    X = (shrink @ pixels @ shrink.T).reshape(MNIST_ROWS, 100)
    return X, np.where(labels[:MNIST_ROWS] == MNIST_DIGIT, 1.0, -1.0)


def _idx(name: str) -> np.ndarray:
    """The bytes of an idx file behind its header."""
    with gzip.open(HOME / "MNIST" / name) as file:
        return np.frombuffer(file.read(), dtype=np.uint8, offset=MNIST_HEADERS[name])


def _averages(before: int, after: int) -> np.ndarray:
    """The matrix (after, before) that averages intervals of equal length, fractions of pixels included."""
    edges = np.linspace(0.0, before, after + 1)
    pixel = np.arange(before)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return np.maximum(overlap, 0.0) * after / before
