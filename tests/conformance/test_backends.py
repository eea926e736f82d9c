"""Every backend on the catalogue of programmes: optimality first, then agreement, then the contract of backends."""

import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dconnet.convex.programme import backend_names, get_backend
from problems import catalogue
from tolerances import GAP, KKT, KKT_OF_CLOSED_GAP, OBJECTIVE, ROUNDING, SOLUTION

CASES = catalogue()
ORDINARY = [name for name, case in CASES.items() if not case.extreme]
KNOWN = [name for name, case in CASES.items() if case.solution is not None]
PACKAGES = {"osqp": "osqp", "clarabel": "clarabel", "piqp": "piqp", "gurobi": "gurobipy"}
NAMES = [*backend_names(), "osqp", "clarabel", "piqp", pytest.param("gurobi", marks=pytest.mark.peers)]

# The licence of pip's Gurobi allows quadratic programmes of 200 unknowns; there is one for each row and column.
GUROBI_LIMIT = 200

# The least gamma / curvature. OSQP and Gurobi stop at residuals of 1e-9. Below 1e-15, gamma is rounding of the
# curvature, and the polish cannot help.
LEAST_RATIO = {"gurobi": 1e-10, "osqp": 1e-10, "clarabel": 1e-15, "piqp": 1e-15, "admm": 1e-15}

# The largest. If gamma dwarfs the curvature, only the slopes hold the active rows, and ADMM takes too many iterations.
MOST_RATIO = {"admm": 1e4}

# Settings that make approximate methods as accurate as the others. Their own tests cover their default settings.
TIGHT = {
    "admm": {"rho": 3.0, "relaxation": 1.8, "tol": 1e-12, "max_iter": 100_000},
    "parallel": {"tol": 1e-12},
}


def make_backend(name):
    if name in PACKAGES:
        pytest.importorskip("qpsolvers")
        pytest.importorskip(PACKAGES[name], reason=f"{PACKAGES[name]} is not installed")
    return replace(get_backend(name), **TIGHT.get(name, {}))


@cache
def solve(name, case):
    """The answer of a new solver without a start."""
    backend, programme = make_backend(name), CASES[case].programme
    ratio = programme.gamma / programme.curvature
    if name == "gurobi" and sum(programme.design.shape) > GUROBI_LIMIT:
        pytest.skip(f"pip's Gurobi licence allows {GUROBI_LIMIT} unknowns only")
    if not LEAST_RATIO.get(name, 0.0) <= ratio <= MOST_RATIO.get(name, np.inf):
        pytest.skip(f"{name} does not resolve gamma / curvature = {ratio:g}")
    return backend.prepare(programme.design).solve(programme)


def vary(case):
    """Programmes over one design as the algorithm meets them: alpha_l, slopes and linear term change."""
    rng = np.random.default_rng(0)
    programme = case.programme
    return [
        replace(
            programme,
            curvature=programme.curvature * factor,
            slope=programme.slope * rng.uniform(0.5, 2.0, size=len(programme.slope)),
            linear=programme.linear * rng.uniform(0.5, 2.0, size=len(programme.linear)),
        )
        for factor in (1.0, 1e-2, 25.0, 0.3)
    ]


def distance(programme, v, w):
    """Largest difference, relative to the length that the linear term and full curvature give."""
    length = np.max(np.abs(programme.linear), initial=1e-300) / (programme.gamma + programme.curvature)
    return float(np.max(np.abs(v - w)) / length)


@pytest.fixture(params=NAMES)
def name(request):
    make_backend(request.param)
    return str(request.param)


@pytest.mark.parametrize("case", CASES)
def test_answer_is_optimal_and_agrees_with_the_reference(name, case):
    programme, answer = CASES[case].programme, solve(name, case)
    assert answer.converged
    assert answer.kkt_residual(programme) <= (KKT_OF_CLOSED_GAP if CASES[case].extreme else KKT)
    assert abs(answer.relative_gap(programme)) <= GAP
    expected = programme.value(solve("reference", case).v)
    assert abs(programme.value(answer.v) - expected) <= OBJECTIVE * (abs(expected) + programme.magnitude)


@pytest.mark.parametrize("case", KNOWN)
def test_known_solution_is_found(name, case):
    solution = CASES[case].solution
    tolerance = SOLUTION if np.any(solution) else ROUNDING  # a dead neuron is exactly zero
    assert distance(CASES[case].programme, solve(name, case).v, solution) <= tolerance


@pytest.mark.parametrize("case", ["typical 90x6 gamma=0.01 alpha=0.3", "repeated rows"])
def test_answers_do_not_depend_on_earlier_programmes_or_starts(name, case):
    design = CASES[case].programme.design
    prepared, previous = make_backend(name).prepare(design), None
    for programme in vary(CASES[case]):
        fresh = make_backend(name).prepare(design).solve(programme)
        assert distance(programme, prepared.solve(programme).v, fresh.v) <= SOLUTION
        previous = prepared.solve(programme, previous)
        assert previous.kkt_residual(programme) <= KKT_OF_CLOSED_GAP
        assert distance(programme, previous.v, fresh.v) <= SOLUTION


@pytest.mark.parametrize("case", ORDINARY)
def test_start_at_the_answer_keeps_it(name, case):
    programme, cold = CASES[case].programme, solve(name, case)
    warm = make_backend(name).prepare(programme.design).solve(programme, cold)
    assert warm.kkt_residual(programme) <= KKT


def test_solver_changes_neither_its_inputs_nor_earlier_answers_and_prints_nothing(name, capfd):
    first, second, *_ = vary(CASES["repeated rows"])
    prepared = make_backend(name).prepare(first.design)
    early = prepared.solve(first)
    if name == "gurobi":
        capfd.readouterr()  # Gurobi prints its licence once
    arrays = (first.linear, first.slope, early.v, early.multipliers)
    before = [array.copy() for array in arrays]
    prepared.solve(first, early)
    prepared.solve(second, early)
    assert all(np.array_equal(old, new) for old, new in zip(before, arrays, strict=True))
    assert capfd.readouterr() == ("", "")


def test_answer_at_the_iteration_limit_is_finite_and_not_converged(name):
    programme = CASES["typical 80x15 gamma=0.001 alpha=2"].programme
    limit = (
        {"options": {"BarIterLimit" if name == "gurobi" else "max_iter": 1}} if name in PACKAGES else {"max_iter": 1}
    )
    limited = replace(make_backend(name), **limit).prepare(programme.design).solve(programme)
    assert not limited.converged
    assert np.isfinite(programme.value(limited.v))


def test_missing_packages_are_named_with_their_pip_command(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "qpsolvers", None)
        with pytest.raises(ImportError, match=r"pip install 'qpsolvers\[osqp\]'"):
            get_backend("osqp")
    qpsolvers = pytest.importorskip("qpsolvers")
    monkeypatch.setattr(qpsolvers, "available_solvers", [])
    with pytest.raises(ImportError, match=r"pip install 'qpsolvers\[osqp\]'"):
        get_backend("osqp")


def test_unknown_solvers_are_refused():
    with pytest.raises(ValueError, match="a backend object, got 3"):
        get_backend(3)
    pytest.importorskip("qpsolvers")
    with pytest.raises(ValueError, match="Unknown solver 'simplex': choose one of"):
        get_backend("simplex")


def test_solver_without_an_answer_leaves_a_finite_one(monkeypatch):
    qpsolvers = pytest.importorskip("qpsolvers")
    pytest.importorskip("osqp")
    programme = CASES["typical 40x4 gamma=0.1 alpha=1"].programme
    solver = get_backend("osqp").prepare(programme.design)

    def fail(problem, *_, **__):
        raise qpsolvers.SolverError("no answer")

    for result in (fail, lambda problem, *_, **__: qpsolvers.Solution(problem)):
        monkeypatch.setattr(qpsolvers, "solve_problem", result)
        answer = solver.solve(programme)
        assert np.isfinite(answer.v).all()
        assert answer.converged == (answer.kkt_residual(programme) <= KKT)
