"""The contestants of the race: each minimises RegLoss from the same start and records its value at given times.

All times are wall times on one thread. The whitening is done before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from scipy.optimize import minimize

from dconnet import Network, Problem
from dconnet.convex.programme import get_backend
from dconnet.model.problem import WhitenedProblem
from dconnet.training.accelerated import AcceleratedDescent, Moves
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from paper_data import load_mnist_digit, load_problem, make_regression
from reproduction.store import Result

# Data with more rows than the tables of the paper.
LARGER: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "5000x10": lambda: make_regression(5000, 10),
    "10000x100": lambda: make_regression(10_000, 100),
    "MNIST": load_mnist_digit,
}

# Least factor by which `scale_start` may shrink predictions that hardly correlate with the targets.
LEAST_SCALE = 1e-3

BLOCK = 2048  # rows whose activations stay in the cache
LBFGS_SETTINGS = {"maxcor": 20, "maxiter": 10**9, "maxfun": 10**9, "gtol": 1e-10}
# Relative decrease in one iteration at which a run of SciPy ends. TIGHT: at the minimum. BRISK: the best of four values
# on one seed; on four other seeds it lowered RegLoss at 1 s by 2.5 % against TIGHT (48 contests).
TIGHT, BRISK = 1e-13, 1e-8
ADAM_RATE = 1e-2


@dataclass(frozen=True)
class Cell:
    """One contestant (``runner``) on one problem from the start of one seed; ``marks`` are seconds of wall time."""

    dataset: str
    n_hidden: int
    gamma: float
    seed: int
    runner: str
    marks: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Contest:
    """A problem, its start in original (``start``) and whitened coordinates (``V``, ``alpha``), and the marks."""

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


def make_contest(cell: Cell) -> Contest:
    """Return the problem of a cell with its scaled Xavier start."""
    load = load_larger if cell.dataset in LARGER else load_problem
    problem: Problem = load(cell.dataset, cell.gamma)
    start = xavier(problem.X.shape[1], cell.n_hidden, np.random.default_rng(cell.seed))
    V, alpha = scale_start(problem.whitened, problem.whitened.whiten(start), start.alpha)
    return Contest(problem, problem.whitened.network(V, alpha), V, alpha, cell.marks, cell.seed)


@cache
def load_larger(dataset: str, gamma: float) -> Problem:
    """Return one of the larger problems."""
    return Problem(*LARGER[dataset](), gamma)


def scale_start(white: WhitenedProblem, V: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Balance the neurons, then choose the sign and the scale of the predictions that fit the targets best.

    Balanced means ``|v_l| = |alpha_l|``, the least penalty for the same function. With predictions f, all weights are
    multiplied by √c with ``c = <f, y> / <f, f>``, at least 1e-3 |y| / |f|; a negative c flips the output weights.
    """
    norms, sizes = np.linalg.norm(V, axis=1), np.abs(alpha)
    alive = (norms > 0.0) & (sizes > 0.0)
    stretch = np.sqrt(np.divide(sizes, norms, out=np.zeros_like(norms), where=alive))
    V, alpha = stretch[:, None] * V, np.divide(alpha, stretch, out=np.zeros_like(alpha), where=alive)
    f = np.maximum(white.preactivations(V), 0.0) @ alpha
    if not np.any(f):
        return V, alpha
    c = (f @ white.y) / (f @ f)
    if c < 0.0:
        alpha, c = -alpha, -c
    root = np.sqrt(max(c, LEAST_SCALE * np.linalg.norm(white.y) / np.linalg.norm(f)))
    return root * V, root * alpha


class TimeUp(Exception):  # noqa: N818
    """Ends the loop of a foreign optimiser after the last mark; not an error."""


class Scoreboard:
    """The best objective before each mark; the clock starts when the object is created."""

    def __init__(self, contest: Contest, start: float) -> None:
        self.contest, self.best, self.evaluations = contest, start, 0
        self.at_marks: list[float] = []
        self.began = time.perf_counter()

    def record(self, value: float) -> None:
        """Record an objective that has just been computed; raise TimeUp after the last mark."""
        elapsed, marks = time.perf_counter() - self.began, self.contest.marks
        while marks[len(self.at_marks)] < elapsed:
            self.at_marks.append(self.best)
            if len(self.at_marks) == len(marks):
                raise TimeUp
        self.evaluations += 1
        self.best = min(self.best, value)

    def result(self) -> Result:
        """Return RegLoss at the marks."""
        regloss = [value / self.contest.white.total_weight for value in self.at_marks]
        return {"regloss": regloss, "seconds": self.contest.marks, "evaluations": self.evaluations}


class Objective:
    """m times RegLoss and its gradient in whitened coordinates, in plain NumPy; theta is V row by row, then alpha."""

    def __init__(self, white: WhitenedProblem, n_hidden: int) -> None:
        Q = np.ascontiguousarray(white.Q)
        self.shape, self.gamma, self.scatter = (n_hidden, Q.shape[1]), white.gamma, white.scatter
        self.parts = [(Q[i : i + BLOCK], white.y[i : i + BLOCK]) for i in range(0, len(Q), BLOCK)]

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return value and gradient."""
        V, alpha = self.split(theta)
        value = self.scatter + self.gamma * float(theta @ theta)
        gradient = self.gamma * theta
        of_V, of_alpha = self.split(gradient)
        for Q, y in self.parts:
            active = np.maximum(Q @ V.T, 0.0)  # (rows, n_hidden)
            residual = active @ alpha - y
            value += float(residual @ residual)
            of_alpha += residual @ active
            of_V += alpha[:, None] * (((active > 0.0) * residual[:, None]).T @ Q)
        return value, 2.0 * gradient

    def split(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return views of V (n_hidden, rank) and alpha (n_hidden,)."""
        return theta[: -self.shape[0]].reshape(self.shape), theta[-self.shape[0] :]


def run_scipy(contest: Contest, ftol: float = TIGHT) -> Result:
    """Run SciPy's L-BFGS-B from the start, then from random starts until the last mark."""
    white, n_hidden = contest.white, len(contest.alpha)
    objective = Objective(white, n_hidden)
    rng = np.random.default_rng((contest.seed, 1))
    V, alpha = contest.V, contest.alpha
    board = Scoreboard(contest, objective(np.concatenate([V.ravel(), alpha]))[0])

    def observed(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(theta)
        board.record(value)
        return value, gradient

    n_runs = 0
    with suppress(TimeUp):
        while True:
            theta, options = np.concatenate([V.ravel(), alpha]), LBFGS_SETTINGS | {"ftol": ftol}
            minimize(observed, theta, jac=True, method="L-BFGS-B", options=options)
            n_runs += 1
            directions = rng.standard_normal((n_hidden, white.Q.shape[1]))
            V, alpha = scale_start(white, directions, rng.standard_normal(n_hidden))
    return board.result() | {"finished_runs": n_runs}


def run_adam(contest: Contest) -> Result:
    """Run Adam of PyTorch on full batches, in whitened coordinates and double precision."""
    import torch

    torch.set_num_threads(1)
    white = contest.white
    Q, y = torch.tensor(white.Q), torch.tensor(white.y)
    V, alpha = (torch.tensor(part, requires_grad=True) for part in (contest.V, contest.alpha))
    optimizer = torch.optim.Adam([V, alpha], lr=ADAM_RATE)

    def values() -> Iterator[float]:
        while True:
            optimizer.zero_grad()
            residual = y - torch.relu(Q @ V.T) @ alpha
            penalty = V.square().sum() + alpha.square().sum()
            value = (white.scatter + residual.square().sum() + white.gamma * penalty) / white.total_weight
            value.backward()
            yield value.item() * white.total_weight
            optimizer.step()

    steps = values()
    board = Scoreboard(contest, next(steps))  # the libraries are loaded when the clock starts
    with suppress(TimeUp):
        for value in steps:
            board.record(value)
    return board.result()


def run_paper(contest: Contest) -> Result:
    """Run Algorithm 1 once; the last epoch that ended before a mark counts."""
    # One per cent more: the epoch that the limit cuts ends after the last mark.
    options = Options(split="paper", max_epochs=None, max_seconds=1.01 * contest.marks[-1], tol=0.0)
    descent = Descent(contest.problem, get_backend("native"), options, np.random.default_rng((contest.seed, 1)))
    history = descent.run(contest.start).history
    regloss = [float(history.objective[history.seconds <= mark].min()) for mark in contest.marks]
    return {"regloss": regloss, "seconds": contest.marks, "epochs": len(history) - 1}


def run_accelerated(contest: Contest, moves: Moves | None = None, stop_when_converged: bool = False) -> Result:
    """Run the accelerated algorithm, or a variant of its moves, once for every mark."""
    endless = {} if stop_when_converged else {"max_epochs": None, "tol": 0.0, "patience": None}
    regloss, seconds, epochs = [], [], []
    for mark in contest.marks:
        options = Options(split="net", max_seconds=mark, **endless)
        rng = np.random.default_rng((contest.seed, 1))
        descent = AcceleratedDescent(contest.problem, get_backend("native"), options, rng, moves or Moves())
        began = time.perf_counter()
        solution = descent.run(contest.start)
        seconds.append(time.perf_counter() - began)
        regloss.append(contest.problem.objective(solution.network))
        epochs.append(solution.n_epochs)
    return {"regloss": regloss, "seconds": seconds, "epochs": epochs}


LBFGS_ALONE = Moves(race=False, samples=False, hop="restart", sweep=False, revive=False)

RIVALS: dict[str, Callable[[Contest], Result]] = {
    "accelerated": run_accelerated,
    "defaults": partial(run_accelerated, stop_when_converged=True),
    "scipy": run_scipy,
    "scipy-brisk": partial(run_scipy, ftol=BRISK),
    "kernel": partial(run_accelerated, moves=LBFGS_ALONE),
    "paper": run_paper,
    "adam": run_adam,
}

DESCRIPTIONS = {
    "accelerated": "the accelerated algorithm without stopping rule (patience=None, tol=0)",
    "defaults": "the accelerated algorithm with its default stopping rule, which ends most fits before the mark",
    "scipy": f"SciPy's L-BFGS-B (ftol {TIGHT:g}), restarted from random starts until the last mark",
    "scipy-brisk": f"the same with ftol {BRISK:g}, which ends runs earlier and restarts more often",
    "kernel": "the L-BFGS of the kernel alone, restarted likewise",
    "paper": "Algorithm 1 of the paper, at its last whole epoch before the mark",
    "adam": f"Adam of PyTorch on full batches, learning rate {ADAM_RATE:g}",
}
