"""Adam on one-hidden-layer ReLU networks, for a whole grid of hyper-parameters at once.

Members of the grid with the same batch size see the same batches, so they form one model with a further axis: a step is
one matrix product for all of them. Each member has its own rates, penalty, early stopping and best weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.model.network import Network

if TYPE_CHECKING:
    from torch import Tensor

ALL_ROWS = 0  # as a batch size

# The tuning ranges of the paper.
LEARNING_RATES = (1e-3, 5e-3, 5e-4)
BETA1S = (0.9, 0.99)
BATCH_SIZES = (64, 128, ALL_ROWS)
PENALTIES = (1e-2, 1e-3)

BETA2 = 0.999
EPSILON = 1e-8


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """One point of the grid; ``beta1`` is the decay rate of the first moment, ``penalty`` acts on W and alpha."""

    learning_rate: float
    beta1: float
    batch_size: int
    penalty: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """The stopping rule.

    Attributes
    ----------
    max_epochs : int
        Limit on passes over the data.
    patience : int or None
        Epochs without a lower watched error after which a member stops; None means never.
    watch_training : bool
        Watch the training error instead of the validation error.
    watch_penalty : bool
        Add the penalty to the watched error, as Keras does.
    goal : float
        Training MSE at which a member stops.
    restores_best : bool
        End with the weights of the lowest watched error instead of the last ones.
    """

    max_epochs: int = 1000
    patience: int | None = 10
    watch_training: bool = False
    watch_penalty: bool = False
    goal: float = -np.inf
    restores_best: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The result of one member.

    Attributes
    ----------
    network : Network
        The best network by the watched error; the last one without patience or with ``restores_best=False``.
    error : float
        The lowest watched error.
    epochs : int
        Passes over the data.
    reached : bool
        Whether the goal was reached.
    curve : list of float
        Training MSE before the first and after each epoch, with ``record=True``.
    """

    member: Member
    network: Network
    error: float
    epochs: int
    reached: bool
    curve: list[float] = field(default_factory=list)


def full_grid(penalties: Sequence[float] = PENALTIES) -> tuple[Member, ...]:
    """Return the 36 combinations of the paper, or those with other penalties."""
    return tuple(Member(*values) for values in itertools.product(LEARNING_RATES, BETA1S, BATCH_SIZES, penalties))


def train(
    members: Sequence[Member],
    start: Network,
    training: tuple[FloatArray, FloatArray],
    validation: tuple[FloatArray, FloatArray],
    schedule: Schedule,
    seed: int,
    record: bool = False,
) -> list[Trained]:
    """Train all members from the same start with the same batches; return results in the order of the members.

    ``training`` and ``validation`` are pairs of features (n_samples, n_features) and target, of shape (n_samples,), or
    (n_samples, n_members) for members of the same batch size with different targets. ``seed`` determines the order of
    the rows in each epoch.
    """
    results: dict[int, Trained] = {}
    for batch_size in dict.fromkeys(member.batch_size for member in members):
        places = [k for k, member in enumerate(members) if member.batch_size == batch_size]
        group = _Group([members[k] for k in places], start, training, validation, schedule, record)
        results |= dict(zip(places, group.run(batch_size, seed), strict=True))
    return [results[k] for k in range(len(members))]


def epoch_order(n_rows: int, seed: int, epoch: int) -> Any:
    """Return the order of the rows in an epoch, the same for every member."""
    return np.random.default_rng([seed, epoch]).permutation(n_rows)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("Adam needs PyTorch: pip install torch") from error
    return torch


class _Group:
    """Members of one batch size. Row k of every tensor belongs to the k-th member that is still trained."""

    def __init__(
        self,
        members: list[Member],
        start: Network,
        training: tuple[FloatArray, FloatArray],
        validation: tuple[FloatArray, FloatArray],
        schedule: Schedule,
        record: bool,
    ) -> None:
        self.torch = _torch()
        self.members, self.schedule, self.record = members, schedule, record
        self.shape = start.W.shape
        (self.X, self.y), (self.X_val, self.y_val) = (
            (self._tensor(X), self._tensor(y.reshape(len(y), -1))) for X, y in (training, validation)
        )
        flat = np.concatenate([start.W.ravel(), start.b, start.alpha])
        self.theta = self._tensor(np.tile(flat, (len(members), 1)))
        self.first, self.second = self.torch.zeros_like(self.theta), self.torch.zeros_like(self.theta)
        self.rate, self.beta1, penalty = (
            self._tensor(np.array([[getattr(member, name)] for member in members]))
            for name in ("learning_rate", "beta1", "penalty")
        )
        self.keep1 = 1.0 - self.beta1
        self.pull_back = (2.0 * penalty).repeat(1, self.theta.shape[1])  # times theta: the gradient of the penalty
        self._parts(self.pull_back)[1].zero_()  # which leaves the intercepts alone
        self.steps = 0
        self.alive = list(range(len(members)))
        self.best = self.torch.full((len(members),), np.inf, dtype=self.theta.dtype)
        self.best_theta = self.theta.clone()
        self.since_best = self.torch.zeros(len(members), dtype=self.torch.int64)
        self.results: dict[int, Trained] = {}
        self.curves: list[list[float]] = [[] for _ in members]

    def _tensor(self, values: FloatArray) -> Tensor:
        # A copy, because torch does not support read-only arrays.
        tensor: Tensor = self.torch.tensor(np.asarray(values, dtype=np.float64))
        return tensor

    def run(self, batch_size: int, seed: int) -> list[Trained]:
        """Train until no member is left."""
        n_rows = len(self.y)
        self._record_training_error()
        with self.torch.no_grad():
            for epoch in range(1, self.schedule.max_epochs + 1):
                order = self.torch.from_numpy(epoch_order(n_rows, seed, epoch))
                for batch in order.split(batch_size or n_rows):
                    self._step(self.X[batch], self.y[batch])
                self._judge(epoch)
                if not self.alive:
                    break
        return [self.results[k] for k in range(len(self.members))]

    def _parts(self, flat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return views of W (members, n_hidden, n_features), b and alpha (members, n_hidden)."""
        n_hidden, n_features = self.shape
        W, b, alpha = flat.split([n_hidden * n_features, n_hidden, n_hidden], dim=1)
        return W.view(len(flat), n_hidden, n_features), b, alpha

    def _hidden(self, X: Tensor) -> Tensor:
        """Return the output of the hidden layer, (rows, members, n_hidden)."""
        W, b, _ = self._parts(self.theta)
        Z = X @ W.reshape(-1, self.shape[1]).T
        hidden: Tensor = Z.view(len(X), len(self.theta), self.shape[0]).add_(b).clamp_min_(0.0)
        return hidden

    def _errors(self, X: Tensor, y: Tensor) -> Tensor:
        """Return the mean squared error of every member."""
        residual = (self._hidden(X) * self._parts(self.theta)[2]).sum(-1) - y
        return residual.square().mean(0)

    def _step(self, X: Tensor, y: Tensor) -> None:
        """Take one step of Adam on the mean squared error of the batch plus the penalty."""
        gradient = self._gradient(X, y)
        self.steps += 1
        self.first.lerp_(gradient, self.keep1)
        self.second.mul_(BETA2).addcmul_(gradient, gradient, value=1.0 - BETA2)
        size = self.second.sqrt().mul_((1.0 - BETA2**self.steps) ** -0.5).add_(EPSILON)
        rate = self.rate / (1.0 - self.beta1**self.steps)
        self.theta.addcdiv_(rate * self.first, size, value=-1.0)

    def _gradient(self, X: Tensor, y: Tensor) -> Tensor:
        _, _, alpha = self._parts(self.theta)
        hidden = self._hidden(X)
        pull = ((hidden * alpha).sum(-1) - y).mul_(2.0 / len(y))[:, :, None]  # (rows, members, 1)
        gradient = self.pull_back * self.theta
        of_W, of_b, of_alpha = self._parts(gradient)
        of_alpha += (pull * hidden).sum(0)
        back = (pull * alpha).mul_(hidden > 0.0)  # (rows, members, n_hidden)
        of_b += back.sum(0)
        of_W += (back.view(len(X), -1).T @ X).view(of_W.shape)
        return gradient

    def _record_training_error(self) -> Tensor | None:
        if not (self.record or self.schedule.watch_training or np.isfinite(self.schedule.goal)):
            return None
        errors = self._errors(self.X, self.y)
        if self.record:
            for k, error in zip(self.alive, errors.tolist(), strict=True):
                self.curves[k].append(error)
        return errors

    def _judge(self, epoch: int) -> None:
        """Update the best weights, and release members that have finished."""
        training = self._record_training_error()
        watched = training if self.schedule.watch_training else self._errors(self.X_val, self.y_val)
        assert watched is not None
        if self.schedule.watch_penalty:
            watched = watched + 0.5 * (self.pull_back * self.theta.square()).sum(1)
        done = ~watched.isfinite()
        if self.schedule.patience is None:
            self.best, self.best_theta = watched, self.theta
        else:
            done |= self._exhausted(watched, self.schedule.patience)
        reached = self.torch.zeros_like(done) if training is None else training <= self.schedule.goal
        done |= reached
        if epoch == self.schedule.max_epochs:
            done = self.torch.ones_like(done)
        if bool(done.any()):
            self._release(done, reached, epoch)

    def _exhausted(self, watched: Tensor, patience: int) -> Tensor:
        """Update the best weights; return which members have run out of patience."""
        better = watched < self.best
        self.best = self.torch.where(better, watched, self.best)
        self.best_theta[better] = self.theta[better]
        self.since_best = self.torch.where(better, 0, self.since_best + 1)
        return self.since_best >= patience

    def _release(self, done: Tensor, reached: Tensor, epoch: int) -> None:
        """Store the results of finished members, and remove their rows."""
        for row in done.nonzero().flatten().tolist():
            k = self.alive[row]
            # A member that reached the goal ends with its current weights.
            is_last = bool(reached[row]) or not self.schedule.restores_best
            theta = self.theta if is_last and bool(self.theta[row].isfinite().all()) else self.best_theta
            W, b, alpha = (part[row].numpy().copy() for part in self._parts(theta))
            self.results[k] = Trained(
                self.members[k],
                Network(W, b, alpha),
                float(self.best[row]),
                epoch,
                bool(reached[row]),
                self.curves[k],
            )
        left = (~done).nonzero().flatten()
        self.alive = [self.alive[row] for row in left.tolist()]
        by_member = ("theta", "first", "second", "rate", "beta1", "keep1", "pull_back")
        for name in (*by_member, "best", "best_theta", "since_best"):
            setattr(self, name, getattr(self, name)[left])
        if self.y.shape[1] > 1:
            self.y, self.y_val = self.y[:, left], self.y_val[:, left]
