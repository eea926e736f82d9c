"""The native backend on hard programmes: those of real fits, repeated from their seeds, and synthetic ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from dconnet._arrays import FloatArray
from dconnet.convex.backend import ConvexSolution, get_backend
from dconnet.convex.programme import Programme
from dconnet.model.whitening import Whitening
from problems import dca_programme, inputs, programme_around
from shared_data import needs_data

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
harvest = import_module("harvest")

# Fits with the hardest programmes that `benchmarks/harvest.py` found: dataset, gamma, N, split, seed, epochs before the
# first programme, and the number of the hardest one.
HARD_FITS = [
    ("DS9", 1e-2, 30, "paper", 0, 0, 10),
    ("DS6", 1e-5, 10, "paper", 2, 0, 2),
    ("DS6", 1e-5, 10, "net", 2, 0, 32),
    ("DS8", 1e-3, 20, "paper", 2, 15, 41),
    ("DS2", 1e-5, 20, "net", 1, 0, 29),
    ("DS7", 1e-3, 10, "net", 2, 15, 8),
    ("DS4", 1e-4, 20, "paper", 3, 0, 0),
    ("DS5", 1e-3, 20, "paper", 0, 15, 40),
]
SEEDS = range(2)

# Seeds at which an earlier build returned answers far from optimal, because its last method diverged.
DIVERGED = [
    ("dead, many columns, few multipliers off zero", 310),
    *(("dead, many columns, few multipliers off zero, small gamma", seed) for seed in (309, 348)),
]

Maker = Callable[[Generator], Programme]


def violations(programme: Programme, answer: ConvexSolution, best: float) -> list[str]:
    """Faults of an answer; ``best`` is the objective of another backend, or NaN."""
    gap, kkt = answer.relative_gap(programme), answer.kkt_residual(programme)
    excess = harvest.excesses(programme, answer, best)["excess"]
    faults = {
        f"gap {gap:.1e}": not abs(gap) <= harvest.GAP_LIMIT,
        f"KKT residual {kkt:.1e}": not kkt <= harvest.KKT_LIMIT,
        f"not converged in {answer.iterations} iterations": not answer.converged,
        f"objective above the reference by {excess:.1e}": excess > harvest.EXCESS_LIMIT,
    }
    return [fault for fault, present in faults.items() if present]


def reference_value(programme: Programme) -> float:
    return programme.value(get_backend("reference").prepare(programme.design).solve(programme).v)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("fit", HARD_FITS, ids=lambda fit: " ".join(map(str, fit)))
def test_programmes_of_hard_fits_are_solved(fit: tuple[str, float, int, str, int, int, int]) -> None:
    *cell, hardest = fit
    faults: dict[str, list[str]] = {}

    def observe(index: int, programme: Programme, answers: dict[str, ConvexSolution]) -> None:
        best = reference_value(programme) if index == hardest else np.nan
        for start, answer in answers.items():
            found = violations(programme, answer, best)
            if found:
                faults[f"programme {index}, {start}"] = found

    assert harvest.observed_fit(harvest.Cell(*cell), hardest + 1, observe) > hardest
    assert faults == {}


def white(M: FloatArray) -> FloatArray:
    return Whitening.of(M).Q


def dead(n_rows: int, n_features: int, gamma: float, fractions: Callable[[Generator, int], FloatArray]) -> Maker:
    """The solution is zero, with all rows at their kink, where the multipliers are these fractions of the slopes."""

    def make(rng: Generator) -> Programme:
        design = white(inputs(rng, n_rows, n_features))
        zero = np.zeros(design.shape[1])
        return programme_around(design, zero, fractions(rng, n_rows), rng, gamma=gamma, alpha=1.0)[0]

    return make


def pulled_weakly(ratio: float, gamma: float) -> Maker:
    """Slopes that dwarf the linear term, as in a neuron that is about to die."""

    def make(rng: Generator) -> Programme:
        programme = dca_programme(white(inputs(rng, 150, 6)), rng, gamma=gamma)
        # Not the linear term of the DCA, which is zero if the random neuron has no active row.
        direction = programme.design.T @ rng.uniform(size=150)
        scale = ratio * np.max(programme.slope) / np.max(np.abs(direction))
        return replace(programme, linear=scale * direction)

    return make


def repeated_rows(rng: Generator) -> Programme:
    return dca_programme(white(np.repeat(inputs(rng, 12, 4), 20, axis=0)), rng, gamma=1e-4)


def repeated_rows_and_targets(rng: Generator) -> Programme:
    programme = dca_programme(white(np.repeat(inputs(rng, 12, 4), 20, axis=0)), rng, gamma=1e-3)
    return replace(programme, slope=np.repeat(programme.slope[::20], 20))


def one_hot(rng: Generator) -> FloatArray:
    """Four categories with all their levels and an intercept: three directions too many."""
    levels = [np.eye(n)[rng.integers(0, n, size=200)] for n in (2, 3, 5, 12)]
    return np.column_stack([*levels, np.ones(200)])


def of_integers(rng: Generator) -> Programme:
    """Few different rows, integer residuals and an integer neuron: many rows are exactly at their kink and tied."""
    X = rng.integers(-1, 2, size=(240, 4)).astype(float)
    z = X @ rng.integers(-1, 2, size=4)
    slope = 2.0 * rng.integers(-2, 3, size=240)
    design = white(np.column_stack([X, np.ones(240)]))
    linear = design.T @ (np.maximum(-slope, 0.0) * (z >= 0.0))
    return Programme(design, linear, np.maximum(slope, 0.0), 1.0, 1e-3)


def of_integers_split_apart(rng: Generator) -> Programme:
    """The same with the paper's split: the parts are much larger than their difference."""
    programme = of_integers(rng)
    shared = rng.integers(10, 13, size=len(programme.slope)).astype(float)
    linear = programme.linear + programme.design.T @ shared
    return replace(programme, slope=programme.slope + shared, linear=linear)


def split_apart(rng: Generator) -> Programme:
    programme = dca_programme(white(inputs(rng, 200, 8)), rng, gamma=1e-5, alpha=0.3)
    shared = 50.0 * np.abs(rng.standard_normal(200))
    active = programme.design @ rng.standard_normal(programme.design.shape[1]) >= 0.0
    linear = programme.linear + programme.design.T @ (shared * active)
    return replace(programme, slope=programme.slope + shared, linear=linear)


def mostly_flat(rng: Generator) -> Programme:
    """Slopes that are zero in all rows but a few."""
    programme = dca_programme(white(inputs(rng, 200, 6)), rng, gamma=1e-3)
    return replace(programme, slope=np.where(rng.random(200) < 0.05, programme.slope, 0.0))


def one_row(rng: Generator) -> Programme:
    gamma, alpha = 10.0 ** rng.uniform(-5.0, 1.0, size=2)
    return Programme(np.ones((1, 1)), rng.standard_normal(1), np.abs(rng.standard_normal(1)), alpha**2, gamma)


def of_shape(n_rows: int, n_features: int, gamma: float) -> Maker:
    return lambda rng: dca_programme(white(inputs(rng, n_rows, n_features)), rng, gamma=gamma)


def with_scales(gamma: float, alpha: float) -> Maker:
    return lambda rng: dca_programme(white(inputs(rng, 60, 4)), rng, gamma=gamma, alpha=alpha)


def with_features_of_size(*sizes: float) -> Maker:
    """Columns in very different units, before the whitening."""

    def make(rng: Generator) -> Programme:
        M = inputs(rng, 120, len(sizes))
        M[:, :-1] *= sizes
        return dca_programme(white(M), rng, gamma=1e-4)

    return make


MAKERS: dict[str, Maker] = {
    "dead, multipliers inside": dead(120, 6, 1e-3, lambda rng, n: rng.uniform(0.1, 0.9, size=n)),
    "dead, multipliers at their bounds": dead(120, 6, 1e-3, lambda rng, n: rng.integers(0, 2, size=n).astype(float)),
    "dead, multipliers at both or between": dead(
        120, 6, 1e-5, lambda rng, n: rng.choice([0.0, 0.5, 1.0], size=n, p=[0.4, 0.2, 0.4])
    ),
    "dead, multipliers all at the upper bound": dead(80, 5, 1e-2, lambda rng, n: np.ones(n)),
    "dead, many columns": dead(100, 60, 1e-4, lambda rng, n: rng.integers(0, 2, size=n).astype(float)),
    "dead, few multipliers off zero": dead(120, 6, 1e-4, lambda rng, n: (rng.random(n) < 0.05).astype(float)),
    "dead, many columns, few multipliers off zero": dead(
        200, 60, 1e-4, lambda rng, n: (rng.random(n) < 0.05).astype(float)
    ),
    "dead, many columns, few multipliers off zero, small gamma": dead(
        372, 75, 1e-5, lambda rng, n: (rng.random(n) < 0.05).astype(float)
    ),
    **{
        f"linear term {ratio:g} of the slopes, gamma={gamma:g}": pulled_weakly(ratio, gamma)
        for ratio, gamma in product((1e-3, 1e-5, 1e-7, 1e-9), (1e-2, 1e-5))
    },
    "repeated rows": repeated_rows,
    "repeated rows and targets": repeated_rows_and_targets,
    "one-hot columns": lambda rng: dca_programme(white(one_hot(rng)), rng, gamma=1e-4),
    "integers with ties": of_integers,
    "integers with ties, paper's split": of_integers_split_apart,
    "paper's split": split_apart,
    "slopes mostly zero": mostly_flat,
    "one row": one_row,
    "half as many columns as rows": of_shape(80, 45, 1e-3),
    "nearly as many columns as rows": of_shape(60, 55, 1e-5),
    "as many columns as rows": of_shape(40, 39, 1e-4),
    "features of size 1e6": with_features_of_size(1e6, 1e6, 1e6),
    "features of size 1e-6": with_features_of_size(1e-6, 1e-6, 1e-6),
    "features of all sizes": with_features_of_size(1e-6, 1e-3, 1.0, 1e3, 1e6),
}
SCALES = {
    f"gamma={gamma:g}, alpha={alpha:g}": with_scales(gamma, alpha)
    for gamma, alpha in product((1e-8, 1e-4, 1.0, 1e4), (1e-8, 1e-4, 1.0, 1e4))
}


def answers(programme: Programme, rng: Generator) -> dict[str, ConvexSolution]:
    """Answers without a start, from another neuron, from a similar programme, and from the answer itself."""
    solver = get_backend("native").prepare(programme.design)
    similar = replace(programme, slope=programme.slope * rng.uniform(0.8, 1.25, size=len(programme.slope)))
    cold = solver.solve(programme)
    strange = harvest.guess_from(programme, rng.standard_normal(programme.design.shape[1]))
    return {
        "cold": cold,
        "from another neuron": solver.solve(programme, strange),
        "from a similar programme": solver.solve(programme, solver.solve(similar)),
        "from its answer": solver.solve(programme, cold),
    }


@pytest.mark.parametrize(("kind", "seed"), [*product([*MAKERS, *SCALES], SEEDS), *DIVERGED])
def test_synthetic_programmes_are_solved(kind: str, seed: int) -> None:
    rng = default_rng([seed, 7])
    programme = (MAKERS | SCALES)[kind](rng)
    best = reference_value(programme)
    found = {start: violations(programme, answer, best) for start, answer in answers(programme, rng).items()}
    assert {start: faults for start, faults in found.items() if faults} == {}


def test_an_answer_short_of_the_tolerance_is_not_converged() -> None:
    """Here gamma is below the rounding of the curvature, which no solver resolves."""
    programme = SCALES["gamma=1e-08, alpha=10000"](default_rng([145, 7]))
    answer = get_backend("native").prepare(programme.design).solve(programme)
    assert answer.converged == (violations(programme, answer, reference_value(programme)) == [])
    assert answer.kkt_residual(programme) < 1e-6
