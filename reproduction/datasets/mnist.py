"""MNIST: images of handwritten digits, made smaller by averaging."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from reproduction.datasets.files import data_home, get_entry, obtain

SIDE = 28
HEADER = {2051: 16, 2049: 8}  # bytes before the data of images and labels, by magic number


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """Pixels ``X`` (n_images, side * side) between zero and one, and the digits (n_images,)."""

    X: FloatArray
    digits: NDArray[np.uint8]

    def signs(self, digit: int) -> FloatArray:
        """Return +1 for the images of a digit, -1 for all others."""
        return np.where(self.digits == digit, 1.0, -1.0)

    @property
    def all_signs(self) -> FloatArray:
        """The signs of all ten digits, of shape (n_images, 10)."""
        return np.column_stack([self.signs(digit) for digit in range(10)])

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> Images:
        return Images(self.X[rows], self.digits[rows])


def load_mnist(side: int = 10, home: str | os.PathLike[str] | None = None) -> tuple[Images, Images]:
    """Return training and test images of ``side`` times ``side`` pixels, each pixel an average over its area.

    The paper does not state its interpolation; averages keep all the ink. 28 returns the images unchanged.
    """
    if not 1 <= side <= SIDE:
        raise ValueError(f"side must lie between 1 and {SIDE}, got {side!r}.")
    folder = data_home(home)
    contents = [read_idx(obtain(file, folder)) for file in get_entry("MNIST").files]
    return Images(_shrunk(contents[0], side), contents[1]), Images(_shrunk(contents[2], side), contents[3])


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the bytes of an idx file in the shape of its header."""
    with gzip.open(path) as file:
        content = file.read()
    magic = int.from_bytes(content[:4], "big")
    if magic not in HEADER:
        raise ValueError(f"{path} is not an idx file of images or labels: it begins with {content[:4]!r}.")
    shape = np.frombuffer(content[4 : HEADER[magic]], dtype=">i4")
    return np.frombuffer(content, dtype=np.uint8, offset=HEADER[magic]).reshape(shape)


def _shrunk(images: NDArray[np.uint8], side: int) -> FloatArray:
    shrink = averages(SIDE, side)
    smaller = shrink @ (images / 255.0) @ shrink.T if side < SIDE else images / 255.0
    return np.ascontiguousarray(smaller.reshape(len(images), side * side))


def averages(before: int, after: int) -> FloatArray:
    """Return the matrix (after, before) that averages intervals of equal length, including fractions of pixels.

    Examples
    --------
    >>> from reproduction.datasets.mnist import averages
    >>> averages(3, 2).round(2)
    array([[0.67, 0.33, 0.  ],
           [0.  , 0.33, 0.67]])
    """
    edges = np.linspace(0.0, before, after + 1)
    pixel = np.arange(before)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    weights: FloatArray = np.maximum(overlap, 0.0) * after / before
    return weights
