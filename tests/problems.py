"""A catalogue of small seeded convex programmes, and descents that keep every network, for the tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.random import default_rng

from dconnet._arrays import FloatArray
from dconnet.certificates import Trajectory
from dconnet.convex.programme import Programme, get_backend
from dconnet.model.problem import Problem, WhitenedProblem
from dconnet.model.whitening import Whitening
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.observer import Recorder


@dataclass(frozen=True, eq=False)
class Case:
    """A programme with its known properties."""

    name: str
    programme: Programme
    solution: FloatArray | None = None  # (rank,), the minimiser, if the programme was built around it
    multipliers: FloatArray | None = None  # (n_rows,), multipliers of the solution; there may be others
    extreme: bool = False  # whether gamma and the curvature differ by many orders of magnitude


def inputs(rng, n_rows, n_features):
    """Return a random M = [X 1]."""
    return np.column_stack([rng.standard_normal((n_rows, n_features)), np.ones(n_rows)])


def whitened_problem(Q, y, gamma):
    """Return the problem of this design, which need not be orthonormal."""
    identity = np.eye(Q.shape[1])
    return WhitenedProblem(Whitening(Q, identity, identity), y, gamma, len(y))


def dca_programme(design, rng, *, gamma=0.1, alpha=1.0):
    """Return a programme of the DCA (net split) for a random residual and a random current neuron."""
    residual = rng.standard_normal(len(design))
    z = design @ rng.standard_normal(design.shape[1])
    slope = -2.0 * alpha * residual
    beta_h = np.maximum(-slope, 0.0)
    return Programme(design, design.T @ (beta_h * (z >= 0.0)), np.maximum(slope, 0.0), alpha**2, gamma)


def programme_around(design, v, kink_multipliers, rng, *, gamma, alpha):
    """Return a programme with the minimiser v, and its multipliers.

    Rows with ``|z_j|`` at rounding level are at their kink, where λ_j is the given fraction of beta_j; all other
    multipliers follow from v, and t from the stationarity condition.
    """
    slope = rng.uniform(0.5, 2.0, size=len(design))
    z = design @ v
    kinked = np.abs(z) <= 1e-12 * np.max(np.abs(z), initial=0.0)
    off_kink = np.where(z > 0.0, slope + 2.0 * alpha**2 * z, 0.0)
    multipliers = np.where(kinked, kink_multipliers * slope, off_kink)
    linear = 2.0 * gamma * v + design.T @ multipliers
    return Programme(design, linear, slope, alpha**2, gamma), multipliers


def _typical(seed, n_rows, n_features, gamma, alpha):
    rng = default_rng(seed)
    design = Whitening.of(inputs(rng, n_rows, n_features)).Q
    name = f"{n_rows}x{n_features} gamma={gamma:g} alpha={alpha:g}"
    return Case(f"typical {name}", dca_programme(design, rng, gamma=gamma, alpha=alpha))


def _generic_linear_term():
    """A linear term that no DCA step would produce: v may go where no row is active."""
    case = _typical(10, 60, 5, 0.01, 0.5)
    linear = default_rng(11).standard_normal(len(case.programme.linear))
    return Case("generic linear term", replace(case.programme, linear=linear))


def _kinked(seed, n_kinked, n_features=6):
    """A solution at which some rows are strictly at their kink."""
    rng = default_rng(seed)
    M = inputs(rng, 50, n_features)
    u = rng.standard_normal(n_features + 1)
    M[:n_kinked] -= np.outer(M[:n_kinked] @ u, u) / (u @ u)
    white = Whitening.of(M)
    fractions = rng.uniform(0.2, 0.8, size=50)
    v = white.to_white @ u
    programme, multipliers = programme_around(white.Q, v, fractions, rng, gamma=0.05, alpha=0.8)
    return Case(f"known solution, {n_kinked} kinked rows", programme, v, multipliers)


def _zero(name, fraction):
    """The neuron dies: all rows are at their kink at once."""
    rng = default_rng(30)
    design = Whitening.of(inputs(rng, 40, 4)).Q
    v = np.zeros(design.shape[1])
    programme, multipliers = programme_around(design, v, fraction(rng), rng, gamma=0.01, alpha=1.0)
    return Case(name, programme, v, multipliers)


def _no_linear_term():
    case = _typical(40, 40, 4, 0.1, 1.0)
    zero = np.zeros_like(case.programme.linear)
    return Case("zero: no linear term", replace(case.programme, linear=zero), zero)


def _repeated_rows():
    rng = default_rng(50)
    M = np.repeat(inputs(rng, 12, 3), 4, axis=0)
    return Case("repeated rows", dca_programme(Whitening.of(M).Q, rng, gamma=0.02))


def _opposite_rows():
    """Every row comes with its negative, so that one of both is always active."""
    rng = default_rng(51)
    rows = rng.standard_normal((20, 4))
    return Case("opposite rows", dca_programme(Whitening.of(np.vstack([rows, -rows])).Q, rng, gamma=0.02))


def _rank_deficient():
    rng = default_rng(60)
    M = inputs(rng, 40, 4)
    M = np.column_stack([M, M[:, 0] + M[:, 1], np.full(40, 3.0), np.zeros(40)])
    return Case("rank-deficient inputs", dca_programme(Whitening.of(M).Q, rng))


def _no_slopes():
    """Without slopes there are no kinks, only jumps of the curvature."""
    programme = _typical(70, 40, 4, 0.1, 1.0).programme
    return Case("no slopes", replace(programme, slope=np.zeros_like(programme.slope)))


def _scaled(factor):
    """The same data measured in other units of the target."""
    case = _typical(80, 40, 4, 0.1, 1.0).programme
    return Case(
        f"linear terms of size {factor:g}", replace(case, linear=factor * case.linear, slope=factor * case.slope)
    )


def _extreme(gamma, alpha):
    return replace(_typical(90, 40, 3, gamma, alpha), extreme=True, name=f"extreme gamma={gamma:g} alpha={alpha:g}")


@cache
def catalogue():
    """All programmes by name."""
    cases = [
        _typical(1, 40, 4, 0.1, 1.0),
        _typical(2, 90, 6, 0.01, 0.3),
        _typical(3, 80, 15, 1e-3, 2.0),
        _typical(4, 60, 5, 10.0, 0.1),
        _typical(5, 30, 27, 0.1, 1.0),  # as many columns as rows, nearly
        _typical(6, 20, 19, 0.01, 1.0),  # and exactly
        _typical(7, 300, 8, 0.01, 1.0),
        _typical(8, 200, 60, 0.01, 0.5),
        _generic_linear_term(),
        *(_kinked(20 + n, n) for n in (0, 3, 6)),
        _kinked(25, 20),  # more kinked rows than unknowns
        _zero("zero: multipliers well inside", lambda rng: rng.uniform(0.2, 0.8, size=40)),
        _zero("zero: multipliers at their bounds", lambda rng: rng.integers(0, 2, size=40).astype(float)),
        _zero("zero: slopes much larger than the linear term", lambda rng: np.full(40, 1e-4)),
        _no_linear_term(),
        _repeated_rows(),
        _opposite_rows(),
        _rank_deficient(),
        _no_slopes(),
        _scaled(1e-6),
        _scaled(1e6),
        Case("one row, active", _one_row(3.0), np.array([(3.0 - 1.0) / (2.0 * (0.5 + 0.25))])),
        Case("one row, at its kink", _one_row(0.5), np.array([0.0])),
        Case("one row, inactive", _one_row(-2.0), np.array([-2.0 / (2.0 * 0.5)])),
        *(_extreme(gamma, alpha) for gamma in (1e-8, 1e-3, 1e4) for alpha in (1e-8, 1e-2, 1e4)),
    ]
    return {case.name: case for case in cases}


def _one_row(linear):
    return Programme(np.ones((1, 1)), np.array([linear]), np.array([1.0]), curvature=0.25, gamma=0.5)


def make_problem(gamma=0.05, seed=0, n_rows=80):
    """Return a problem with three features and one target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return Problem(X, np.abs(X[:, 0]) - X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n_rows), gamma)


def assert_descent(history):
    """Assert that RegLoss never rose, and that no answer of a solver was refused."""
    assert np.all(np.diff(history.objective) <= 0.0)
    assert history.total("refused") == history.total("unsolved") == 0


def whitened_setting(n_hidden=5, seed=0, gamma=0.05, n_rows=70, n_columns=4):
    """Return a whitened problem and a start V, alpha."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    problem = Problem(X, np.abs(X[:, 0]) - X[:, 1] + 0.1 * rng.normal(size=n_rows), gamma).whitened
    start = xavier(n_columns, n_hidden, rng)
    V = problem.whiten(start)
    return problem, V, start.alpha.copy()


def trace(problem, start, *, algorithm="paper", solver="native", **options):
    """Run a descent from the part of the start that has an effect on the data, and keep the network of every epoch."""
    white, recorder, chosen = problem.whitened, Recorder(), Options(**options)
    if white.rank < problem.n_features + 1:
        start = white.network(white.whiten(start), start.alpha)
    kind = Descent if algorithm == "paper" else AcceleratedDescent
    solution = kind(problem, get_backend(solver), chosen, default_rng(0)).run(start, observer=recorder)
    networks = tuple(recorder.networks)
    return Trajectory(problem, networks, solution.history, algorithm, chosen.split, chosen.max_dca_iter)
