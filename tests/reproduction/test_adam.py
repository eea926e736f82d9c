"""The batched Adam against one plain loop a member, with autograd and torch's own optimiser."""

import numpy as np
import pytest

from dconnet.training.initialization import xavier
from reproduction.adam import ALL_ROWS, Member, Schedule, epoch_order, full_grid, train

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
Y = np.abs(X[:, 0]) + 0.1 * RNG.normal(size=90)
TRAINING, VALIDATION = (X[:70], Y[:70]), (X[70:], Y[70:])
START = xavier(3, 5, RNG)


def plain(member, schedule, seed=0):
    """Validation error and weights after each epoch, and the best epoch by early stopping."""
    W, b, alpha = (torch.tensor(part.copy(), requires_grad=True) for part in (START.W, START.b, START.alpha))
    optimiser = torch.optim.Adam([W, b, alpha], lr=member.learning_rate, betas=(member.beta1, 0.999))
    (X, y), (X_val, y_val) = ([torch.tensor(part) for part in pair] for pair in (TRAINING, VALIDATION))

    def mse(X, y):
        return torch.mean((torch.relu(X @ W.T + b) @ alpha - y) ** 2)

    errors, networks = [], []
    for epoch in range(1, schedule.max_epochs + 1):
        order = epoch_order(len(y), seed, epoch)
        size = member.batch_size or len(y)
        for first in range(0, len(y), size):
            rows = order[first : first + size]
            loss = mse(X[rows], y[rows]) + member.penalty * ((W**2).sum() + (alpha**2).sum())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        penalty = member.penalty * ((W**2).sum() + (alpha**2).sum())
        errors.append((mse(X_val, y_val) + (penalty if schedule.watch_penalty else 0.0)).item())
        networks.append([part.detach().numpy().copy() for part in (W, b, alpha)])
        best = int(np.argmin(errors))
        if schedule.patience is not None and epoch - 1 - best >= schedule.patience:
            break
    return errors, networks, int(np.argmin(errors))


@pytest.mark.parametrize("watch_penalty", [False, True])
def test_each_member_does_what_a_plain_loop_does(watch_penalty):
    schedule = Schedule(max_epochs=25, patience=5, watch_penalty=watch_penalty)
    members = [*full_grid(), Member(0.1, 0.9, 64, 1e-3), Member(0.3, 0.9, ALL_ROWS, 1e-3)]  # the last ones stop early
    results = train(members, START, TRAINING, VALIDATION, schedule, seed=0)
    stops = set()
    for member, result in zip(members, results, strict=True):
        errors, networks, best = plain(member, schedule)
        assert result.member == member
        assert result.epochs == len(errors)
        assert result.error == pytest.approx(errors[best], rel=1e-9)
        for ours, theirs in zip(
            (result.network.W, result.network.b, result.network.alpha), networks[best], strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-10)
        stops.add(result.epochs)
    assert len(stops) > 1  # otherwise nothing was tested about members that leave


def test_training_error_is_recorded_and_watched():
    member = Member(5e-3, 0.9, ALL_ROWS, 1e-3)
    schedule = Schedule(50, patience=None)
    (result,) = train([member], START, TRAINING, VALIDATION, schedule, seed=0, record=True)
    assert len(result.curve) == 51
    assert result.curve[0] == pytest.approx(np.mean((START.predict(TRAINING[0]) - TRAINING[1]) ** 2))
    assert result.curve[-1] == pytest.approx(np.mean((result.network.predict(TRAINING[0]) - TRAINING[1]) ** 2))
    goal = result.curve[20]
    (early,) = train([member], START, TRAINING, VALIDATION, Schedule(50, None, goal=goal), seed=0)
    assert (early.reached, early.epochs) == (True, 20)
    assert np.mean((early.network.predict(TRAINING[0]) - TRAINING[1]) ** 2) <= goal


def test_members_stop_without_the_goal_or_when_they_diverge():
    members = [Member(5e-3, 0.9, ALL_ROWS, 1e-3), Member(1e200, 0.9, ALL_ROWS, 1e-3)]
    never, diverged = train(members, START, TRAINING, VALIDATION, Schedule(5, None, goal=0.0), seed=0)
    assert (never.reached, never.epochs) == (False, 5)
    assert diverged.epochs < 5
    assert np.isfinite(diverged.network.W).all()
