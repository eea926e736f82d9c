"""Those who race: each takes a contest and tells the RegLoss that it has reached at every mark.

All of them go by the clock on the wall, on one thread. The whitening is done before the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from cells import Result
from contests import Contest, Scoreboard, TimeUp, random_start
from dconnet.convex.backend import get_backend
from dconnet.model.problem import WhitenedProblem
from dconnet.training.accelerated import AcceleratedDescent, Moves
from dconnet.training.descent import Descent, Options

# Rows at a time: what belongs to them stays in the cache.
BLOCK = 2048

LBFGS_SETTINGS = {"maxcor": 20, "maxiter": 10**9, "maxfun": 10**9, "gtol": 1e-10}
# Relative decrease in one iteration below which a run of SciPy ends. Tight: at the minimum. Brisk: chosen among four on
# one seed; on four others RegLoss at 1 s was lower by 2.5 % (48 contests: six datasets, N = 20, gamma 1e-2 and 1e-4).
TIGHT, BRISK = 1e-13, 1e-8
ADAM_RATE = 1e-2

LBFGS_ALONE = Moves(race=False, samples=False, hop="restart", sweep=False, revive=False)


class Objective:
    """``F = m RegLoss`` and its gradient in whitened coordinates, as one writes it in NumPy.

    The unknown ``theta`` holds V, row by row, and then alpha.
    """

    def __init__(self, white: WhitenedProblem, n_hidden: int) -> None:
        Q = np.ascontiguousarray(white.Q)
        self.shape = (n_hidden, Q.shape[1])
        self.gamma = white.gamma
        self.scatter = white.scatter
        self.parts = [(Q[i : i + BLOCK], white.y[i : i + BLOCK]) for i in range(0, len(Q), BLOCK)]

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
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
        """Views of V (n_hidden, rank) and alpha (n_hidden,)."""
        return theta[: -self.shape[0]].reshape(self.shape), theta[-self.shape[0] :]


def joined(V: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Theta of `Objective`."""
    return np.concatenate([V.ravel(), alpha])


def lbfgs(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]], theta: np.ndarray, ftol: float = TIGHT
) -> OptimizeResult:
    """One run of SciPy's L-BFGS-B."""
    return minimize(objective, theta, jac=True, method="L-BFGS-B", options=LBFGS_SETTINGS | {"ftol": ftol})


def scipy_lbfgs(contest: Contest, ftol: float = TIGHT) -> Result:
    """SciPy's L-BFGS-B from the start, and then from random ones until the clock stops."""
    white, n_hidden = contest.white, len(contest.alpha)
    objective = Objective(white, n_hidden)
    rng = np.random.default_rng((contest.seed, 1))
    theta = joined(contest.V, contest.alpha)
    board = Scoreboard(contest.marks, objective(theta)[0])

    def observed(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(theta)
        board.see(value)
        return value, gradient

    runs = 0
    with suppress(TimeUp):
        while True:
            lbfgs(observed, theta, ftol)
            runs += 1
            theta = joined(*random_start(white, n_hidden, rng))
    return _of_board(contest, board) | {"finished_runs": runs}


def adam(contest: Contest) -> Result:
    """Adam of PyTorch on all rows at once, in whitened coordinates and double precision."""
    import torch

    torch.set_num_threads(1)
    white = contest.white
    Q, y = torch.tensor(white.Q), torch.tensor(white.y)
    V, alpha = (torch.tensor(part, requires_grad=True) for part in (contest.V, contest.alpha))
    optimizer = torch.optim.Adam([V, alpha], lr=ADAM_RATE)

    def loss() -> torch.Tensor:
        residual = y - torch.relu(Q @ V.T) @ alpha
        penalty = V.square().sum() + alpha.square().sum()
        return (white.scatter + residual.square().sum() + white.gamma * penalty) / white.total_weight

    def values() -> Iterator[float]:
        while True:
            optimizer.zero_grad()
            value = loss()
            value.backward()
            yield value.item() * white.total_weight
            optimizer.step()

    steps = values()
    board = Scoreboard(contest.marks, next(steps))  # the libraries are warm when the clock starts
    with suppress(TimeUp):
        for value in steps:
            board.see(value)
    return _of_board(contest, board)


def _of_board(contest: Contest, board: Scoreboard) -> Result:
    regloss = [value / contest.white.total_weight for value in board.at_marks]
    return {"regloss": regloss, "seconds": contest.marks, "evaluations": board.evaluations}


def paper(contest: Contest) -> Result:
    """Algorithm 1 of the paper in one run; what counts is the last epoch that ended before each mark."""
    # One part in a hundred more: the epoch that the limit cuts ends after the last mark.
    options = Options(split="paper", max_epochs=None, max_seconds=1.01 * contest.marks[-1], tol=0.0)
    descent = Descent(contest.problem, get_backend("native"), options, np.random.default_rng((contest.seed, 1)))
    history = descent.run(contest.start).history
    regloss = [float(history.objective[history.seconds <= mark].min()) for mark in contest.marks]
    return {"regloss": regloss, "seconds": contest.marks, "epochs": len(history) - 1}


def accelerated(contest: Contest, moves: Moves | None = None) -> Result:
    """The accelerated algorithm or a variant of it, run anew for every mark, hopping until the clock stops."""
    runs = [_run(contest, mark, Moves() if moves is None else moves) for mark in contest.marks]
    regloss, seconds, epochs = zip(*runs, strict=True)
    return {"regloss": regloss, "seconds": seconds, "epochs": epochs}


def defaults(contest: Contest) -> Result:
    """The same with the default tolerance and patience: a fit that ends when it has converged, or at the mark."""
    runs = [_run(contest, mark, Moves(), Options(split="net", max_seconds=mark)) for mark in contest.marks]
    regloss, seconds, epochs = zip(*runs, strict=True)
    return {"regloss": regloss, "seconds": seconds, "epochs": epochs}


def _run(contest: Contest, mark: float, moves: Moves, options: Options | None = None) -> tuple[float, float, int]:
    """RegLoss by its definition, the seconds that it really took, and the epochs."""
    if options is None:
        options = Options(split="net", max_epochs=None, max_seconds=mark, tol=0.0, patience=None)
    rng = np.random.default_rng((contest.seed, 1))
    descent = AcceleratedDescent(contest.problem, get_backend("native"), options, rng, moves)
    began = time.perf_counter()
    solution = descent.run(contest.start)
    seconds = time.perf_counter() - began
    return contest.problem.objective(solution.network), seconds, solution.n_epochs


def kernel_lbfgs(contest: Contest) -> Result:
    """The kernel's own L-BFGS from the start, and then from random ones until the clock stops."""
    return accelerated(contest, LBFGS_ALONE)


RIVALS: dict[str, Callable[[Contest], Result]] = {
    "accelerated": accelerated,
    "defaults": defaults,
    "scipy": scipy_lbfgs,
    "scipy-brisk": partial(scipy_lbfgs, ftol=BRISK),
    "kernel": kernel_lbfgs,
    "paper": paper,
    "adam": adam,
}

WHO = {
    "accelerated": "the accelerated algorithm, hopping until the clock stops (patience=None, tol=0)",
    "defaults": "the same with the default patience and tolerance, which end most fits before the clock does",
    "scipy": f"SciPy's L-BFGS-B (ftol {TIGHT:g}), restarted from random starts until the clock stops",
    "scipy-brisk": f"the same with ftol {BRISK:g}, which ends runs earlier and restarts more often",
    "kernel": "the L-BFGS of the kernel alone, restarted likewise",
    "paper": "Algorithm 1 of the paper, read at its last whole epoch before the mark",
    "adam": f"Adam of PyTorch on all rows at once, learning rate {ADAM_RATE:g}",
}


def missing(rival: str) -> str:
    """Why a rival cannot race here; empty if it can."""
    return "it needs PyTorch: pip install torch" if rival == "adam" and find_spec("torch") is None else ""
