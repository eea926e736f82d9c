"""What is raced for: one problem, one scaled start, and the marks at which the loss is read."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from dconnet import Network, Problem
from dconnet.model.problem import WhitenedProblem
from dconnet.training.initialization import xavier
from neurons import regression
from paper_data import DATASETS, has_mnist, mnist, problem_of

# Data of more rows than the paper's tables have.
LARGER: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "5000x10": lambda: regression(5000, 10),
    "10000x100": lambda: regression(10_000, 100),
    "MNIST": mnist,
}

# A start whose predictions have almost nothing in common with the targets keeps this part of their size.
LEAST_SCALE = 1e-3


@dataclass(frozen=True)
class Cell:
    """One contest and one who takes part in it.

    Attributes
    ----------
    dataset : str
        A table of the paper, or one of `LARGER`.
    n_hidden : int
        Number of neurons.
    gamma : float
        Strength of the regularisation.
    seed : int
        Seed of the start, and of all that is random later on.
    runner : str
        A rival, or a variant of the algorithm.
    marks : tuple of float
        Seconds of wall time.
    """

    dataset: str
    n_hidden: int
    gamma: float
    seed: int
    runner: str
    marks: tuple[float, ...]

    def __str__(self) -> str:
        return f"{self.dataset} N={self.n_hidden} gamma={self.gamma:g} seed={self.seed}"


@dataclass(frozen=True, eq=False)
class Contest:
    """The same for all who take part: problem, start in both coordinate systems, and marks.

    Attributes
    ----------
    problem : Problem
        Data and regularisation, already whitened.
    start : Network
        The scaled start.
    V, alpha : arrays of shape (n_hidden, rank) and (n_hidden,)
        The same in whitened coordinates.
    marks : tuple of float
        Seconds of wall time, ascending.
    seed : int
        Seed of all that is random after the start.
    """

    problem: Problem
    start: Network
    V: np.ndarray
    alpha: np.ndarray
    marks: tuple[float, ...]
    seed: int

    @property
    def white(self) -> WhitenedProblem:
        """The problem in whitened coordinates."""
        return self.problem.whitened

    @classmethod
    def on(cls, problem: Problem, n_hidden: int, seed: int, marks: tuple[float, ...]) -> Contest:
        """The contest from the scaled Xavier start of this seed."""
        xavier_start = xavier(problem.X.shape[1], n_hidden, np.random.default_rng(seed))
        white = problem.whitened
        V, alpha = scaled(white, white.whiten(xavier_start), xavier_start.alpha)
        return cls(problem, white.network(V, alpha), V, alpha, marks, seed)

    @classmethod
    def of(cls, cell: Cell) -> Contest:
        """The contest of a cell."""
        problem = larger_problem if cell.dataset in LARGER else problem_of
        return cls.on(problem(cell.dataset, cell.gamma), cell.n_hidden, cell.seed, cell.marks)


@cache
def larger_problem(dataset: str, gamma: float) -> Problem:
    """One of the larger datasets."""
    return Problem(*LARGER[dataset](), gamma)


def balanced(V: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same network with the least penalty: ``|v_l| = |alpha_l|`` for every neuron."""
    norms, sizes = np.linalg.norm(V, axis=1), np.abs(alpha)
    alive = (norms > 0.0) & (sizes > 0.0)
    stretch = np.sqrt(np.divide(sizes, norms, out=np.zeros_like(norms), where=alive))
    # A neuron without weights on one side carries nothing: its least penalty is zero.
    return stretch[:, None] * V, np.divide(alpha, stretch, out=np.zeros_like(alpha), where=alive)


def scaled(white: WhitenedProblem, V: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The start balanced, with the sign and the size that suit the targets best.

    With predictions f of the balanced network, all weights are multiplied by √c, where ``c = <f, y> / <f, f>``. If c is
    negative, the signs of the output weights change first; c is at least 1e-3 |y| / |f|.
    """
    V, alpha = balanced(V, alpha)
    f = np.maximum(white.preactivations(V), 0.0) @ alpha
    if not np.any(f):
        return V, alpha
    c = (f @ white.y) / (f @ f)
    if c < 0.0:
        alpha, c = -alpha, -c
    root = np.sqrt(max(c, LEAST_SCALE * np.linalg.norm(white.y) / np.linalg.norm(f)))
    return root * V, root * alpha


def random_start(white: WhitenedProblem, n_hidden: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A scaled start whose directions are uniform in whitened coordinates."""
    V = rng.standard_normal((n_hidden, white.Q.shape[1]))
    return scaled(white, V, rng.standard_normal(n_hidden))


class TimeUp(Exception):  # noqa: N818
    """The last mark has passed: not an error, but the way out of a foreign loop."""


class Scoreboard:
    """The best objective at each mark; the clock runs from the creation on.

    Parameters
    ----------
    marks : tuple of float
        Seconds of wall time, ascending.
    start : float
        The objective at the start.
    """

    def __init__(self, marks: tuple[float, ...], start: float) -> None:
        self.marks = marks
        self.best = start
        self.at_marks: list[float] = []
        self.evaluations = 0
        self.began = time.perf_counter()

    def see(self, value: float) -> None:
        """Take note of an objective that has just been computed.

        Raises
        ------
        TimeUp
            If the last mark has passed.
        """
        elapsed = time.perf_counter() - self.began
        while self.marks[len(self.at_marks)] < elapsed:
            self.at_marks.append(self.best)
            if len(self.at_marks) == len(self.marks):
                raise TimeUp
        self.evaluations += 1
        self.best = min(self.best, value)


def add_grid_options(
    parser: argparse.ArgumentParser, *, hidden: Iterable[int], gammas: Iterable[float], seeds: int
) -> None:
    """The options that choose the contests."""
    names = (*DATASETS, *LARGER)
    parser.add_argument("--datasets", nargs="+", choices=names, metavar="NAME", default=DATASETS, help=", ".join(names))
    parser.add_argument("--hidden", nargs="+", type=int, default=tuple(hidden), metavar="N", help="numbers of neurons")
    parser.add_argument("--gammas", nargs="+", type=float, default=tuple(gammas), metavar="GAMMA")
    parser.add_argument("--seeds", type=int, default=seeds, help="number of starts for each problem")
    parser.add_argument("--first-seed", type=int, default=0, metavar="SEED", help="seed of the first of them")


def grid(chosen: argparse.Namespace, runners: Iterable[str], marks: Iterable[float]) -> list[Cell]:
    """All cells of the chosen grid; those of one contest stand together."""
    marks = tuple(sorted(marks))
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    contests = itertools.product(chosen.datasets, chosen.hidden, chosen.gammas, seeds, runners)
    return [Cell(*fields, marks) for fields in contests if fields[0] != "MNIST" or has_mnist()]
