"""The Lipschitz constant against enumeration of all pieces with an interior, and against differences."""

import numpy as np
import pytest
from scipy.optimize import linprog

from dconnet import Network
from dconnet.optimisation import OptimumStatus, lipschitz_constant
from optimisation.enumeration import pieces

DUAL = {1: np.inf, 2: 2, np.inf: 1}


def enumerated(network, bounds, norm):
    n = network.n_features
    lengths = []
    for G, g, slope, _ in pieces(network):
        radii = np.append(np.zeros(n), -1.0)
        walls = np.vstack([np.eye(n), -np.eye(n)])
        rows = np.vstack([np.column_stack([G, np.linalg.norm(G, axis=1)]), np.column_stack([walls, np.ones(2 * n)])])
        ends = np.array(bounds, dtype=float)
        found = linprog(radii, rows, np.concatenate([g, ends[:, 1], -ends[:, 0]]), bounds=[(None, None)] * (n + 1))
        if found.status == 0 and found.x[n] > 1e-7:
            lengths.append(np.linalg.norm(slope, ord=DUAL[norm]))
    return max(lengths)


@pytest.mark.parametrize("norm", [1, 2, np.inf])
@pytest.mark.parametrize("seed", range(3))
def test_the_constant_is_that_of_the_enumeration(seed, norm):
    rng = np.random.default_rng(seed)
    network = Network(rng.normal(size=(6, 2)), rng.normal(size=6), rng.normal(size=6))
    bounds = [(-1.0, 2.0), (0.0, 3.0)]
    found = lipschitz_constant(network, bounds, norm)
    assert found.value == pytest.approx(enumerated(network, bounds, norm), rel=1e-9)
    assert found.bound == pytest.approx(found.value, rel=1e-8)
    assert np.linalg.norm(found.gradient, ord=DUAL[norm]) == pytest.approx(found.value)
    step = 1e-7 * np.eye(2)
    differences = (network.predict(found.x + step) - network.predict(found.x - step)) / 2e-7
    assert differences == pytest.approx(found.gradient, abs=1e-5)


def test_pieces_without_an_interior_do_not_count():
    # |x| twice, turned: both neurons of a pair bend at zero and are never active together.
    network = Network(W=[[1.0], [-1.0]], b=[0.0, 0.0], alpha=[1.0, -1.0])
    assert lipschitz_constant(network, [(-1, 1)]).value == 1.0
    ramp = Network(W=[[1.0], [2.0]], b=[0.0, 0.0], alpha=[5.0, -2.0])
    assert lipschitz_constant(ramp, [(-1, 1)]).value == 1.0


def test_a_time_limit_leaves_a_valid_bound():
    rng = np.random.default_rng(0)
    network = Network(rng.normal(size=(40, 4)), rng.normal(size=40), rng.normal(size=40))
    found = lipschitz_constant(network, [(-1, 1)] * 4, max_seconds=0.05)
    assert found.status is OptimumStatus.TIME_LIMIT
    points = rng.uniform(-1, 1, size=(2000, 4))
    active = network.preactivations(points) > 0.0
    steepest = np.linalg.norm((active * network.alpha) @ network.W, axis=1).max()
    assert steepest <= found.bound
    assert found.value <= found.bound


def test_a_linear_network_and_bad_input():
    line = Network(W=[[3.0, 4.0]], b=[100.0], alpha=[1.0])
    assert lipschitz_constant(line, [(0, 1)] * 2).value == 5.0
    with pytest.raises(ValueError, match="norm"):
        lipschitz_constant(line, [(0, 1)] * 2, norm=3)
    with pytest.raises(ValueError, match="interior"):
        lipschitz_constant(line, [(0, 1), (2, 2)])
