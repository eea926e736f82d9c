"""The search over rows held by workers gives the bits of the search over local rows."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from dconnet import _native
from dconnet.convex.native import pad_rows
from dconnet.model.rows import LEAF, LeafTree

N_ROWS, RANK, N_HIDDEN = 5 * LEAF + 700, 5, 6
GAMMA = 0.1


def problem(n_outputs):
    rng = np.random.default_rng(n_outputs)
    Q = np.linalg.qr(rng.normal(size=(N_ROWS, RANK)))[0]
    y = 100 * np.abs(Q[:, :n_outputs]) + 0.1 * rng.normal(size=(N_ROWS, n_outputs))
    return pad_rows(Q), np.ascontiguousarray(y)


def start(n_outputs):
    rng = np.random.default_rng(7)
    V, alpha = rng.normal(size=(N_HIDDEN, RANK)), rng.normal(size=(N_HIDDEN, n_outputs))
    V[2], alpha[2] = 0.0, 0.0  # a dead neuron, for which a new one is sought
    return V, alpha


def plan(**changes):
    options = {"starts": 1, "samples": 0, "burst": True, "hop": "perturb", "stalled": 1e-2, "patience": 20}
    return options | {"revive": True, "seed": 1} | changes


@dataclass
class Parts:
    """Rows in parts that workers would hold; counts the calls, and fails after some of them."""

    design: np.ndarray
    y: np.ndarray
    cuts: tuple[int, ...]
    kinds: list[int | str] = field(default_factory=list)
    n_rows: list[int] = field(default_factory=list)  # of samples
    calls_until_error: float = np.inf

    def __post_init__(self):
        self.parts, first_leaf = [], 0
        for rows in (slice(a, b) for a, b in zip((0, *self.cuts), (*self.cuts, len(self.y)), strict=True)):
            objective = _native.Objective(self.design[rows], RANK, self.y[rows], GAMMA, N_HIDDEN)
            self.parts.append((objective, first_leaf))
            first_leaf += -(-(rows.stop - rows.start) // LEAF)

    def sums(self, kind, input):
        if len(self.kinds) >= self.calls_until_error:
            raise KeyboardInterrupt("enough")
        self.kinds.append(kind)
        tree = LeafTree(np.add)
        for objective, first_leaf in self.parts:
            for first, level, values in zip(*objective.block_sums(kind, input, first_leaf), strict=True):
                tree.add(first, level, values)
        return tree.total()

    def rows(self, numbers):
        self.kinds.append("rows")
        self.n_rows.append(len(numbers))
        return self.design[numbers], self.y[numbers]

    def explorer(self, most_numbers=10**9, **changes):
        shape = (N_ROWS, RANK, self.y.shape[1], float(np.sum(self.y**2)))
        return _native.Explorer(self, *shape, GAMMA, N_HIDDEN, most_numbers=most_numbers, **plan(**changes))


@pytest.mark.parametrize(("most_rows", "n_samples"), [(N_ROWS, 2), (N_ROWS // 50, 1), (3, 0)])
def test_samples_have_no_more_rows_than_may_be_fetched(most_rows, n_samples):
    design, y = problem(1)
    parts = Parts(design, y, ())
    parts.explorer(samples=20, most_numbers=design.shape[1] * most_rows).explore(100, 1e9, *start(1))
    assert len(parts.n_rows) == n_samples
    assert max(parts.n_rows, default=0) <= most_rows


def value_of(design, y, V, alpha):
    kernel = _native.Objective(design, RANK, y, GAMMA, N_HIDDEN)
    return kernel.gradient(V, alpha, np.empty_like(V), np.empty_like(alpha))


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("cuts", [(), (LEAF, 3 * LEAF, 3 * LEAF)], ids=["one part", "four parts"])
def test_whole_leaves_give_the_same_bits(n_outputs, cuts):
    design, y = problem(n_outputs)
    V, alpha = start(n_outputs)
    expected = _native.Explorer(design, RANK, y, GAMMA, N_HIDDEN, **plan(samples=20)).explore(300, 1e9, V, alpha)
    parts = Parts(design, y, cuts)
    remote_V, remote_alpha = start(n_outputs)
    assert parts.explorer(samples=20).explore(300, 1e9, remote_V, remote_alpha) == expected
    np.testing.assert_array_equal(V, remote_V)
    np.testing.assert_array_equal(alpha, remote_alpha)
    assert {0, 2, 3, 4, "rows"} <= set(parts.kinds)  # gradients, outputs, moments and matches


def test_other_parts_agree_to_rounding():
    design, y = problem(1)
    V, alpha = start(1)
    before = value_of(design, y, V, alpha)
    _native.Explorer(design, RANK, y, GAMMA, N_HIDDEN, **plan(hop="none")).explore(30, 1e9, V, alpha)
    ends = [value_of(design, y, V, alpha)]
    for cuts in [(1, 5000, 5001), (9999,)]:
        V, alpha = start(1)
        Parts(design, y, cuts).explorer(hop="none").explore(30, 1e9, V, alpha)
        ends.append(value_of(design, y, V, alpha))
    assert ends[0] < 0.9 * before
    np.testing.assert_allclose(ends, ends[0], rtol=1e-10)


def test_an_error_of_a_worker_ends_the_search_and_keeps_the_weights_reached():
    design, y = problem(1)
    V, alpha = start(1)
    before = value_of(design, y, V, alpha)
    parts = Parts(design, y, (), calls_until_error=150)
    explorer = parts.explorer()
    with pytest.raises(KeyboardInterrupt, match="enough"):
        explorer.explore(1000, 1e9, V, alpha)
    assert value_of(design, y, V, alpha) < 0.5 * before
    parts.calls_until_error = np.inf
    explorer.explore(10, 1e9, V, alpha)  # the search can continue


def test_sums_of_the_wrong_length_are_refused():
    design, y = problem(1)
    V, alpha = start(1)
    parts = Parts(design, y, ())
    parts.sums = lambda kind, input: np.zeros(3)
    with pytest.raises(ValueError, match="wrong length"):
        parts.explorer().explore(10, 1e9, V, alpha)
