"""The programme: value, proximal map, dual bound, optimality conditions, and the polish of an answer."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from dconnet.convex.programme import Programme
from dconnet.convex.reference import Reference, polish
from dconnet.model.whitening import Whitening
from problems import catalogue, dca_programme, inputs, programme_around
from tolerances import KKT, ROUNDING

PROGRAMME = catalogue()["typical 40x4 gamma=0.1 alpha=1"].programme
reproducible = settings(derandomize=True, deadline=None)
seeds = st.integers(min_value=0, max_value=2**32 - 1)


def known_pair(seed=0):
    """A programme with its solution and multipliers, without rows at their kink."""
    rng = np.random.default_rng(seed)
    design = Whitening.of(inputs(rng, 30, 4)).Q
    v = rng.standard_normal(design.shape[1])
    programme, multipliers = programme_around(design, v, np.zeros(30), rng, gamma=0.2, alpha=0.7)
    return programme, v, multipliers


@pytest.mark.parametrize("seed", range(5))
def test_value_is_the_sum_of_its_terms(seed):
    v = np.random.default_rng(seed).standard_normal(PROGRAMME.design.shape[1])
    expected = PROGRAMME.gamma * sum(v**2) - sum(PROGRAMME.linear * v)
    for q, beta in zip(PROGRAMME.design, PROGRAMME.slope, strict=True):
        hinge = max(float(sum(q * v)), 0.0)
        expected += beta * hinge + PROGRAMME.curvature * hinge**2
    assert PROGRAMME.value(v) == pytest.approx(expected, rel=ROUNDING)


@reproducible
@given(
    point=st.floats(-10.0, 10.0),
    slope=st.floats(0.0, 5.0),
    curvature=st.floats(1e-3, 10.0),
    step=st.floats(1e-2, 10.0),
)
def test_prox_minimises_its_definition(point, slope, curvature, step):
    programme = Programme(np.ones((1, 1)), np.zeros(1), np.array([slope]), curvature, gamma=1.0)

    def moreau(z):
        hinge = max(z, 0.0)
        return step * (slope * hinge + curvature * hinge**2) + 0.5 * (z - point) ** 2

    brute_force = minimize_scalar(moreau, bounds=(-11.0, 11.0), method="bounded", options={"xatol": 1e-10})
    prox = float(programme.prox(np.array([point]), step)[0])
    assert moreau(prox) <= brute_force.fun + 1e-12


@reproducible
@given(seeds)
def test_any_multipliers_bound_the_value_from_below(seed):
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(PROGRAMME.design.shape[1]) * 10.0 ** rng.uniform(-3.0, 1.0)
    multipliers = rng.standard_normal(len(PROGRAMME.slope)) * 10.0 ** rng.uniform(-3.0, 1.0)
    assert PROGRAMME.dual_value(multipliers) <= PROGRAMME.value(v)


@pytest.mark.parametrize("seed", range(5))
def test_residual_and_gap_vanish_at_the_solution_only(seed):
    programme, *pair = known_pair(seed)
    assert abs(programme.relative_gap(*pair)) <= ROUNDING
    assert programme.kkt_residual(*pair) <= KKT
    rng = np.random.default_rng(seed)
    for wrong in (0, 1):
        off = [values + (i == wrong) * 1e-3 * rng.standard_normal(len(values)) for i, values in enumerate(pair)]
        assert programme.kkt_residual(*off) > 1e-5


def test_residual_and_gap_do_not_depend_on_the_unit_of_the_target():
    programme, v, multipliers = known_pair()
    off = v + 0.01
    scaled = replace(programme, linear=1e6 * programme.linear, slope=1e6 * programme.slope)
    expected = (programme.kkt_residual(off, multipliers), programme.relative_gap(off, multipliers))
    actual = (scaled.kkt_residual(1e6 * off, 1e6 * multipliers), scaled.relative_gap(1e6 * off, 1e6 * multipliers))
    assert actual == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_multipliers_of_v_are_subgradients_off_the_kink(seed):
    rng = np.random.default_rng(seed)
    programme = dca_programme(Whitening.of(inputs(rng, 30, 4)).Q, rng)
    v = rng.standard_normal(5)
    gradient = 2.0 * programme.gamma * v - programme.linear + programme.design.T @ programme.multipliers(v)
    numeric = [(programme.value(v + 1e-6 * e) - programme.value(v - 1e-6 * e)) / 2e-6 for e in np.eye(5)]
    np.testing.assert_allclose(gradient, numeric, rtol=0.0, atol=1e-7)


# --- polish ---

ORDINARY = {name: case.programme for name, case in catalogue().items() if not case.extreme}


def solve(programme):
    solution = Reference().prepare(programme.design).solve(programme)
    return solution.v, solution.multipliers


def disturb(pair, size):
    """The pair with errors of that size, relative to its largest entries."""
    rng = np.random.default_rng(0)
    v, multipliers = (values + size * np.max(np.abs(values)) * rng.standard_normal(len(values)) for values in pair)
    return v, multipliers


@pytest.mark.parametrize("n_kinked", [0, 3, 6, 20])
def test_small_errors_are_removed(n_kinked):
    case = catalogue()[f"known solution, {n_kinked} kinked rows"]
    pair = disturb((case.solution, case.multipliers), 1e-7)
    assert case.programme.kkt_residual(*polish(case.programme, *pair)) <= KKT


@pytest.mark.parametrize("case", ORDINARY)
@pytest.mark.parametrize("size", [1e-8, 1e-3, 1.0])
def test_polish_is_never_worse_than_none(case, size):
    programme = ORDINARY[case]
    pair = disturb(solve(programme), size)
    before = [values.copy() for values in pair]
    assert programme.kkt_residual(*polish(programme, *pair)) <= programme.kkt_residual(*pair)
    assert all(np.array_equal(old, new) for old, new in zip(before, pair, strict=True))
