"""Every installed backend over the whole catalogue: optimality first, then agreement, then its contract."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dconnet.convex.backend import Backend, ConvexSolution, backend_names, get_backend
from dconnet.convex.programme import Programme
from problems import Case, catalogue
from tolerances import GAP, KKT, KKT_OF_CLOSED_GAP, OBJECTIVE, ROUNDING, SOLUTION

CASES = catalogue()
ORDINARY = [name for name, case in CASES.items() if not case.extreme]
KNOWN = [name for name, case in CASES.items() if case.solution is not None]
ZERO = [name for name in KNOWN if not np.any(CASES[name].solution)]
EXTERNAL = {"osqp": "osqp", "clarabel": "clarabel", "piqp": "piqp", "gurobi": "gurobipy"}

# Unknowns that the licence of pip's Gurobi allows, of which the paper's form has two for each row and column.
GUROBI_LIMIT = 200

# The least gamma / curvature. Gurobi accepts no tolerance below 1e-9, and PIQP needs a regularisation of 1e-7 for
# the paper's form (v₃ and v₄ may grow together for nothing): neither resolves a gamma that is smaller still. OSQP
# and Clarabel come close to any, but below 1e-15 gamma is rounding of the curvature, and the polish cannot help.
LEAST_RATIO = {"gurobi": 1e-10, "piqp": 1e-10, "osqp": 1e-15, "clarabel": 1e-15, "admm": 1e-15}

# The largest. Where gamma dwarfs the curvature, the active rows are held by the slopes alone, and ADMM crawls.
MOST_RATIO = {"admm": 1e4}

# Methods whose own settings stop far from the solution, on purpose: here they go on to the accuracy of the others, and
# are judged like them. Their tests elsewhere say what to expect of their own settings.
TIGHT: dict[str, dict[str, Any]] = {
    "admm": {"rho": 3.0, "relaxation": 1.8, "tol": 1e-12, "max_iter": 100_000},
    "parallel": {"tol": 1e-12},
}


def installed(name: str) -> Backend:
    """The backend, set to full accuracy, or a skip with the reason why it is not here."""
    if name in EXTERNAL and find_spec(EXTERNAL[name]) is None:
        pytest.skip(f"{EXTERNAL[name]} is not installed")
    return replace(get_backend(name), **TIGHT.get(name, {}))


def skip_what_it_cannot(name: str, programme: Programme) -> None:
    if name == "gurobi" and 2 * sum(programme.design.shape) > GUROBI_LIMIT:
        pytest.skip(f"pip's Gurobi licence allows {GUROBI_LIMIT} unknowns only")
    if programme.gamma / programme.curvature < LEAST_RATIO.get(name, 0.0):
        pytest.skip(f"{name} does not resolve so small a gamma")
    if programme.gamma / programme.curvature > MOST_RATIO.get(name, np.inf):
        pytest.skip(f"{name} needs too many iterations for so large a gamma")


@cache
def answer(name: str, case: str) -> ConvexSolution:
    """Cold answer of a new solver."""
    backend, programme = installed(name), CASES[case].programme
    skip_what_it_cannot(name, programme)
    return backend.prepare(programme.design).solve(programme)


def family(case: Case) -> list[Programme]:
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


def distance(programme: Programme, v: np.ndarray, w: np.ndarray) -> float:
    """Largest difference, relative to the length that the linear term and full curvature give."""
    length = np.max(np.abs(programme.linear), initial=1e-300) / (programme.gamma + programme.curvature)
    return float(np.max(np.abs(v - w)) / length)


@pytest.fixture(params=backend_names())
def name(request: pytest.FixtureRequest) -> str:
    installed(request.param)
    return str(request.param)


@pytest.mark.parametrize("case", CASES)
def test_answer_is_optimal(name: str, case: str) -> None:
    tolerance = KKT_OF_CLOSED_GAP if CASES[case].extreme else KKT
    assert answer(name, case).kkt_residual(CASES[case].programme) <= tolerance


@pytest.mark.parametrize("case", CASES)
def test_duality_gap_is_closed(name: str, case: str) -> None:
    assert abs(answer(name, case).relative_gap(CASES[case].programme)) <= GAP


@pytest.mark.parametrize("case", CASES)
def test_convergence_is_reported(name: str, case: str) -> None:
    assert answer(name, case).converged


@pytest.mark.parametrize("case", CASES)
def test_objective_agrees_with_the_reference(name: str, case: str) -> None:
    programme = CASES[case].programme
    value = programme.value(answer(name, case).v)
    expected = programme.value(answer("reference", case).v)
    assert abs(value - expected) <= OBJECTIVE * (abs(expected) + programme.magnitude)


@pytest.mark.parametrize("case", KNOWN)
def test_known_solution_is_found(name: str, case: str) -> None:
    assert distance(CASES[case].programme, answer(name, case).v, CASES[case].solution) <= SOLUTION


@pytest.mark.parametrize("case", ZERO)
def test_dead_neuron_is_zero_to_rounding(name: str, case: str) -> None:
    assert distance(CASES[case].programme, answer(name, case).v, CASES[case].solution) <= ROUNDING


@pytest.mark.parametrize("case", ["typical 90x6 gamma=0.01 alpha=0.3", "known solution, 3 kinked rows"])
def test_prepared_solver_forgets_the_numbers_of_earlier_programmes(name: str, case: str) -> None:
    design = CASES[case].programme.design
    prepared = installed(name).prepare(design)
    for programme in family(CASES[case]):
        fresh = installed(name).prepare(design).solve(programme)
        assert distance(programme, prepared.solve(programme).v, fresh.v) <= SOLUTION


@pytest.mark.parametrize("case", ["typical 90x6 gamma=0.01 alpha=0.3", "repeated rows"])
def test_warm_start_leads_to_the_same_answer(name: str, case: str) -> None:
    prepared = installed(name).prepare(CASES[case].programme.design)
    previous = None
    for programme in family(CASES[case]):
        previous = prepared.solve(programme, previous)
        assert previous.kkt_residual(programme) <= KKT_OF_CLOSED_GAP
        assert distance(programme, previous.v, prepared.solve(programme).v) <= SOLUTION


@pytest.mark.parametrize("case", ORDINARY)
def test_start_at_the_answer_keeps_it(name: str, case: str) -> None:
    programme, cold = CASES[case].programme, answer(name, case)
    warm = installed(name).prepare(programme.design).solve(programme, cold)
    assert warm.kkt_residual(programme) <= KKT


def test_solving_does_not_change_the_programme_or_the_start(name: str) -> None:
    programme = CASES["repeated rows"].programme
    prepared = installed(name).prepare(programme.design)
    start = prepared.solve(programme)
    before = [array.copy() for array in (programme.linear, programme.slope, start.v, start.multipliers)]
    prepared.solve(programme, start)
    after = (programme.linear, programme.slope, start.v, start.multipliers)
    assert all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))


def test_earlier_answers_survive_later_solves(name: str) -> None:
    first, second, *_ = family(CASES["repeated rows"])
    prepared = installed(name).prepare(first.design)
    early = prepared.solve(first)
    prepared.solve(second)
    assert early.kkt_residual(first) <= KKT


def test_iteration_limit_is_reported(name: str) -> None:
    programme = CASES["typical 80x15 gamma=0.001 alpha=2"].programme
    limited = replace(installed(name), max_iter=1).prepare(programme.design).solve(programme)
    assert not limited.converged


def test_answer_at_the_iteration_limit_is_finite(name: str) -> None:
    programme = CASES["typical 80x15 gamma=0.001 alpha=2"].programme
    limited = replace(installed(name), max_iter=1).prepare(programme.design).solve(programme)
    assert np.isfinite(programme.value(limited.v))


def test_solver_is_silent(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    programme = CASES["repeated rows"].programme
    installed(name).prepare(programme.design).solve(programme)
    assert capfd.readouterr() == ("", "")


def test_gurobi_names_the_remedy_for_its_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = installed("gurobi").prepare(CASES["repeated rows"].programme.design)
    import gurobipy

    def refuse() -> None:
        raise gurobipy.GurobiError(gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED, "Model too large")

    monkeypatch.setattr(solver.engine, "model", SimpleNamespace(setMObjective=lambda *_: None, optimize=refuse))
    with pytest.raises(ValueError, match=r"104 unknowns.*choose another solver"):
        solver.solve(CASES["repeated rows"].programme)


@pytest.mark.parametrize("name", EXTERNAL)
def test_missing_package_is_named_with_its_pip_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, f"dconnet.convex.external.{name}", raising=False)
    monkeypatch.setitem(sys.modules, EXTERNAL[name], None)
    with pytest.raises(ImportError, match=rf"pip install 'dconnet\[{name}\]'"):
        get_backend(name)


def test_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown solver 'simplex': choose one of"):
        get_backend("simplex")


def test_object_that_is_no_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="backend object, got 3"):
        get_backend(3)  # type: ignore[arg-type]


def test_configured_backend_is_taken_as_it_is(name: str) -> None:
    backend = installed(name)
    assert get_backend(backend) is backend
