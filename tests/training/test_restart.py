"""The restart procedure: its verdict agrees with brute force, and it descends where the plain DCA is stuck."""

from itertools import combinations

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, PaperAlgorithm
from dconnet.convex.programme import get_backend
from dconnet.model.whitening import Whitening
from dconnet.training.dc import KINK_TOLERANCE, NeuronProblem, dca
from dconnet.training.kinks import Kinks, Verdict, dca_with_restarts, examine
from problems import assert_descent


def by_hand(beta_g, beta_h, rows=(0.6, -0.48, 0.64), gamma=0.0696):
    """One unknown, three rows whose squares add up to one, and curvature one."""
    return NeuronProblem(np.array(rows)[:, None], np.array(beta_g), np.array(beta_h), curvature=1.0, gamma=gamma)


# ∂h(0) = [-0.48, 0.6] and ∂g(0) = [0, 0.64]. The tangent with all rows active, 0.6 - 0.48, is in both: the DCA stands
# still at zero. The tangent -0.48 leads to -0.48 / (2 (0.0696 + 0.48²)) = -0.8, where O is 0.3 · 0.64 - 0.48 · 0.8.
STUCK = by_hand(beta_g=[0.0, 0.0, 1.0], beta_h=[1.0, 1.0, 0.0])


@pytest.fixture(params=["reference", "native"])
def backend(request):
    return get_backend(request.param)


def test_plain_dca_is_stuck_and_the_restart_escapes(backend):
    solver = backend.prepare(STUCK.design)
    plain = dca(STUCK, np.zeros(1), solver, max_iter=50)
    assert plain.converged
    assert plain.v[0] == 0.0
    escaped = dca_with_restarts(STUCK, np.zeros(1), solver, max_iter=50)
    assert escaped.restarts == 1
    assert escaped.v[0] == pytest.approx(-0.8, rel=1e-12)
    assert examine(STUCK, escaped.v)[0] is Verdict.LOCAL_MINIMUM


def test_a_local_minimum_stays(backend):
    # ∂h(0) = [-0.48, 0.6] lies inside ∂g(0) = [-0.576, 0.64]: the third row and an opposite one hold both sides.
    neuron = by_hand([0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], rows=np.array([0.6, -0.48, 0.64, -0.576]))
    assert examine(neuron, np.zeros(1)) == (Verdict.LOCAL_MINIMUM, None)
    outcome = dca_with_restarts(neuron, np.zeros(1), backend.prepare(neuron.design), max_iter=50)
    assert (outcome.restarts, outcome.v[0]) == (0, 0.0)


def test_a_dead_neuron_with_an_output_weight_comes_to_life():
    """All subgradients meet at a dead neuron of weight one: 2 (-1, 1) + 2 (1, 1) from h is 0.8 · 5 (0, 1) of g."""
    X, y = np.array([[-1.0], [0.0], [1.0]]), np.array([1.0, -2.5, 1.0])
    start = Network(np.zeros((1, 1)), np.zeros(1), np.ones(1))
    settings = {"gamma": 0.01, "scale": False, "init": start, "random_state": 0}
    plain = DCONRegressor(1, algorithm=PaperAlgorithm(kinks="active"), **settings).fit(X, y)
    assert plain.objective_ == pytest.approx(8.25 / 3.0)
    model = DCONRegressor(1, algorithm=PaperAlgorithm(kinks="active", restart=True), **settings).fit(X, y)
    # One of both outer points is fitted, and the network is flat over the rest.
    assert model.objective_ == pytest.approx(7.25 / 3.0, rel=0.02)


def kinks_at(neuron, v):
    return Kinks.at(neuron, v, neuron.design @ v, KINK_TOLERANCE).net()


def steepest_by_brute_force(kinks):
    """Return an upper bound on the least O' over directions of length one, relative to its size.

    O' is linear between the hyperplanes of the kinked rows. It is not negative anywhere if it is not negative along the
    edges where they meet, and along the directions orthogonal to all rows.
    """
    if not len(kinks.rows):
        return -np.linalg.norm(kinks.smooth) / kinks.size
    _, singular, axes = np.linalg.svd(kinks.rows, full_matrices=False)
    axes = axes[singular > 1e-10 * singular[0]]  # (rank of the rows, rank)
    orthogonal = kinks.smooth - axes.T @ (axes @ kinks.smooth)
    least = -np.linalg.norm(orthogonal) / kinks.size
    for rows in combinations(kinks.rows @ axes.T, len(axes) - 1):
        _, singular, whole = np.linalg.svd(np.array(rows).reshape(-1, len(axes)))
        if np.all(singular > 1e-9):
            edge = axes.T @ whole[-1]
            least = min(least, float(kinks.along(edge)) / kinks.size, float(kinks.along(-edge)) / kinks.size)
    return least


def degenerate_neuron(seed):
    """Return a neuron with many common kinks, about half of them concave."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(1, 4))
    M = np.column_stack([rng.integers(-1, 2, size=(12, n_features)), np.ones(12)])
    slopes = rng.normal(size=12) + rng.uniform(0.0, 2.0)
    common = rng.uniform(0.0, 1.0, size=12) if seed % 2 else 0.0  # as in the paper's split
    betas = np.maximum(slopes, 0.0) + common, np.maximum(-slopes, 0.0) + common
    return NeuronProblem(Whitening.of(M).Q, *betas, curvature=1.0, gamma=rng.uniform(0.01, 1.0))


def test_verdicts_agree_with_brute_force():
    seen = []
    for seed in range(50):
        neuron = degenerate_neuron(seed)
        start = np.zeros(neuron.design.shape[1])
        reached = dca(neuron, start, get_backend("native").prepare(neuron.design), max_iter=50)
        assert reached.converged
        verdict, direction = examine(neuron, reached.v)
        least = steepest_by_brute_force(kinks_at(neuron, reached.v))
        assert not -1e-6 < least < -1e-10, "a case that no rounding error should decide"
        assert verdict is (Verdict.DESCENDS if least < -1e-7 else Verdict.LOCAL_MINIMUM)
        if direction is not None:
            along = reached.v + 1e-6 * np.linalg.norm(direction) * direction
            assert neuron.value(along, neuron.design @ along) < neuron.value(reached.v, neuron.design @ reached.v)
        seen.append(verdict)
    assert min(seen.count(Verdict.LOCAL_MINIMUM), seen.count(Verdict.DESCENDS)) > 10


def dead_neuron(seed, n_rows=80):
    """Return a neuron with all rows at the kink of v = 0, too many of them concave to try all tangents."""
    rng = np.random.default_rng(seed)
    design = Whitening.of(np.column_stack([rng.normal(size=(n_rows, 3)), np.ones(n_rows)])).Q
    slopes = rng.normal(size=n_rows)
    return NeuronProblem(design, np.maximum(slopes, 0.0), np.maximum(-slopes, 0.0), curvature=1.0, gamma=0.1)


def test_none_found_is_not_called_a_proof():
    """Each row appears twice, with slopes -1 and 10: the pair is convex, but not all concave kinks are tried."""
    rows = dead_neuron(0).design / np.sqrt(2.0)
    slopes = np.repeat([-1.0, 10.0], len(rows))
    neuron = NeuronProblem(
        np.vstack([rows, rows]), np.maximum(slopes, 0.0), np.maximum(-slopes, 0.0), curvature=1.0, gamma=0.1
    )
    assert examine(neuron, np.zeros(4)) == (Verdict.NONE_FOUND, None)


@pytest.mark.parametrize("solver", ["native", "reference"])
def test_restarts_descend_further_than_the_plain_algorithm(solver):
    X = np.linspace(-1.0, 1.0, 21).reshape(-1, 1)
    settings = {"gamma": 0.1, "random_state": 0, "scale": False}
    options = {"solver": solver, "kinks": "active"}
    plain = DCONRegressor(3, algorithm=PaperAlgorithm(**options), **settings).fit(X, X[:, 0] ** 2)
    model = DCONRegressor(3, algorithm=PaperAlgorithm(**options, restart=True), **settings).fit(X, X[:, 0] ** 2)
    assert_descent(model.history_)
    assert model.history_.total("restarts") > 0
    assert model.objective_ < 0.9 * plain.objective_
    assert model.stationarity_ < 1e-5 < plain.stationarity_
