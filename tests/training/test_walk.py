"""The walk on a neuron's own problem O: against all local minimisers by enumeration, and against its own promises."""

import numpy as np
import pytest

from dconnet import Problem
from dconnet.convex.programme import get_backend
from dconnet.training.dc import WALK_DECREASE, NeuronProblem, walk
from dconnet.training.sweep import make_sweep

BACKENDS = ["native", "reference"]


def neuron_in_the_plane(seed, gamma=0.05):
    """Return a problem with one input and one neuron, whose whitened weights are two numbers, and O."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(9, 1)), rng.normal(size=9)
    problem = Problem(X, y, gamma).whitened
    alpha = rng.choice([-0.7, 0.9], size=1)
    return problem, alpha, NeuronProblem.of(problem, np.zeros((len(y), 1)), alpha, 0, "net"), rng


def local_minimisers(neuron):
    """Return all local minimisers of O in the plane but zero: one candidate for each face, inside it or at a kink."""
    Q, slope, a = neuron.design, neuron.beta_g - neuron.beta_h, neuron.curvature
    rays = np.vstack([(Q[:, 1], -Q[:, 0]), (-Q[:, 1], Q[:, 0])]).reshape(2, 2, -1).transpose(0, 2, 1).reshape(-1, 2)
    angles = np.sort(np.arctan2(rays[:, 1], rays[:, 0]))
    middles = angles + np.diff(np.append(angles, angles[0] + 2.0 * np.pi)) / 2.0
    found = []
    for angle in middles:  # inside of a face
        active = Q @ (np.cos(angle), np.sin(angle)) > 0.0
        hessian = 2.0 * (neuron.gamma * np.eye(2) + a * Q[active].T @ Q[active])
        v = np.linalg.solve(hessian, -Q[active].T @ slope[active])
        if np.all((Q @ v > 0.0) == active):
            found.append(v)
    for row, ray in zip(np.tile(np.arange(len(Q)), 2), rays, strict=True):  # on the ray where one row is at its kink
        active = Q @ ray > 0.0
        active[row] = False
        hessian = 2.0 * (neuron.gamma * np.eye(2) + a * Q[active].T @ Q[active])
        pull = -Q[active].T @ slope[active]
        length = (pull @ ray) / (ray @ hessian @ ray)
        force = Q[row] @ (pull - length * hessian @ ray) / (Q[row] @ Q[row])
        if length > 0.0 and 0.0 <= force <= slope[row]:
            found.append(length * ray)
    return np.array(found).reshape(-1, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ends_in_one_of_the_local_minimisers(backend):
    n_apart = n_alive = 0
    for seed in range(40):
        problem, alpha, neuron, rng = neuron_in_the_plane(seed)
        minimisers = local_minimisers(neuron)
        n_apart += len(minimisers) > 1
        start = rng.normal(size=(1, 2))
        V = start.copy()
        tally = make_sweep(problem, get_backend(backend), 1, "net", 50).run(V, alpha, np.arange(1), np.inf)
        assert (tally.refused, tally.unsolved) == (0, 0)
        value, before = (neuron.value(v, neuron.design @ v) for v in (V[0], start[0]))
        assert value <= before
        if V.any():
            n_alive += 1
            assert np.min(np.linalg.norm(minimisers - V[0], axis=1)) < 1e-9
        else:  # the majoriser with all rows active, as the DCA takes it at zero, does not fall from there
            circle = np.linspace(0.0, 2.0 * np.pi, 3601)
            along = neuron.design @ (np.cos(circle), np.sin(circle))
            assert np.min(neuron.beta_g @ np.maximum(along, 0.0) - neuron.beta_h @ along) >= -1e-9
    assert n_apart > 5
    assert n_alive > 20


def test_o_falls_with_every_step():
    for seed in range(20):
        _, _, neuron, rng = neuron_in_the_plane(seed)
        start = rng.normal(size=2)
        ends = [walk(neuron, start, max_steps)[0] for max_steps in range(8)]
        values = [neuron.value(v, neuron.design @ v) for v in ends]
        assert np.all(np.diff(values) <= 1e-14)
        assert values[-1] <= values[0] - WALK_DECREASE * neuron.gamma * np.sum((ends[-1] - ends[0]) ** 2)
